//! The program as the control plane of test suites: their flags, requests and expectations, step by step.
//!
//! The steps are those of controller-runtime's envtest (which kube-rs' envtest is) and of jenvtest: programs found by
//! name in a directory, certificates made by the suite, health polled until it is good, and SIGTERM at the end.
#![cfg(unix)]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_RSA_SHA256,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use watchkeeper_client::config::{IdentityConfig, Material, TlsConfig};
use watchkeeper_client::{Client, Config, DynamicApi};
use watchkeeper_meta::Resource;

const PROGRAM: &str = env!("CARGO_BIN_EXE_watchkeeper");

/// envtest's time limits of start and stop.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Its polling interval.
const POLL: Duration = Duration::from_millis(100);

/// A directory with the programs, and one for the suite's files.
struct Suite {
    assets: PathBuf,
    scratch: TempDir,
}

/// A started program, which is stopped with the test.
struct Process {
    child: Child,
    log: PathBuf,
}

impl Suite {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let assets = scratch.path().join("assets");
        let made = Command::new(PROGRAM).arg("envtest-assets").arg(&assets).output();
        let made = String::from_utf8(made.unwrap().stdout).unwrap();
        assert_eq!(made, format!("export KUBEBUILDER_ASSETS={}\n", assets.display()));
        Self { assets, scratch }
    }

    fn run(&self, name: &str, words: &[String]) -> Output {
        Command::new(self.assets.join(name)).args(words).output().unwrap()
    }

    fn start(&self, name: &str, words: &[String]) -> Process {
        let log = self.scratch.path().join(format!("{name}.log"));
        let child = Command::new(self.assets.join(name))
            .args(words)
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Process { child, log }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// True if a program's help lists a flag, by envtest's own search.
    fn has_flag(&self, name: &str, flag: &str) -> bool {
        let output = self.run(name, &["--help".to_owned()]);
        assert!(output.status.success(), "{name} --help");
        let help = String::from_utf8(output.stdout).unwrap();
        help.lines().any(|line| {
            let rest = line.trim_start().strip_prefix("--");
            let rest = rest.and_then(|rest| rest.strip_prefix(flag));
            rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
        })
    }
}

impl Process {
    /// Polls until it is healthy, as a suite does; a program that has ended is not polled again.
    fn wait_until(&mut self, is_well: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_well() {
            let ended = self.child.try_wait().unwrap();
            assert_eq!(ended, None, "it ended: {}", self.log());
            assert!(begun.elapsed() < TIMEOUT, "it did not start: {}", self.log());
            std::thread::sleep(POLL);
        }
    }

    /// Stops it as envtest does; it must exit in time and successfully.
    fn stop(mut self) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status().unwrap();
        assert!(sent.success());
        let begun = Instant::now();
        let ended = loop {
            if let Some(ended) = self.child.try_wait().unwrap() {
                break ended;
            }
            assert!(begun.elapsed() < TIMEOUT, "it did not stop: {}", self.log());
            std::thread::sleep(POLL);
        };
        assert!(ended.success(), "{ended}: {}", self.log());
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that was free a moment ago: suites choose them like this.
fn suggested_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// The response of a plain HTTP server, its head first; `None` if there is none.
fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// envtest's certificate authority.
struct TinyCa {
    pem: String,
    key_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl TinyCa {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name = subject("envtest-environment", "envtest");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyEncipherment,
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
        ];
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let key_pem = key.serialize_pem();
        let issuer = Issuer::new(params, key);
        Self { pem, key_pem, issuer }
    }

    fn sign(
        &self,
        subject: DistinguishedName,
        names: &[&str],
        usage: ExtendedKeyUsagePurpose,
    ) -> (String, String) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = subject;
        params.key_usages = vec![
            KeyUsagePurpose::KeyEncipherment,
            KeyUsagePurpose::DigitalSignature,
        ];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

fn subject(name: &str, organization: &str) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::OrganizationName, organization);
    subject.push(DnType::CommonName, name);
    subject
}

