//! A protobuf watch stream: per event a four-byte big-endian length, then the event.

use super::envelope::Envelope;
use super::primitive::{
    ProtobufError, ProtobufErrorKind, Reader, WireType, field_len, put_bytes, put_tag, put_varint,
};
use crate::carry::Carry;
use crate::limits::EVENT_LIMIT;

/// Bytes of a frame's length.
const LENGTH_BYTES: usize = 4;

/// Cuts a body into frames; takes chunks of any size.
///
/// A frame within one chunk is a slice of that chunk.
#[derive(Debug, Default)]
pub struct FrameSplitter {
    /// Part of a frame, including its length.
    carry: Carry,
}

/// One event of a protobuf watch, its object undecoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchFrame<'a> {
    /// The event's `type`, known or not.
    pub word: &'a str,
    /// The event's object.
    pub object: Envelope<'a>,
}

impl FrameSplitter {
    /// The next frame without its length; `None` when the chunk is used up. Consumed bytes are removed from the front
    /// of `chunk`.
    pub fn next<'a, 'c: 'a>(&'a mut self, chunk: &mut &'c [u8]) -> Result<Option<&'a [u8]>, ProtobufError> {
        self.carry.start_next();
        loop {
            let held = self.carry.held();
            let size = match held.is_empty() {
                true => self.size(chunk)?,
                false => self.size(held)?,
            };
            let missing = size.unwrap_or(LENGTH_BYTES) - held.len();
            if size.is_some() && missing <= chunk.len() {
                let last = self.carry.take(chunk, missing);
                return Ok(Some(&self.carry.complete(last)[LENGTH_BYTES..]));
            }
            if chunk.is_empty() {
                return Ok(None);
            }
            self.carry.hold(chunk, chunk.len().min(missing));
        }
    }

    /// Returns an error if the stream ended within a frame.
    pub fn finish(&self) -> Result<(), ProtobufError> {
        match self.carry.held().is_empty() {
            true => Ok(()),
            false => Err(ProtobufError {
                offset: self.carry.offset(),
                kind: ProtobufErrorKind::Truncated,
            }),
        }
    }

    /// The size of the frame, including its length field; `None` until that is known.
    fn size(&self, frame: &[u8]) -> Result<Option<usize>, ProtobufError> {
        let Some(length) = frame.first_chunk() else {
            return Ok(None);
        };
        let (part, limit) = ("a watch event", EVENT_LIMIT);
        match u32::from_be_bytes(*length) as usize {
            length if length > limit => Err(ProtobufError {
                offset: self.carry.start(),
                kind: ProtobufErrorKind::TooLarge { part, limit },
            }),
            length => Ok(Some(LENGTH_BYTES + length)),
        }
    }
}

/// Reads one frame: `WatchEvent { 1: type, 2: RawExtension { 1: raw } }`, whose raw is an envelope.
pub fn event(frame: &[u8]) -> Result<WatchFrame<'_>, ProtobufError> {
    let mut reader = Reader::new(frame);
    let (mut word, mut object) = ("", None);
    while let Some((number, wire_type)) = reader.tag()? {
        match (number, wire_type) {
            (1, WireType::Bytes) => word = reader.text(number)?,
            (2, WireType::Bytes) => object = raw_extension(reader.message()?)?,
            (1 | 2, _) => return Err(reader.error(ProtobufErrorKind::UnexpectedWireType { number })),
            _ => reader.skip(wire_type)?,
        }
    }
    match object {
        Some(object) => Ok(WatchFrame { word, object }),
        None => Err(reader.error(ProtobufErrorKind::Other("an event without an object".to_owned()))),
    }
}

fn raw_extension(mut reader: Reader<'_>) -> Result<Option<Envelope<'_>>, ProtobufError> {
    let mut envelope = None;
    while let Some((number, wire_type)) = reader.tag()? {
        match (number, wire_type) {
            (1, WireType::Bytes) => {
                let bytes = reader.bytes()?;
                envelope = Some(Envelope::read_at(bytes, reader.offset() - bytes.len())?);
            }
            _ => reader.skip(wire_type)?,
        }
    }
    Ok(envelope)
}

/// Appends a whole frame: length, event, and the object in its envelope.
pub fn write(event: &WatchFrame<'_>, out: &mut Vec<u8>) {
    write_beginning(event, event.object.raw.len(), out);
    out.extend_from_slice(event.object.raw);
    write_end(out);
}

/// Appends the bytes before an object's message of this length, which is sent separately.
pub fn write_beginning(event: &WatchFrame<'_>, raw_len: usize, out: &mut Vec<u8>) {
    let object = event.object.len_around(raw_len);
    let extension = field_len(object);
    let length = field_len(event.word.len()) + field_len(extension);
    out.extend_from_slice(&(length as u32).to_be_bytes());
    put_bytes(out, 1, event.word.as_bytes());
    put_tag(out, 2, WireType::Bytes);
    put_varint(out, extension as u64);
    put_tag(out, 1, WireType::Bytes);
    put_varint(out, object as u64);
    event.object.write_beginning(raw_len, out);
}

/// Appends the bytes after the message.
pub fn write_end(out: &mut Vec<u8>) {
    Envelope::write_end(out);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames(body: &[u8], size: usize) -> Result<Vec<Vec<u8>>, ProtobufError> {
        let mut splitter = FrameSplitter::default();
        let mut frames = Vec::new();
        for mut chunk in body.chunks(size) {
            while let Some(frame) = splitter.next(&mut chunk)? {
                frames.push(frame.to_vec());
            }
        }
        splitter.finish().map(|()| frames)
    }

    fn sample<'a>(raw: &'a [u8]) -> WatchFrame<'a> {
        let (api_version, kind) = ("v1", "Pod");
        let object = Envelope {
            api_version,
            kind,
            raw,
        };
        WatchFrame {
            word: "ADDED",
            object,
        }
    }

    #[test]
    fn frames_are_cut_from_chunks_of_any_size() {
        let mut body = Vec::new();
        let raws = [vec![], vec![1; 300], vec![2; 3]];
        raws.iter().for_each(|raw| write(&sample(raw), &mut body));
        for size in 1..=body.len() {
            let found = frames(&body, size).unwrap();
            let events: Vec<_> = found.iter().map(|frame| event(frame).unwrap()).collect();
            assert_eq!(events, raws.each_ref().map(|raw| sample(raw)), "in {size}s");
        }
        assert_eq!(frames(&[0, 0, 0, 0], 1).unwrap(), [b""]);
    }

    #[test]
    fn bad_frames_are_named_with_their_offset() {
        let check = |body: &[u8], text: &str| {
            assert_eq!(frames(body, 3).unwrap_err().to_string(), text);
        };
        check(&[0, 0, 0, 9, 1], "invalid protobuf at byte 5: truncated");
        check(&[0, 0], "invalid protobuf at byte 2: truncated");
        check(
            &[255; 8],
            "invalid protobuf at byte 0: a watch event is larger than 33555456 bytes",
        );
        let check = |frame: &[u8], text: &str| assert_eq!(event(frame).unwrap_err().to_string(), text);
        check(
            b"\x0a\x01A",
            "invalid protobuf at byte 3: an event without an object",
        );
        check(
            b"\x08\x01",
            "invalid protobuf at byte 1: field 1 has the wrong wire type",
        );
        check(
            b"\x12\x04\x0a\x02{}",
            r"invalid protobuf at byte 4: not a Kubernetes protobuf body: it does not begin with k8s\0",
        );
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_an_event_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..60), size in 1usize..9) {
            let _ = (event(&bytes), frames(&bytes, size));
        }
    }
}
