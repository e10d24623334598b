//! The bytes Go writes for absent fields, computed once per type.
//!
//! A pod's spec has some forty fields, of which an object sets a few. The zeros of all others are the same bytes in
//! every object, so the encoder visits the fields that are present and copies the bytes between them.

use std::sync::OnceLock;

use serde_json::{Map, Value};

use super::Encoder;
use crate::schema::{Schema, Type, TypeId};

/// Types whose field numbers are below this have precomputed zeros; that is every built-in type.
const NUMBERS: usize = 64;

/// The message of an object without fields.
#[derive(Clone, Debug)]
pub(super) struct Zeros {
    bytes: Box<[u8]>,
    /// The offset of each field number's bytes; one more for the end.
    starts: [u16; NUMBERS + 1],
    /// The nesting of messages, itself included.
    pub(super) depth: usize,
}

/// The zeros of a type, computed on first use from its fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct LazyZeros(OnceLock<Option<Box<Zeros>>>);

impl PartialEq for LazyZeros {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl LazyZeros {
    /// The zeros of a type; `None` if a field number is too high or the type contains itself.
    #[inline]
    pub(super) fn get(&self, schema: &Schema, id: TypeId) -> Option<&Zeros> {
        self.0
            .get_or_init(|| Zeros::of(schema, id).map(Box::new))
            .as_deref()
    }
}

impl Zeros {
    fn of(schema: &Schema, id: TypeId) -> Option<Self> {
        let declared = &schema[id];
        let mut encoder = Encoder::field_by_field(schema);
        let mut starts = [0; NUMBERS + 1];
        let mut written = 0;
        encoder.enter().ok()?;
        for position in declared.slots.fields() {
            let field = &declared.fields[position];
            let number = field.number as usize;
            starts
                .get_mut(written..=number)?
                .fill(u16::try_from(encoder.out.len()).ok()?);
            encoder.declared_field(field, None, None).ok()?;
            written = number + 1;
        }
        starts
            .get_mut(written..)?
            .fill(u16::try_from(encoder.out.len()).ok()?);
        Some(Self {
            bytes: encoder.out.into(),
            starts,
            depth: encoder.deepest,
        })
    }

    /// The whole message.
    pub(super) fn all(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes of the fields from one number up to, but excluding, another.
    #[inline]
    pub(super) fn between(&self, from: usize, to: usize) -> &[u8] {
        let start = |number: usize| self.starts.get(number).copied().map(usize::from);
        let (start, end) = (start(from), start(to));
        self.bytes
            .get(start.unwrap_or_default()..end.unwrap_or_default())
            .unwrap_or_default()
    }

    /// The bytes of the fields from one number on.
    #[inline]
    pub(super) fn from(&self, from: usize) -> &[u8] {
        self.between(from, NUMBERS)
    }
}

/// The values of an object by field number.
pub(super) struct Present<'v> {
    values: [Option<&'v Value>; NUMBERS],
    /// A bit for each number that has a value.
    numbers: u64,
}

impl<'v> Present<'v> {
    /// The values of a type that has [`Zeros`]. Null counts as absent. The value of an embedded field is one of the
    /// values within it.
    #[inline]
    pub(super) fn of(declared: &Type, object: &'v Map<String, Value>) -> Self {
        let (mut values, mut numbers) = ([None; NUMBERS], 0);
        for (name, value) in object {
            if !value.is_null()
                && let Some(field) = declared.own_or_embedding(name)
                && let Some(place) = values.get_mut(field.number as usize)
            {
                *place = Some(value);
                numbers |= 1 << field.number;
            }
        }
        Self {
            values,
            // Fields without a number, such as `kind` and `apiVersion`, are not in the message.
            numbers: numbers & !1,
        }
    }

    /// The next number that has a value, and the value.
    #[inline]
    pub(super) fn next(&mut self) -> Option<(usize, &'v Value)> {
        let number = self.numbers.trailing_zeros() as usize;
        let value = (*self.values.get(number)?)?;
        self.numbers &= self.numbers - 1;
        Some((number, value))
    }
}