fn client(port: u16, tls: TlsConfig) -> Client {
    let server = format!("https://127.0.0.1:{port}").parse().unwrap();
    let config = Config {
        tls,
        ..Config::new(server)
    };
    Client::new(&config, watchkeeper_testing::unlimited()).unwrap()
}

fn trusting(authority: &str, certificate: &str, key: &str) -> TlsConfig {
    let inline = |text: &str| Material::Inline(text.as_bytes().into());
    TlsConfig {
        authority: Some(inline(authority)),
        identity: Some(IdentityConfig {
            certificate: inline(certificate),
            key: inline(key),
        }),
        ..TlsConfig::default()
    }
}

fn api(client: &Client, group: &'static str, kind: &'static str, plural: &'static str) -> DynamicApi {
    client.dynamic(Resource::cluster(group, "v1", kind, plural))
}

/// True if a path answers 200 to an anonymous client that does not verify certificates.
fn is_ok(runtime: &tokio::runtime::Runtime, port: u16, path: &str) -> bool {
    let anybody = TlsConfig {
        insecure_skip_verify: true,
        ..TlsConfig::default()
    };
    let answered = runtime.block_on(async { client(port, anybody).get_raw(path, 1 << 16).await });
    answered.is_ok()
}

/// The actions of a suite with a client: custom kinds and objects.
async fn use_it(client: &Client) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    let definitions = api(
        client,
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    );
    definitions.create(&definition).await.unwrap();
    // envtest waits until discovery names the new kind.
    let begun = Instant::now();
    while client.get_raw("/apis/example.com/v1", 1 << 20).await.is_err() {
        assert!(begun.elapsed() < TIMEOUT, "the kind is not served");
        tokio::time::sleep(POLL).await;
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    api(client, "", "Namespace", "namespaces")
        .create(&namespace)
        .await
        .unwrap();
    for (group, kind, plural, api_version) in [
        ("", "ConfigMap", "configmaps", "v1"),
        ("example.com", "Widget", "widgets", "example.com/v1"),
    ] {
        let objects = client
            .dynamic(Resource::namespaced(group, "v1", kind, plural))
            .namespace("team");
        let object =
            json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "data": {"k": "1"}});
        objects.create(&object).await.unwrap();
        let mut found: Value = objects.get("a").await.unwrap().to_value().unwrap();
        found["data"]["k"] = json!("2");
        objects.update("a", &found).await.unwrap();
        objects.delete("a").await.unwrap();
        assert!(objects.get("a").await.unwrap_err().is_not_found());
    }
}

