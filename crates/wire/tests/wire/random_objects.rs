//! Random objects of every kind survive both encodings, and damaged messages are errors, never panics.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use watchkeeper_wire::canonical::{canonicalize, canonicalize_changed};
use watchkeeper_wire::difference::Difference;
use watchkeeper_wire::protobuf::managed_fields::copy_without;
use watchkeeper_wire::protobuf::primitive::{Reader, WireType, put_bytes, put_tag, put_varint};
use watchkeeper_wire::protobuf::{Envelope, Message, encode_as, encode_message};
use watchkeeper_wire::schema::{Kind, Schema, Shape, TypeId};

/// The depth of a random object; schemas of custom resources would never end.
const DEPTH: usize = 9;

/// A small generator of numbers: an object is a pure function of its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    fn text(&mut self) -> String {
        const LETTERS: [&str; 15] = [
            "a", "b", "-", "ä", "\"", "\\", "\n", "\u{1}", "\u{8}", "<", "&", "\u{2028}", "日", "0", "/",
        ];
        (0..self.roll(6)).map(|_| *self.pick(&LETTERS)).collect()
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.roll(of.len() as u64) as usize]
    }

    fn json(&mut self, depth: usize) -> Value {
        match self.roll(if depth == 0 { 4 } else { 6 }) {
            0 => Value::Null,
            1 => Value::Bool(self.roll(2) == 1),
            2 => Value::from(self.roll(2000) as i64 - 1000),
            3 => Value::from(self.text()),
            4 => (0..self.roll(3)).map(|_| self.json(depth - 1)).collect(),
            _ => Value::Object(
                (0..self.roll(3))
                    .map(|_| (self.text(), self.json(depth - 1)))
                    .collect(),
            ),
        }
    }

    fn object(&mut self, id: TypeId, depth: usize) -> Map<String, Value> {
        let schema = Schema::builtin();
        let mut object = Map::new();
        for field in schema.fields(id) {
            // kind and apiVersion are not in a message.
            let is_identity = field.name == "kind" || field.name == "apiVersion";
            if is_identity && schema[id].is_object || self.roll(3) == 0 {
                continue;
            }
            if let Some(value) = self.value(&field.shape, depth) {
                object.insert(field.name.clone().into_owned(), value);
            }
        }
        object
    }

    /// A value of a shape; `None` when it would go too deep.
    fn value(&mut self, shape: &Shape, depth: usize) -> Option<Value> {
        Some(match shape {
            Shape::String(_) => Value::from(self.text()),
            Shape::Bool => Value::Bool(self.roll(2) == 1),
            Shape::Int32 => Value::from(*self.pick(&[0, 1, -1, 80, i32::MIN, i32::MAX])),
            Shape::Int64 => Value::from(*self.pick(&[0, 1, -1, 300, i64::MIN, i64::MAX])),
            Shape::Float64 => self
                .pick(&[json!(0), json!(1.5), json!(-2), json!(1e300)])
                .clone(),
            // No bytes and nil bytes are the same in JSON, but not in protobuf.
            Shape::Bytes => self.pick(&[json!("AA=="), json!("aGVsbG8=")]).clone(),
            Shape::Time => self
                .pick(&[json!("2008-01-01T01:01:01Z"), json!("1970-01-01T00:00:00Z")])
                .clone(),
            Shape::MicroTime => json!("2008-01-01T01:01:01.000123Z"),
            Shape::Duration => json!("1h30m0s"),
            Shape::Quantity => self
                .pick(&[json!("0"), json!("100m"), json!("1Gi"), json!("-3")])
                .clone(),
            Shape::IntOrString => self
                .pick(&[json!(80), json!("http"), json!(0), json!("")])
                .clone(),
            Shape::FieldsV1 => json!({"f:metadata": {"f:labels": {".": {}}}}),
            Shape::RawExtension => json!({"apiVersion": "example.com/v1", "raw": self.json(3)}),
            Shape::Json | Shape::Any => self.json(3),
            _ if depth == 0 => return None,
            Shape::Struct(id) => Value::Object(self.object(*id, depth - 1)),
            Shape::List(item) | Shape::ListMessage(item) => {
                // An empty list and no list are the same in protobuf.
                (0..=self.roll(2))
                    .map(|_| self.value(item, depth - 1))
                    .collect::<Option<_>>()?
            }
            Shape::Map(value) => {
                let entry = |dice: &mut Self| Some((dice.text(), dice.value(value, depth - 1)?));
                Value::Object((0..=self.roll(2)).map(|_| entry(self)).collect::<Option<_>>()?)
            }
            Shape::SchemaOrBool(id) if self.roll(2) == 0 => Value::Object(self.object(*id, depth - 1)),
            Shape::SchemaOrBool(_) => Value::Bool(self.roll(2) == 1),
            Shape::SchemaOrArray(id) if self.roll(2) == 0 => json!([self.object(*id, depth - 1)]),
            Shape::SchemaOrStrings(_) if self.roll(2) == 0 => json!([self.text()]),
            Shape::SchemaOrArray(id) | Shape::SchemaOrStrings(id) => {
                Value::Object(self.object(*id, depth - 1))
            }
        })
    }
}

fn kinds() -> Vec<&'static Kind> {
    // A table is never sent as protobuf.
    Schema::builtin()
        .kinds()
        .iter()
        .filter(|kind| !kind.kind.starts_with("Table"))
        .collect()
}

fn some_object() -> impl Strategy<Value = (&'static Kind, Value)> {
    (0..kinds().len(), any::<u64>()).prop_map(|(index, seed)| {
        let kind = kinds()[index];
        (kind, Value::Object(Dice(seed).object(kind.id, DEPTH)))
    })
}

