//! `up` as a process: it prints its address, serves, and ends cleanly on Ctrl-C.
#![cfg(unix)]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::process::{PROGRAM, Running};
use bytes::Bytes;
use http::Request;
use rcgen::{CertificateParams, DnType, KeyPair};
use watchkeeper_client::{Client, Config, Error, LoadOptions};

fn start(directory: &Path, more: &[&str]) -> (Running, String) {
    start_with(directory, more, Stdio::inherit())
}

fn start_with(directory: &Path, more: &[&str], errors: impl Into<Stdio>) -> (Running, String) {
    let mut command = Command::new(PROGRAM);
    command
        .args([
            "up",
            "--listen",
            "127.0.0.1:0",
            "--no-simulator",
            "--data-dir",
            "data",
        ])
        .args(["--kubeconfig", "kubeconfig"])
        .args(more)
        .current_dir(directory)
        .stderr(errors);
    let mut running = Running::of(&mut command);
    let ready = running.line();
    (running, ready)
}

fn run(directory: &Path, words: &[&str]) -> String {
    let output = Command::new(PROGRAM)
        .args(words)
        .env("KUBECONFIG", directory.join("kubeconfig"))
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

fn interrupt(mut running: Running) {
    running.interrupt();
    assert!(running.ended().success(), "Ctrl-C is no failure");
}

#[test]
fn a_cluster_with_a_directory_outlives_its_process() {
    let directory = tempfile::tempdir().unwrap();
    let (running, ready) = start(directory.path(), &[]);
    assert!(
        ready.starts_with("watchkeeper is ready at https://127.0.0.1:"),
        "{ready}"
    );
    assert!(ready.trim_end().ends_with("/kubeconfig"), "{ready}");
    assert!(run(directory.path(), &["version"]).contains("Server Version: v1."));
    std::fs::write(
        directory.path().join("a.yaml"),
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: kept}}",
    )
    .unwrap();
    let file = directory.path().join("a.yaml");
    assert_eq!(
        run(directory.path(), &["apply", "-f", file.to_str().unwrap()]),
        "configmap/kept created\n"
    );
    interrupt(running);

    let refused = run(directory.path(), &["get", "configmaps"]);
    assert!(
        refused.contains("was refused - did you specify the right host or port?"),
        "{refused}"
    );

    let (running, _) = start(directory.path(), &[]);
    assert_eq!(
        run(directory.path(), &["get", "configmaps", "-o", "name"]),
        "configmap/kept\n"
    );
    interrupt(running);
}

#[test]
fn without_a_cluster_the_next_step_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(PROGRAM)
        .args(["get", "pods"])
        .env_clear()
        .env("HOME", directory.path())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("start a cluster with `watchkeeper up`"), "{text}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn flags_of_all_commands_reach_the_request() {
    let directory = tempfile::tempdir().unwrap();
    let (running, _) = start(directory.path(), &[]);
    let traced = run(directory.path(), &["get", "namespaces", "-v=6"]);
    let request = "/api/v1/namespaces?limit=500 200 OK in ";
    let line = traced.lines().find(|line| line.contains(request)).expect(&traced);
    assert!(
        line.starts_with('I') && line.contains("] GET https://127.0.0.1:"),
        "{line}"
    );
    let refused = run(directory.path(), &["get", "pods", "--as", "nobody"]);
    assert!(
        refused.starts_with("Error from server (Forbidden): "),
        "{refused}"
    );
    let unknown = run(directory.path(), &["get", "pods", "--context", "nowhere"]);
    assert!(unknown.contains("nowhere"), "{unknown}");
    interrupt(running);
}

/// The response of a directory's server to a POST.
fn send(directory: &Path, path: &str, body: &'static str) -> Result<Bytes, Error> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let config = Config::load(&LoadOptions {
            path: Some(directory.join("kubeconfig")),
            ..Default::default()
        });
        let client = Client::new(&config.unwrap(), Default::default()).unwrap();
        let request = Request::post(path).body(Bytes::from_static(body.as_bytes()));
        let answer = client.send(request.unwrap(), &Default::default()).await?;
        Ok(answer.into_body().collect(1 << 20).await.unwrap())
    })
}

