//! Operating a server with a data directory, with the commands of docs/operations.md.
#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::process::{PROGRAM, Running};
use watchkeeper_wire::yaml::Mode;

/// A directory with a kubeconfig, in which commands run.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .args(line.split_whitespace())
            .current_dir(self.path())
            .env("KUBECONFIG", "kubeconfig");
        command
    }

    /// Runs to the end. Returns the output, and whether it succeeded.
    fn run(&self, line: &str) -> (bool, String) {
        let output = self.command(line).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    }

    fn ok(&self, line: &str) -> String {
        let (went_well, said) = self.run(line);
        assert!(went_well, "{line}: {said}");
        said
    }

    /// The output of a command that must fail. It never panics.
    fn refused(&self, line: &str) -> String {
        let (went_well, said) = self.run(line);
        assert!(!went_well, "{line}: {said}");
        assert!(!said.contains("panicked"), "{line}: {said}");
        said
    }

    fn up(&self, more: &str) -> Running {
        let line = format!("up --listen 127.0.0.1:0 --no-simulator --kubeconfig kubeconfig {more}");
        let mut running = Running::of(&mut self.command(&line));
        let ready = running.line();
        assert!(ready.starts_with("watchkeeper is ready"), "{ready}");
        running
    }

    fn create(&self, name: &str, bytes: usize) -> (bool, String) {
        let manifest = format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, data: {{x: \"{}\"}}}}",
            "x".repeat(bytes)
        );
        fs::write(self.path().join("object.yaml"), manifest).unwrap();
        self.run("create -f object.yaml")
    }
}

fn stop(mut running: Running) {
    running.interrupt();
    assert!(running.ended().success());
}

const OBJECT: &str = "get configmap a -o jsonpath={.metadata.uid}/{.metadata.resourceVersion}";

#[test]
fn a_running_server_is_backed_up_and_another_goes_on_from_it() {
    let desk = Desk::new();
    let first = desk.up("--data-dir data");
    assert!(desk.create("a", 10).0);
    let object = desk.ok(OBJECT);
    let said = desk.ok("backup online.backup");
    assert!(
        said.starts_with("online.backup: ") && said.contains(" keys at revision "),
        "{said}"
    );
    assert!(
        desk.refused("backup online.backup")
            .contains("online.backup exists; name another place")
    );
    assert!(
        desk.refused("verify data")
            .contains("data is in use; another server")
    );
    assert!(desk.ok("compact").starts_with("compacted at revision "));
    assert!(desk.ok("defragment").contains(" bytes of records in a file of "));
    stop(first);

    assert!(desk.ok("verify data").starts_with("data: whole, format 2, "));
    desk.ok("backup offline.backup --data-dir data");
    desk.ok("verify offline.backup");
    desk.ok("compact --data-dir data");
    desk.ok("defragment --data-dir data");
    let said = desk.ok("restore online.backup --data-dir restored");
    assert!(
        said.contains("start it with: watchkeeper up --data-dir restored"),
        "{said}"
    );
    assert!(
        desk.refused("restore online.backup --data-dir restored")
            .contains("restored/store.redb exists")
    );

    // The kubeconfig of the first server, except for the port: authority and token are those of the backup.
    let identity = |desk: &Desk| {
        let text = fs::read_to_string(desk.path().join("kubeconfig")).unwrap();
        let lines = text
            .lines()
            .filter(|line| line.contains("token:") || line.contains("authority"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let before = identity(&desk);
    fs::remove_file(desk.path().join("kubeconfig")).unwrap();
    let second = desk.up("--data-dir restored");
    assert_eq!(identity(&desk), before);
    assert_eq!(before.len(), 2, "{before:?}");
    assert_eq!(desk.ok(OBJECT), object);
    stop(second);
}

/// The encryption configuration of docs/operations.md, with a key.
const ENCRYPTION: &str = "apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - aesgcm: {keys: [{name: key1, secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}]}
  - identity: {}
";

#[test]
fn the_page_has_the_encryption_configuration_that_is_tested() {
    let Ok(page) = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md"))
    else {
        // A published crate comes without the pages.
        return;
    };
    let start = page.find("    apiVersion: apiserver.config.k8s.io").unwrap();
    let block: Vec<_> = page[start..]
        .lines()
        .map_while(|line| line.strip_prefix("    "))
        .collect();
    let key = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    let block = block.join("\n").replace("<16, 24 or 32 bytes, base64>", key);
    let read = |text: &str| {
        watchkeeper_wire::yaml::from_slice::<serde_json::Value>(text.as_bytes(), Mode::Strict).unwrap()
    };
    assert_eq!(read(&block), read(ENCRYPTION));
}

#[test]
fn secrets_are_encrypted_as_a_file_says() {
    let desk = Desk::new();
    fs::write(desk.path().join("encryption.yaml"), ENCRYPTION).unwrap();
    let server = desk.up("--data-dir data --encryption-provider-config encryption.yaml");
    let secret = "{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {x: canary-in-the-store}}";
    fs::write(desk.path().join("secret.yaml"), secret).unwrap();
    desk.ok("create -f secret.yaml");
    stop(server);
    let bytes = fs::read(desk.path().join("data/store.redb")).unwrap();
    let holds = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    assert!(holds(b"k8s:enc:aesgcm:v1:key1:") && !holds(b"canary-in-the-store"));
    desk.ok("verify data");
    fs::write(
        desk.path().join("encryption.yaml"),
        ENCRYPTION.replace("aesgcm", "aescbc"),
    )
    .unwrap();
    let said =
        desk.refused("up --listen 127.0.0.1:0 --data-dir data --encryption-provider-config encryption.yaml");
    assert!(said.contains("providers[0].aescbc: Unsupported value"), "{said}");
}

#[test]
fn damaged_data_gives_advice() {
    let desk = Desk::new();
    stop(desk.up("--data-dir data"));
    let file = desk.path().join("data/store.redb");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 8;
    bytes[middle..middle + 20_000].fill(0xff);
    fs::write(&file, bytes).unwrap();
    for line in [
        "up --listen 127.0.0.1:0 --data-dir data",
        "verify data",
        "compact --data-dir data",
    ] {
        let said = desk.refused(line);
        assert!(said.contains("data/store.redb is damaged: "), "{said}");
        assert!(said.contains("restore the last backup into a new one"), "{said}");
    }
    fs::write(desk.path().join("bad.backup"), "watchkeeper backup 1").unwrap();
    assert!(
        desk.refused("verify bad.backup")
            .contains("bad.backup is not a backup")
    );
    assert!(
        desk.refused("verify nowhere")
            .contains("there is no store in nowhere; name the directory")
    );
    assert!(!desk.path().join("nowhere").exists());
}

#[test]
fn a_full_store_says_so_until_something_is_deleted() {
    let desk = Desk::new();
    let server = desk.up("--data-dir data --quota-backend-bytes 600000");
    let count = (0..100).find(|number| {
        let (went_well, said) = desk.create(&format!("m{number}"), 50_000);
        let full = "etcdserver: mvcc: database space exceeded";
        let is_refused = said.starts_with("Error from server: ") && said.trim_end().ends_with(full);
        assert!(went_well || is_refused, "{said}");
        !went_well
    });
    assert!(count.is_some_and(|count| count > 2), "{count:?}");
    desk.ok("get configmaps");
    desk.ok("delete configmap m0 m1");
    assert!(desk.create("again", 50_000).0);
    stop(server);
}
