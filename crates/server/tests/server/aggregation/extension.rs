//! An aggregated API server in the test: HTTPS on 127.0.0.1, with its own authority. It serves flunders, and trusts a
//! front proxy only by its client certificate.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use ::http::header::UPGRADE;
use ::http::{HeaderMap, Method, Request, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

pub(super) const GROUP: &str = "wardle.example.com";
pub(super) const ROOT: &str = "/apis/wardle.example.com/v1";

type Body = BoxBody<Bytes, std::io::Error>;

/// The behaviour of the server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Manner {
    Usual,
    /// Only legacy discovery, and no OpenAPI.
    Old,
    /// Accepts connections and never responds.
    Hangs,
    /// Answers everything with this status.
    Refuses(u16),
}

/// A received request.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    /// The client certificate is signed by the published authority.
    pub(super) is_from_proxy: bool,
    pub(super) body: Bytes,
}

/// Runs until it is dropped.
pub(super) struct Extension {
    address: SocketAddr,
    authority: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    events: broadcast::Sender<Value>,
    _serving: JoinSet<()>,
}

#[derive(Clone)]
struct Behaviour {
    manner: Manner,
    seen: Arc<Mutex<Vec<Seen>>>,
    events: broadcast::Sender<Value>,
}

impl Extension {
    /// Accepts client certificates signed by an authority, PEM, and clients without one.
    pub(super) async fn start(manner: Manner, proxies: &str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (acceptor, authority) = encryption(proxies);
        let (seen, events) = (Arc::default(), broadcast::channel(16).0);
        let behaviour = Behaviour {
            manner,
            seen: Arc::clone(&seen),
            events: events.clone(),
        };
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, acceptor, behaviour));
        Self {
            address,
            authority,
            seen,
            events,
            _serving: serving,
        }
    }

    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    /// The authority of its certificate, as a `caBundle`.
    pub(super) fn bundle(&self) -> &str {
        &self.authority
    }

    /// The requests of clients since the last call, without those of the aggregator itself.
    pub(super) fn take_seen(&self) -> Vec<Seen> {
        let seen = std::mem::take(&mut *self.seen.lock());
        let is_clients = |it: &Seen| it.headers["x-remote-user"] != "system:kube-aggregator";
        seen.into_iter().filter(is_clients).collect()
    }

    /// The number of requests of the aggregator itself since the last call.
    pub(super) fn seen_by_aggregator(&self) -> usize {
        let seen = self.seen.lock();
        let is_its = |it: &&Seen| it.headers["x-remote-user"] == "system:kube-aggregator";
        seen.iter().filter(is_its).count()
    }

    /// Sends an event to all watches.
    pub(super) fn tell(&self, event: Value) {
        self.events.send(event).unwrap();
    }
}

/// The acceptor, and the authority of its certificate.
fn encryption(proxies: &str) -> (TlsAcceptor, String) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["wardle.default.svc".to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, &authority).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(proxies.as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let clients = clients.allow_unauthenticated().build().unwrap();
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients)
        .with_single_cert(vec![leaf.der().clone()], key)
        .unwrap();
    let authority = STANDARD.encode(authority.pem());
    (TlsAcceptor::from(Arc::new(config)), authority)
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, behaviour: Behaviour) {
    let mut serving = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, behaviour) = (acceptor.clone(), behaviour.clone());
        serving.spawn(async move {
            // A client that does not trust the certificate disconnects.
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let is_from_proxy = stream.get_ref().1.peer_certificates().is_some();
            let service = service_fn(|request| behaviour.answer(request, is_from_proxy));
            let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            let _ = served.with_upgrades().await;
        });
    }
}

impl Behaviour {
    async fn answer(
        &self,
        mut request: Request<Incoming>,
        is_from_proxy: bool,
    ) -> Result<Response<Body>, std::io::Error> {
        let uri = request.uri().clone();
        let upgrade = request.headers().get(UPGRADE).cloned();
        if upgrade.is_some() {
            tokio::spawn(echo(hyper::upgrade::on(&mut request)));
        }
        let (head, body) = request.into_parts();
        let body = match upgrade {
            Some(_) => Bytes::new(),
            None => body.collect().await.map_err(std::io::Error::other)?.to_bytes(),
        };
        self.seen.lock().push(Seen {
            method: head.method.clone(),
            path: uri.to_string(),
            headers: head.headers.clone(),
            is_from_proxy,
            body: body.clone(),
        });
        if let Some(protocol) = upgrade {
            let answer = Response::builder().status(101).header("connection", "Upgrade");
            return Ok(answer.header(UPGRADE, protocol).body(whole("")).unwrap());
        }
        match self.manner {
            Manner::Hangs => std::future::pending().await,
            Manner::Refuses(status) => Ok(Response::builder().status(status).body(whole("no\n")).unwrap()),
            manner => Ok(self.page(&head.method, &uri, manner, &body)),
        }
    }