#[test]
fn faults_are_on_demand_only_where_they_are_switched_on() {
    let ask = |more: &[&str]| {
        let directory = tempfile::tempdir().unwrap();
        let (running, _) = start(directory.path(), more);
        let answer = send(directory.path(), "/debug/streams?flow=cut", "");
        interrupt(running);
        answer
    };
    assert!(ask(&[]).unwrap_err().is_not_found());
    ask(&["--debug-endpoints"]).unwrap();
}

#[test]
fn it_ends_with_its_standard_input_if_asked_to() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = Command::new(PROGRAM)
        .args([
            "up",
            "--listen",
            "127.0.0.1:0",
            "--no-simulator",
            "--end-with-stdin",
        ])
        .current_dir(directory.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut ready).unwrap();
    assert!(ready.starts_with("watchkeeper is ready"), "{ready}");
    assert_eq!(child.try_wait().unwrap(), None);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn keys_and_certificates_of_ones_own_are_used() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(path("own.crt"), own.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(path("own.key"), key.serialize_pem()).unwrap();
    let mut zoe = CertificateParams::default();
    zoe.distinguished_name.push(DnType::CommonName, "zoe");
    zoe.distinguished_name
        .push(DnType::OrganizationName, "system:masters");
    std::fs::write(path("zoe.crt"), zoe.self_signed(&key).unwrap().pem()).unwrap();

    let (certificate, key, client) = (path("own.crt"), path("own.key"), path("zoe.crt"));
    let (running, ready) = start(
        directory.path(),
        &[
            "--tls-cert-file",
            &certificate,
            "--tls-private-key-file",
            &key,
            "--client-ca-file",
            &client,
            "--service-account-issuer",
            "https://issuer.example",
        ],
    );
    // The kubeconfig trusts the serving certificate.
    let printed = run(directory.path(), &["get", "namespaces", "-o", "name"]);
    assert!(printed.contains("namespace/default\n"), "{printed}");
    let address = ready.split_whitespace().nth(4).unwrap().trim_end_matches(':');
    let shown = Command::new(PROGRAM)
        .args(["get", "namespaces", "-o", "name", "--server", address])
        .args(["--certificate-authority", &certificate])
        .args(["--client-certificate", &client, "--client-key", &key])
        .env_clear()
        .env("HOME", directory.path())
        .output()
        .unwrap();
    assert!(
        shown.status.success(),
        "{}",
        String::from_utf8_lossy(&shown.stderr)
    );
    interrupt(running);
}

#[test]
fn the_kubeconfig_verifies_a_name_of_the_certificate_if_that_lacks_the_address() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(["cluster.example".to_owned()]).unwrap();
    std::fs::write(path("own.crt"), own.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(path("own.key"), key.serialize_pem()).unwrap();
    let (certificate, key) = (path("own.crt"), path("own.key"));
    let files = ["--tls-cert-file", &certificate, "--tls-private-key-file", &key];
    let (running, _) = start(directory.path(), &files);
    let printed = run(directory.path(), &["get", "namespaces", "-o", "name"]);
    assert!(printed.contains("namespace/default\n"), "{printed}");
    let kubeconfig = std::fs::read_to_string(path("kubeconfig")).unwrap();
    assert!(
        kubeconfig.contains("tls-server-name: cluster.example\n"),
        "{kubeconfig}"
    );
    interrupt(running);
}

