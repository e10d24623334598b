//! The compiled schema file: written by the generator, read by every program at start.
//!
//! All numbers are varints. Texts are stored once, in a table at the front, and referred to by position:
//!
//! ```text
//! "WKS1"  texts: count, (length, bytes)…
//!         enums: count, (name, count, value…)…
//!         types: count, (name, flags, count, field…)…
//!         kinds: count, (apiVersion, kind, type)…
//! ```
//!
//! The reader borrows its texts from the file, so reading allocates little more than the arrays.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{
    Enum, EnumId, Field, Granularity, Kind, ListType, PatchStrategy, Schema, SchemaError, Shape, Text, Type,
    TypeId, UnknownFields,
};
use crate::protobuf::primitive::{Reader, put_varint};

const MAGIC: &[u8] = b"WKS1";

/// The limit on texts, types and fields; no file comes near.
const MAX_LIST: usize = 1 << 14;

/// The nesting limit of shapes: no declared type nests deeper.
const SHAPE_DEPTH: usize = 8;

/// Writes a schema; equal schemas give equal bytes.
pub fn write(schema: &Schema) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.list(&schema.enums, Writer::enumeration);
    writer.list(&schema.types, Writer::declared_type);
    writer.list(&schema.kinds, Writer::kind);
    let mut out = MAGIC.to_vec();
    put_varint(&mut out, writer.order.len() as u64);
    for text in &writer.order {
        put_varint(&mut out, text.len() as u64);
        out.extend_from_slice(text.as_bytes());
    }
    out.extend_from_slice(&writer.out);
    out
}

/// Reads a schema that [`write()`] wrote.
pub fn read(bytes: &'static [u8]) -> Result<Schema, SchemaError> {
    let body = bytes
        .strip_prefix(MAGIC)
        .ok_or_else(|| SchemaError("not a compiled schema".to_owned()))?;
    let mut file = File {
        reader: Reader::new(body),
        texts: Vec::new(),
    };
    file.texts = file.list(File::new_text)?;
    let enums = file.list(File::enumeration)?;
    let types = file.list(File::declared_type)?;
    let kinds = file.list(File::kind)?;
    Schema::new(types, enums, kinds)
}

#[derive(Default)]
struct Writer {
    out: Vec<u8>,
    order: Vec<String>,
    texts: BTreeMap<String, usize>,
}

impl Writer {
    fn number(&mut self, value: usize) {
        put_varint(&mut self.out, value as u64);
    }

    fn text(&mut self, text: &str) {
        let index = match self.texts.get(text) {
            Some(index) => *index,
            None => {
                let index = self.order.len();
                self.order.push(text.to_owned());
                self.texts.insert(text.to_owned(), index);
                index
            }
        };
        self.number(index);
    }

    /// Position plus one; 0 means none.
    fn optional_text(&mut self, text: &Option<Text>) {
        self.number(usize::from(text.is_some()));
        if let Some(text) = text {
            self.text(text);
        }
    }

    fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.number(items.len());
        for item in items {
            write(self, item);
        }
    }

    fn enumeration(&mut self, it: &Enum) {
        self.text(&it.name);
        self.list(&it.values, |writer, value| writer.text(value));
    }

    fn declared_type(&mut self, it: &Type) {
        self.text(&it.name);
        let keeps = it.unknown_fields == UnknownFields::Keep;
        self.number(pack([it.atomic, keeps]));
        self.list(&it.fields, Self::field);
    }

    fn field(&mut self, it: &Field) {
        self.text(&it.name);
        self.text(&it.declared);
        self.shape(&it.shape);
        self.number(it.number as usize);
        self.number(pack([
            it.pointer,
            it.embedded,
            it.omit_empty,
            it.omit_zero,
            it.required,
            it.optional,
            it.nullable,
            it.list_items,
            it.patch.merge,
            it.patch.retain_keys,
            it.patch.replace,
        ]));
        self.optional_text(&it.patch_merge_key);
        self.number(it.list_type.map_or(0, |it| it as usize + 1));
        self.list(&it.list_map_keys, |writer, key| writer.text(key));
        self.number(it.map_type.map_or(0, |it| it as usize + 1));
        self.number(it.struct_type.map_or(0, |it| it as usize + 1));
        self.optional_text(&it.default);
    }

    fn shape(&mut self, shape: &Shape) {
        let mut tagged = |tag, operand: usize| {
            self.number(tag);
            self.number(operand);
        };
        match shape {
            Shape::String(Some(id)) => tagged(1, id.index()),
            Shape::Struct(id) => tagged(2, id.index()),
            Shape::SchemaOrBool(id) => tagged(3, id.index()),
            Shape::SchemaOrArray(id) => tagged(4, id.index()),
            Shape::SchemaOrStrings(id) => tagged(5, id.index()),
            Shape::List(item) => self.nested_shape(6, item),
            Shape::Map(item) => self.nested_shape(7, item),
            Shape::ListMessage(item) => self.nested_shape(8, item),
            plain => {
                let found = PLAIN.iter().position(|have| have == plain);
                self.number(FIRST_PLAIN + found.expect("every other shape is plain"));
            }
        }
    }

    fn nested_shape(&mut self, tag: usize, item: &Shape) {
        self.number(tag);
        self.shape(item);
    }

    fn kind(&mut self, it: &Kind) {
        self.text(&it.api_version);
        self.text(&it.kind);
        self.number(it.id.index());
    }
}

