//! Connecting to etcd: addresses, certificates, members that are down, and the errors users see.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use watchkeeper_storage::{EtcdOptions, OpenError, Store, StoreOptions};

use crate::etcd::Etcd;
use crate::options;

async fn error(options: EtcdOptions) -> String {
    match Store::etcd(options, StoreOptions::default()).await {
        Err(error @ OpenError::Etcd(_)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn errors_name_the_cause() {
    let said = error(EtcdOptions::at([""; 0])).await;
    assert_eq!(said, "cannot use etcd: no server is given");
    let said = error(options("etcd:2379".to_owned())).await;
    assert_eq!(
        said,
        "cannot use etcd: server \"etcd:2379\" starts with neither http:// nor https://"
    );
    let files = EtcdOptions {
        ca_file: Some("/no/such/file".into()),
        ..options("https://127.0.0.1:1".to_owned())
    };
    let said = error(files).await;
    assert!(
        said.starts_with("cannot use etcd: cannot use /no/such/file: "),
        "{said}"
    );
    // Nothing listens on port 1.
    let said = error(options("http://127.0.0.1:1".to_owned())).await;
    assert!(
        said.starts_with("cannot use etcd: etcd at http://127.0.0.1:1: "),
        "{said}"
    );
    assert!(said.contains("refused"), "{said}");
}

#[tokio::test]
async fn a_member_that_does_not_answer_is_skipped() {
    let Some(etcd) = Etcd::start() else { return };
    let servers = EtcdOptions {
        servers: vec!["http://127.0.0.1:1".to_owned(), etcd.url()],
        ..options(String::new())
    };
    let store = Store::etcd(servers, StoreOptions::default()).await.unwrap();
    store.create("/a", "x".into(), None).await.unwrap();
}

/// Writes a CA, a server certificate and a client certificate.
fn write_certificates(dir: &Path) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&key).unwrap();
    std::fs::write(dir.join("ca.pem"), authority.pem()).unwrap();
    let issuer = Issuer::new(params, key);
    for (name, usage) in [
        ("server", ExtendedKeyUsagePurpose::ServerAuth),
        ("client", ExtendedKeyUsagePurpose::ClientAuth),
    ] {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        // etcd's gateway connects to its own server with the server's certificate.
        params.extended_key_usages = vec![usage, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        std::fs::write(dir.join(format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(dir.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }
}

#[tokio::test]
async fn certificates_are_presented_and_verified() {
    let files = tempfile::tempdir().unwrap();
    write_certificates(files.path());
    let file = |name: &str| files.path().join(name);
    let flags = |_: &Path| {
        let flag = |name: &str, path: &str| format!("--{name}={}", file(path).display());
        vec![
            flag("cert-file", "server.pem"),
            flag("key-file", "server.key"),
            flag("trusted-ca-file", "ca.pem"),
            "--client-cert-auth".to_owned(),
        ]
    };
    let Some(etcd) = Etcd::start_with(flags) else {
        return;
    };
    let trusting = EtcdOptions {
        ca_file: Some(file("ca.pem")),
        ..options(format!("https://127.0.0.1:{}", etcd.port()))
    };
    let known = EtcdOptions {
        cert_file: Some(file("client.pem")),
        key_file: Some(file("client.key")),
        ..trusting.clone()
    };
    let store = Store::etcd(known.clone(), StoreOptions::default()).await.unwrap();
    store.create("/a", "x".into(), None).await.unwrap();

    // It is a race whether etcd's reason arrives before the connection closes.
    let said = error(trusting).await;
    assert!(
        said.starts_with("cannot use etcd: etcd at https://127.0.0.1:"),
        "{said}"
    );
    let half = EtcdOptions {
        key_file: None,
        ..known
    };
    assert!(error(half).await.contains("a certificate needs its key"));
}