#[test]
fn envtest_of_controller_runtime_runs_on_it() {
    let suite = Suite::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();

    // pkg/internal/testing/controlplane/etcd.go
    assert!(suite.has_flag("etcd", "unsafe-no-fsync"));
    let (etcd_port, peer_port) = (suggested_port(), suggested_port());
    let etcd_url = format!("http://127.0.0.1:{etcd_port}");
    let mut etcd = suite.start(
        "etcd",
        &[
            format!("--advertise-client-urls={etcd_url}"),
            format!("--data-dir={}", suite.path("etcd").display()),
            format!("--listen-client-urls={etcd_url}"),
            format!("--listen-peer-urls=http://127.0.0.1:{peer_port}"),
            "--unsafe-no-fsync=true".to_owned(),
        ],
    );
    etcd.wait_until(|| {
        let answer = get(etcd_port, "/health").unwrap_or_default();
        answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with(r#"{"health":"true","reason":""}"#)
    });

    // pkg/internal/testing/controlplane/apiserver.go and auth.go
    assert!(!suite.has_flag("kube-apiserver", "insecure-port"));
    let (serving, users, accounts) = (TinyCa::new(), TinyCa::new(), TinyCa::new());
    let (certificate, key) = serving.sign(
        subject("localhost", "envtest"),
        &["localhost", "127.0.0.1"],
        ExtendedKeyUsagePurpose::ServerAuth,
    );
    suite.write("apiserver.crt", &certificate);
    suite.write("apiserver.key", &key);
    let sa_certificate = suite.write("sa-signer.crt", &accounts.pem);
    let sa_key = suite.write("sa-signer.key", &accounts.key_pem);
    let client_ca = suite.write("client-cert-auth-ca.crt", &users.pem);
    let port = suggested_port();
    let mut server = suite.start(
        "kube-apiserver",
        &[
            "--allow-privileged=true".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--cert-dir={}", suite.scratch.path().display()),
            format!("--client-ca-file={client_ca}"),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            format!("--etcd-servers={etcd_url}"),
            format!("--secure-port={port}"),
            format!("--service-account-issuer=https://127.0.0.1:{port}/"),
            format!("--service-account-key-file={sa_certificate}"),
            format!("--service-account-signing-key-file={sa_key}"),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        ],
    );
    server.wait_until(|| is_ok(&runtime, port, "/healthz"));
    assert!(is_ok(&runtime, port, "/readyz") && is_ok(&runtime, port, "/livez"));

    // pkg/envtest/server.go
    let (certificate, key) = users.sign(
        subject("admin", "system:masters"),
        &[],
        ExtendedKeyUsagePurpose::ClientAuth,
    );
    let admin = client(port, trusting(&serving.pem, &certificate, &key));
    runtime.block_on(async {
        api(&admin, "", "Namespace", "namespaces")
            .get("default")
            .await
            .unwrap();
        use_it(&admin).await;
        let issuer = admin
            .get_raw("/.well-known/openid-configuration", 1 << 16)
            .await
            .unwrap();
        let issuer: Value = serde_json::from_slice(&issuer).unwrap();
        assert_eq!(issuer["issuer"], format!("https://127.0.0.1:{port}/"));
    });
    // A user without permissions, as tests of RBAC add them.
    let (certificate, key) = users.sign(
        subject("somebody", "dev"),
        &[],
        ExtendedKeyUsagePurpose::ClientAuth,
    );
    let somebody = client(port, trusting(&serving.pem, &certificate, &key));
    let refused = runtime.block_on(async { api(&somebody, "", "Namespace", "namespaces").list().await });
    assert!(refused.unwrap_err().is_forbidden());

    // With a client still connected, as tests often leave one.
    server.stop();
    etcd.stop();
}

/// A self-signed certificate, as jenvtest makes them.
fn self_signed(suite: &Suite, name: &str, subject: DistinguishedName, names: &[&str]) -> (String, String) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name = subject;
    let key = KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    (
        suite.write(&format!("{name}.crt"), &certificate.pem()),
        suite.write(&format!("{name}.key"), &key.serialize_pem()),
    )
}

#[test]
fn jenvtest_runs_on_it() {
    let suite = Suite::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let words = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };

    let (etcd_port, peer_port) = (suggested_port(), suggested_port());
    let directory = suite.scratch.path().display();
    let mut etcd = suite.start(
        "etcd",
        &words(&format!(
            "-data-dir {directory}/data -wal-dir {directory}/wal --listen-client-urls http://0.0.0.0:{etcd_port} \
             --advertise-client-urls http://0.0.0.0:{etcd_port} \
             --initial-cluster default=http://localhost:{peer_port} \
             --initial-advertise-peer-urls http://localhost:{peer_port} \
             --listen-peer-urls http://localhost:{peer_port}"
        )),
    );
    etcd.wait_until(|| get(etcd_port, "/health").is_some_and(|answer| answer.contains(" 200 ")));

    let (certificate, key) = self_signed(
        &suite,
        "apiserver",
        subject("example.org", "example"),
        &["127.0.0.1", "kubernetes", "kubernetes.default"],
    );
    let (client_certificate, client_key) =
        self_signed(&suite, "client", subject("jenvtest", "system:masters"), &[]);
    let port = suggested_port();
    let mut server = suite.start(
        "kube-apiserver",
        &words(&format!(
            "--cert-dir {directory} --secure-port {port} --etcd-servers http://0.0.0.0:{etcd_port} \
             --authorization-mode RBAC --service-account-issuer https://localhost \
             --service-account-signing-key-file {key} --service-account-signing-key-file {key} \
             --service-account-key-file {key} --service-account-issuer {certificate} \
             --disable-admission-plugins ServiceAccount --client-ca-file {client_certificate} \
             --service-cluster-ip-range 10.0.0.0/24 --allow-privileged"
        )),
    );
    server.wait_until(|| is_ok(&runtime, port, "/readyz"));
    // It reads the default namespace with kubectl, with the server's certificate as authority.
    let output = suite.run(
        "kubectl",
        &words(&format!(
            "--client-certificate={client_certificate} --client-key={client_key} \
             --certificate-authority={certificate} --server=https://127.0.0.1:{port} get ns default"
        )),
    );
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        printed.lines().any(|line| line.starts_with("default ")),
        "{printed}"
    );
    server.stop();
    etcd.stop();
}

