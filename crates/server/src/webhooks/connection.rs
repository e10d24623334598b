//! One connection to a webhook, which carries one call at a time.

use std::pin::pin;

use bytes::Bytes;
use http::header::LOCATION;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::limits::MAX_WEBHOOK_ANSWER_BYTES;
use crate::outgoing::{broken, connect};

/// A response, read to its end.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
    /// The `Location` header.
    location: Option<String>,
}

impl Answer {
    /// The URL of a redirect.
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
    /// Drives the connection; polled only during a call.
    driver: Box<http1::Connection<TokioIo<TlsStream<TcpStream>>, Full<Bytes>>>,
}

impl Connection {
    /// Connects to an address; the certificate must be valid for the host.
    pub(super) async fn open(address: &str, host: &str, tls: &TlsConnector) -> Result<Self, String> {
        let stream = connect(address, host, tls).await?;
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
                // The caller receives its own error.
                _ = &mut *self.driver, if !has_ended => has_ended = true,
            }
        }
    }

    /// True if the connection can be reused.
    pub(super) fn can_be_kept(&self) -> bool {
        !self.sender.is_closed()
    }
}
