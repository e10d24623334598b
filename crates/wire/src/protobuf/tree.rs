//! Reads a message directly into a tree of JSON values, the same tree [`super::de`] would produce.
//!
//! The server builds this tree from the stored object for every write. Through `serde`, a visitor is asked about each
//! value and asks for each part again, which is half of the work; here a value is made directly from its shape. Only
//! the shapes every object has are read here, the others by [`super::de`], and so are malformed or unsorted messages:
//! an error here means only that.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::de::{self, Context, Error};
use super::fields::{Fields, Step, next_item};
use super::header::{METADATA, object_meta};
use super::primitive::{Reader, WireType};
use super::special::{self, Absent, IntOrString, ZEROS};
use super::time::{self, TimeText};
use crate::schema::{Field, Shape, Slots, TypeId};

/// The field numbers that lead to a field.
pub(super) type Path = [u32];

/// No field.
pub(super) const NOTHING: &Path = &[];

/// `metadata.managedFields`.
pub(super) const MANAGED_FIELDS: &Path = &[METADATA, object_meta::MANAGED_FIELDS];

/// The members of a message, without those of one field.
pub(super) fn read_members(
    context: Context<'_>,
    id: TypeId,
    reader: Reader<'_>,
    left_out: &Path,
    members: &mut Map<String, Value>,
) -> Result<(), Error> {
    let context = context.deeper(&reader)?;
    add_members(context, id, reader, left_out, members)
}

fn add_members(
    context: Context<'_>,
    id: TypeId,
    mut reader: Reader<'_>,
    left_out: &Path,
    members: &mut Map<String, Value>,
) -> Result<(), Error> {
    let mut fields = Fields::new(&context.schema[id]);
    let slots: &Slots = fields.slots();
    loop {
        let (slot, wire_type) = match fields.usual_step(&mut reader) {
            Some(slot) => (slot, slot.wire_type),
            None => match fields.step(&mut reader)? {
                Some(Step::Present(slot, wire_type)) => (slot, wire_type),
                Some(Step::Absent(field)) => {
                    members.insert(field.name.clone().into_owned(), absent(context, field)?);
                    continue;
                }
                Some(Step::Embedded(slot, inner)) => {
                    if let Shape::Struct(embedded) = slot.shape {
                        add_members(context, embedded, inner, NOTHING, members)?;
                    }
                    continue;
                }
                None => return Ok(()),
            },
        };
        let at = At {
            context,
            shape: &slot.shape,
            number: slot.number(),
            left_out: match left_out {
                [first, rest @ ..] if *first == slot.number() => rest,
                _ => NOTHING,
            },
        };
        if left_out == [slot.number()] {
            at.skip(wire_type, &mut reader)?;
            continue;
        }
        let value = at.read(wire_type, &mut reader)?;
        members.insert(slots.name(slot).to_owned(), value);
    }
}

/// The JSON of a field that is absent from the message.
#[inline(never)]
fn absent(context: Context<'_>, field: &Field) -> Result<Value, Error> {
    match Absent::of(field) {
        Absent::Null => Ok(Value::Null),
        Absent::EmptyList => Ok(Value::Array(Vec::new())),
        Absent::Zero => {
            let at = At::new(context, &field.shape, field.number);
            at.read(field.shape.wire_type(), &mut Reader::new(&ZEROS))
        }
    }
}

/// A value to read.
#[derive(Clone, Copy)]
struct At<'s, 'p> {
    context: Context<'s>,
    shape: &'s Shape,
    number: u32,
    /// The part of it to omit.
    left_out: &'p Path,
}

