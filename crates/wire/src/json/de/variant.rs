//! An enum variant with content: an object with one member, named after the variant.

use serde::de::{Deserialize, DeserializeSeed, Deserializer, EnumAccess, VariantAccess, Visitor};
use serde_json::Error;

use super::{Json, unusual};

/// The deserializer, before the variant's name.
pub(super) struct Variant<'j, 'de>(&'j mut Json<'de>);

impl<'de> Json<'de> {
    pub(super) fn variant<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        self.open(b'{')?;
        let value = visitor.visit_enum(Variant(self));
        let closed = self.close(b'}');
        value.and_then(|value| closed.map(|()| value))
    }
}

impl<'de> EnumAccess<'de> for Variant<'_, 'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Error> {
        let name = seed.deserialize(&mut *self.0);
        let name = name.map_err(|error| self.0.refused(error))?;
        match self.0.take(b':') {
            true => Ok((name, self)),
            false => Err(unusual()),
        }
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, 'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Deserialize::deserialize(self.0)
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.0.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.0.deserialize_struct("", fields, visitor)
    }
}
