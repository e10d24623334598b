//! Encryption at rest: no file contains a secret, keys rotate, and a lost key affects only the objects it encrypted.

use std::fs;
use std::path::{Path, PathBuf};

use ::http::Method;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
#[cfg(feature = "etcd")]
use watchkeeper_server::EtcdOptions;
use watchkeeper_server::{Builder, Handle, Server};
use watchkeeper_storage::{BackupFile, RestoreOptions, restore_directory};

use crate::client::Client;
#[cfg(feature = "etcd")]
use crate::etcd_process::Etcd;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// The text that must not occur in any file. As a manager's name it is in the bytes of every encoding.
const CANARY: &str = "canary-in-the-store";

/// A server over a data directory, whose providers for secrets are these.
async fn start(dir: &Path, keys: &str) -> (Handle, Client) {
    serve(configured(dir, keys).data_dir(dir.join("data"))).await
}

async fn serve(builder: Builder) -> (Handle, Client) {
    let server = builder.start().await.unwrap();
    let pipe = server.connector().connect().await.unwrap();
    let client = Client::http2(pipe).await.with_token(&server);
    (server, client)
}

/// A server with these providers for secrets, in the order of keys; `-` is identity.
fn configured(dir: &Path, keys: &str) -> Builder {
    let providers = keys.chars().map(|letter| match letter {
        '-' => json!({"identity": {}}),
        letter => {
            let secret = BASE64_STANDARD.encode(letter.to_string().repeat(32));
            json!({"aesgcm": {"keys": [{"name": letter, "secret": secret}]}})
        }
    });
    let document = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": [{"resources": ["secrets"], "providers": providers.collect::<Value>()}],
    });
    let file = dir.join("encryption.json");
    fs::write(&file, document.to_string()).unwrap();
    let builder = Server::builder();
    match keys.is_empty() {
        true => builder,
        false => builder.encryption_provider_config(file),
    }
}

async fn create(client: &mut Client, path: &str, name: &str) {
    let data = match path {
        SECRETS => json!({"x": BASE64_STANDARD.encode(CANARY)}),
        _ => json!({"x": CANARY}),
    };
    let object = json!({"metadata": {"name": name}, "data": data});
    let answer = client.send(Method::POST, path, &[], &object.to_string()).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
}

