//! exec and attach over a scripted WebSocket.

#![expect(clippy::result_large_err, reason = "the handshake's callback has this shape")]

use crate::support::unlimited;
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio::sync::oneshot;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use watchkeeper_client::{Client, DynamicApi, InProcess, PodOutput};
use watchkeeper_meta::{AttachOptions, ExecOptions, Resource};

/// Pods on a server that chooses `protocol`, sends the messages, and reports what it received until its input was
/// closed.
fn pods(protocol: &'static str, messages: Vec<Vec<u8>>) -> (DynamicApi, oneshot::Receiver<Vec<Vec<u8>>>) {
    let (told, heard) = oneshot::channel();
    let script = std::sync::Mutex::new(Some((messages, told)));
    let connector = InProcess::new(move || {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (messages, told) = script.lock().unwrap().take().expect("one connection");
        tokio::spawn(async move {
            let mut asked = String::new();
            let accept = |request: &Request, mut response: Response| {
                asked = format!(
                    "{} {:?}",
                    request.uri(),
                    request.headers()["sec-websocket-protocol"]
                );
                response
                    .headers_mut()
                    .insert("sec-websocket-protocol", protocol.parse().unwrap());
                Ok(response)
            };
            let mut socket = tokio_tungstenite::accept_hdr_async(theirs, accept).await.unwrap();
            let mut heard = vec![asked.into_bytes()];
            for message in messages {
                socket.send(Message::binary(message)).await.unwrap();
            }
            while let Some(Ok(Message::Binary(bytes))) = socket.next().await {
                heard.push(bytes.to_vec());
                if bytes[0] == 255 {
                    break;
                }
            }
            let _ = told.send(heard);
            let _ = socket.close(None).await;
            while let Some(Ok(_)) = socket.next().await {}
        });
        std::future::ready(Ok(ours))
    });
    (pods_on(connector), heard)
}

fn pods_on(server: InProcess) -> DynamicApi {
    let resource = Resource::namespaced("", "v1", "Pod", "pods");
    let client = Client::in_process(server, unlimited());
    client.dynamic(resource).namespace("ns")
}

fn options() -> ExecOptions {
    ExecOptions {
        command: vec!["cat".to_owned()],
        stdin: true,
        stdout: true,
        stderr: true,
        ..Default::default()
    }
}

fn message(channel: u8, text: &str) -> Vec<u8> {
    [&[channel], text.as_bytes()].concat()
}

#[tokio::test]
async fn a_command_is_run_and_its_end_is_known() {
    let failed = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": "command terminated with non-zero exit code", "code": 500,
        "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
    });
    let script = vec![
        message(1, ""),
        message(1, "out"),
        message(2, "err"),
        message(3, &failed.to_string()),
    ];
    let (pods, heard) = pods("v5.channel.k8s.io", script);
    let (mut input, mut output) = pods.exec("a", &options()).await.unwrap();
    input.write(b"hello").await.unwrap();
    input.resize(80, 24).await.unwrap();
    input.close_input().await.unwrap();
    let mut said = Vec::new();
    while let Some(item) = output.next().await {
        said.push(match item.unwrap() {
            PodOutput::Stdout(bytes) => format!("out {}", String::from_utf8_lossy(&bytes)),
            PodOutput::Stderr(bytes) => format!("err {}", String::from_utf8_lossy(&bytes)),
            PodOutput::Ended(end) => format!("end {:?}", end.exit_code()),
        });
    }
    assert_eq!(said, ["out out", "err err", "end Some(3)"]);
    let heard: Vec<Bytes> = heard.await.unwrap().into_iter().map(Bytes::from).collect();
    assert_eq!(
        heard,
        [
            "/api/v1/namespaces/ns/pods/a/exec?command=cat&stderr=true&stdin=true&stdout=true \
             \"v5.channel.k8s.io, v4.channel.k8s.io\"",
            "\u{0}hello",
            "\u{4}{\"Height\":24,\"Width\":80}",
            // 255, which is not text, and the channel that is closed.
            ""
        ]
        .iter()
        .map(|text| if text.is_empty() {
            Bytes::from_static(&[255, 0])
        } else {
            Bytes::from_static(text.as_bytes())
        })
        .collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn attach_connects_to_the_running_process() {
    let success = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
    let script = vec![message(1, "said"), message(3, &success.to_string())];
    let (pods, heard) = pods("v5.channel.k8s.io", script);
    let options = AttachOptions {
        container: "main".to_owned(),
        stdin: true,
        stdout: true,
        tty: true,
        ..Default::default()
    };
    let (mut input, mut output) = pods.attach("a", &options).await.unwrap();
    let said = output.next().await.unwrap().unwrap();
    assert!(
        matches!(&said, PodOutput::Stdout(bytes) if bytes == "said"),
        "{said:?}"
    );
    let end = output.next().await.unwrap().unwrap();
    assert!(
        matches!(&end, PodOutput::Ended(end) if end.exit_code() == Some(0)),
        "{end:?}"
    );
    input.write(b"hello").await.unwrap();
    input.close_input().await.unwrap();
    let asked = "/api/v1/namespaces/ns/pods/a/attach?container=main&stdin=true&stdout=true&tty=true \
                 \"v5.channel.k8s.io, v4.channel.k8s.io\"";
    assert_eq!(
        heard.await.unwrap(),
        [asked.as_bytes(), b"\0hello", &[255, 0]].map(<[u8]>::to_vec)
    );
}

#[tokio::test]
async fn older_servers_cannot_close_the_input() {
    let (pods, _heard) = pods("v4.channel.k8s.io", Vec::new());
    let (mut input, _output) = pods.exec("a", &options()).await.unwrap();
    let error = input.close_input().await.unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("the server only speaks v4.channel.k8s.io, which cannot close the input")
    );
}

#[tokio::test]
async fn another_protocol_is_refused() {
    let (pods, _heard) = pods("base64.channel.k8s.io", Vec::new());
    let error = pods.exec("a", &options()).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("it chose protocol \"base64.channel.k8s.io\""),
        "{error}"
    );
}

/// A proxy takes the request and never answers.
#[tokio::test(start_paused = true)]
async fn an_unanswered_handshake_times_out() {
    let connections = std::sync::Mutex::new(Vec::new());
    let pods = pods_on(InProcess::new(move || {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        connections.lock().unwrap().push(theirs);
        std::future::ready(Ok(ours))
    }));
    let begun = tokio::time::Instant::now();
    let error = pods.exec("web", &options()).await.err().unwrap();
    assert!(error.is_deadline());
    assert_eq!(
        error.to_string(),
        "GET http://localhost/api/v1/namespaces/ns/pods/web/exec?command=cat&stderr=true&stdin=true&stdout=true: \
         no answer within 45s"
    );
    assert_eq!(begun.elapsed().as_secs(), 45);
    assert!(pods.port_forward("web", 80).await.err().unwrap().is_deadline());
}
