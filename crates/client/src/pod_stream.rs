//! `exec` and `attach`: the streams of a process in a pod, over a WebSocket.
//!
//! Each message is one byte for the channel, then its bytes: 0 standard input, 1 and 2 output, 3 the exit status, 4
//! the terminal's size. Version 5 of the protocol can also close the input. Reader and writer are separate, so that
//! one task can read while another writes.

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio_tungstenite::tungstenite::{Error as WebSocketError, Message};
use watchkeeper_meta::{AttachOptions, ExecOptions, Status};

use crate::dynamic::{Asked, DynamicApi};
use crate::error::{Error, ErrorKind};
use crate::websocket::{self, WebSocket};

/// With and without closing of the input; the first exists since v1.30.
const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const RESIZE: u8 = 4;
const CLOSE: u8 = 255;

/// Output of a process.
#[derive(Clone, Debug)]
pub enum PodOutput {
    /// Standard output; with a terminal, all output.
    Stdout(Bytes),
    /// Standard error.
    Stderr(Bytes),
    /// The exit status. The last item.
    Ended(PodEnd),
}

/// The exit status of a process.
#[derive(Clone, Debug)]
pub struct PodEnd {
    /// The server's `Status`.
    pub status: Status,
}

/// The output of a process in a pod.
pub struct PodReader {
    socket: SplitStream<WebSocket>,
    asked: Asked,
}

/// The input of a process in a pod.
pub struct PodWriter {
    socket: SplitSink<WebSocket, Message>,
    asked: Asked,
    can_close: bool,
}

impl DynamicApi {
    /// Runs a command in a pod. The resource must be pods.
    ///
    /// ```no_run
    /// # use watchkeeper_client::{DynamicApi, PodOutput};
    /// # use watchkeeper_meta::ExecOptions;
    /// # async fn example(pods: DynamicApi) -> Result<(), Box<dyn std::error::Error>> {
    /// let options = ExecOptions { command: vec!["ls".into()], stdout: true, ..Default::default() };
    /// let (_input, mut output) = pods.exec("web-0", &options).await?;
    /// while let Some(said) = output.next().await {
    ///     if let PodOutput::Stdout(bytes) = said? {
    ///         println!("{}", String::from_utf8_lossy(&bytes));
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn exec(&self, name: &str, options: &ExecOptions) -> Result<(PodWriter, PodReader), Error> {
        self.talk(self.connect_request(self.object(name).exec(options))?)
            .await
    }

    /// Attaches to the main process of a pod. The resource must be pods.
    pub async fn attach(&self, name: &str, options: &AttachOptions) -> Result<(PodWriter, PodReader), Error> {
        self.talk(self.connect_request(self.object(name).attach(options))?)
            .await
    }

    async fn talk(&self, request: http::Request<Bytes>) -> Result<(PodWriter, PodReader), Error> {
        let asked = Asked::new(self.client(), &request);
        let (socket, protocol) = websocket::open(self.client(), request, &asked, &PROTOCOLS).await?;
        let (sink, stream) = socket.split();
        let writer = PodWriter {
            socket: sink,
            asked: asked.clone(),
            can_close: protocol == PROTOCOLS[0],
        };
        Ok((
            writer,
            PodReader {
                socket: stream,
                asked,
            },
        ))
    }
}

impl PodReader {
    /// The next output; `None` once the server has closed the connection.
    pub async fn next(&mut self) -> Option<Result<PodOutput, Error>> {
        loop {
            let bytes = match self.socket.next().await? {
                Ok(Message::Binary(bytes)) => bytes,
                Ok(Message::Text(text)) => text.into(),
                Ok(_) => continue,
                Err(WebSocketError::ConnectionClosed) => return None,
                Err(error) => return Some(Err(self.asked.error(ErrorKind::WebSocket(error.to_string())))),
            };
            // Servers open each channel with an empty message.
            let Some((&channel, said)) = bytes.split_first().filter(|(_, said)| !said.is_empty()) else {
                continue;
            };
            let said = bytes.slice_ref(said);
            return Some(match channel {
                STDOUT => Ok(PodOutput::Stdout(said)),
                STDERR => Ok(PodOutput::Stderr(said)),
                STATUS => self.ended(&said),
                _ => continue,
            });
        }
    }

    fn ended(&self, said: &[u8]) -> Result<PodOutput, Error> {
        match serde_json::from_slice(said) {
            Ok(status) => Ok(PodOutput::Ended(PodEnd { status })),
            Err(error) => Err(self.asked.unreadable(&error)),
        }
    }
}

impl PodEnd {
    /// The exit code: 0 for success; `None` if the process was not run.
    pub fn exit_code(&self) -> Option<i32> {
        if self.status.is_success() {
            return Some(0);
        }
        let causes = &self.status.details.as_ref()?.causes;
        let code = causes.iter().find(|cause| cause.reason == "ExitCode")?;
        code.message.parse().ok()
    }
}

impl PodWriter {
    /// Sends bytes to the process's standard input.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.send(STDIN, bytes).await
    }

    /// Closes the process's input; an error if the server's protocol does not support it.
    pub async fn close_input(&mut self) -> Result<(), Error> {
        if !self.can_close {
            let reason = format!(
                "the server only speaks {}, which cannot close the input",
                PROTOCOLS[1]
            );
            return Err(self.asked.error(ErrorKind::WebSocket(reason)));
        }
        self.send(CLOSE, &[STDIN]).await
    }

    /// Sets the size of the process's terminal, in characters.
    pub async fn resize(&mut self, width: u16, height: u16) -> Result<(), Error> {
        self.send(
            RESIZE,
            json!({"Width": width, "Height": height}).to_string().as_bytes(),
        )
        .await
    }

    async fn send(&mut self, channel: u8, bytes: &[u8]) -> Result<(), Error> {
        let message = Message::binary([&[channel], bytes].concat());
        let sent = self.socket.send(message).await;
        sent.map_err(|error| self.asked.error(ErrorKind::WebSocket(error.to_string())))
    }
}

impl std::fmt::Debug for PodReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PodReader")
            .field("asked", &self.asked)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for PodWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PodWriter")
            .field("asked", &self.asked)
            .finish_non_exhaustive()
    }
}
