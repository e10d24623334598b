//! Real TLS on loopback: trust, client certificates, protocols, rotation, and the ways a handshake fails.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{Answer, Server, answer, unlimited};
use bytes::Bytes;
use http::Request;
use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use watchkeeper_client::config::{
    Credentials, ExecConfig, ExecCredentials, IdentityConfig, InteractiveMode, Material,
};
use watchkeeper_client::{Body, Client, ClientOptions, Config, Error, SendOptions};

/// A certificate authority.
struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, as PEM.
#[derive(Clone)]
struct Pair {
    certificate: String,
    key: String,
}

impl Authority {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        Self {
            certificate,
            issuer: Issuer::new(params, key),
        }
    }

    fn issue(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Pair {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Pair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }

    fn server(&self) -> Pair {
        self.issue(&["127.0.0.1"], |_| {})
    }

    fn client(&self, name: &str) -> Pair {
        self.issue(&[], |params| {
            params.distinguished_name.push(DnType::CommonName, name)
        })
    }

    fn pem(&self) -> String {
        self.certificate.pem()
    }
}

/// The behaviour of the loopback server.
struct Tls {
    pair: Pair,
    clients: Option<String>,
    protocols: Vec<&'static str>,
}

impl Tls {
    fn new(pair: Pair) -> Self {
        Self {
            pair,
            clients: None,
            protocols: vec!["h2", "http/1.1"],
        }
    }

    fn config(&self) -> ServerConfig {
        use rustls::pki_types::pem::PemObject;
        use rustls::pki_types::{CertificateDer, PrivateKeyDer};
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match &self.clients {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let mut roots = RootCertStore::empty();
                roots
                    .add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap())
                    .unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let chain = vec![CertificateDer::from_pem_slice(self.pair.certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(self.pair.key.as_bytes()).unwrap();
        let mut config = builder.with_single_cert(chain, key).unwrap();
        config.alpn_protocols = self
            .protocols
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        config
    }

    /// Serves the script; returns the port, and the common names of the clients as they connect.
    async fn serve(self, server: &Server) -> (u16, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let acceptor = TlsAcceptor::from(Arc::new(self.config()));
        let (server, handshakes) = (server.clone(), Arc::<AtomicUsize>::default());
        let count = handshakes.clone();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (acceptor, server, count) = (acceptor.clone(), server.clone(), count.clone());
                tokio::spawn(async move {
                    if let Ok(io) = acceptor.accept(tcp).await {
                        count.fetch_add(1, Ordering::SeqCst);
                        server.serve(io).await;
                    }
                });
            }
        });
        (port, handshakes)
    }
}

fn inline(pem: &str) -> Material {
    Material::Inline(pem.as_bytes().into())
}

fn config(port: u16, authority: Option<&Authority>) -> Config {
    let mut config = Config::new(format!("https://127.0.0.1:{port}").parse().unwrap());
    config.tls.authority = authority.map(|authority| inline(&authority.pem()));
    config
}

async fn get(client: &Client) -> Result<Bytes, Error> {
    client.get_raw("/version", 1 << 20).await
}

/// A stream that stays open.
async fn watch(client: &Client) -> Body {
    let request = Request::get("/watch").body(Bytes::new()).unwrap();
    let options = SendOptions {
        watch: true,
        ..Default::default()
    };
    client.send(request, &options).await.unwrap().into_body()
}

fn chain(error: &Error) -> String {
    std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source())
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

/// Sends one request and expects an error that ends like this.
async fn refused(config: &Config, expected: &str) {
    let error = get(&Client::new(config, unlimited()).unwrap()).await.unwrap_err();
    let text = chain(&error);
    assert!(
        text.contains(&format!(
            "https://{}/version: ",
            config.server.authority().unwrap()
        )),
        "{text}"
    );
    assert!(text.contains(expected), "{text}");
}

