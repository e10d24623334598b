//! A watch stream in which every pod of a list changes once, and a client that consumes it.

use std::hint::black_box;

use anyhow::{Context, Result};
use watchkeeper_wire::protobuf::Envelope;
use watchkeeper_wire::protobuf::frame::{self, WatchFrame};
use watchkeeper_wire::watch::object_of_line;
use watchkeeper_wire::{Encoding, Object, ObjectOptions, RawEvent, WatchSplitter};

use crate::pods::Bodies;
use crate::work::{CHUNK, pod_kind, split};

/// One line per event.
pub fn json_stream(bodies: &Bodies) -> Result<Vec<u8>> {
    let mut stream = Vec::new();
    split(Encoding::Json, &bodies.json, |item| {
        let members = item.strip_prefix(b"{").context("an item is an object")?;
        stream.extend_from_slice(br#"{"type":"MODIFIED","object":{"kind":"Pod","apiVersion":"v1","#);
        stream.extend_from_slice(members);
        stream.extend_from_slice(b"}\n");
        Ok(())
    })?;
    Ok(stream)
}

/// One frame per event.
pub fn protobuf_stream(bodies: &Bodies) -> Result<Vec<u8>> {
    let mut stream = Vec::new();
    split(Encoding::Protobuf, &bodies.protobuf, |raw| {
        let (api_version, kind) = ("v1", "Pod");
        let object = Envelope {
            api_version,
            kind,
            raw,
        };
        frame::write(
            &WatchFrame {
                word: "MODIFIED",
                object,
            },
            &mut stream,
        );
        Ok(())
    })?;
    Ok(stream)
}

/// Each object is dropped when the next one arrives, as in a store that replaces it.
pub fn events(encoding: Encoding, stream: &[u8]) -> Result<usize> {
    let (kind, options) = (pod_kind(), ObjectOptions::default());
    let object = |raw: RawEvent<'_>| Object::from_raw(raw.object, &kind, &options);
    let mut splitter = WatchSplitter::new(encoding);
    let mut events = 0;
    for mut chunk in stream.chunks(CHUNK) {
        loop {
            let object = match &mut splitter {
                WatchSplitter::Json(lines) => lines.next(&mut chunk)?.map(|line| {
                    let at_once = object_of_line(line, &kind, &options);
                    at_once.map_or_else(|| object(RawEvent::from_line(line)?), |(_, object)| Ok(object))
                }),
                WatchSplitter::Protobuf(frames) => {
                    let frame = frames.next(&mut chunk)?;
                    frame.map(|frame| object(RawEvent::from_frame(frame)?))
                }
            };
            let Some(object) = object else { break };
            black_box(object?);
            events += 1;
        }
    }
    splitter.finish()?;
    Ok(events)
}
