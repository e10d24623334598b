//! A webhook in the test: HTTPS on 127.0.0.1, with its own authority.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ::http::{Request, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// The names in the certificate.
const NAMES: [&str; 3] = ["127.0.0.1", "localhost", "hooks.default.svc"];

/// The reaction to a review.
pub(crate) enum Reply {
    /// Responds with this review, with the uid of the request unless it has one.
    Response(Value),
    /// Responds with this instead of a review.
    Raw(u16, String),
    /// Redirects to another path.
    Redirect(u16, String),
    /// Closes the connection.
    Close,
    /// Never responds.
    Silence,
}

impl Reply {
    pub(crate) fn allow() -> Self {
        Self::Response(json!({"allowed": true}))
    }

    pub(crate) fn patch(operations: &Value) -> Self {
        let patch = STANDARD.encode(operations.to_string());
        Self::Response(json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
    }
}

type Handler = dyn Fn(Value) -> BoxFuture<'static, Reply> + Send + Sync;

/// A webhook that runs until it is dropped.
pub(crate) struct Endpoint {
    address: SocketAddr,
    authority: String,
    seen: Arc<Mutex<Vec<Value>>>,
    paths: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
    closing: Arc<Notify>,
    _serving: JoinSet<()>,
}

impl Endpoint {
    /// A webhook with this behaviour.
    pub(crate) async fn start(reply: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_async(move |request| std::future::ready(reply(&request)).boxed()).await
    }

    pub(crate) async fn start_async(
        reply: impl Fn(Value) -> BoxFuture<'static, Reply> + Send + Sync + 'static,
    ) -> Self {
        let (acceptor, authority) = encryption();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, paths) = (Arc::default(), Arc::default());
        let (connections, closing) = (Arc::default(), Arc::default());
        let mut serving = JoinSet::new();
        let answers = Answers {
            reply: Arc::new(reply),
            seen: Arc::clone(&seen),
            paths: Arc::clone(&paths),
            closing: Arc::clone(&closing),
        };
        serving.spawn(serve(listener, acceptor, answers, Arc::clone(&connections)));
        Self {
            address,
            authority,
            seen,
            paths,
            connections,
            closing,
            _serving: serving,
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// The `clientConfig` of the webhook.
    pub(crate) fn client_config(&self) -> Value {
        json!({"url": format!("https://{}/hook", self.address), "caBundle": self.authority})
    }

    /// The `clientConfig` through a service.
    pub(crate) fn service_config(&self, service: &str, path: &str) -> Value {
        let service = json!({"namespace": "default", "name": service, "path": path, "port": self.port()});
        json!({"service": service, "caBundle": self.authority})
    }

    /// The requests since the last call.
    pub(crate) fn take_seen(&self) -> Vec<Value> {
        std::mem::take(&mut self.seen.lock())
    }

    /// The requested paths.
    pub(crate) fn take_paths(&self) -> Vec<String> {
        std::mem::take(&mut self.paths.lock())
    }

    /// Closes all connections, as a restarting webhook does.
    pub(crate) fn close_connections(&self) {
        self.closing.notify_waiters();
    }

    /// The number of accepted connections.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

#[derive(Clone)]
struct Answers {
    reply: Arc<Handler>,
    seen: Arc<Mutex<Vec<Value>>>,
    paths: Arc<Mutex<Vec<String>>>,
    closing: Arc<Notify>,
}

/// The acceptor, and the authority of its certificate, as a `caBundle`.
fn encryption() -> (TlsAcceptor, String) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(NAMES.map(str::to_owned).to_vec()).unwrap();
    let leaf = leaf.signed_by(&key, &authority).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key)
        .unwrap();
    (
        TlsAcceptor::from(Arc::new(config)),
        STANDARD.encode(authority.pem()),
    )
}

async fn serve(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    answers: Answers,
    connections: Arc<AtomicUsize>,
) {
    let mut serving = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.fetch_add(1, Ordering::SeqCst);
        let (acceptor, answers) = (acceptor.clone(), answers.clone());
        serving.spawn(async move {
            // A client that does not trust the certificate disconnects.
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let service = service_fn(|request| answers.answer(request));
            let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                _ = serving => {}
                () = answers.closing.notified() => {}
            }
        });
    }
}

impl Answers {
    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, &'static str> {
        let path = request.uri().path().to_owned();
        let body = request
            .into_body()
            .collect()
            .await
            .map_err(|_| "no body")?
            .to_bytes();
        let review: Value = serde_json::from_slice(&body).map_err(|_| "no review")?;
        let question = review["request"].clone();
        self.paths.lock().push(path);
        self.seen.lock().push(question.clone());
        let uid = question["uid"].clone();
        match (self.reply)(question).await {
            Reply::Close => Err("closed"),
            Reply::Silence => std::future::pending::<Result<_, Infallible>>()
                .await
                .map_err(|never| match never {}),
            Reply::Redirect(status, to) => {
                let redirect = Response::builder().status(status).header("location", to);
                Ok(redirect.body(Bytes::new().into()).unwrap())
            }
            Reply::Raw(status, body) => Ok(Response::builder().status(status).body(body.into()).unwrap()),
            Reply::Response(mut response) => {
                if response["uid"].is_null() {
                    response["uid"] = uid;
                }
                let (kind, version) = (&review["kind"], &review["apiVersion"]);
                let review = json!({"kind": kind, "apiVersion": version, "response": response});
                Ok(Response::new(Bytes::from(review.to_string()).into()))
            }
        }
    }
}