#[test]
fn unknown_flags_are_named_and_passed_over_and_certificates_made() {
    let suite = Suite::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (port, directory) = (suggested_port(), suite.path("made"));
    let tokens = suite.write("tokens.csv", "secret,zoe,1,system:masters\n");
    let mut server = suite.start(
        "kube-apiserver",
        &[
            format!("--secure-port={port}"),
            "--bind_address=127.0.0.1".to_owned(),
            format!("--cert-dir={}", directory.display()),
            format!("--token-auth-file={tokens}"),
            "--feature-gates=Some=true".to_owned(),
            String::new(),
            "--flag-of-tomorrow".to_owned(),
            "its-value".to_owned(),
            "-v=2".to_owned(),
        ],
    );
    server.wait_until(|| is_ok(&runtime, port, "/readyz"));
    let authority = std::fs::read_to_string(directory.join("apiserver.crt")).unwrap();
    let tls = TlsConfig {
        authority: Some(Material::Inline(authority.as_bytes().into())),
        ..TlsConfig::default()
    };
    let config = Config {
        tls,
        credentials: watchkeeper_client::config::Credentials::Token(watchkeeper_client::Secret::new(
            "secret",
        )),
        ..Config::new(format!("https://127.0.0.1:{port}").parse().unwrap())
    };
    let zoe = Client::new(&config, watchkeeper_testing::unlimited()).unwrap();
    runtime
        .block_on(async { api(&zoe, "", "Namespace", "namespaces").list().await })
        .unwrap();
    assert!(directory.join("apiserver.key").exists());
    let log = server.log();
    for line in [
        "unknown flag is ignored: --flag-of-tomorrow",
        "feature gate Some has no effect here",
        &format!("Serving securely on 127.0.0.1:{port}"),
    ] {
        assert!(log.contains(line), "{line} is not in: {log}");
    }
    server.stop();
}

#[test]
fn it_says_which_versions_it_follows() {
    let suite = Suite::new();
    let version = |name: &str| {
        let output = suite.run(name, &["--version".to_owned()]);
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(version("kube-apiserver").starts_with("Kubernetes v1."));
    assert!(version("etcd").starts_with("etcd Version: 3."));
    assert!(version("kubectl").starts_with("watchkeeper "));
}

#[test]
fn programs_that_are_there_are_replaced_by_force_only() {
    let scratch = tempfile::tempdir().unwrap();
    let real = scratch.path().join("etcd");
    std::fs::write(&real, "the real one").unwrap();
    let fill = |more: &[&str]| {
        let mut command = Command::new(PROGRAM);
        let output = command
            .arg("envtest-assets")
            .arg(scratch.path())
            .args(more)
            .output();
        output.unwrap()
    };
    let refused = fill(&[]);
    assert!(!refused.status.success());
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(text.contains("etcd is there already"), "{text}");
    assert_eq!(std::fs::read_to_string(&real).unwrap(), "the real one");
    assert!(fill(&["--force"]).status.success());
    assert!(is_link(&real));
    // Links are replaced silently.
    assert!(fill(&[]).status.success());
}

fn is_link(path: &Path) -> bool {
    path.symlink_metadata().unwrap().is_symlink()
}
