//! The fields of a type by protobuf number, for the readers.
//!
//! A [`Field`] takes three cache lines; a slot has what readers need in half of one. Kubernetes numbers its fields
//! nearly without gaps, so the number is the index.

use super::{Field, Shape};
use crate::protobuf::primitive::WireType;

/// The protobuf fields of a type, by number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slots {
    /// One per number up to the highest, vacant if no field has it, and one beyond.
    slots: Box<[Slot]>,
    /// The JSON names of a type, concatenated.
    names: Box<str>,
    /// True if the fields are declared by ascending number.
    pub(crate) in_declared_order: bool,
}

/// The facts a reader needs about a field before the field itself.
#[derive(Clone, Debug, PartialEq)]
#[repr(align(32))]
pub(crate) struct Slot {
    /// The shape of the value.
    pub(crate) shape: Shape,
    /// The tag in a message: number and wire type. In a vacant slot, a tag of another number, so that no tag that
    /// leads here equals it.
    pub(crate) tag: u32,
    /// Offset of the JSON name among the names of the type.
    name_start: u32,
    /// The next higher number whose field is shown even if absent; [`NONE`] if there is none.
    pub(crate) shown_after: u16,
    /// Position in the type's fields.
    pub(crate) field: u16,
    name_len: u8,
    /// The wire type of the value, or of an item of a list.
    pub(crate) wire_type: WireType,
    /// True for a list, whose numbers may be packed.
    pub(crate) is_list: bool,
    /// The condition under which JSON shows a present value.
    pub(crate) shown: Shown,
}

/// Two slots share a cache line.
const _: () = assert!(size_of::<Slot>() == 32);

/// No field: higher than every number.
pub(crate) const NONE: u16 = u16::MAX;

/// The highest field number with a slot, far above that of any built-in type. It bounds the memory of the table.
pub(super) const MAX_NUMBER: u32 = 4095;

/// The longest name, in bytes, of a field in protobuf.
pub(super) const MAX_NAME: usize = 255;

/// The slot of no field.
static VACANT: Slot = Slot::VACANT;

/// The condition under which JSON shows a present value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Always,
    /// Unless the number, or the length, is zero.
    UnlessZero,
    /// Unless the float is zero.
    UnlessZeroFloat,
    /// Unless it is Go's zero time.
    UnlessZeroTime,
    /// Its fields are shown as those of the outer object.
    Embedded,
}

impl Slots {
    /// Skips fields that cannot have a slot, see [`Field::has_slot`].
    pub(super) fn new(fields: &[Field]) -> Self {
        let numbered = || {
            let all = fields.iter().enumerate();
            all.filter(|(_, field)| field.number > 0 && field.has_slot())
        };
        let highest = numbered().map(|(_, field)| field.number as usize).max();
        let mut slots = vec![Slot::VACANT; highest.unwrap_or(0) + 2];
        slots[0].tag = 1 << 3;
        let mut names = String::new();
        for (index, field) in numbered() {
            slots[field.number as usize] = Slot::new(index as u16, field, names.len());
            names.push_str(&field.name);
        }
        let mut shown_after = NONE;
        for (number, slot) in slots.iter_mut().enumerate().rev() {
            slot.shown_after = shown_after;
            if slot.is_of(number as u32) && fields[slot.field as usize].shown_when_absent() {
                shown_after = number as u16;
            }
        }
        Self {
            slots: slots.into(),
            names: names.into(),
            in_declared_order: numbered().is_sorted_by_key(|(_, field)| field.number),
        }
    }

    /// The slot of that number; a vacant one if no field has it.
    #[inline(always)]
    pub(crate) fn at(&self, number: u32) -> &Slot {
        self.slots.get(number as usize).unwrap_or(&VACANT)
    }

    /// The slot of the field with that number.
    #[inline]
    pub(crate) fn find(&self, number: u32) -> Option<&Slot> {
        self.slots.get(number as usize).filter(|slot| slot.is_of(number))
    }

    /// The name in JSON.
    #[inline(always)]
    pub(crate) fn name(&self, slot: &Slot) -> &str {
        let start = slot.name_start as usize;
        self.names
            .get(start..start + usize::from(slot.name_len))
            .unwrap_or_default()
    }

    /// Positions in the type's fields, by ascending number.
    pub(crate) fn fields(&self) -> impl Iterator<Item = usize> {
        let taken = (0..self.slots.len() as u32).filter_map(|number| self.find(number));
        taken.map(|slot| slot.field as usize)
    }
}

impl Slot {
    const VACANT: Self = Self {
        shape: Shape::Any,
        tag: 0,
        name_start: 0,
        shown_after: NONE,
        field: 0,
        name_len: 0,
        wire_type: WireType::Varint,
        is_list: false,
        shown: Shown::Always,
    };

    /// The field's number.
    #[inline(always)]
    pub(crate) fn number(&self) -> u32 {
        self.tag >> 3
    }

    /// True if a field has that number, which led here.
    fn is_of(&self, number: u32) -> bool {
        self.number() == number
    }

    fn new(index: u16, field: &Field, name_start: usize) -> Self {
        let wire_type = field.shape.wire_type();
        Self {
            shape: field.shape.clone(),
            tag: field.number << 3 | wire_type.code(),
            name_start: name_start as u32,
            shown_after: NONE,
            field: index,
            name_len: field.name.len() as u8,
            wire_type,
            is_list: matches!(field.shape, Shape::List(_)),
            shown: field.shown(),
        }
    }
}

impl Field {
    /// True if JSON shows the field without a value, as Go does: structs always, others unless they are `omitempty`.
    pub(crate) fn shown_when_absent(&self) -> bool {
        if self.omit_zero {
            return false;
        }
        if self.pointer {
            return !self.omit_empty;
        }
        match self.shape {
            Shape::String(_)
            | Shape::Bool
            | Shape::Int32
            | Shape::Int64
            | Shape::Float64
            | Shape::Bytes
            | Shape::List(_)
            | Shape::Map(_)
            | Shape::ListMessage(_)
            | Shape::Any => !self.omit_empty,
            _ => true,
        }
    }

    /// True if number and name are within the limits of a slot.
    pub(super) fn has_slot(&self) -> bool {
        self.number <= MAX_NUMBER && self.name.len() <= MAX_NAME
    }

    fn shown(&self) -> Shown {
        if self.embedded {
            return Shown::Embedded;
        }
        if self.pointer || !(self.omit_empty || self.omit_zero) {
            return Shown::Always;
        }
        match self.shape {
            Shape::String(_)
            | Shape::Bool
            | Shape::Int32
            | Shape::Int64
            | Shape::Bytes
            | Shape::ListMessage(_) => Shown::UnlessZero,
            Shape::Float64 => Shown::UnlessZeroFloat,
            Shape::Time if self.omit_zero => Shown::UnlessZeroTime,
            _ => Shown::Always,
        }
    }
}

impl Shape {
    /// The wire type of the value, or of an item of a list.
    #[inline]
    pub(crate) fn wire_type(&self) -> WireType {
        match self {
            Shape::Bool | Shape::Int32 | Shape::Int64 => WireType::Varint,
            Shape::Float64 => WireType::Fixed64,
            Shape::List(item) => item.wire_type(),
            _ => WireType::Bytes,
        }
    }
}
