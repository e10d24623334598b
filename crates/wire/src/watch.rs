//! Splits a watch stream into events, their objects undecoded.

use std::sync::Arc;

use watchkeeper_meta::{GroupVersionKind, WatchEventKind};

use crate::{Encoding, Object, ObjectOptions, RawObject, WireError, json, protobuf};

/// One event of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawEvent<'a> {
    /// The event's type.
    pub kind: WatchEventKind,
    /// The object; for an error, a `Status`.
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
    /// One event per line.
    Json(json::watch::LineSplitter),
    /// Length-prefixed frames.
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

    /// The next event; `None` when the chunk is used up. Consumed bytes are removed from the front of `chunk`.
    ///
    /// A malformed event is an error for that event alone: the next call continues after it. Only an event above the
    /// size limit ends the stream, because its end is not known.
    pub fn next<'a, 'c: 'a>(&'a mut self, chunk: &mut &'c [u8]) -> Result<Option<RawEvent<'a>>, WireError> {
        match self {
            Self::Json(splitter) => splitter.next(chunk)?.map(RawEvent::from_line).transpose(),
            Self::Protobuf(splitter) => splitter.next(chunk)?.map(RawEvent::from_frame).transpose(),
        }
    }

    /// The last event of a stream that has ended, if its line was not terminated; an error if the stream ended within
    /// an event.
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

/// Reads a line of a JSON watch and its object, by the fast path for lines as servers write them. `None` means only
/// that the fast path does not apply, which includes `ERROR` events; use [`RawEvent::from_line`].
///
/// The object equals that of [`Object::from_raw`].
pub fn object_of_line(
    line: &[u8],
    expected: &Arc<GroupVersionKind>,
    options: &ObjectOptions,
) -> Option<(WatchEventKind, Object)> {
    let rest = line.strip_prefix(br#"{"type":""#)?;
    let (word, rest) = rest.split_at_checked(rest.iter().position(|&byte| byte == b'"')?)?;
    let kind = WatchEventKind::parse(str::from_utf8(word).ok()?)?;
    let rest = rest.strip_prefix(br#"","object":"#)?;
    if kind == WatchEventKind::Error {
        return None;
    }
    let (object, length) = Object::from_json_front(rest, expected, options)?;
    (&rest[length..] == b"}").then_some((kind, object))
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
    fn a_line_is_read_at_once_only_if_it_is_nothing_but_an_event() {
        let expected = Arc::new(GroupVersionKind::new("", "v1", "Pod"));
        let read = |line: &str| object_of_line(line.as_bytes(), &expected, &ObjectOptions::default());
        let (kind, object) = read(r#"{"type":"DELETED","object":{"metadata":{"name":"a"}}}"#).unwrap();
        assert_eq!((kind, object.name()), (WatchEventKind::Deleted, "a"));
        for line in [
            "",
            r#"{"type":"ADDED","object":{"metadata":{}}"#,
            r#"{"type":"ADDED","object":{"metadata":{}}},"#,
            r#"{"type":"ADDED","object":{"metadata":{}},"type":"DELETED"}"#,
            r#"{"type":"ADDED","object":null}"#,
            r#"{"type":"RENAMED","object":{"metadata":{}}}"#,
            r#"{"type":"ERROR","object":{"metadata":{}}}"#,
            r#"{"object":{"metadata":{}},"type":"ADDED"}"#,
        ] {
            assert_eq!(read(line), None, "{line}");
        }
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
