//! Every recorded pair of JSON and protobuf must convert into each other, byte for byte, except for white space
//! between JSON tokens.
//!
//! The recordings are not part of the project; without them the test says so and passes.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use watchkeeper_wire::protobuf::envelope::Envelope;
use watchkeeper_wire::protobuf::{Message, encode_message};
use watchkeeper_wire::schema::{Schema, TypeId};

/// `WATCHKEEPER_CODEC_GOLDENS` names another folder of pairs.
fn folder() -> PathBuf {
    match std::env::var_os("WATCHKEEPER_CODEC_GOLDENS") {
        Some(folder) => folder.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/goldens/codec"),
    }
}

struct Pair {
    name: String,
    json: Value,
    /// The JSON on one line.
    text: String,
    protobuf: Vec<u8>,
}

fn pairs() -> Vec<Pair> {
    let Ok(entries) = std::fs::read_dir(folder()) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "pb"));
    paths.sort();
    let read = |path: &Path| {
        let text = std::fs::read_to_string(path.with_extension("json")).unwrap();
        Pair {
            name: path.file_stem().unwrap().to_string_lossy().into_owned(),
            json: serde_json::from_str(&text).unwrap(),
            text: without_space(&text),
            protobuf: std::fs::read(path).unwrap(),
        }
    };
    paths.iter().map(|path| read(path)).collect()
}

/// JSON without white space between its tokens.
fn without_space(text: &str) -> String {
    let (mut in_text, mut escaped) = (false, false);
    let keep = |c: &char| {
        let kept = in_text || !c.is_ascii_whitespace();
        in_text ^= *c == '"' && !escaped;
        escaped = *c == '\\' && !escaped;
        kept
    };
    text.chars().filter(keep).collect()
}

/// Runs a check on every pair and names all that failed.
fn check(what: &str, check: impl Fn(&Pair, &Envelope<'_>, TypeId) -> Result<(), String>) {
    let pairs = pairs();
    if pairs.is_empty() {
        // Not `eprintln!`: its output is hidden in a passing test.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: no recorded pairs in {}",
            folder().display()
        );
        return;
    }
    let mut failures = Vec::new();
    for pair in &pairs {
        let envelope = Envelope::read(&pair.protobuf).unwrap();
        let id = type_of(pair, &envelope);
        if let Err(reason) = check(pair, &envelope, id) {
            failures.push(format!("{}: {reason}", pair.name));
        }
    }
    assert!(
        failures.is_empty(),
        "{what}, {} of {} failed\n{}",
        failures.len(),
        pairs.len(),
        failures.join("\n")
    );
}

/// A watch event has no kind in its envelope; the file's name says it.
fn type_of(pair: &Pair, envelope: &Envelope<'_>) -> TypeId {
    let kind = match envelope.kind {
        "" => pair.name.rsplit('.').next().unwrap(),
        kind => kind,
    };
    Schema::builtin()
        .kind(envelope.api_version, kind)
        .unwrap_or_else(|| panic!("{} has no type", pair.name))
}

fn message<'a>(envelope: &Envelope<'a>, id: TypeId) -> Message<'a> {
    match envelope.kind {
        "" => Message::of_type(Schema::builtin(), id, envelope.raw),
        kind => Message::of_kind(Schema::builtin(), envelope.api_version, kind, envelope.raw).unwrap(),
    }
}

/// The first place at which two values differ.
fn difference(path: &str, found: &Value, expected: &Value) -> Option<String> {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            let missing = expected.keys().find(|key| !found.contains_key(*key));
            if let Some(key) = missing {
                return Some(format!("{path}.{key} is missing"));
            }
            found.iter().find_map(|(key, value)| match expected.get(key) {
                Some(expected) => difference(&format!("{path}.{key}"), value, expected),
                None => Some(format!("{path}.{key} is too much: {value}")),
            })
        }
        (Value::Array(found), Value::Array(expected)) if found.len() == expected.len() => {
            let pairs = found.iter().zip(expected).enumerate();
            pairs.into_iter().find_map(|(index, (found, expected))| {
                difference(&format!("{path}[{index}]"), found, expected)
            })
        }
        _ => (found != expected).then(|| format!("{path} is {found}, not {expected}")),
    }
}

#[test]
fn protobuf_becomes_the_recorded_json() {
    check("protobuf to JSON", |pair, envelope, id| {
        let value = message(envelope, id)
            .to_value()
            .map_err(|error| error.to_string())?;
        difference("", &value, &pair.json).map_or(Ok(()), Err)
    });
}

#[test]
fn protobuf_becomes_the_recorded_json_as_text() {
    check("protobuf to JSON text", |pair, envelope, id| {
        let text = message(envelope, id)
            .to_json()
            .map_err(|error| error.to_string())?;
        let text = String::from_utf8(text).map_err(|error| error.to_string())?;
        let same = text.bytes().zip(pair.text.bytes());
        let at = same.take_while(|(left, right)| left == right).count();
        let around = |text: &str| {
            text.chars()
                .skip(at.saturating_sub(30))
                .take(80)
                .collect::<String>()
        };
        match text == pair.text {
            true => Ok(()),
            false => Err(format!("{:?} instead of {:?}", around(&text), around(&pair.text))),
        }
    });
}

#[test]
fn json_becomes_the_recorded_protobuf() {
    check("JSON to protobuf", |pair, envelope, id| {
        let raw = encode_message(Schema::builtin(), id, &pair.json).map_err(|error| error.to_string())?;
        let mut body = Vec::new();
        Envelope {
            raw: &raw,
            ..*envelope
        }
        .write(&mut body);
        let same = body
            .iter()
            .zip(&pair.protobuf)
            .take_while(|(left, right)| left == right)
            .count();
        let is_equal = body == pair.protobuf;
        is_equal.then_some(()).ok_or_else(|| {
            format!(
                "differs from byte {same}, {} of {} bytes",
                body.len(),
                pair.protobuf.len()
            )
        })
    });
}
