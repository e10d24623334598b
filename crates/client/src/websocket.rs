//! WebSockets: the handshake on a dedicated HTTP/1.1 connection.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, header};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use watchkeeper_wire::limits::OBJECT_LIMIT;

use crate::client::Client;
use crate::dynamic::Asked;
use crate::error::{Error, ErrorKind};
use crate::transport::Io;

/// Messages are small; the default of 128 KiB per socket is meant for bulk data.
const READ_BUFFER: usize = 8 << 10;

/// An open WebSocket.
pub(crate) type WebSocket = WebSocketStream<Box<dyn Io>>;

/// Opens a WebSocket with one of `protocols`, in order of preference; returns the chosen one. Without protocols the
/// result is empty.
pub(crate) async fn open(
    client: &Client,
    mut request: Request<Bytes>,
    asked: &Asked,
    protocols: &[&str],
) -> Result<(WebSocket, String), Error> {
    let refused = |reason: String| asked.error(ErrorKind::Upgrade(reason));
    let key = generate_key();
    ask(request.headers_mut(), &key, protocols).map_err(|error| refused(error.to_string()))?;
    let response = client.upgrade(request).await?;
    let accepted = response.headers().get(header::SEC_WEBSOCKET_ACCEPT);
    if accepted.is_none_or(|accept| accept.as_bytes() != derive_accept_key(key.as_bytes()).as_bytes()) {
        return Err(refused(
            "its Sec-WebSocket-Accept does not match the key".to_owned(),
        ));
    }
    let chosen = response.headers().get(header::SEC_WEBSOCKET_PROTOCOL);
    let chosen = chosen
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .to_owned();
    if !protocols.is_empty() && !protocols.contains(&chosen.as_str()) {
        return Err(refused(format!(
            "it chose protocol {chosen:?}, offered were {}",
            protocols.join(", ")
        )));
    }
    let limits = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .max_message_size(Some(OBJECT_LIMIT))
        .max_frame_size(Some(OBJECT_LIMIT));
    let socket = WebSocketStream::from_raw_socket(response.into_body(), Role::Client, Some(limits)).await;
    Ok((socket, chosen))
}

fn ask(headers: &mut HeaderMap, key: &str, protocols: &[&str]) -> Result<(), header::InvalidHeaderValue> {
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    headers.insert(header::SEC_WEBSOCKET_KEY, HeaderValue::from_str(key)?);
    if !protocols.is_empty() {
        headers.insert(
            header::SEC_WEBSOCKET_PROTOCOL,
            HeaderValue::from_str(&protocols.join(", "))?,
        );
    }
    Ok(())
}