#[test]
fn replaced_certificates_are_used_by_the_running_program() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let place = |name: &str, text: &str| {
        std::fs::write(path("new"), text).unwrap();
        std::fs::rename(path("new"), path(name)).unwrap();
    };
    let make = |name: &str| {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let certificate = certificate.self_signed(&key).unwrap().pem();
        std::fs::write(path(name), &certificate).unwrap();
        (certificate, key.serialize_pem())
    };
    let (first, second) = (make("first.crt"), make("second.crt"));
    place("tls.crt", &first.0);
    place("tls.key", &first.1);
    let errors = std::fs::File::create(path("errors")).unwrap();
    let (certificate, key) = (path("tls.crt"), path("tls.key"));
    let files = ["--tls-cert-file", &certificate, "--tls-private-key-file", &key];
    let (running, ready) = start_with(directory.path(), &files, errors);
    let address = ready.split_whitespace().nth(4).unwrap().trim_end_matches(':');
    // Each command is a new connection.
    let is_trusted = |authority: &str| {
        let output = Command::new(PROGRAM)
            .args(["get", "--raw", "/version", "--server", address])
            .args(["--certificate-authority", &path(authority)])
            .env_clear()
            .env("HOME", directory.path())
            .output()
            .unwrap();
        output.status.success()
    };
    let trusted = || (is_trusted("first.crt"), is_trusted("second.crt"));
    assert_eq!(trusted(), (true, false));

    place("tls.key", &second.1);
    place("tls.crt", &second.0);
    assert_eq!(trusted(), (false, true));

    // What cannot be used leaves the old ones in use: a file without a key, then a key of another certificate.
    place("tls.key", "no key");
    assert_eq!(trusted(), (false, true));
    place("tls.key", &first.1);
    assert_eq!(trusted(), (false, true));
    place("tls.crt", &first.0);
    assert_eq!(trusted(), (true, false));

    interrupt(running);
    let told = std::fs::read_to_string(path("errors")).unwrap();
    let warning = "changed certificates cannot be used: the old ones stay in use";
    let lines: Vec<&str> = told.lines().filter(|line| line.contains(warning)).collect();
    assert_eq!(lines.len(), 2, "once for each change: {told}");
    let no_key = format!("{key} contains no private key");
    assert!(lines[0].contains(&no_key), "{told}");
}

#[test]
fn tests_in_any_language_move_its_clock() {
    let directory = tempfile::tempdir().unwrap();
    let (running, _) = start(directory.path(), &["--testing"]);
    let clock = |body: &'static str| {
        let answer = send(directory.path(), "/testing/v1/clock", body).unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
        answer["now"]
            .as_str()
            .unwrap()
            .parse::<watchkeeper_meta::Time>()
            .unwrap()
    };
    let before = clock(r#"{"frozen": true}"#);
    let after = clock(r#"{"advance": "24h"}"#);
    assert_eq!(after.seconds - before.seconds, 86_400);
    interrupt(running);
}

#[test]
fn pods_carry_the_token_of_their_service_account() {
    let directory = tempfile::tempdir().unwrap();
    let pod = |name: &str, account: &str| {
        let spec = format!("{{serviceAccountName: {account}, containers: [{{name: a, image: a}}]}}");
        let pod = format!("{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {spec}}}");
        let file = directory.path().join(format!("{name}.yaml"));
        std::fs::write(&file, pod).unwrap();
        run(directory.path(), &["create", "-f", file.to_str().unwrap()])
    };
    let volumes = |name: &str| {
        let words = ["get", "pod", name, "-o", "jsonpath={.spec.volumes[*].name}"];
        run(directory.path(), &words)
    };
    let start = |more: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args([
            "up",
            "--listen",
            "127.0.0.1:0",
            "--nodes",
            "0",
            "--kubeconfig",
            "kubeconfig",
        ]);
        let mut running = Running::of(command.args(more).current_dir(directory.path()));
        running.line();
        running
    };
    let running = start(&[]);
    assert_eq!(pod("one", "default"), "pod/one created\n");
    assert!(
        volumes("one").starts_with("kube-api-access-"),
        "{}",
        volumes("one")
    );
    let refused = pod("two", "nobody");
    let why = "error looking up service account default/nobody: serviceaccount \"nobody\" not found";
    assert!(refused.contains(why), "{refused}");
    interrupt(running);

    let running = start(&["--disable-admission-plugins", "ServiceAccount"]);
    assert_eq!(pod("two", "nobody"), "pod/two created\n");
    assert_eq!(volumes("two").trim(), "");
    interrupt(running);
}

/// Starts `up` with a scenario file of this content.
fn with_scenario(directory: &Path, scenario: &str) -> Command {
    std::fs::write(directory.join("scenario.yaml"), scenario).unwrap();
    let mut command = Command::new(PROGRAM);
    command
        .args(["up", "--listen", "127.0.0.1:0", "--nodes", "3"])
        .args(["--kubeconfig", "kubeconfig", "--scenario", "scenario.yaml"])
        .current_dir(directory);
    command
}