#[tokio::test]
async fn http2_is_used_if_the_server_supports_it() {
    let authority = Authority::new("ca");
    for (protocols, version) in [
        (vec!["h2", "http/1.1"], http::Version::HTTP_2),
        (vec!["http/1.1"], http::Version::HTTP_11),
    ] {
        let server = Server::new((0..3).map(|_| answer(200, &[], "ok")));
        let (port, handshakes) = Tls {
            protocols,
            ..Tls::new(authority.server())
        }
        .serve(&server)
        .await;
        let client = Client::new(&config(port, Some(&authority)), unlimited()).unwrap();
        for _ in 0..3 {
            assert_eq!(get(&client).await.unwrap(), "ok");
        }
        assert!(server.seen().iter().all(|seen| seen.version == version));
        assert_eq!(handshakes.load(Ordering::SeqCst), 1, "one connection serves all");
    }
}

/// A client whose single requests use HTTP/1.1.
fn loopback_client(port: u16, authority: &Authority) -> Client {
    let options = ClientOptions {
        loopback_http1: true,
        ..unlimited()
    };
    Client::new(&config(port, Some(authority)), options).unwrap()
}

#[tokio::test]
async fn single_requests_to_this_machine_use_http1() {
    let authority = Authority::new("ca");
    let (watched, _events) = crate::support::streamed("application/json");
    let (long, long_end) = crate::support::streamed("application/json");
    let ok = || answer(200, &[], "ok");
    let server = Server::new([ok(), ok(), watched, long, ok(), ok()]);
    let (port, handshakes) = Tls::new(authority.server()).serve(&server).await;
    let client = loopback_client(port, &authority);
    for _ in 0..2 {
        get(&client).await.unwrap();
    }
    let watch = watch(&client).await;
    let request = Request::get("/long").body(Bytes::new()).unwrap();
    let long = client.send(request, &SendOptions::default()).await;
    let mut long = long.unwrap().into_body();
    get(&client).await.unwrap();
    drop(long_end);
    long.collect(1).await.unwrap();
    get(&client).await.unwrap();
    drop(watch);
    let spoken: Vec<_> = server.seen().iter().map(|seen| seen.version).collect();
    let (alone, shared) = (http::Version::HTTP_11, http::Version::HTTP_2);
    assert_eq!(spoken, [alone, alone, shared, alone, shared, alone]);
    assert_eq!(handshakes.load(Ordering::SeqCst), 2, "one of each protocol");
}

#[tokio::test]
async fn a_local_server_without_http1_is_tried_once() {
    let authority = Authority::new("ca");
    let server = Server::new((0..3).map(|_| answer(200, &[], "ok")));
    let tls = Tls {
        protocols: vec!["h2"],
        ..Tls::new(authority.server())
    };
    let (port, handshakes) = tls.serve(&server).await;
    let client = loopback_client(port, &authority);
    for _ in 0..3 {
        assert_eq!(get(&client).await.unwrap(), "ok");
    }
    assert!(
        server
            .seen()
            .iter()
            .all(|seen| seen.version == http::Version::HTTP_2)
    );
    assert_eq!(handshakes.load(Ordering::SeqCst), 1);
}

/// Ten concurrent callers, each with one request at a time: all but the first share a connection.
#[tokio::test]
async fn concurrent_requests_share_a_connection() {
    let authority = Authority::new("ca");
    let server = Server::new((0..100).map(|_| answer(200, &[], "ok")));
    let (port, handshakes) = Tls::new(authority.server()).serve(&server).await;
    let client = loopback_client(port, &authority);
    let ask = async || {
        for _ in 0..10 {
            get(&client).await.unwrap();
        }
    };
    futures_util::future::join_all((0..10).map(|_| ask())).await;
    let seen = server.seen();
    let shared = seen.iter().filter(|seen| seen.version == http::Version::HTTP_2);
    assert!(shared.count() > 50);
    assert_eq!(handshakes.load(Ordering::SeqCst), 2);
}

