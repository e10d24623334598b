//! Many watches for little processor time, so that a measurement shows the server's.
//!
//! A client library has a task, a queue and a wake-up per watch. With ten thousand watches these take more time than the
//! server does, on the same processors. Here a connection is a byte stream: requests are written as HTTP/2 frames, and
//! what arrives is cut into frames to count lines. It keeps no state per watch.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::client::TlsStream;

use crate::Failure;
use crate::address::Address;
use crate::load::{JSON, WATCH};

/// kube-apiserver allows no more.
const WATCHES_PER_CONNECTION: usize = 100;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const FRAME_HEAD: usize = 9;
/// The largest window there is. It is never extended: it is larger than what a measurement sends.
const WINDOW: u32 = (1 << 31) - 1;
/// The window that every connection begins with.
const FIRST_WINDOW: u32 = (1 << 16) - 1;
const READ_BYTES: usize = 64 << 10;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const INITIAL_WINDOW_SIZE: u16 = 4;
/// `:status: 200` in HPACK's static table.
const OK: u8 = 0x88;

/// Open watches of config maps.
pub(crate) struct Watches {
    progress: watch::Receiver<Progress>,
    count: watch::Sender<Progress>,
}

#[derive(Default)]
struct Progress {
    /// The events of all watches so far.
    seen: usize,
    /// The number that is waited for.
    wanted: usize,
    failure: Option<String>,
}

impl Watches {
    /// Opens watches; returns when the server has answered all.
    pub(crate) async fn open(server: &Address, watches: usize) -> Result<Self, Failure> {
        let (count, progress) = watch::channel(Progress::default());
        for first in (0..watches).step_by(WATCHES_PER_CONNECTION) {
            let streams = WATCHES_PER_CONNECTION.min(watches - first);
            let mut connection = Connection::open(server).await?;
            let fields = fields(server);
            // One after the other: what many requests at once take would be counted as memory of the watches.
            for stream in 0..streams {
                connection.request(stream, &fields).await?;
                while connection.answers <= stream {
                    // A change may come before the last answer.
                    let lines = connection.read().await?;
                    count.send_modify(|progress| progress.seen += lines);
                }
            }
            let count = count.clone();
            tokio::spawn(async move {
                let failure = loop {
                    match connection.read().await {
                        Ok(0) => {}
                        Ok(lines) => {
                            // The waiting task is woken once, by the last event.
                            count.send_if_modified(|progress| {
                                progress.seen += lines;
                                progress.seen >= progress.wanted
                            });
                        }
                        Err(failure) => break failure.to_string(),
                    }
                };
                count.send_modify(|progress| progress.failure = Some(failure));
            });
        }
        Ok(Self { progress, count })
    }

    /// Waits for so many further events.
    pub(crate) async fn see(&mut self, events: usize) -> Result<(), Failure> {
        self.count.send_modify(|progress| progress.wanted += events);
        let seen = |progress: &Progress| progress.seen >= progress.wanted || progress.failure.is_some();
        match &self.progress.wait_for(seen).await?.failure {
            Some(failure) => Err(format!("a watch: {failure}").into()),
            None => Ok(()),
        }
    }
}

/// A connection whose streams are watches.
struct Connection {
    stream: TlsStream<TcpStream>,
    received: BytesMut,
    /// The watches that the server has answered with 200.
    answers: usize,
}