impl<'s> At<'s, '_> {
    fn new(context: Context<'s>, shape: &'s Shape, number: u32) -> Self {
        Self {
            context,
            shape,
            number,
            left_out: NOTHING,
        }
    }

    /// Reads the value at the reader, a list as a whole.
    fn read(&self, wire_type: WireType, reader: &mut Reader<'_>) -> Result<Value, Error> {
        match self.shape {
            Shape::Struct(id) => self.object(*id, reader),
            Shape::List(item) if item.wire_type() == wire_type => self.items(item, wire_type, reader),
            Shape::Map(value) => self.entries(value, reader),
            _ => self.leaf(wire_type, reader),
        }
    }

    #[inline]
    fn object(&self, id: TypeId, reader: &mut Reader<'_>) -> Result<Value, Error> {
        let mut members = Map::new();
        read_members(self.context, id, reader.message()?, self.left_out, &mut members)?;
        Ok(Value::Object(members))
    }

    /// Reads a value that has none of the above in it. A function of its own keeps [`read`](Self::read) small on the stack
    /// of a build that is not optimised.
    #[inline]
    fn leaf(&self, wire_type: WireType, reader: &mut Reader<'_>) -> Result<Value, Error> {
        Ok(match self.shape {
            Shape::String(_) => Value::String(reader.text(self.number)?.to_owned()),
            Shape::Bool => Value::Bool(reader.varint()? != 0),
            Shape::Int32 => Value::from(reader.varint()? as i32),
            Shape::Int64 => Value::from(reader.varint()? as i64),
            Shape::Quantity => Value::from(special::quantity(reader.message()?)?),
            Shape::Time => match time::read(reader.message()?)? {
                Some(time) => Value::from(TimeText::seconds(time).as_str()),
                None => Value::Null,
            },
            Shape::IntOrString => match special::int_or_string(reader.message()?)? {
                IntOrString::Int(number) => Value::from(number),
                IntOrString::String(text) => Value::from(text),
            },
            _ => self.any(wire_type, reader)?,
        })
    }

    /// Reads a value of any shape, through `serde`.
    fn any(&self, wire_type: WireType, reader: &mut Reader<'_>) -> Result<Value, Error> {
        let mut cursor = de::Cursor::at(self.context, self.shape, self.number, wire_type, reader);
        let value = Value::deserialize(de::ValueDeserializer(&mut cursor))?;
        reader.go_to(&cursor.reader);
        Ok(value)
    }

    fn items(&self, item: &'s Shape, wire_type: WireType, reader: &mut Reader<'_>) -> Result<Value, Error> {
        let at = At::new(self.context, item, self.number);
        let mut items = Vec::with_capacity(self.count(wire_type, reader.clone()));
        loop {
            items.push(at.read(wire_type, reader)?);
            match next_item(reader, self.number, wire_type)? {
                Some(found) if found == wire_type => {}
                Some(_) => return Err(de::unexpected_wire_type(reader, self.number)),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    /// The number of consecutive items: skipping one costs much less than growing a list.
    fn count(&self, wire_type: WireType, mut reader: Reader<'_>) -> usize {
        let mut count = 1;
        while reader.skip(wire_type).is_ok()
            && let Ok(Some(_)) = next_item(&mut reader, self.number, wire_type)
        {
            count += 1;
        }
        count
    }

    fn entries(&self, value: &'s Shape, reader: &mut Reader<'_>) -> Result<Value, Error> {
        let (at, wire_type) = (At::new(self.context, value, 2), value.wire_type());
        let mut entries = Map::new();
        loop {
            let (key, value) = special::map_entry(reader.message()?, value)?;
            // A missing value is zero in Go, not nil.
            let mut value = value.unwrap_or(Reader::new(&ZEROS));
            entries.insert(key.to_owned(), at.read(wire_type, &mut value)?);
            match next_item(reader, self.number, WireType::Bytes)? {
                Some(WireType::Bytes) => {}
                Some(_) => return Err(de::unexpected_wire_type(reader, self.number)),
                None => return Ok(Value::Object(entries)),
            }
        }
    }

    /// Skips the value, a list as a whole.
    fn skip(&self, wire_type: WireType, reader: &mut Reader<'_>) -> Result<(), Error> {
        let mut cursor = de::Cursor::at(self.context, self.shape, self.number, wire_type, reader);
        cursor.skip()?;
        reader.go_to(&cursor.reader);
        Ok(())
    }
}
