//! Keys and certificates of the operator: used, trusted, and replaced while the server runs.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use ::http::Method;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, PKCS_RSA_SHA256,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use watchkeeper_server::{
    ClientCertificate, FrontProxy, Handle, IdentityFiles, Server, ServingCertificate, ServingFiles,
    StartError,
};

use crate::client::Client;

/// An external authority, and a directory for its certificates.
struct Operator {
    directory: TempDir,
}

/// Signs client certificates.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = subject(name, None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Self { pem, issuer }
    }

    fn client(&self, name: &str, group: Option<&str>) -> ClientCertificate {
        let key = KeyPair::generate().unwrap();
        let certificate = subject(name, group).signed_by(&key, &self.issuer).unwrap();
        ClientCertificate {
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
        }
    }
}

fn subject(name: &str, group: Option<&str>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    if let Some(group) = group {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    params
}

impl Operator {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    /// Replaces a file atomically, as certificate rotation does.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let (new, path) = (
            self.directory.path().join("new"),
            self.directory.path().join(name),
        );
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, &path).unwrap();
        path
    }

    /// Writes a certificate for the listener; returns what clients can trust.
    fn serving(&self) -> (ServingFiles, String) {
        let made = ServingCertificate::new(IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
        let end = made.chain_pem.find("-----END").unwrap();
        let authority = made.chain_pem[end..].find("-----BEGIN").unwrap();
        let files = ServingFiles {
            certificate: self.write("serving.crt", &made.chain_pem),
            key: self.write("serving.key", &made.key_pem),
        };
        (files, made.chain_pem[end + authority..].to_owned())
    }
}

async fn start(files: IdentityFiles) -> Handle {
    let server = Server::builder()
        .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        .identity_files(files);
    server.start().await.unwrap()
}

async fn status(server: &Handle, authority: &str, client: Option<&ClientCertificate>) -> u16 {
    let mut client = Client::tls_to(server.address().unwrap(), authority, b"h2", client).await;
    client.get("/metrics").await.status
}

#[tokio::test]
async fn a_configured_certificate_is_used_and_replaced_without_a_restart() {
    let operator = Operator::new();
    let (serving, before) = operator.serving();
    let server = start(IdentityFiles {
        serving: Some(serving),
        ..IdentityFiles::default()
    })
    .await;
    assert_eq!(status(&server, &before, None).await, 403);

    let (_, after) = operator.serving();
    assert_ne!(before, after);
    assert_eq!(status(&server, &after, None).await, 403);

    // An incomplete or invalid rotation leaves the old certificate in use.
    operator.write("serving.key", "not a key");
    assert_eq!(status(&server, &after, None).await, 403);
    server.shutdown().await;
}

#[tokio::test]
async fn a_configured_client_authority_is_trusted_and_can_be_replaced() {
    let operator = Operator::new();
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let server = start(IdentityFiles {
        client_ca: Some(operator.write("ca.crt", &old.pem)),
        ..IdentityFiles::default()
    })
    .await;
    let authority = server.authority_pem().unwrap();
    let master = old.client("zoe", Some("system:masters"));
    assert_eq!(status(&server, &authority, Some(&master)).await, 200);
    let nobody = old.client("zoe", None);
    assert_eq!(status(&server, &authority, Some(&nobody)).await, 403);
    // Certificates of the server's own authority are accepted, too.
    let own = server.client_certificate("zoe", Some("system:masters"));
    assert_eq!(
        status(&server, &authority, Some(&own.unwrap().unwrap())).await,
        200
    );

    operator.write("ca.crt", &new.pem);
    let master = new.client("zoe", Some("system:masters"));
    assert_eq!(status(&server, &authority, Some(&master)).await, 200);
    server.shutdown().await;
}

/// The user of a request with these headers.
async fn user(client: &mut Client, headers: &[(&str, &str)]) -> Result<String, u16> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answer = client
        .send(Method::POST, path, headers, &review.to_string())
        .await;
    match answer.status {
        201 => {
            let info = &answer.json()["status"]["userInfo"];
            Ok(format!("{} {}", info["username"], info["groups"]))
        }
        status => Err(status),
    }
}

