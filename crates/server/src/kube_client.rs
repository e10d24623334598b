//! kube's client over the pipe: the transport that [`kube::Client`] asks for.
//!
//! Each request has a connection of its own. A pipe in memory costs less than a pool would, and a watch that is dropped
//! takes its connection along.

use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::header::{AUTHORIZATION, HOST, HeaderValue};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use tower_service::Service;

use crate::connector::Connector;
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
        let service = Pipes {
            connector: self.connector(),
            // Tokens are made of characters that may stand in a header.
            authorization: HeaderValue::from_str(&token).ok(),
        };
        kube::Client::new(service, NAMESPACE)
    }
}

struct Pipes {
    connector: Connector,
    authorization: Option<HeaderValue>,
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
        let connector = self.connector.clone();
        async move {
            let pipe = connector.connect().await?;
            let (mut sender, connection) = http1::handshake(TokioIo::new(pipe)).await?;
            tokio::spawn(connection.with_upgrades());
            Ok(sender.send_request(request).await?)
        }
        .boxed()
    }
}
