//! A type as the protobuf readers walk it: a table of its fields by number.
//!
//! A field has all that anybody wants to know about it and takes three cache lines; a slot has what readers want in
//! half of one. Kubernetes numbers its fields nearly without gaps, so the number itself is the place in the table.

use super::{Field, Shape};
use crate::protobuf::primitive::WireType;

/// The fields of a type that protobuf carries, by number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slots {
    /// One per number up to the highest, vacant where no field has it, and one beyond.
    slots: Box<[Slot]>,
    /// The names in JSON, one after the other: those of a type lie together.
    names: Box<str>,
    /// Whether the fields are declared by ascending number.
    pub(crate) in_declared_order: bool,
}

/// What a reader must know about a field before it looks at the field itself.
#[derive(Clone, Debug, PartialEq)]
#[repr(align(32))]
pub(crate) struct Slot {
    /// How a value looks.
    pub(crate) shape: Shape,
    /// The tag as it stands in a message: number and layout. One of another number where the slot is vacant, so that
    /// no tag that leads here equals it.
    pub(crate) tag: u32,
    /// Where the name in JSON starts among the names of the type.
    name_start: u32,
    /// The next higher number whose field is shown even when it is absent; [`NONE`] if there is none.
    pub(crate) shown_after: u16,
    /// Position in the type's fields.
    pub(crate) field: u16,
    name_len: u8,
    /// How a value, or an item of a list, is laid out.
    pub(crate) wire_type: WireType,
    /// Whether the field is a list, whose numbers may be packed.
    pub(crate) is_list: bool,
    /// When JSON shows a value that is there.
    pub(crate) shown: Shown,
}

/// Two of them share a cache line.
const _: () = assert!(size_of::<Slot>() == 32);

/// No field: above every number.
pub(crate) const NONE: u16 = u16::MAX;

/// The highest number a field can have; the highest of a built-in type is far below. Slots take memory by number.
pub(super) const MAX_NUMBER: u32 = 4095;

/// The longest name, in bytes, of a field that travels in protobuf.
pub(super) const MAX_NAME: usize = 255;

/// Where no field is.
static VACANT: Slot = Slot::VACANT;

/// When JSON shows a value that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Always,
    /// Unless the number, or the length of what follows, is zero.
    UnlessZero,
    /// Unless the floating-point number is zero.
    UnlessZeroFloat,
    /// Unless it is Go's zero time.
    UnlessZeroTime,
    /// Its fields are shown as those of the outer object.
    Embedded,
}

impl Slots {
    /// Leaves out fields that have no slot, see [`Field::has_slot`].
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

    /// The slot with that number; a vacant one where no field has it.
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

    /// Whether a field has that number, which led here.
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
    /// Whether JSON shows the field although it has no value, as Go does: structs always, others unless they
    /// are `omitempty`.
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

    /// Whether a slot can hold the field: numbers and names have limits.
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
    /// How a value, or an item of a list, is laid out.
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
