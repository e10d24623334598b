//! A small HTTP client for the tests: one connection, one request at a time.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use watchkeeper_server::{ClientCertificate, Handle};

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

pub(crate) struct Client {
    sender: Sender,
    token: Option<String>,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> String {
        let value = self.headers.get(name).map(|value| value.to_str().unwrap());
        value.unwrap_or_default().to_owned()
    }
}

impl Client {
    pub(crate) async fn http1(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        let (sender, connection) = http1::handshake(TokioIo::new(io)).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        Self {
            sender: Sender::Http1(sender),
            token: None,
        }
    }

    pub(crate) async fn http2(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(io))
            .await
            .unwrap();
        tokio::spawn(connection);
        Self {
            sender: Sender::Http2(sender),
            token: None,
        }
    }

    pub(crate) async fn tls(
        server: &Handle,
        protocol: &[u8],
        certificate: Option<&ClientCertificate>,
    ) -> Self {
        let (address, authority) = (server.address().unwrap(), server.authority_pem().unwrap());
        Self::tls_to(address, &authority, protocol, certificate).await
    }

    /// Like `tls`, for a server in another process.
    pub(crate) async fn tls_to(
        address: SocketAddr,
        authority: &str,
        protocol: &[u8],
        certificate: Option<&ClientCertificate>,
    ) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        Self::tls_over(stream, authority, protocol, certificate).await
    }

    /// Like `tls_to`, over an existing connection.
    pub(crate) async fn tls_over(
        stream: TcpStream,
        authority: &str,
        protocol: &[u8],
        certificate: Option<&ClientCertificate>,
    ) -> Self {
        let mut roots = rustls::RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match certificate {
            Some(it) => {
                let chain = vec![CertificateDer::from_pem_slice(it.certificate_pem.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(it.key_pem.as_bytes()).unwrap();
                config.with_client_auth_cert(chain, key).unwrap()
            }
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
            .unwrap();
        match protocol {
            b"h2" => Self::http2(stream).await,
            _ => Self::http1(stream).await,
        }
    }

    pub(crate) fn with_token(self, server: &Handle) -> Self {
        self.with_bearer(server.admin_token().reveal())
    }

    pub(crate) fn with_bearer(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], "").await
    }

    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        self.try_send(method, path, headers, body).await.unwrap()
    }

    /// Like `send`, for a server that may stop.
    pub(crate) async fn try_send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> hyper::Result<Answer> {
        let answer = self.try_open(method, path, headers, body).await?;
        let (head, body) = answer.into_parts();
        Ok(Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            body: body.collect().await?.to_bytes(),
        })
    }

    /// Sends a request; returns when the head of the response has arrived.
    pub(crate) async fn open(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> http::Response<Incoming> {
        self.try_open(method, path, headers, body).await.unwrap()
    }

    /// Like `open`, for a server that may stop.
    pub(crate) async fn try_open(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> hyper::Result<http::Response<Incoming>> {
        let uri = match self.sender {
            Sender::Http1(_) => path.to_owned(),
            Sender::Http2(_) => format!("http://localhost{path}"),
        };
        let mut request = Request::builder().method(method).uri(uri);
        if matches!(self.sender, Sender::Http1(_)) && !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", "localhost");
        }
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request
            .body(Full::new(Bytes::copy_from_slice(body.as_bytes())))
            .unwrap();
        match &mut self.sender {
            Sender::Http1(sender) => sender.send_request(request).await,
            Sender::Http2(sender) => sender.send_request(request).await,
        }
    }

    pub(crate) async fn try_get_http1(
        io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        path: &str,
    ) -> hyper::Result<()> {
        let (mut sender, connection) = http1::handshake::<_, Full<Bytes>>(TokioIo::new(io)).await?;
        tokio::spawn(connection);
        let request = Request::get(path)
            .header("host", "localhost")
            .body(Full::default())
            .unwrap();
        sender.send_request(request).await.map(drop)
    }
}
