//! Admission webhooks in a test: served over HTTPS on 127.0.0.1, or a certificate for your own server.
//!
//! ```
//! use serde_json::{Value, json};
//! use watchkeeper_testing::TestCluster;
//! use watchkeeper_testing::webhook::{Webhook, allow, deny};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = TestCluster::start().await?;
//! // What an operator serves: an admission review in, an admission review out.
//! let webhook = Webhook::start(|_path: String, review: Value| async move {
//!     match review["request"]["object"]["data"]["colour"].as_str() {
//!         Some("red") => deny(&review, 403, "not red"),
//!         _ => allow(&review),
//!     }
//! })
//! .await?;
//! // Its configuration. The webhook stands in for the service.
//! let manifest = "
//! apiVersion: admissionregistration.k8s.io/v1
//! kind: ValidatingWebhookConfiguration
//! metadata: {name: colours}
//! webhooks:
//! - name: colours.example.com
//!   rules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
//!   clientConfig: {service: {namespace: operators, name: colours, path: /validate}}
//!   sideEffects: None
//!   admissionReviewVersions: [v1]
//! ";
//! cluster.load_webhooks(manifest, &webhook).await?;
//!
//! let map = |name: &str, colour: &str| {
//!     format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, data: {{colour: {colour}}}}}")
//! };
//! cluster.load(&map("sky", "blue")).await?;
//! let refused = cluster.load(&map("blood", "red")).await.unwrap_err();
//! let why = std::error::Error::source(&refused).unwrap().to_string();
//! assert!(why.ends_with(r#"admission webhook "colours.example.com" denied the request: not red"#), "{why}");
//! assert_eq!(webhook.calls(), 2);
//! cluster.stop().await;
//! # Ok(())
//! # }
//! ```

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fmt, io};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// The largest review; the server sends an object at most twice, of 1.5 MiB. A larger one gets 413.
const MAX_REVIEW_BYTES: usize = 8 * 1024 * 1024;

/// A webhook server that runs until it is dropped.
#[derive(Debug)]
pub struct Webhook {
    address: SocketAddr,
    certificate: LocalCertificate,
    calls: Arc<AtomicUsize>,
    /// Ends with its owner.
    _serving: JoinSet<()>,
}

/// A certificate for 127.0.0.1 and `localhost`, signed by its own authority, for a webhook served otherwise. All PEM.
#[derive(Clone)]
pub struct LocalCertificate {
    /// The certificate.
    pub certificate_pem: String,
    /// Its private key.
    pub key_pem: String,
    /// The certificate of the authority.
    pub authority_pem: String,
}

/// The reason a webhook did not start.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// A certificate could not be made.
    #[error("cannot make a certificate")]
    Certificate(#[from] rcgen::Error),
    /// The certificate cannot be used.
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
    /// No port is available.
    #[error("cannot listen on 127.0.0.1")]
    Listen(#[from] io::Error),
}

type Handler = dyn Fn(String, Value) -> BoxFuture<'static, Value> + Send + Sync;

impl Webhook {
    /// Answers every `AdmissionReview` with the result of `answer`, which also gets the path.
    pub async fn start<F, A>(answer: F) -> Result<Self, WebhookError>
    where
        F: Fn(String, Value) -> A + Send + Sync + 'static,
        A: Future<Output = Value> + Send + 'static,
    {
        let certificate = LocalCertificate::new()?;
        let acceptor = certificate.acceptor()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (address, calls) = (listener.local_addr()?, Arc::default());
        let service = Service {
            answer: Arc::new(move |path, review| answer(path, review).boxed()),
            calls: Arc::clone(&calls),
        };
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, acceptor, service));
        Ok(Self {
            address,
            certificate,
            calls,
            _serving: serving,
        })
    }

    /// The `clientConfig` of a path of this webhook.
    pub fn client_config(&self, path: &str) -> Value {
        self.certificate.client_config(self.address, path)
    }

    /// The number of reviews received.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Redirects a configuration that names services to this webhook, with the same paths.
    pub fn stand_in(&self, configuration: &mut Value) {
        let webhooks = configuration.get_mut("webhooks").and_then(Value::as_array_mut);
        for webhook in webhooks.into_iter().flatten() {
            let service = &webhook["clientConfig"]["service"];
            if service.is_object() {
                let path = service["path"].as_str().unwrap_or("/");
                webhook["clientConfig"] = self.client_config(path);
            }
        }
    }
}

