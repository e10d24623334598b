//! The embedded server through real proxies: each type, with and without credentials, for requests and watches.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use watchkeeper_client::config::{Credentials, Material, Proxy as ProxyConfig};
use watchkeeper_client::{Client, Config, Secret, WatchEvent};
use watchkeeper_meta::Resource;
use watchkeeper_server::{Handle, Server};

use super::unlimited;

const LOGIN: &str = "user:secret";

/// `user:secret` in HTTP basic authentication.
const BASIC: &str = "Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=";

/// A proxy between client and server.
struct Proxy {
    address: SocketAddr,
    /// The requested addresses, in order.
    asked: Arc<Mutex<Vec<String>>>,
}

/// The protocol of a proxy.
#[derive(Clone)]
enum Protocol {
    Http,
    Https(TlsAcceptor),
    Socks5,
}

impl Proxy {
    async fn start(protocol: Protocol, server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let notes = asked.clone();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (protocol, notes) = (protocol.clone(), notes.clone());
                tokio::spawn(async move {
                    match protocol {
                        Protocol::Http => relay(connect(tcp).await?, server, &notes).await,
                        Protocol::Https(tls) => {
                            relay(connect(tls.accept(tcp).await?).await?, server, &notes).await
                        }
                        Protocol::Socks5 => relay(socks5(tcp).await?, server, &notes).await,
                    }
                });
            }
        });
        Self { address, asked }
    }
}

/// The client's connection, and the requested address.
type Asked<S> = (S, String);

/// Relays bytes to the server, whatever address was requested.
async fn relay<S>(
    (mut client, target): Asked<S>,
    server: SocketAddr,
    notes: &Mutex<Vec<String>>,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    notes.lock().unwrap().push(target);
    let mut server = TcpStream::connect(server).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server)
        .await
        .map(drop)
}

/// The handshake of an HTTP proxy, up to the tunnel.
async fn connect<S: AsyncRead + AsyncWrite + Unpin>(mut io: S) -> io::Result<Asked<S>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(io.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head);
    if !head.contains(BASIC) {
        io.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            .await?;
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
    io.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
        .await?;
    Ok((io, target))
}

/// The handshake of a SOCKS 5 proxy with authentication, up to the connection.
async fn socks5(mut io: TcpStream) -> io::Result<Asked<TcpStream>> {
    let mut greeting = [0; 3];
    io.read_exact(&mut greeting).await?;
    io.write_all(&[5, 2]).await?;
    assert_eq!(io.read_u8().await?, 1);
    let login = [read_short(&mut io).await?, read_short(&mut io).await?].join(":");
    io.write_all(&[1, u8::from(login != LOGIN)]).await?;
    let mut request = [0; 4];
    io.read_exact(&mut request).await?;
    let host = match request[3] {
        1 => Ipv4Addr::from(io.read_u32().await?).to_string(),
        3 => read_short(&mut io).await?,
        kind => panic!("address kind {kind}"),
    };
    let target = format!("{host}:{}", io.read_u16().await?);
    io.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    Ok((io, target))
}

async fn read_short(io: &mut TcpStream) -> io::Result<String> {
    let mut text = vec![0; usize::from(io.read_u8().await?)];
    io.read_exact(&mut text).await?;
    Ok(String::from_utf8(text).unwrap())
}

/// A self-signed certificate for a proxy.
fn own_certificate() -> (TlsAcceptor, String) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    (TlsAcceptor::from(Arc::new(config)), certificate.pem())
}

async fn start() -> (Handle, SocketAddr) {
    let free_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Server::builder()
        .in_memory()
        .listen(free_port)
        .start()
        .await
        .unwrap();
    let address = server.address().unwrap();
    (server, address)
}

/// A client through a proxy; `authorities` are trusted in addition to the server's.
fn through(server: &Handle, proxy_url: &str, authorities: &str) -> Client {
    let mut config = Config::new(format!("https://{}", server.address().unwrap()).parse().unwrap());
    let authority = server.authority_pem().unwrap() + authorities;
    config.tls.authority = Some(Material::Inline(authority.into_bytes().into()));
    config.credentials = Credentials::Token(Secret::new(server.admin_token().reveal()));
    config.proxy = Some(ProxyConfig::parse(proxy_url).unwrap());
    Client::new(&config, unlimited()).unwrap()
}

fn config_maps() -> Resource {
    Resource::namespaced("", "v1", "ConfigMap", "configmaps")
}

async fn works_through(scheme: &str, protocol: Protocol, authorities: &str) {
    let (server, address) = start().await;
    let proxy = Proxy::start(protocol, address).await;
    let client = through(
        &server,
        &format!("{scheme}://{LOGIN}@{}", proxy.address),
        authorities,
    );
    let maps = client.dynamic(config_maps()).namespace("default");
    let mut watch = maps.watch().await.unwrap();
    let map = json!({"metadata": {"name": "settings"}});
    maps.create(&map).await.unwrap();
    loop {
        if let WatchEvent::Added(object) = watch.next().await.unwrap().unwrap()
            && object.name() == "settings"
        {
            break;
        }
    }
    let mut socket = maps.watch_websocket().await.unwrap();
    assert!(socket.next().await.unwrap().is_ok());
    let target = address.to_string();
    assert_eq!(
        *proxy.asked.lock().unwrap(),
        [target.clone(), target],
        "one for HTTP/2, one for the upgrade"
    );
    drop((watch, socket, client));
    server.shutdown().await;
}

#[tokio::test]
async fn an_http_proxy_opens_tunnels() {
    works_through("http", Protocol::Http, "").await;
}

#[tokio::test]
async fn an_https_proxy_opens_tunnels() {
    let (tls, authority) = own_certificate();
    works_through("https", Protocol::Https(tls), &authority).await;
}

#[tokio::test]
async fn a_socks_proxy_connects() {
    works_through("socks5", Protocol::Socks5, "").await;
}

#[tokio::test]
async fn errors_name_the_proxy_that_refused() {
    async fn check(scheme: &str, protocol: Protocol, expected: &str) {
        let (server, address) = start().await;
        let proxy = Proxy::start(protocol, address).await;
        let client = through(&server, &format!("{scheme}://user:wrong@{}", proxy.address), "");
        let error = client.get_raw("/version", 1 << 20).await.unwrap_err().to_string();
        let expected = format!(
            "proxy {} does not connect to {address}: {expected}",
            proxy.address
        );
        assert!(error.contains(&expected), "{error}");
        assert!(!error.contains("wrong"), "{error}");
        server.shutdown().await;
    }
    let (tls, _) = own_certificate();
    check(
        "http",
        Protocol::Http,
        "it answered \"HTTP/1.1 407 Proxy Authentication Required\"",
    )
    .await;
    check("socks5", Protocol::Socks5, "it does not accept user and password").await;
    check(
        "https",
        Protocol::Https(tls),
        "invalid peer certificate: UnknownIssuer",
    )
    .await;
}