/// A server that closes the first connection: the next request gets a new one.
#[tokio::test]
async fn a_failed_handshake_is_reported_and_the_next_request_retries() {
    let authority = Authority::new("ca");
    let server = Server::new([answer(200, &[], "ok")]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor = TlsAcceptor::from(Arc::new(Tls::new(authority.server()).config()));
    let serving = server.clone();
    tokio::spawn(async move {
        drop(listener.accept().await.unwrap());
        let (tcp, _) = listener.accept().await.unwrap();
        serving.serve(acceptor.accept(tcp).await.unwrap()).await;
    });
    let client = loopback_client(port, &authority);
    let error = get(&client).await.unwrap_err();
    assert!(chain(&error).contains("TLS handshake with"), "{}", chain(&error));
    assert_eq!(get(&client).await.unwrap(), "ok");
    assert_eq!(server.seen()[0].version, http::Version::HTTP_11);
}

#[tokio::test]
async fn a_cut_http1_connection_is_replaced() {
    let authority = Authority::new("ca");
    let server = Server::new([Answer::Cut, answer(200, &[], "ok"), answer(200, &[], "ok")]);
    let (port, handshakes) = Tls::new(authority.server()).serve(&server).await;
    let client = loopback_client(port, &authority);
    let post = Request::post("/x").body(Bytes::new()).unwrap();
    let lost = client.send(post, &SendOptions::default()).await.unwrap_err();
    assert!(
        chain(&lost).contains("the connection was lost before the answer came"),
        "{}",
        chain(&lost)
    );
    for _ in 0..2 {
        assert_eq!(get(&client).await.unwrap(), "ok");
    }
    let spoken: Vec<_> = server.seen().iter().map(|seen| seen.version).collect();
    assert_eq!(spoken, [http::Version::HTTP_11; 3]);
    assert_eq!(handshakes.load(Ordering::SeqCst), 2);
}

/// Once a server is known to support only HTTP/1.1, every request gets its own connection and waits for no other.
/// This server accepts only two handshakes at a time.
#[tokio::test]
async fn http1_connections_are_opened_concurrently() {
    let authority = Authority::new("ca");
    let tls = Tls {
        protocols: vec!["http/1.1"],
        ..Tls::new(authority.server())
    };
    let server = Server::new((0..3).map(|_| answer(200, &[], "ok")));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor = TlsAcceptor::from(Arc::new(tls.config()));
    let serving = server.clone();
    tokio::spawn(async move {
        let pair = Arc::new(tokio::sync::Barrier::new(2));
        for index in 0.. {
            let (tcp, _) = listener.accept().await.unwrap();
            let (acceptor, server, pair) = (acceptor.clone(), serving.clone(), pair.clone());
            tokio::spawn(async move {
                if index > 0 {
                    pair.wait().await;
                }
                server.serve(acceptor.accept(tcp).await.unwrap()).await;
            });
        }
    });
    let client = Client::new(&config(port, Some(&authority)), unlimited()).unwrap();
    let (first, second, third) = tokio::join!(get(&client), get(&client), get(&client));
    assert!(first.is_ok() && second.is_ok() && third.is_ok());
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn servers_that_cannot_be_trusted_are_refused() {
    let (authority, stranger) = (Authority::new("ca"), Authority::new("stranger"));
    let server = Server::default();
    let (port, _) = Tls::new(authority.server()).serve(&server).await;
    refused(&config(port, Some(&stranger)), "TLS handshake with 127.0.0.1").await;
    refused(&config(port, Some(&stranger)), "invalid peer certificate").await;
    let mut misnamed = config(port, Some(&authority));
    misnamed.tls.server_name = Some("kube.example".to_owned());
    refused(&misnamed, "certificate not valid for name \"kube.example\"").await;

    let old = authority.issue(&["127.0.0.1"], |params| {
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    });
    let (port, _) = Tls::new(old).serve(&server).await;
    refused(&config(port, Some(&authority)), "certificate expired").await;
    assert!(server.seen().is_empty(), "nothing was sent");
}

#[tokio::test]
async fn the_expected_server_name_can_be_configured() {
    let authority = Authority::new("ca");
    let server = Server::new([answer(200, &[], "ok")]);
    let (port, _) = Tls::new(authority.issue(&["kube.example"], |_| {}))
        .serve(&server)
        .await;
    let mut config = config(port, Some(&authority));
    refused(&config, "certificate not valid for name \"127.0.0.1\"").await;
    config.tls.server_name = Some("kube.example".to_owned());
    assert_eq!(
        get(&Client::new(&config, unlimited()).unwrap()).await.unwrap(),
        "ok"
    );
}

#[tokio::test]
async fn a_self_signed_server_is_trusted_as_its_own_authority() {
    let own = |names: &[&str]| {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        Pair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    };
    let server = Server::new([answer(200, &[], "ok")]);
    for (names, trusted) in [(["127.0.0.1"], true), (["kube.example"], false)] {
        let pair = own(&names);
        let (port, _) = Tls::new(pair.clone()).serve(&server).await;
        let mut config = config(port, None);
        config.tls.authority = Some(inline(&pair.certificate));
        match trusted {
            true => assert_eq!(
                get(&Client::new(&config, unlimited()).unwrap()).await.unwrap(),
                "ok"
            ),
            false => refused(&config, "not valid for name").await,
        }
    }
}

#[tokio::test]
async fn verification_can_be_switched_off() {
    let server = Server::new([answer(200, &[], "ok")]);
    let (port, _) = Tls::new(Authority::new("ca").issue(&["elsewhere"], |_| {}))
        .serve(&server)
        .await;
    let mut config = config(port, None);
    config.tls.insecure_skip_verify = true;
    assert_eq!(
        get(&Client::new(&config, unlimited()).unwrap()).await.unwrap(),
        "ok"
    );
}

#[tokio::test]
async fn client_certificates_are_sent() {
    let authority = Authority::new("ca");
    let server = Server::new([answer(200, &[], "ok")]);
    let tls = Tls {
        clients: Some(authority.pem()),
        ..Tls::new(authority.server())
    };
    let (port, _) = tls.serve(&server).await;
    let mut config = config(port, Some(&authority));
    let error = get(&Client::new(&config, unlimited()).unwrap())
        .await
        .unwrap_err();
    let address = format!("127.0.0.1:{port}");
    assert_eq!(
        chain(&error),
        format!(
            "GET https://{address}/version: TLS handshake with {address} failed: received fatal alert: \
             CertificateRequired"
        )
    );

    let pair = authority.client("alice");
    config.tls.identity = Some(IdentityConfig {
        certificate: inline(&pair.certificate),
        key: inline(&pair.key),
    });
    assert_eq!(
        get(&Client::new(&config, unlimited()).unwrap()).await.unwrap(),
        "ok"
    );

    let other = authority.client("bob");
    config.tls.identity = Some(IdentityConfig {
        certificate: inline(&pair.certificate),
        key: inline(&other.key),
    });
    let error = Client::new(&config, unlimited()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "client key: does not belong to the client certificate"
    );
}

/// Keys as OpenSSL writes them, in each of the three forms.
#[tokio::test]
async fn all_three_forms_of_keys_are_read() {
    for key in ["rsa.pkcs1.pem", "rsa.pkcs8.pem", "ec.sec1.pem"] {
        let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/client/keys");
        let mut config = config(1, None);
        config.tls.insecure_skip_verify = true;
        let certificate = directory
            .join(key.split('.').next().unwrap())
            .with_extension("crt");
        config.tls.identity = Some(IdentityConfig {
            certificate: Material::File(certificate),
            key: Material::File(directory.join(key)),
        });
        Client::new(&config, unlimited()).unwrap_or_else(|error| panic!("{key}: {error}"));
    }
}

#[tokio::test]
async fn rotated_certificates_are_used_and_live_streams_go_on() {
    let authority = Authority::new("ca");
    let (stream, sender) = crate::support::streamed("application/json");
    let server = Server::new([stream, answer(200, &[], "ok"), answer(200, &[], "ok")]);
    let tls = Tls {
        clients: Some(authority.pem()),
        ..Tls::new(authority.server())
    };
    let (port, handshakes) = tls.serve(&server).await;

    let directory = tempfile::tempdir().unwrap();
    let write = |pair: &Pair| {
        std::fs::write(directory.path().join("crt"), &pair.certificate).unwrap();
        std::fs::write(directory.path().join("key"), &pair.key).unwrap();
    };
    write(&authority.client("alice"));
    let mut config = config(port, Some(&authority));
    config.tls.identity = Some(IdentityConfig {
        certificate: Material::File(directory.path().join("crt")),
        key: Material::File(directory.path().join("key")),
    });
    let client = Client::new(&config, unlimited()).unwrap();
    let mut body = watch(&client).await;
    get(&client).await.unwrap();
    assert_eq!(handshakes.load(Ordering::SeqCst), 1);

    // A minute later the files have changed.
    write(&authority.client("alice, renewed"));
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
    get(&client).await.unwrap();
    assert_eq!(
        handshakes.load(Ordering::SeqCst),
        2,
        "new requests show the new certificate"
    );
    sender.send(Ok(Bytes::from_static(b"still here"))).unwrap();
    assert_eq!(body.chunk().await.unwrap().unwrap(), "still here");
}

#[tokio::test]
async fn a_new_authority_is_trusted_without_a_restart() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let server = Server::new([answer(200, &[], "ok")]);
    let (port, _) = Tls::new(new.server()).serve(&server).await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ca.crt");
    std::fs::write(&path, old.pem()).unwrap();
    let mut config = config(port, None);
    config.tls.authority = Some(Material::File(path.clone()));
    let client = Client::new(&config, unlimited()).unwrap();
    assert!(get(&client).await.is_err());

    std::fs::write(&path, new.pem()).unwrap();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
    assert_eq!(get(&client).await.unwrap(), "ok");
}

#[cfg(unix)]
#[tokio::test]
async fn certificates_of_a_plugin_are_replaced_when_they_are_refused_and_live_streams_go_on() {
    let authority = Authority::new("ca");
    let (stream, sender) = crate::support::streamed("application/json");
    let server = Server::new([stream, answer(401, &[], ""), answer(200, &[], "ok")]);
    let tls = Tls {
        clients: Some(authority.pem()),
        ..Tls::new(authority.server())
    };
    let (port, handshakes) = tls.serve(&server).await;

    let directory = tempfile::tempdir().unwrap();
    for (run, name) in ["first", "second"].iter().enumerate() {
        let pair = authority.client(name);
        let credential = serde_json::json!({
            "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
            "status": {"clientCertificateData": pair.certificate, "clientKeyData": pair.key},
        });
        std::fs::write(directory.path().join(run.to_string()), credential.to_string()).unwrap();
    }
    // Prints the first file, and the second one on its second run.
    let script = "cat \"$1/$(ls \"$1\" | grep -c ran)\"; touch \"$1/ran.$$\"";
    let mut config = config(port, Some(&authority));
    config.credentials = Credentials::Exec(ExecCredentials {
        plugin: ExecConfig {
            api_version: "client.authentication.k8s.io/v1".to_owned(),
            command: "/bin/sh".to_owned(),
            args: vec![
                "-c".to_owned(),
                script.to_owned(),
                "plugin".to_owned(),
                directory.path().display().to_string(),
            ],
            interactive_mode: Some(InteractiveMode::Never),
            ..Default::default()
        },
        cluster: None,
    });
    let client = Client::new(&config, unlimited()).unwrap();
    let mut body = watch(&client).await;
    assert_eq!(get(&client).await.unwrap(), "ok");
    assert_eq!(handshakes.load(Ordering::SeqCst), 2);
    sender.send(Ok(Bytes::from_static(b"still here"))).unwrap();
    assert_eq!(body.chunk().await.unwrap().unwrap(), "still here");
}

#[tokio::test]
async fn a_refused_port_fails_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let error = get(&Client::new(&config(port, None), unlimited()).unwrap())
        .await
        .unwrap_err();
    assert!(error.is_connection_refused());
    assert_eq!(
        chain(&error),
        format!(
            "GET https://127.0.0.1:{port}/version: cannot connect to 127.0.0.1:{port}: Connection refused (os error 111)"
        )
    );
}

