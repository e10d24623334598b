//! One connection to a webhook: dialled, encrypted, and asked one question at a time.

use std::error::Error as _;
use std::io;
use std::pin::pin;

use bytes::Bytes;
use http::header::LOCATION;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::CertificateError;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::limits::MAX_WEBHOOK_ANSWER_BYTES;

/// An answer, read to its end.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
    /// Where the answer is, if it is elsewhere.
    location: Option<String>,
}

impl Answer {
    /// Where the same question is to be asked.
    pub(super) fn redirect(&self, asked: &Uri) -> Option<Uri> {
        let is_redirect = matches!(
            self.status,
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
        );
        let location = self.location.as_deref().filter(|_| is_redirect)?;
        let next: Uri = location.parse().ok()?;
        let mut parts = next.into_parts();
        parts.scheme = parts.scheme.or_else(|| asked.scheme().cloned());
        parts.authority = parts.authority.or_else(|| asked.authority().cloned());
        Uri::from_parts(parts).ok()
    }
}

pub(super) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    /// What moves the bytes; it is polled while a question is answered, and rests otherwise.
    driver: Box<http1::Connection<TokioIo<TlsStream<TcpStream>>, Full<Bytes>>>,
}

impl Connection {
    /// Connects to an address, where the host must prove to be.
    pub(super) async fn open(address: &str, host: &str, tls: &TlsConnector) -> Result<Self, String> {
        let stream = dial(address).await?;
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|_| format!("{host:?} is not a name that a certificate can have"))?;
        let stream = tls.connect(name, stream).await;
        let stream = stream.map_err(|error| untrusted(&error))?;
        let (sender, driver) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| broken(&error))?;
        Ok(Self {
            sender,
            driver: Box::new(driver),
        })
    }

    pub(super) async fn ask(&mut self, request: Request<Full<Bytes>>) -> Result<Answer, String> {
        let sent = self.sender.send_request(request);
        let mut answered = pin!(async {
            let (head, body) = sent.await.map_err(|error| broken(&error))?.into_parts();
            let body = Limited::new(body, MAX_WEBHOOK_ANSWER_BYTES).collect().await;
            let body = body.map_err(|error| match error.downcast::<hyper::Error>() {
                Ok(error) => broken(&error),
                Err(_) => format!("the answer has more than {MAX_WEBHOOK_ANSWER_BYTES} bytes"),
            })?;
            let location = head.headers.get(LOCATION);
            let location = location.and_then(|it| it.to_str().ok()).map(str::to_owned);
            Ok(Answer {
                status: head.status,
                body: body.to_bytes(),
                location,
            })
        });
        let mut has_ended = false;
        loop {
            tokio::select! {
                biased;
                answer = &mut answered => return answer,
                // Whoever waits for an answer is told what became of it.
                _ = &mut *self.driver, if !has_ended => has_ended = true,
            }
        }
    }

    /// Whether another question may be asked.
    pub(super) fn can_be_kept(&self) -> bool {
        !self.sender.is_closed()
    }
}

async fn dial(address: &str) -> Result<TcpStream, String> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let found = lookup_host(address).await;
    let found = found.map_err(|_| format!("dial tcp: lookup {host}: no such host"))?;
    let mut failed = format!("dial tcp: lookup {host}: no such host");
    for address in found {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // A question is one piece, and is answered at once.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                failed = format!("dial tcp {address}: connect: connection refused");
            }
            Err(error) => failed = format!("dial tcp {address}: {error}"),
        }
    }
    Err(failed)
}

/// Why a connection could not be encrypted, in Go's words where they are known.
fn untrusted(error: &io::Error) -> String {
    let Some(error) = error.get_ref().and_then(|error| error.downcast_ref()) else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
            _ => error.to_string(),
        };
    };
    let why = match error {
        rustls::Error::InvalidCertificate(why) => why,
        error => return format!("tls: {error}"),
    };
    let why = match why {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            "certificate has expired or is not yet valid".to_owned()
        }
        why => why.to_string(),
    };
    format!("tls: failed to verify certificate: x509: {why}")
}

/// Why there is no answer.
fn broken(error: &hyper::Error) -> String {
    let is_gone = error.is_incomplete_message() || error.is_canceled() || error.is_closed();
    let below = error
        .source()
        .and_then(|source| source.downcast_ref::<io::Error>());
    match below.map(io::Error::kind) {
        _ if is_gone => "EOF".to_owned(),
        Some(io::ErrorKind::UnexpectedEof) => "EOF".to_owned(),
        Some(io::ErrorKind::ConnectionReset) => "read: connection reset by peer".to_owned(),
        _ => below.map_or_else(|| error.to_string(), ToString::to_string),
    }
}