/// `kubectl get -o json | kubectl replace -f -`. Returns the version before and after.
async fn replace(client: &mut Client, path: &str) -> (String, String) {
    let object = client.get(path).await.json();
    let answer = client.send(Method::PUT, path, &[], &object.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let version = |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    (version(&object), version(&answer.json()))
}

/// True if the data file contains a text.
fn holds(dir: &Path, text: &str) -> bool {
    let bytes = fs::read(dir.join("data/store.redb")).unwrap();
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test]
async fn no_file_and_no_backup_holds_a_secret() {
    let dir = tempfile::tempdir().unwrap();
    let (server, mut client) = start(dir.path(), "a").await;
    create(&mut client, SECRETS, "s").await;
    // History, a deletion and an update contain it as well.
    create(&mut client, SECRETS, "deleted").await;
    client
        .send(Method::DELETE, &format!("{SECRETS}/deleted"), &[], "")
        .await;
    let backup = back_up(&mut client, dir.path()).await;
    assert!(!holds(dir.path(), CANARY));
    // The administrator's token and the keys of the server are secrets, too.
    let token = server.admin_token().reveal().to_owned();
    assert!(!holds(dir.path(), &token) && !holds(dir.path(), "PRIVATE KEY"));
    let bytes = fs::read(&backup).unwrap();
    for text in [CANARY, &token, "PRIVATE KEY"] {
        assert!(
            !bytes.windows(text.len()).any(|window| window == text.as_bytes()),
            "{text}"
        );
    }
    // The search finds what is not encrypted.
    create(&mut client, CONFIG_MAPS, "plain").await;
    server.shutdown().await;
    assert!(holds(dir.path(), CANARY));

    // A restored backup is read with the same key, and has the same identity.
    let restored = dir.path().join("restored");
    fs::create_dir(&restored).unwrap();
    restore_directory(&backup, restored.join("data"), &RestoreOptions::default()).unwrap();
    let (server, mut client) = start(&restored, "a").await;
    assert_eq!(server.admin_token().reveal(), token);
    assert_readable(&mut client, "s").await;
    server.shutdown().await;
}

async fn assert_readable(client: &mut Client, name: &str) {
    let secret = client.get(&format!("{SECRETS}/{name}")).await.json();
    assert_eq!(secret["data"]["x"], BASE64_STANDARD.encode(CANARY), "{secret}");
}

/// Backs up a running server into a file.
async fn back_up(client: &mut Client, dir: &Path) -> PathBuf {
    let path = dir.join("backup");
    let mut file = BackupFile::create(&path).unwrap();
    file.write(&client.get("/maintenance/v1/backup").await.body)
        .unwrap();
    file.finish().unwrap();
    path
}

#[cfg(feature = "etcd")]
#[tokio::test]
async fn servers_over_etcd_share_secrets_that_etcd_cannot_read() {
    let Some(etcd) = Etcd::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let over_etcd = |keys: &str| serve(configured(dir.path(), keys).etcd(EtcdOptions::at([etcd.url()])));
    let (one, mut client) = over_etcd("a").await;
    create(&mut client, SECRETS, "s").await;
    let token = one.admin_token().reveal().to_owned();
    for text in [CANARY, &token, "PRIVATE KEY"] {
        assert!(!etcd.holds(text), "{text}");
    }
    // The search finds what is not encrypted.
    create(&mut client, CONFIG_MAPS, "plain").await;
    assert!(etcd.holds(CANARY));

    // A second server with the same keys reads what the first wrote, and the other way round.
    let (two, mut other) = over_etcd("a").await;
    assert_eq!(two.admin_token().reveal(), token);
    assert_readable(&mut other, "s").await;
    create(&mut other, SECRETS, "t").await;
    assert_readable(&mut client, "t").await;
    one.shutdown().await;
    two.shutdown().await;

    // As keys are rotated under several servers: all read the new one before any writes it.
    let ((one, mut client), (two, mut other)) = (over_etcd("ab").await, over_etcd("ba").await);
    for name in ["s", "t"] {
        let (before, after) = replace(&mut other, &format!("{SECRETS}/{name}")).await;
        assert_ne!(before, after);
        assert_readable(&mut client, name).await;
    }
    one.shutdown().await;
    two.shutdown().await;
    let (server, mut client) = over_etcd("b").await;
    assert_readable(&mut client, "s").await;
    assert_readable(&mut client, "t").await;

    // A backup is as locked as etcd is, and is read with the same keys.
    let backup = back_up(&mut client, dir.path()).await;
    server.shutdown().await;
    let bytes = fs::read(&backup).unwrap();
    assert!(
        !bytes
            .windows(token.len())
            .any(|window| window == token.as_bytes())
    );
    restore_directory(&backup, dir.path().join("data"), &RestoreOptions::default()).unwrap();
    let (server, mut client) = start(dir.path(), "b").await;
    assert_eq!(server.admin_token().reveal(), token);
    assert_readable(&mut client, "t").await;
    server.shutdown().await;
}

#[tokio::test]
async fn keys_rotate_by_no_op_writes() {
    let dir = tempfile::tempdir().unwrap();
    let path = format!("{SECRETS}/s");
    let (server, mut client) = start(dir.path(), "").await;
    create(&mut client, SECRETS, "s").await;
    server.shutdown().await;

    // Not encrypted yet: readable, and encrypted by the next write.
    let (server, mut client) = start(dir.path(), "a-").await;
    let (before, after) = replace(&mut client, &path).await;
    assert_ne!(before, after);
    let (before, after) = replace(&mut client, &path).await;
    assert_eq!(before, after, "a second one changes nothing");
    server.shutdown().await;

    let (server, mut client) = start(dir.path(), "ba-").await;
    let (before, after) = replace(&mut client, &path).await;
    assert_ne!(before, after);
    // A no-op patch does it too, and watches see it.
    server.shutdown().await;
    let (server, mut client) = start(dir.path(), "cb-").await;
    let patch = client
        .send(
            Method::PATCH,
            &path,
            &[("content-type", "application/merge-patch+json")],
            "{}",
        )
        .await;
    assert_ne!(patch.json()["metadata"]["resourceVersion"], json!(after));
    server.shutdown().await;
    let (server, mut client) = start(dir.path(), "c-").await;
    assert_eq!(client.get(&path).await.status, 200);
    server.shutdown().await;
}

#[tokio::test]
async fn a_lost_key_affects_only_the_objects_it_encrypted() {
    let dir = tempfile::tempdir().unwrap();
    let (server, mut client) = start(dir.path(), "-").await;
    create(&mut client, SECRETS, "plain").await;
    create(&mut client, CONFIG_MAPS, "other").await;
    server.shutdown().await;
    let (server, mut client) = start(dir.path(), "a-").await;
    create(&mut client, SECRETS, "locked").await;
    server.shutdown().await;
    // The server encrypts its own identity with the new key as soon as there is one.
    let (server, _) = start(dir.path(), "ba-").await;
    server.shutdown().await;

    let (server, mut client) = start(dir.path(), "b-").await;
    let answer = client.get(&format!("{SECRETS}/locked")).await;
    let why = "no matching key was found for the provided AES-GCM transformer";
    assert_eq!(answer.status, 500);
    let message = format!(
        "Internal error occurred: unable to transform key \"/registry/secrets/default/locked\": {why}"
    );
    assert_eq!(answer.json()["message"], json!(message));
    // As in Kubernetes, the list of its kind fails too.
    assert_eq!(client.get(SECRETS).await.status, 500);
    assert_eq!(client.get(&format!("{SECRETS}/plain")).await.status, 200);
    assert_eq!(client.get(CONFIG_MAPS).await.status, 200);
    server.shutdown().await;

    // The key restores access.
    let (server, mut client) = start(dir.path(), "ba-").await;
    assert_eq!(
        client.get(SECRETS).await.json()["items"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    server.shutdown().await;

    // Without a configuration, encrypted data is never read as plain text.
    let builder = configured(dir.path(), "").data_dir(dir.path().join("data"));
    let message = format!("{:?}", builder.start().await.err().unwrap());
    assert!(
        message.contains("identity transformer tried to read encrypted data"),
        "{message}"
    );
}

#[tokio::test]
async fn an_invalid_configuration_fails_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("encryption.yaml");
    fs::write(
        &file,
        "{apiVersion: apiserver.config.k8s.io/v1, kind: EncryptionConfiguration}",
    )
    .unwrap();
    let started = Server::builder()
        .data_dir(dir.path().join("data"))
        .encryption_provider_config(&file)
        .start()
        .await;
    let error = format!("{:?}", started.err().unwrap());
    assert!(error.contains("at least one resource is needed"), "{error}");
    assert!(!dir.path().join("data").exists());
}