#[tokio::test(start_paused = true)]
async fn a_hanging_handshake_ends_after_ten_seconds() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.unwrap();
        // Reads and never answers.
        let mut sink = Vec::new();
        let _ = tcp.read_to_end(&mut sink).await;
    });
    let error = get(&Client::new(&config(port, None), unlimited()).unwrap())
        .await
        .unwrap_err();
    assert_eq!(
        chain(&error),
        format!(
            "GET https://127.0.0.1:{port}/version: TLS handshake with 127.0.0.1:{port} took longer than 10s"
        )
    );
}

#[tokio::test]
async fn a_server_without_tls_is_named() {
    use tokio::io::AsyncWriteExt;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.unwrap();
        tcp.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        let mut sink = Vec::new();
        let _ = tcp.read_to_end(&mut sink).await;
    });
    refused(&config(port, None), "TLS handshake with 127.0.0.1").await;
}

#[tokio::test]
async fn tokens_are_not_sent_without_tls() {
    let server = Server::new([answer(200, &[], "ok")]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = server.clone();
    tokio::spawn(async move { serving.serve(listener.accept().await.unwrap().0).await });
    let mut config = Config::new(format!("http://127.0.0.1:{port}").parse().unwrap());
    config.credentials = Credentials::Token(watchkeeper_client::Secret::new("hunter2"));
    assert_eq!(
        get(&Client::new(&config, unlimited()).unwrap()).await.unwrap(),
        "ok"
    );
    assert!(!server.seen()[0].headers.contains_key("authorization"));
    assert_eq!(server.seen()[0].headers["host"], format!("127.0.0.1:{port}"));
}

#[tokio::test]
async fn a_proxy_is_asked_for_a_tunnel() {
    use tokio::io::AsyncWriteExt;
    let authority = Authority::new("ca");
    let server = Server::new([answer(200, &[], "ok")]);
    let (port, _) = Tls::new(authority.issue(&["kube.example"], |_| {}))
        .serve(&server)
        .await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = listener.local_addr().unwrap();
    let asked = tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(tcp.read_u8().await.unwrap());
        }
        tcp.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let mut behind = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        tokio::spawn(async move { tokio::io::copy_bidirectional(&mut tcp, &mut behind).await });
        String::from_utf8(head).unwrap()
    });
    let mut config = Config::new("https://kube.example:6443".parse().unwrap());
    config.tls.authority = Some(inline(&authority.pem()));
    config.proxy = Some(watchkeeper_client::config::Proxy::parse(&format!("http://u:p@{proxy}")).unwrap());
    assert_eq!(
        get(&Client::new(&config, unlimited()).unwrap()).await.unwrap(),
        "ok"
    );
    assert_eq!(
        asked.await.unwrap(),
        "CONNECT kube.example:6443 HTTP/1.1\r\nHost: kube.example:6443\r\nProxy-Authorization: Basic dTpw\r\n\r\n"
    );
    let packed = &server.seen()[0].headers["accept-encoding"];
    assert_eq!(packed, "gzip", "a remote server may compress");
}