/// Shapes without an operand, in the order of their tags.
const PLAIN: [Shape; 15] = [
    Shape::String(None),
    Shape::Bool,
    Shape::Int32,
    Shape::Int64,
    Shape::Float64,
    Shape::Bytes,
    Shape::Time,
    Shape::MicroTime,
    Shape::Duration,
    Shape::Quantity,
    Shape::IntOrString,
    Shape::FieldsV1,
    Shape::RawExtension,
    Shape::Json,
    Shape::Any,
];
const FIRST_PLAIN: usize = 16;

fn pack<const N: usize>(flags: [bool; N]) -> usize {
    let bits = flags.into_iter().enumerate();
    bits.fold(0, |packed, (bit, flag)| packed | usize::from(flag) << bit)
}

struct File {
    reader: Reader<'static>,
    texts: Vec<Text>,
}

impl File {
    fn number(&mut self) -> Result<usize, SchemaError> {
        let value = self
            .reader
            .varint()
            .map_err(|error| SchemaError(error.to_string()))?;
        Ok(value as usize)
    }

    fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, SchemaError>,
    ) -> Result<Vec<T>, SchemaError> {
        let count = self.number()?;
        // Allocated at once; a damaged count cannot ask for more than a file can hold.
        let mut items = Vec::with_capacity(count.min(MAX_LIST));
        for _ in 0..count {
            items.push(read(self)?);
        }
        Ok(items)
    }

    fn new_text(&mut self) -> Result<Text, SchemaError> {
        let text = self
            .reader
            .text(0)
            .map_err(|error| SchemaError(error.to_string()))?;
        Ok(Cow::Borrowed(text))
    }

    fn text(&mut self) -> Result<Text, SchemaError> {
        let index = self.number()?;
        let text = self.texts.get(index);
        text.cloned()
            .ok_or_else(|| SchemaError(format!("text {index} does not exist")))
    }

    fn optional_text(&mut self) -> Result<Option<Text>, SchemaError> {
        match self.number()? {
            0 => Ok(None),
            _ => self.text().map(Some),
        }
    }

    fn enumeration(&mut self) -> Result<Enum, SchemaError> {
        Ok(Enum {
            name: self.text()?,
            values: self.list(Self::text)?.into(),
        })
    }

    fn declared_type(&mut self) -> Result<Type, SchemaError> {
        let name = self.text()?;
        let flags = self.number()?;
        let mut it = Type::new(name, self.list(Self::field)?);
        it.atomic = flags & 1 != 0;
        if flags & 2 != 0 {
            it.unknown_fields = UnknownFields::Keep;
        }
        Ok(it)
    }

    fn field(&mut self) -> Result<Field, SchemaError> {
        let name = self.text()?;
        let declared = self.text()?;
        let shape = self.shape(0)?;
        let number = self.number()? as u32;
        let flags = self.number()?;
        let flag = |bit: usize| flags >> bit & 1 != 0;
        Ok(Field {
            name,
            declared,
            shape,
            number,
            pointer: flag(0),
            embedded: flag(1),
            omit_empty: flag(2),
            omit_zero: flag(3),
            required: flag(4),
            optional: flag(5),
            nullable: flag(6),
            list_items: flag(7),
            patch: PatchStrategy {
                merge: flag(8),
                retain_keys: flag(9),
                replace: flag(10),
            },
            patch_merge_key: self.optional_text()?,
            list_type: match self.number()? {
                0 => None,
                1 => Some(ListType::Atomic),
                2 => Some(ListType::Set),
                _ => Some(ListType::Map),
            },
            list_map_keys: self.list(Self::text)?.into(),
            map_type: self.granularity()?,
            struct_type: self.granularity()?,
            // Only custom kinds have markers within markers.
            item: None,
            default: self.optional_text()?,
        })
    }

    fn granularity(&mut self) -> Result<Option<Granularity>, SchemaError> {
        Ok(match self.number()? {
            0 => None,
            1 => Some(Granularity::Atomic),
            _ => Some(Granularity::Granular),
        })
    }

    fn shape(&mut self, depth: usize) -> Result<Shape, SchemaError> {
        if depth > SHAPE_DEPTH {
            return Err(SchemaError("a shape nests too deep".to_owned()));
        }
        Ok(match self.number()? {
            1 => Shape::String(Some(EnumId::new(self.number()?))),
            2 => Shape::Struct(TypeId::new(self.number()?)),
            3 => Shape::SchemaOrBool(TypeId::new(self.number()?)),
            4 => Shape::SchemaOrArray(TypeId::new(self.number()?)),
            5 => Shape::SchemaOrStrings(TypeId::new(self.number()?)),
            6 => Shape::List(Box::new(self.shape(depth + 1)?)),
            7 => Shape::Map(Box::new(self.shape(depth + 1)?)),
            8 => Shape::ListMessage(Box::new(self.shape(depth + 1)?)),
            tag => {
                let plain = tag.checked_sub(FIRST_PLAIN).and_then(|index| PLAIN.get(index));
                plain
                    .cloned()
                    .ok_or_else(|| SchemaError(format!("shape {tag} does not exist")))?
            }
        })
    }

    fn kind(&mut self) -> Result<Kind, SchemaError> {
        Ok(Kind {
            api_version: self.text()?,
            kind: self.text()?,
            id: TypeId::new(self.number()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let schema = Schema::builtin();
        let bytes: &'static [u8] = write(schema).leak();
        assert_eq!(&read(bytes).unwrap(), schema);
    }

    #[test]
    fn a_damaged_file_is_an_error() {
        let whole = write(Schema::builtin());
        for length in [0, 3, 4, 100, whole.len() / 2, whole.len() - 1] {
            let cut: &'static [u8] = whole[..length].to_vec().leak();
            assert!(read(cut).is_err(), "{length} of {} bytes were read", whole.len());
        }
    }
}
