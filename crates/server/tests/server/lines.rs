//! A watch read line by line.

use ::http::Method;
use bytes::BytesMut;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::Value;

use crate::client::Client;

/// A stream of events.
pub(crate) struct Lines {
    body: Incoming,
    buffer: BytesMut,
}

/// The end of a stream.
#[derive(Debug, PartialEq)]
pub(crate) enum End {
    Complete,
    BrokenOff,
}

impl Lines {
    pub(crate) async fn open(client: &mut Client, path: &str) -> Self {
        Self::try_open(client, path).await.unwrap()
    }

    pub(crate) async fn try_open(client: &mut Client, path: &str) -> hyper::Result<Self> {
        Self::try_open_with(client, path, &[]).await
    }

    pub(crate) async fn try_open_with(
        client: &mut Client,
        path: &str,
        headers: &[(&str, &str)],
    ) -> hyper::Result<Self> {
        let answer = client.try_open(Method::GET, path, headers, "").await?;
        assert_eq!(answer.status(), 200);
        Ok(Self {
            body: answer.into_body(),
            buffer: BytesMut::new(),
        })
    }

    pub(crate) async fn next(&mut self) -> Result<Value, End> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end + 1);
                return Ok(serde_json::from_slice(&line).unwrap());
            }
            match self.body.frame().await {
                None => return Err(End::Complete),
                Some(Err(_)) => return Err(End::BrokenOff),
                Some(Ok(frame)) => self
                    .buffer
                    .extend_from_slice(&frame.into_data().unwrap_or_default()),
            }
        }
    }

    /// `ADDED a`.
    pub(crate) async fn event(&mut self) -> String {
        let event = self.next().await.unwrap();
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        format!(
            "{} {}",
            word(&event["type"]),
            word(&event["object"]["metadata"]["name"])
        )
    }
}
