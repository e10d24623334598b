//! A type as the protobuf readers walk it: a table of its fields by number.
//!
//! A field has all that anybody wants to know about it and takes three cache lines; a slot has what readers want in
//! one. Kubernetes numbers its fields nearly without gaps, so the number itself is the place in the table.

use super::{Field, Shape, Text};
use crate::protobuf::primitive::WireType;

/// The fields of a type that protobuf carries, by number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slots {
    /// One per number up to the highest, vacant where no field has it, and one beyond.
    slots: Box<[Slot]>,
    /// Whether the fields are declared by ascending number.
    pub(crate) in_declared_order: bool,
}

/// What a reader must know about a field before it looks at the field itself.
#[derive(Clone, Debug, PartialEq)]
#[repr(align(64))]
pub(crate) struct Slot {
    /// The tag as it stands in a message: number and layout. One of another number where the slot is vacant, so that
    /// no tag that leads here equals it.
    pub(crate) tag: u32,
    /// The next number, this one included, whose field is shown even when it is absent.
    pub(crate) next_shown: u32,
    /// Position in the type's fields.
    pub(crate) field: u16,
    /// How a value, or an item of a list, is laid out.
    pub(crate) wire_type: WireType,
    /// Whether the field is a list, whose numbers may be packed.
    pub(crate) is_list: bool,
    /// Whether the fields of the field's type belong to the outer object in JSON.
    pub(crate) is_embedded: bool,
    /// When JSON leaves out a value that is there.
    pub(crate) hidden: Hidden,
    /// The name in JSON.
    pub(crate) name: Text,
    /// How a value looks.
    pub(crate) shape: Shape,
}

/// Where no field is.
static VACANT: Slot = Slot::VACANT;

/// When JSON leaves out a value that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hidden {
    Never,
    /// When the number, or the length of what follows, is zero.
    WhenZero,
    /// When the floating-point number is zero.
    WhenZeroFloat,
    /// When it is Go's zero time.
    WhenZeroTime,
}

impl Slots {
    pub(super) fn new(fields: &[Field]) -> Self {
        let highest = fields.iter().map(|field| field.number as usize).max();
        let end = highest.unwrap_or(0) + 1;
        let mut slots = vec![Slot::VACANT; end + 1];
        slots[0].tag = 1 << 3;
        for (index, field) in fields.iter().enumerate() {
            if field.number > 0 {
                slots[field.number as usize] = Slot::new(index as u16, field);
            }
        }
        let mut next_shown = end as u32;
        for (number, slot) in slots.iter_mut().enumerate().rev() {
            if slot.is_of(number as u32) && fields[slot.field as usize].shown_when_absent() {
                next_shown = number as u32;
            }
            slot.next_shown = next_shown;
        }
        let numbers = fields.iter().map(|field| field.number);
        Self {
            slots: slots.into(),
            in_declared_order: numbers.filter(|number| *number > 0).is_sorted(),
        }
    }

    /// The number beyond the highest.
    #[inline(always)]
    pub(crate) fn end(&self) -> u32 {
        self.slots.len().saturating_sub(1) as u32
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

    /// Positions in the type's fields, by ascending number.
    pub(crate) fn fields(&self) -> impl Iterator<Item = usize> {
        let taken = (0..self.end()).filter_map(|number| self.find(number));
        taken.map(|slot| slot.field as usize)
    }
}

impl Slot {
    const VACANT: Self = Self {
        tag: 0,
        next_shown: u32::MAX,
        field: 0,
        wire_type: WireType::Varint,
        is_list: false,
        is_embedded: false,
        hidden: Hidden::Never,
        name: Text::Borrowed(""),
        shape: Shape::Any,
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

    fn new(index: u16, field: &Field) -> Self {
        let wire_type = field.shape.wire_type();
        Self {
            tag: field.number << 3 | wire_type.code(),
            next_shown: 0,
            field: index,
            wire_type,
            is_list: matches!(field.shape, Shape::List(_)),
            is_embedded: field.embedded,
            hidden: field.hidden(),
            name: field.name.clone(),
            shape: field.shape.clone(),
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

    fn hidden(&self) -> Hidden {
        if self.pointer || !(self.omit_empty || self.omit_zero) {
            return Hidden::Never;
        }
        match self.shape {
            Shape::String(_)
            | Shape::Bool
            | Shape::Int32
            | Shape::Int64
            | Shape::Bytes
            | Shape::ListMessage(_) => Hidden::WhenZero,
            Shape::Float64 => Hidden::WhenZeroFloat,
            Shape::Time if self.omit_zero => Hidden::WhenZeroTime,
            _ => Hidden::Never,
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