fn read(kind: &Kind, raw: &[u8]) -> Result<Value, String> {
    let message = Message::of_type(Schema::builtin(), kind.id, raw);
    let value = message.to_value().map_err(|error| error.to_string());
    check_readers_agree(kind, raw);
    let text = message.to_json().map_err(|error| error.to_string());
    match (value, text) {
        (Ok(value), Ok(text)) => {
            // Both go through text: reading a float back may change its last digit.
            let (value_again, text_again) = (value.to_string(), String::from_utf8(text).unwrap());
            let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            assert!(parse(&value_again) == parse(&text_again), "text and value differ");
            Ok(value)
        }
        (Err(error), Err(_)) => Err(error),
        (value, text) => panic!(
            "one reader refused what the other took: {value:?} {:?}",
            text.map(String::from_utf8)
        ),
    }
}

/// Reading into a tree gives the same result as reading through `serde`, errors included, with and without managed
/// fields.
fn check_readers_agree(kind: &Kind, raw: &[u8]) {
    let message = Message::of_type(Schema::builtin(), kind.id, raw);
    assert_eq!(message.to_value(), message.decode());
    let first = Schema::builtin()[kind.id].field_numbered(1);
    if first.is_none_or(|(_, field)| field.declared != "meta/v1.ObjectMeta") {
        return;
    }
    let mut cut = Vec::new();
    let cut = copy_without(raw, &mut cut)
        .and_then(|()| Message::of_type(Schema::builtin(), kind.id, &cut).decode());
    assert_eq!(message.to_value_without_managed_fields(), cut);
}

/// Shuffles the fields of a message and adds an unknown one.
fn shuffled(raw: &[u8], turn: usize) -> Vec<u8> {
    let mut reader = Reader::new(raw);
    let mut fields = Vec::new();
    loop {
        let start = reader.offset();
        let Some((number, wire_type)) = reader.tag().unwrap() else {
            break;
        };
        reader.skip(wire_type).unwrap();
        fields.push((number, raw[start..reader.offset()].to_vec()));
    }
    // Fields with different numbers change places; items of one list do not.
    fields.sort_by_key(|(number, _)| (*number as usize).wrapping_mul(2_654_435_761).wrapping_add(turn) % 64);
    let mut out = Vec::new();
    put_bytes(&mut out, 500, b"unknown");
    put_tag(&mut out, 501, WireType::Varint);
    put_varint(&mut out, 7);
    fields.iter().for_each(|(_, bytes)| out.extend_from_slice(bytes));
    out
}

#[test]
fn every_kind_comes_back_from_json_byte_for_byte() {
    let schema = Schema::builtin();
    for kind in kinds() {
        for seed in 0..4 {
            let object = Value::Object(Dice(seed).object(kind.id, DEPTH));
            let raw = encode_message(schema, kind.id, &object).unwrap();
            let text = Message::of_type(schema, kind.id, &raw).to_json().unwrap();
            let again = encode_message(schema, kind.id, &serde_json::from_slice(&text).unwrap()).unwrap();
            assert_eq!(again, raw, "{} {}, seed {seed}", kind.api_version, kind.kind);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn random_objects_survive_both_encodings((kind, object) in some_object()) {
        let schema = Schema::builtin();
        let canonical = canonicalize(schema, kind.id, object.clone()).unwrap();
        prop_assert_eq!(&canonical.unknown, &[]);
        let raw = encode_message(schema, kind.id, &object).unwrap();
        prop_assert_eq!(&encode_message(schema, kind.id, &canonical.value).unwrap(), &raw);
        let body = encode_as(schema, &kind.api_version, &kind.kind, &object).unwrap();
        prop_assert_eq!(Envelope::read(&body).unwrap().raw, &raw);
        let again = read(kind, &raw).unwrap();
        prop_assert_eq!(&again, &canonical.value);
        prop_assert_eq!(read(kind, &shuffled(&raw, raw.len())).unwrap(), again);
    }

    #[test]
    fn objects_are_put_in_order_beside_others_as_they_are_alone((kind, object) in some_object(), other in any::<u64>()) {
        let schema = Schema::builtin();
        let alone = |object: &Value| canonicalize(schema, kind.id, object.clone()).unwrap();
        let other = Value::Object(Dice(other).object(kind.id, DEPTH));
        // An object with some fields of each, as after most writes.
        let mut mixed = alone(&other).value;
        for (name, value) in object.as_object().into_iter().flatten().step_by(2) {
            mixed[name] = value.clone();
        }
        let states = [object, other, mixed];
        for (state, known) in states.iter().flat_map(|state| states.iter().map(move |known| (state, known))) {
            let known = alone(known).value;
            let difference = Difference::between(&known, state);
            let beside = canonicalize_changed(schema, kind.id, state.clone(), &difference).unwrap();
            prop_assert_eq!(beside, alone(state));
        }
    }

    #[test]
    fn damaged_messages_are_errors_or_other_objects(
        (kind, object) in some_object(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        length in any::<prop::sample::Index>(),
    ) {
        let mut raw = encode_message(Schema::builtin(), kind.id, &object).unwrap();
        for (at, byte) in damage {
            if !raw.is_empty() {
                let at = at.index(raw.len());
                raw[at] = byte;
            }
        }
        let _ = read(kind, &raw);
        let _ = read(kind, &raw[..length.index(raw.len() + 1)]);
    }

    #[test]
    fn random_bytes_are_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), index in any::<prop::sample::Index>()) {
        let kinds = kinds();
        let _ = read(kinds[index.index(kinds.len())], &bytes);
        let mut body = b"k8s\0".to_vec();
        body.extend_from_slice(&bytes);
        let _ = Message::open(Schema::builtin(), &body).map(|message| message.to_value());
    }
}
