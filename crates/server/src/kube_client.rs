//! A [`kube::Client`] over in-memory pipes.
//!
//! Each request has its own connection. A pipe costs less than a pool, and a dropped watch closes its connection.

use std::io;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::header::{AUTHORIZATION, HOST, HeaderValue};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use tokio::io::DuplexStream;
use tower_service::Service;

use crate::connector::Connector;
use crate::line::Line;
use crate::server::Handle;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The default namespace.
const NAMESPACE: &str = "default";

impl Handle {
    /// A [kube](https://kube.rs) client of this server with full permissions, without a port.
    ///
    /// Must be called within a tokio runtime, like kube's own constructors.
    pub fn kube_client(&self) -> kube::Client {
        let token = format!("Bearer {}", self.admin_token().reveal());
        // Tokens contain only characters that are valid in headers.
        client(Way::Any(self.connector()), HeaderValue::from_str(&token).ok())
    }
}

impl Line {
    /// A [kube](https://kube.rs) client on this line.
    ///
    /// Must be called within a tokio runtime, like kube's own constructors.
    pub fn kube_client(&self) -> kube::Client {
        client(Way::Line(self.clone()), None)
    }
}

fn client(way: Way, authorization: Option<HeaderValue>) -> kube::Client {
    kube::Client::new(Pipes { way, authorization }, NAMESPACE)
}

struct Pipes {
    way: Way,
    authorization: Option<HeaderValue>,
}

/// The source of connections.
#[derive(Clone)]
enum Way {
    Any(Connector),
    Line(Line),
}

impl Way {
    async fn connect(&self) -> io::Result<DuplexStream> {
        match self {
            Self::Any(connector) => connector.connect().await,
            Self::Line(line) => line.connect().await,
        }
    }
}

impl Service<Request<Body>> for Pipes {
    type Response = Response<Incoming>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let headers = request.headers_mut();
        headers.insert(HOST, HeaderValue::from_static("localhost"));
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        let way = self.way.clone();
        async move {
            let pipe = way.connect().await?;
            let (mut sender, connection) = http1::handshake(TokioIo::new(pipe)).await?;
            tokio::spawn(connection.with_upgrades());
            Ok(sender.send_request(request).await?)
        }
        .boxed()
    }
}
