//! A type as the protobuf readers walk it: its fields by ascending number, packed.
//!
//! A field has all that anybody wants to know about it and takes three cache lines; of most fields a reader only
//! needs to learn that they are absent and not shown. A slot says that in sixteen bytes.

use super::{Field, Shape};
use crate::protobuf::primitive::WireType;

/// The fields of a type that protobuf carries, by ascending number.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Slots {
    /// One per field, and one beyond the last.
    slots: Box<[Slot]>,
    /// Position plus one by number; 0 where no field has that number.
    by_number: Box<[u16]>,
}

/// What a reader must know about a field before it looks at the field itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Slot {
    /// The tag as it stands in a message: number and layout.
    pub(crate) tag: u32,
    /// Position in the type's fields.
    pub(crate) field: u16,
    /// The next position, this one included, whose field is shown even when it is absent.
    pub(crate) next_shown: u16,
    /// How a value, or an item of a list, is laid out.
    pub(crate) wire_type: WireType,
    /// Whether the field is a list, whose numbers may be packed.
    pub(crate) is_list: bool,
    /// When JSON leaves out a value that is there.
    pub(crate) hidden: Hidden,
}

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
        let mut order: Vec<u16> = (0..fields.len() as u16).collect();
        order.retain(|index| fields[*index as usize].number > 0);
        order.sort_by_key(|index| fields[*index as usize].number);
        let highest = order.last().map(|index| fields[*index as usize].number as usize);
        let mut by_number = vec![0; highest.map_or(0, |highest| highest + 1)];
        let mut slots = Vec::with_capacity(order.len() + 1);
        for (position, index) in order.iter().enumerate() {
            let field = &fields[*index as usize];
            by_number[field.number as usize] = position as u16 + 1;
            slots.push(Slot::new(*index, field));
        }
        slots.push(Slot::END);
        let mut next_shown = order.len() as u16;
        for (position, slot) in slots.iter_mut().enumerate().rev() {
            if order
                .get(position)
                .is_some_and(|index| fields[*index as usize].shown_when_absent())
            {
                next_shown = position as u16;
            }
            slot.next_shown = next_shown;
        }
        Self {
            slots: slots.into(),
            by_number: by_number.into(),
        }
    }

    /// How many fields there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.slots.len().saturating_sub(1)
    }

    /// The slot at a position, or the one beyond the last.
    #[inline]
    pub(crate) fn at(&self, position: usize) -> &Slot {
        self.slots.get(position).unwrap_or(&Slot::END)
    }

    /// The position of the field with that number.
    #[inline]
    pub(crate) fn position(&self, number: u32) -> Option<usize> {
        (*self.by_number.get(number as usize)? as usize).checked_sub(1)
    }

    /// Positions in the type's fields, by ascending number.
    pub(crate) fn fields(&self) -> impl Iterator<Item = usize> {
        self.slots[..self.len()].iter().map(|slot| slot.field as usize)
    }
}

impl Slot {
    const END: Self = Self {
        tag: 0,
        field: 0,
        next_shown: u16::MAX,
        wire_type: WireType::Varint,
        is_list: false,
        hidden: Hidden::Never,
    };

    fn new(index: u16, field: &Field) -> Self {
        let wire_type = field.shape.wire_type();
        Self {
            tag: field.number << 3 | wire_type.code(),
            field: index,
            next_shown: 0,
            wire_type,
            is_list: matches!(field.shape, Shape::List(_)),
            hidden: field.hidden(),
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
