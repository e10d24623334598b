//! As `etcd`: answers health checks and stores nothing. The API server of this program keeps its objects in memory;
//! suites only need an etcd that starts first and stops last.

use std::convert::Infallible;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use bytes::Bytes;
use clap::{ArgAction, Parser};
use http::header::CONTENT_TYPE;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::failure::Failure;
use crate::session::Session;
use crate::stop::Stop;

/// The version whose health check is followed.
const VERSION: &str = "3.6.0";

/// The number of concurrent connections; more wait in the system's accept queue.
const MAX_CONNECTIONS: usize = 64;

/// Flags of suites that have no effect without storage.
const WITHOUT_EFFECT: [&str; 7] = [
    "initial-advertise-peer-urls",
    "initial-cluster",
    "initial-cluster-state",
    "initial-cluster-token",
    "log-level",
    "name",
    "wal-dir",
];

/// Stand-in for etcd in tests of Kubernetes: answers health checks and stores nothing
#[derive(Debug, Parser)]
#[command(
    name = "etcd",
    bin_name = "etcd",
    max_term_width = 100,
    after_help = "This is watchkeeper under another name. Unknown flags are ignored with a warning."
)]
pub(super) struct Etcd {
    /// Address of the health checks
    #[arg(
        long,
        value_name = "URL,...",
        value_delimiter = ',',
        default_value = "http://localhost:2379"
    )]
    listen_client_urls: Vec<String>,

    /// Accepted for compatibility
    #[arg(long, value_name = "URL,...")]
    advertise_client_urls: Option<String>,

    /// Accepted for compatibility
    #[arg(long, value_name = "URL,...")]
    listen_peer_urls: Option<String>,

    /// Accepted for compatibility: nothing is stored
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,

    /// Accepted for compatibility: nothing is stored
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    unsafe_no_fsync: Option<bool>,

    /// Print the version of etcd
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false,
        default_missing_value = "true", action = ArgAction::Set)]
    version: bool,

    #[command(flatten, next_help_heading = "Logging")]
    logging: watchkeeper_logging::Options,
}

impl AsRef<watchkeeper_logging::Options> for Etcd {
    fn as_ref(&self) -> &watchkeeper_logging::Options {
        &self.logging
    }
}

/// Serves until it is stopped.
pub(super) async fn run(words: &[OsString], session: &mut Session) -> ExitCode {
    let flags: Etcd = match super::read(words, &WITHOUT_EFFECT, session) {
        Ok(flags) => flags,
        Err(code) => return code,
    };
    if flags.version {
        session.out.line(format!("etcd Version: {VERSION}"));
        return crate::finish(Ok(()), session);
    }
    let served = serve(&flags.listen_client_urls).await;
    crate::finish(served.map_err(Failure::Other), session)
}

async fn serve(urls: &[String]) -> anyhow::Result<()> {
    let mut stop = Stop::listen();
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    for url in urls {
        let listener = listen(url).await?;
        tracing::info!("Answering health checks at {url}; nothing is stored");
        tokio::spawn(accept(listener, places.clone()));
    }
    stop.requested().await;
    Ok(())
}

async fn listen(url: &str) -> anyhow::Result<TcpListener> {
    let address = url.trim().strip_prefix("http://");
    let address = address.ok_or_else(|| anyhow!("cannot listen on {url}: only http:// is served"))?;
    TcpListener::bind(address.trim_end_matches('/'))
        .await
        .with_context(|| format!("cannot listen on {url}"))
}

async fn accept(listener: TcpListener, places: Arc<Semaphore>) {
    while let Ok(place) = places.clone().acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            return;
        };
        tokio::spawn(async move {
            let service = service_fn(|request| async move { Ok::<_, Infallible>(answer(&request)) });
            // A client that disconnects in the middle of a request is not an error.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
            drop(place);
        });
    }
}

/// The answers of a healthy etcd.
fn answer(request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let (status, text) = match request.uri().path() {
        "/health" => (StatusCode::OK, r#"{"health":"true","reason":""}"#.to_owned()),
        "/version" => {
            let text = format!(r#"{{"etcdserver":"{VERSION}","etcdcluster":"{VERSION}","storage":"none"}}"#);
            (StatusCode::OK, text)
        }
        "/livez" | "/readyz" => (StatusCode::OK, "ok\n".to_owned()),
        _ => (StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
    };
    let kind = if text.starts_with('{') {
        "application/json"
    } else {
        "text/plain; charset=utf-8"
    };
    let mut answer = Response::new(Full::from(text));
    *answer.status_mut() = status;
    let kind = http::HeaderValue::from_static(kind);
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}
