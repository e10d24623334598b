//! A watch stream as it arrives: one event after the other, their objects still bytes.

use watchkeeper_meta::WatchEventKind;

use crate::{Encoding, RawObject, WireError, json, protobuf};

/// One event of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawEvent<'a> {
    /// What happened.
    pub kind: WatchEventKind,
    /// To which object; for an error, a `Status`.
    pub object: RawObject<'a>,
}

/// Cuts the events out of a watch stream in either encoding.
///
/// ```
/// use watchkeeper_wire::{Encoding, WatchSplitter};
///
/// let mut splitter = WatchSplitter::new(Encoding::Json);
/// let mut seen = Vec::new();
/// for mut chunk in [&b"{\"type\":\"ADDED\",\"obj"[..], b"ect\":{\"a\":1}}\n"] {
///     while let Some(event) = splitter.next(&mut chunk)? {
///         seen.push((event.kind.as_str(), event.object.bytes.to_vec()));
///     }
/// }
/// assert_eq!(splitter.finish()?, None);
/// assert_eq!(seen, [("ADDED", br#"{"a":1}"#.to_vec())]);
/// # Ok::<(), watchkeeper_wire::WireError>(())
/// ```
#[derive(Debug)]
pub enum WatchSplitter {
    /// Lines.
    Json(json::watch::LineSplitter),
    /// Frames with their length in front.
    Protobuf(protobuf::frame::FrameSplitter),
}

impl WatchSplitter {
    /// Starts at the beginning of a stream.
    pub fn new(encoding: Encoding) -> Self {
        match encoding {
            Encoding::Json => Self::Json(Default::default()),
            Encoding::Protobuf => Self::Protobuf(Default::default()),
        }
    }

    /// The next event; `None` when the chunk is used up. Consumed bytes are taken off the front of `chunk`.
    ///
    /// An event that cannot be read is an error for that event alone: the next call goes on behind it. Only an
    /// event beyond the size limit ends the stream, because its end is not known.
    pub fn next<'a, 'c: 'a>(&'a mut self, chunk: &mut &'c [u8]) -> Result<Option<RawEvent<'a>>, WireError> {
        match self {
            Self::Json(splitter) => splitter.next(chunk)?.map(RawEvent::from_line).transpose(),
            Self::Protobuf(splitter) => splitter.next(chunk)?.map(RawEvent::from_frame).transpose(),
        }
    }

    /// The last event of a stream that has ended, if the server did not end its line; an error if the stream broke
    /// off within an event.
    pub fn finish(&self) -> Result<Option<RawEvent<'_>>, WireError> {
        match self {
            Self::Json(splitter) => splitter.rest().map(RawEvent::from_line).transpose(),
            Self::Protobuf(splitter) => Ok(splitter.finish().map(|()| None)?),
        }
    }
}

impl<'a> RawEvent<'a> {
    /// Reads one line of a JSON watch.
    pub fn from_line(line: &'a [u8]) -> Result<Self, WireError> {
        let event = json::watch::event(line)?;
        let object = RawObject::item(Encoding::Json, event.object);
        let kind = event_kind(&event.word)?;
        Ok(Self { kind, object })
    }

    /// Reads one frame of a protobuf watch.
    pub fn from_frame(frame: &'a [u8]) -> Result<Self, WireError> {
        let event = protobuf::frame::event(frame)?;
        let object = RawObject {
            encoding: Encoding::Protobuf,
            api_version: event.object.api_version,
            kind: event.object.kind,
            bytes: event.object.raw,
        };
        let kind = event_kind(event.word)?;
        Ok(Self { kind, object })
    }
}

fn event_kind(word: &str) -> Result<WatchEventKind, WireError> {
    WatchEventKind::parse(word).ok_or_else(|| WireError::UnknownEvent {
        word: word.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_event_does_not_end_the_stream() {
        let body = b"{\"type\":\"RENAMED\",\"object\":{}}\n{\"type\"}\n{\"type\":\"DELETED\",\"object\":{}}";
        let mut splitter = WatchSplitter::new(Encoding::Json);
        let mut chunk = &body[..];
        let mut error = || splitter.next(&mut chunk).unwrap_err().to_string();
        assert_eq!(error(), r#"unknown watch event type "RENAMED""#);
        assert_eq!(error(), "invalid JSON at byte 7: expected a colon");
        assert_eq!(splitter.next(&mut chunk), Ok(None));
        assert_eq!(splitter.finish().unwrap().unwrap().kind, WatchEventKind::Deleted);
    }

    #[test]
    fn protobuf_events_bring_their_type() {
        let object = protobuf::Envelope {
            api_version: "v1",
            kind: "Pod",
            raw: b"\x0a\x00",
        };
        let mut body = Vec::new();
        protobuf::frame::write(
            &protobuf::frame::WatchFrame {
                word: "BOOKMARK",
                object,
            },
            &mut body,
        );
        let mut splitter = WatchSplitter::new(Encoding::Protobuf);
        let event = splitter.next(&mut &body[..]).unwrap().unwrap();
        assert_eq!(event.kind, WatchEventKind::Bookmark);
        assert_eq!(
            (event.object.api_version, event.object.kind, event.object.bytes),
            ("v1", "Pod", object.raw)
        );
        assert_eq!(splitter.finish(), Ok(None));
    }
}
