//! A stream over WebSocket: one message per event, text for JSON and binary for protobuf. Messages of the client are
//! read and dropped.

use futures_util::{SinkExt as _, StreamExt as _};
use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use http::{HeaderValue, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use watchkeeper_meta::Status;
use watchkeeper_registry::Format;

use crate::body::{FrameStream, ResponseBody};
use crate::filter::Call;
use crate::respond::{Answer, Failure};

/// The limit on messages of the client, which has nothing to send; a larger one ends the stream.
const MAX_CLIENT_MESSAGE_BYTES: usize = 4 * 1024;

/// The read buffer per socket; the library's default is sized for bulk data.
const READ_BUFFER_BYTES: usize = 4 * 1024;

/// Protobuf frames of a plain stream start with their length; messages do not need it.
const FRAME_LENGTH_BYTES: usize = 4;

/// True if a request asks for a WebSocket.
pub(super) fn is_requested(call: &Call) -> bool {
    let upgrade = call
        .head
        .headers
        .get(UPGRADE)
        .and_then(|value| value.to_str().ok());
    upgrade.is_some_and(|upgrade| upgrade.eq_ignore_ascii_case("websocket"))
}

/// Accepts the upgrade and then sends the frames.
pub(super) fn answer(call: &mut Call, encoding: Format, frames: FrameStream) -> Result<Answer, Failure> {
    let key = call.head.headers.get(SEC_WEBSOCKET_KEY);
    let key = key.ok_or_else(|| Status::bad_request("the WebSocket request has no key"))?;
    let accept = derive_accept_key(key.as_bytes());
    let accept = HeaderValue::try_from(accept).expect("base64");

    let mut request = Request::new(());
    *request.extensions_mut() = std::mem::take(&mut call.head.extensions);
    let upgrade = hyper::upgrade::on(&mut request);
    call.server.tasks.spawn(async move {
        if let Ok(upgraded) = upgrade.await {
            send_all(TokioIo::new(upgraded), encoding, frames).await;
        }
    });

    let mut answer = Answer::new(ResponseBody::empty());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = answer.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    Ok(answer)
}

async fn send_all(
    io: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    encoding: Format,
    mut frames: FrameStream,
) {
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_CLIENT_MESSAGE_BYTES))
        // Otherwise a frame that announces 16 MiB is buffered until it is complete.
        .max_frame_size(Some(MAX_CLIENT_MESSAGE_BYTES))
        .read_buffer_size(READ_BUFFER_BYTES);
    let mut socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
    loop {
        tokio::select! {
            frame = frames.next() => match frame {
                Some(Ok(bytes)) => {
                    if socket.send(message(encoding, &bytes)).await.is_err() {
                        return;
                    }
                }
                Some(Err(_)) => return,
                None => break,
            },
            sent = socket.next() => match sent {
                Some(Ok(message)) if !message.is_close() => {}
                _ => break,
            },
        }
    }
    // A client that is gone does not answer.
    let _ = socket.close(None).await;
}

fn message(encoding: Format, frame: &[u8]) -> Message {
    match encoding {
        Format::Protobuf => Message::binary(frame[FRAME_LENGTH_BYTES..].to_vec()),
        Format::Json | Format::Yaml => {
            let line = frame.strip_suffix(b"\n").unwrap_or(frame);
            Message::text(String::from_utf8_lossy(line).into_owned())
        }
    }
}