/// A review that allows the write.
pub fn allow(review: &Value) -> Value {
    respond(review, json!({"allowed": true}))
}

/// A review that denies the write, with an HTTP status code.
pub fn deny(review: &Value, code: u16, message: &str) -> Value {
    respond(
        review,
        json!({"allowed": false, "status": {"code": code, "message": message}}),
    )
}

/// A review that allows the write with a JSON patch.
pub fn patch(review: &Value, operations: &Value) -> Value {
    let patch = STANDARD.encode(operations.to_string());
    respond(
        review,
        json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}),
    )
}

fn respond(review: &Value, mut response: Value) -> Value {
    response["uid"] = review["request"]["uid"].clone();
    json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})
}

impl LocalCertificate {
    /// Makes a new authority and a certificate.
    pub fn new() -> Result<Self, WebhookError> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let names = ["127.0.0.1", "localhost"].map(str::to_owned);
        let certificate = CertificateParams::new(names)?.signed_by(&key, &authority)?;
        Ok(Self {
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            authority_pem: authority.pem(),
        })
    }

    /// The `clientConfig` of a path of the server with this certificate.
    pub fn client_config(&self, address: SocketAddr, path: &str) -> Value {
        let path = path.strip_prefix('/').unwrap_or(path);
        json!({
            "url": format!("https://{address}/{path}"),
            "caBundle": STANDARD.encode(&self.authority_pem),
        })
    }

    fn acceptor(&self) -> Result<TlsAcceptor, WebhookError> {
        let broken = |error: &dyn fmt::Display| rustls::Error::General(error.to_string());
        let chain = CertificateDer::from_pem_slice(self.certificate_pem.as_bytes());
        let key = PrivateKeyDer::from_pem_slice(self.key_pem.as_bytes());
        let (chain, key) = (
            chain.map_err(|error| broken(&error))?,
            key.map_err(|error| broken(&error))?,
        );
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![chain], key)?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

impl fmt::Debug for LocalCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalCertificate")
            .field("certificate_pem", &self.certificate_pem)
            .field("key_pem", &"[redacted]")
            .field("authority_pem", &self.authority_pem)
            .finish()
    }
}

#[derive(Clone)]
struct Service {
    answer: Arc<Handler>,
    calls: Arc<AtomicUsize>,
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, service: Service) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, service) = (acceptor.clone(), service.clone());
        connections.spawn(async move {
            // A client that does not trust the certificate disconnects.
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let answer = service_fn(|request| service.respond(request));
            let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
            let _ = serving.await;
        });
        while connections.try_join_next().is_some() {}
    }
}

impl Service {
    async fn respond(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let (head, body) = request.into_parts();
        let Ok(body) = Limited::new(body, MAX_REVIEW_BYTES).collect().await else {
            return Ok(plain(StatusCode::PAYLOAD_TOO_LARGE, "the review is too large"));
        };
        let Ok(review) = serde_json::from_slice(&body.to_bytes()) else {
            return Ok(plain(StatusCode::BAD_REQUEST, "this is not a review"));
        };
        self.calls.fetch_add(1, Ordering::SeqCst);
        let answer = (self.answer)(head.uri.path().to_owned(), review).await;
        Ok(plain(StatusCode::OK, &answer.to_string()))
    }
}

fn plain(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::copy_from_slice(text.as_bytes())));
    *response.status_mut() = status;
    response
}