#[test]
fn a_scenario_that_cannot_be_used_is_an_error_before_anything_starts() {
    let directory = tempfile::tempdir().unwrap();
    let head = "apiVersion: simulator.watchkeeper.dev/v1\nkind: Scenario\n";
    for (scenario, why) in [
        (
            format!("{head}steps: [{{zoneOutage: {{zone: 7}}}}]"),
            "step 1 of the scenario: ",
        ),
        (
            format!("{head}steps: [{{earthquake: {{}}}}]"),
            "step 1 of the scenario: ",
        ),
        (
            "apiVersion: v1\nkind: Pod\n".to_owned(),
            "v1 Pod is neither a Stage",
        ),
        ("kind: [".to_owned(), "yaml"),
    ] {
        let output = with_scenario(directory.path(), &scenario).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        let named = "error: --scenario scenario.yaml: ";
        assert!(
            text.starts_with(named) && text.contains(why),
            "{scenario}: {text}"
        );
        assert_eq!(output.status.code(), Some(1), "{scenario}");
        assert!(!directory.path().join("kubeconfig").exists(), "{scenario}");
    }
    std::fs::remove_file(directory.path().join("scenario.yaml")).unwrap();
    let mut command = Command::new(PROGRAM);
    let output = command
        .args(["up", "--scenario", "missing.yaml"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.starts_with("error: --scenario missing.yaml: "), "{text}");
}

#[test]
fn a_zone_of_the_scenario_is_down_and_the_others_are_up() {
    let directory = tempfile::tempdir().unwrap();
    let scenario = "\
apiVersion: simulator.watchkeeper.dev/v1
kind: Scenario
steps: [{zoneOutage: {zone: simulated-a}}]
";
    let mut running = Running::of(&mut with_scenario(directory.path(), scenario));
    running.line();
    let wait = |node: &str, condition: &str| {
        let condition = format!("--for=condition=Ready={condition}");
        run(directory.path(), &["wait", node, &condition, "--timeout=60s"])
    };
    assert_eq!(wait("node/node-1", "Unknown"), "node/node-1 condition met\n");
    assert_eq!(wait("node/node-2", "True"), "node/node-2 condition met\n");
    let zone = [
        "get",
        "node",
        "node-1",
        "-o",
        "jsonpath={.metadata.labels.topology\\.kubernetes\\.io/zone}",
    ];
    assert_eq!(run(directory.path(), &zone).trim(), "simulated-a");
    interrupt(running);
}

#[test]
fn a_log_file_that_stays_empty_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let told = |more: &[&str]| {
        let output = Command::new(PROGRAM)
            .args(["version", "--client", "--log-file", "log"])
            .args(more)
            .current_dir(directory.path())
            .output()
            .unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let warning = "--log-file and --log-dir have no effect unless --logtostderr=false";
    let without = told(&[]);
    assert!(without.trim_end().ends_with(warning), "{without}");
    assert!(!directory.path().join("log").exists());
    assert_eq!(told(&["--logtostderr=false"]), "");
    assert!(directory.path().join("log").exists());
}

#[test]
fn the_command_of_the_image_starts_a_cluster() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/Dockerfile");
    let Ok(text) = std::fs::read_to_string(file) else {
        // A published crate comes without the image.
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let words = text.lines().find_map(|line| line.strip_prefix("CMD ")).unwrap();
    let words: Vec<String> = serde_json::from_str(words).unwrap();
    let data = directory.path().to_str().unwrap();
    let words = words.iter().map(|word| word.replace("/data", data));
    let mut command = Command::new(PROGRAM);
    // A test has no fixed port; an address of the image's own would be a second one, and refused.
    command.args(words).args(["--listen", "localhost:0"]);
    let mut running = Running::of(&mut command);
    let ready = running.line();
    assert!(ready.starts_with("watchkeeper is ready at https://"), "{ready}");
    assert!(directory.path().join("kubeconfig").exists());
    interrupt(running);
}