#[tokio::test(start_paused = true)]
async fn a_silent_proxy_times_out_after_ten_seconds() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.unwrap();
        let _ = tcp.read_to_end(&mut Vec::new()).await;
    });
    let mut config = Config::new("https://kube.example:6443".parse().unwrap());
    config.proxy = Some(watchkeeper_client::config::Proxy::parse(&format!("http://{proxy}")).unwrap());
    let error = get(&Client::new(&config, unlimited()).unwrap())
        .await
        .unwrap_err();
    assert_eq!(
        chain(&error),
        "GET https://kube.example:6443/version: connect with kube.example:6443 took longer than 10s"
    );
}

/// Connections are driven by tasks of the runtime that opened them, so they end with it.
#[test]
fn a_client_can_be_used_after_the_runtime_that_opened_its_connections() {
    let runtime = || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap()
    };
    let authority = Authority::new("ca");
    let (watched, _events) = crate::support::streamed("application/json");
    let (watched_again, _more_events) = crate::support::streamed("application/json");
    let ok = || answer(200, &[], "ok");
    let server = Server::new([watched, ok(), ok(), watched_again, ok()]);
    let serving = tokio::runtime::Runtime::new().unwrap();
    let (port, _handshakes) = serving.block_on(Tls::new(authority.server()).serve(&server));
    let client = loopback_client(port, &authority);
    let (first, second) = (runtime(), runtime());
    let lost = first.block_on(async {
        let watched = watch(&client).await;
        get(&client).await.unwrap();
        watched
    });
    drop(first);
    second.block_on(async {
        get(&client).await.unwrap();
        let _watched = watch(&client).await;
        get(&client).await.unwrap();
    });
    drop(lost);
}
