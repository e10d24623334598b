//! kube's client over the pipe: the transport that [`kube::Client`] asks for.
//!
//! Each request has a connection of its own. A pipe in memory costs less than a pool would, and a watch that is dropped
//! takes its connection along.

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

/// The namespace where none is asked for.
const NAMESPACE: &str = "default";

impl Handle {
    /// [kube](https://kube.rs)'s client of this server, with all rights, without a port.
    ///
    /// Must be called within a tokio runtime, as kube's clients must.
    pub fn kube_client(&self) -> kube::Client {
        let token = format!("Bearer {}", self.admin_token().reveal());
        // Tokens are made of characters that may stand in a header.
        client(Way::Any(self.connector()), HeaderValue::from_str(&token).ok())
    }
}

impl Line {
    /// [kube](https://kube.rs)'s client on this line.
    ///
    /// Must be called within a tokio runtime, as kube's clients must.
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

/// Where connections come from.
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