#[tokio::test]
async fn only_a_trusted_proxy_can_name_users_in_headers() {
    let operator = Operator::new();
    let (users, proxies) = (Authority::new("users"), Authority::new("proxies"));
    let server = start(IdentityFiles {
        client_ca: Some(operator.write("users.crt", &users.pem)),
        front_proxy: Some(FrontProxy {
            client_ca: operator.write("proxies.crt", &proxies.pem),
            allowed_names: vec!["front".to_owned()],
            username_headers: vec!["X-Remote-User".to_owned()],
            group_headers: vec!["X-Remote-Group".to_owned()],
            ..FrontProxy::default()
        }),
        ..IdentityFiles::default()
    })
    .await;
    let (address, authority) = (server.address().unwrap(), server.authority_pem().unwrap());
    let headers = [
        ("content-type", "application/json"),
        ("x-remote-user", "zoe"),
        ("x-remote-group", "dev"),
    ];
    for (certificate, expected) in [
        (
            proxies.client("front", None),
            Ok("\"zoe\" [\"dev\",\"system:authenticated\"]".to_owned()),
        ),
        // Signed by the right authority, but its name is not allowed; and it is not a user either.
        (proxies.client("back", Some("system:masters")), Err(403)),
        (
            users.client("front", None),
            Ok("\"front\" [\"system:authenticated\"]".to_owned()),
        ),
    ] {
        let mut client = Client::tls_to(address, &authority, b"h2", Some(&certificate)).await;
        assert_eq!(user(&mut client, &headers).await, expected);
    }
    server.shutdown().await;
}

/// A service account token, with its header and claims.
async fn token(client: &mut Client) -> (String, Value, Value) {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let json_body = [("content-type", "application/json")];
    client
        .send(Method::POST, accounts, &json_body, &account.to_string())
        .await;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let path = format!("{accounts}/robot/token");
    let answer = client
        .send(Method::POST, &path, &json_body, &request.to_string())
        .await;
    let token = answer.json()["status"]["token"].as_str().unwrap().to_owned();
    let part = |index: usize| {
        let part = token.split('.').nth(index).unwrap();
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
    };
    let (header, claims) = (part(0), part(1));
    (token, header, claims)
}

#[tokio::test]
async fn tokens_are_signed_and_verified_with_configured_keys() {
    let operator = Operator::new();
    let rsa = KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap();
    let certificate = subject("signer", None).self_signed(&rsa).unwrap();
    let key = operator.write("sa.key", &rsa.serialize_pem());
    let certificate = operator.write("sa.crt", &certificate.pem());
    let start = |files: IdentityFiles, issuers: &'static [&'static str]| async move {
        let server = Server::builder()
            .identity_files(files)
            .service_account_issuers(issuers.iter().copied());
        let server = server.start().await.unwrap();
        let connection = server.connector().connect().await.unwrap();
        let client = Client::http2(connection).await.with_token(&server);
        (server, client)
    };
    let signs = IdentityFiles {
        service_account_signing_key: Some(key.clone()),
        service_account_keys: vec![certificate.clone()],
        ..IdentityFiles::default()
    };
    let (server, mut client) = start(signs, &["https://one.example", "https://two.example"]).await;
    let (token, header, claims) = token(&mut client).await;
    assert_eq!(
        (&header["alg"], &claims["iss"]),
        (&json!("RS256"), &json!("https://one.example"))
    );
    let keys = client.get("/openid/v1/jwks").await.json();
    assert_eq!(keys["keys"].as_array().unwrap().len(), 1, "{keys}");
    assert_eq!(keys["keys"][0]["kid"], header["kid"]);
    let bearer = format!("Bearer {token}");
    let own = [
        ("content-type", "application/json"),
        ("authorization", bearer.as_str()),
    ];
    let connection = server.connector().connect().await.unwrap();
    let named = user(&mut Client::http2(connection).await, &own).await.unwrap();
    assert!(
        named.starts_with("\"system:serviceaccount:default:robot\""),
        "{named}"
    );

    // A private key verifies like its public key.
    let knows = IdentityFiles {
        service_account_keys: vec![key],
        ..IdentityFiles::default()
    };
    let (other, mut client) = start(knows, &[]).await;
    let keys = client.get("/openid/v1/jwks").await.json();
    let known = keys["keys"].as_array().unwrap().iter().map(|key| &key["kid"]);
    assert!(known.into_iter().any(|id| *id == header["kid"]), "{keys}");
    other.shutdown().await;
    server.shutdown().await;
}

#[tokio::test]
async fn an_unusable_file_is_named() {
    let operator = Operator::new();
    let path = operator.write("some.key", "no key at all");
    let refused = |files: IdentityFiles| async {
        let server = Server::builder().identity_files(files);
        let error = server.start().await.unwrap_err();
        assert!(matches!(error, StartError::IdentityFile(_)), "{error}");
        std::error::Error::source(&error).unwrap().to_string()
    };
    let text = refused(IdentityFiles {
        service_account_signing_key: Some(path.clone()),
        ..IdentityFiles::default()
    });
    assert_eq!(text.await, format!("{} contains no private key", path.display()));
    let text = refused(IdentityFiles {
        service_account_keys: vec![Path::new("/nowhere").to_owned()],
        ..IdentityFiles::default()
    });
    assert_eq!(text.await, "cannot read /nowhere");
}
