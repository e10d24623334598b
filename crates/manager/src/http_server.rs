//! Small HTTP/1.1 servers, with or without TLS. On close, requests in progress are finished.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// Probes, a scraper and a few API servers keep few connections open. Others wait.
pub(crate) const MAX_CONNECTIONS: usize = 256;
/// The time limit of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// An idle connection is closed after this time. Longer than API servers wait (90 s), so that they close first.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// The pause after a failed accept, usually for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A response.
pub(crate) type Answer = Response<Full<Bytes>>;

/// Answers requests.
pub(crate) type Handler = Arc<dyn Fn(Request<Incoming>) -> BoxFuture<'static, Answer> + Send + Sync>;

/// Returns the TLS acceptor of the next connection; `None` for plain text.
pub(crate) type Encryption = Arc<dyn Fn() -> BoxFuture<'static, Option<TlsAcceptor>> + Send + Sync>;

/// Serves connections until `closing`, then waits for requests in progress.
pub(crate) async fn serve(
    listener: TcpListener,
    encryption: Option<Encryption>,
    handler: Handler,
    closing: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let accepted = async {
            let place = places.clone().acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, stream) = tokio::select! {
            biased;
            () = closing.cancelled() => break,
            accepted = accepted => accepted,
            Some(_) = connections.join_next() => continue,
        };
        match stream {
            Ok((stream, _)) => {
                let (encryption, handler, closing) = (encryption.clone(), handler.clone(), closing.clone());
                connections.spawn(async move {
                    connection(stream, encryption, handler, closing).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection(
    stream: TcpStream,
    encryption: Option<Encryption>,
    handler: Handler,
    closing: CancellationToken,
) {
    // A response is written in one piece.
    let _ = stream.set_nodelay(true);
    let Some(encryption) = encryption else {
        return answer(stream, handler, closing).await;
    };
    let Some(acceptor) = encryption().await else {
        return;
    };
    // A client that does not trust the certificate disconnects.
    if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        answer(stream, handler, closing).await;
    }
}

async fn answer<IO>(stream: IO, handler: Handler, closing: CancellationToken)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let answer = handler(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    let served = tokio::select! {
        served = &mut serving => served,
        () = closing.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// A plain-text response.
pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    typed(status, "text/plain; charset=utf-8", text)
}

/// A response with a media type.
pub(crate) fn typed(status: StatusCode, media_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}