    fn page(&self, method: &Method, uri: &::http::Uri, manner: Manner, body: &Bytes) -> Response<Body> {
        let flunders = format!("{ROOT}/namespaces/default/flunders");
        let is_watch = uri.query().is_some_and(|query| query.contains("watch=true"));
        let page = match (method, uri.path()) {
            (&Method::GET, ROOT) => resources(),
            (&Method::GET, "/apis") if manner == Manner::Usual => groups(),
            (&Method::GET, "/openapi/v2") if manner == Manner::Usual => openapi_v2(),
            (&Method::GET, "/openapi/v3") if manner == Manner::Usual => json!({"paths": {
                "apis/wardle.example.com/v1": {"serverRelativeURL": format!("/openapi/v3{ROOT}?hash=1")}}}),
            (&Method::GET, path) if path == format!("/openapi/v3{ROOT}") => {
                json!({"openapi": "3.0.0", "of": GROUP})
            }
            (&Method::GET, path) if path == flunders && is_watch => return self.watch(),
            (&Method::GET, path) if path == flunders => {
                json!({"kind": "FlunderList", "apiVersion": format!("{GROUP}/v1"), "items": []})
            }
            (&Method::POST, path) if path == flunders => {
                let answer = Response::builder()
                    .status(201)
                    .header("content-type", "application/json");
                return answer.body(whole(body.clone())).unwrap();
            }
            _ => {
                let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404});
                return Response::builder()
                    .status(404)
                    .body(whole(status.to_string()))
                    .unwrap();
            }
        };
        let answer = Response::builder().header("content-type", "application/json");
        answer.body(whole(page.to_string())).unwrap()
    }

    /// Events until the server stops.
    fn watch(&self) -> Response<Body> {
        let events = stream::unfold(self.events.subscribe(), async |mut events| {
            let event = events.recv().await.ok()?;
            let line = Bytes::from(format!("{event}\n"));
            Some((Ok(Frame::data(line)), events))
        });
        let first = json!({"type": "BOOKMARK", "object": {}});
        let first = stream::iter([Ok::<_, std::io::Error>(Frame::data(Bytes::from(format!(
            "{first}\n"
        ))))]);
        Response::new(BoxBody::new(StreamBody::new(first.chain(events))))
    }
}

/// Echoes its input in upper case.
async fn echo(upgrade: hyper::upgrade::OnUpgrade) {
    let mut io = TokioIo::new(upgrade.await.unwrap());
    let mut buffer = [0; 64];
    while let Ok(read @ 1..) = io.read(&mut buffer).await {
        io.write_all(&buffer[..read].to_ascii_uppercase()).await.unwrap();
    }
}

fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed()
}

fn resources() -> Value {
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{GROUP}/v1"),
        "resources": [{"name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder",
            "verbs": ["create", "list", "watch"]}],
    })
}

fn groups() -> Value {
    let flunders = json!({
        "resource": "flunders", "responseKind": {"group": GROUP, "version": "v1", "kind": "Flunder"},
        "scope": "Namespaced", "singularResource": "flunder", "verbs": ["create", "list", "watch"],
        "shortNames": ["fl"],
    });
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
        "items": [{"metadata": {"name": GROUP}, "versions": [
            {"version": "v1", "resources": [flunders], "freshness": "Current"}]}],
    })
}

fn openapi_v2() -> Value {
    let flunder = "#/definitions/com.example.wardle.v1.Flunder";
    json!({
        "swagger": "2.0",
        "paths": {format!("{ROOT}/flunders"): {"get": {"responses": {"200": {"schema": {"$ref": flunder}}}}}},
        "definitions": {"com.example.wardle.v1.Flunder": {"type": "object"}},
    })
}