impl Connection {
    async fn open(server: &Address) -> Result<Self, Failure> {
        let stream = TcpStream::connect(server.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(server.name.clone())?;
        let mut stream = server.tls.connect(name, stream).await?;
        stream.write_all(&start()).await?;
        let (received, answers) = (BytesMut::with_capacity(2 * READ_BYTES), 0);
        Ok(Self {
            stream,
            received,
            answers,
        })
    }

    /// Sends the request of one stream.
    async fn request(&mut self, stream: usize, fields: &[u8]) -> Result<(), Failure> {
        let request = frame(HEADERS, END_STREAM | END_HEADERS, 2 * stream as u32 + 1, fields);
        self.stream.write_all(&request).await?;
        Ok(self.stream.flush().await?)
    }

    /// Reads what is there; returns the number of events in it.
    async fn read(&mut self) -> Result<usize, Failure> {
        self.received.reserve(READ_BYTES);
        if self.stream.read_buf(&mut self.received).await? == 0 {
            return Err("the server closed the connection".into());
        }
        let mut lines = 0;
        while let Some((kind, flags, payload)) = self.frame() {
            match kind {
                DATA if flags & END_STREAM != 0 => return Err("it has ended".into()),
                DATA => lines += memchr::memchr_iter(b'\n', &payload).count(),
                HEADERS if payload.first() == Some(&OK) && flags & END_STREAM == 0 => self.answers += 1,
                HEADERS => return Err("it was refused".into()),
                RST_STREAM | GOAWAY => return Err("the server ended it".into()),
                SETTINGS | PING if flags & ACK == 0 => {
                    let echo = if kind == PING { &payload[..] } else { &[] };
                    self.stream.write_all(&frame(kind, ACK, 0, echo)).await?;
                    self.stream.flush().await?;
                }
                _ => {}
            }
        }
        Ok(lines)
    }

    /// Takes a complete frame: its kind, its flags and its payload.
    fn frame(&mut self) -> Option<(u8, u8, Bytes)> {
        let mut head = self.received.get(..FRAME_HEAD)?;
        let length = head.get_uint(3) as usize;
        let (kind, flags) = (head.get_u8(), head.get_u8());
        if self.received.len() < FRAME_HEAD + length {
            return None;
        }
        self.received.advance(FRAME_HEAD);
        Some((kind, flags, self.received.split_to(length).freeze()))
    }
}

/// The start of a connection.
fn start() -> Vec<u8> {
    let mut settings = Vec::new();
    settings.put_u16(INITIAL_WINDOW_SIZE);
    settings.put_u32(WINDOW);
    let mut start = PREFACE.to_vec();
    start.extend(frame(SETTINGS, 0, 0, &settings));
    start.extend(frame(WINDOW_UPDATE, 0, 0, &(WINDOW - FIRST_WINDOW).to_be_bytes()));
    start
}

/// The fields of every request.
fn fields(server: &Address) -> Vec<u8> {
    let mut fields = Vec::new();
    let address = server.address.to_string();
    put_field(&mut fields, ":method", "GET");
    put_field(&mut fields, ":scheme", "https");
    put_field(&mut fields, ":authority", &address);
    put_field(&mut fields, ":path", WATCH);
    put_field(&mut fields, "accept", JSON);
    if let Some(token) = &server.token {
        put_field(&mut fields, "authorization", &format!("Bearer {token}"));
    }
    fields
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(FRAME_HEAD + payload.len());
    frame.put_uint(payload.len() as u64, 3);
    frame.put_slice(&[kind, flags]);
    frame.put_u32(stream);
    frame.put_slice(payload);
    frame
}

/// A field in HPACK, as a literal that the server does not remember.
fn put_field(fields: &mut Vec<u8>, name: &str, value: &str) {
    fields.put_u8(0);
    for text in [name, value] {
        put_length(fields, text.len());
        fields.put_slice(text.as_bytes());
    }
}

/// HPACK's integer with a prefix of seven bits.
fn put_length(fields: &mut Vec<u8>, length: usize) {
    const PREFIX: usize = 0x7f;
    if length < PREFIX {
        return fields.put_u8(length as u8);
    }
    fields.put_u8(PREFIX as u8);
    let mut rest = length - PREFIX;
    while rest >= 0x80 {
        fields.put_u8((rest & PREFIX) as u8 | 0x80);
        rest >>= 7;
    }
    fields.put_u8(rest as u8);
}
