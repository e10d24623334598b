//! A port of a pod, over a scripted WebSocket.

#![expect(clippy::result_large_err, reason = "the handshake's callback has this shape")]

use crate::support::unlimited;
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use watchkeeper_client::{Client, DynamicApi, InProcess};
use watchkeeper_meta::Resource;

/// The node's end of the connection, and its request.
struct Node {
    socket: WebSocketStream<DuplexStream>,
    asked: String,
}

impl Node {
    async fn accept(io: DuplexStream) -> Self {
        let mut asked = String::new();
        let accept = |request: &Request, mut response: Response| {
            let protocol = request.headers()["sec-websocket-protocol"].clone();
            asked = format!("{} {protocol:?}", request.uri());
            response.headers_mut().insert("sec-websocket-protocol", protocol);
            Ok(response)
        };
        let socket = tokio_tungstenite::accept_hdr_async(io, accept).await.unwrap();
        Self { socket, asked }
    }

    async fn say(&mut self, channel: u8, bytes: &[u8]) {
        let message = Message::binary([&[channel], bytes].concat());
        self.socket.send(message).await.unwrap();
    }

    /// Names the port on both channels.
    async fn greet(&mut self, port: u16) {
        self.say(0, &port.to_le_bytes()).await;
        self.say(1, &port.to_le_bytes()).await;
    }

    /// The client's next message; `None` when it has closed the connection.
    async fn hear(&mut self) -> Option<Bytes> {
        match self.socket.next().await?.unwrap() {
            Message::Binary(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// Pods on a node that plays `script`.
fn pods<F>(script: impl FnOnce(Node) -> F + Send + 'static) -> (DynamicApi, JoinHandle<F::Output>)
where
    F: Future<Output: Send + 'static> + Send,
{
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let played = tokio::spawn(async move { script(Node::accept(theirs).await).await });
    let ours = std::sync::Mutex::new(Some(ours));
    let connector = InProcess::new(move || {
        let io = ours.lock().unwrap().take();
        std::future::ready(io.ok_or_else(|| std::io::ErrorKind::ConnectionRefused.into()))
    });
    let resource = Resource::namespaced("", "v1", "Pod", "pods");
    let client = Client::in_process(connector, unlimited());
    (client.dynamic(resource).namespace("ns"), played)
}

#[tokio::test]
async fn bytes_go_both_ways() {
    let (pods, node) = pods(|mut node: Node| async move {
        node.greet(8080).await;
        let mut heard = 0;
        // Echoes; messages respect the size limit.
        while let Some(bytes) = node.hear().await {
            assert!(bytes[0] == 0 && bytes.len() <= 1 + (32 << 10));
            heard += bytes.len() - 1;
            node.say(0, &bytes[1..]).await;
        }
        (node.asked, heard)
    });
    let mut port = pods.port_forward("web-0", 8080).await.unwrap();
    port.write_all(b"ping").await.unwrap();
    let mut answer = [0; 4];
    port.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"ping");

    let long: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
    let (mut read, mut write) = tokio::io::split(port);
    let mut echo = vec![0; long.len()];
    let (read, written) = tokio::join!(read.read_exact(&mut echo), write.write_all(&long));
    assert!(read.is_ok() && written.is_ok() && echo == long);
    write.shutdown().await.unwrap();
    let (asked, heard) = node.await.unwrap();
    assert_eq!(
        asked,
        "/api/v1/namespaces/ns/pods/web-0/portforward?ports=8080 \"v4.channel.k8s.io\""
    );
    assert_eq!(heard, 4 + long.len());
}

#[tokio::test]
async fn reading_ends_when_the_pod_closes_the_connection() {
    let (pods, _node) = pods(|mut node: Node| async move {
        node.greet(80).await;
        node.say(0, b"bye").await;
        node.socket.close(None).await.unwrap();
        while node.socket.next().await.is_some() {}
    });
    let mut said = String::new();
    let mut port = pods.port_forward("web-0", 80).await.unwrap();
    port.read_to_string(&mut said).await.unwrap();
    assert_eq!(said, "bye");
}

#[tokio::test]
async fn errors_of_the_node_are_returned() {
    async fn check(messages: &'static [&'static [u8]], expected: &str) {
        let (pods, _node) = pods(move |mut node: Node| async move {
            for message in messages {
                node.say(message[0], &message[1..]).await;
            }
            while node.hear().await.is_some() {}
        });
        let mut port = pods.port_forward("web-0", 80).await.unwrap();
        let error = port.read_u8().await.unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    check(
        &[&[0, 80, 0], &[1, 80, 0], b"\x01nobody listens"],
        "nobody listens",
    )
    .await;
    check(
        &[&[0, 81, 0]],
        "the node sent a greeting that does not name port 80",
    )
    .await;
    check(&[&[2, 80, 0]], "the node sent a message for channel 2").await;
}
