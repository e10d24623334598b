//! Decodes an object whose type may be stated only by its list.
//!
//! Items of built-in lists have neither `kind` nor `apiVersion`, but many structs require them. The deserializer
//! presents them to the struct before the object's own members, without copying the bytes.

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::de::Json;
use super::error::JsonError;
use super::header::header;
use super::reader::Reader;

/// Decodes an object of the given type, even if its bytes do not state the type.
pub(crate) fn decode<K: DeserializeOwned>(
    bytes: &[u8],
    api_version: &str,
    kind: &str,
) -> Result<K, serde_json::Error> {
    // Checking the whole text for UTF-8 at once takes a fifth of the time of checking each string.
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Err(not_utf8(bytes));
    };
    let type_members = [("apiVersion", api_version), ("kind", kind)];
    let is_stated = kind.is_empty() || states_type_first(bytes).unwrap_or(true);
    let shown: Shown<'_> = if is_stated { &[] } else { &type_members };
    read(text, shown).or_else(|error| {
        // No server writes the type after the metadata, but a file may.
        let is_stated = || header(bytes).is_ok_and(|header| !header.kind.is_empty());
        match !shown.is_empty() && is_stated() {
            true => read(text, &[]),
            false => Err(error),
        }
    })
}

/// The only place where a struct is deserialized from JSON, so that its code is compiled once.
#[inline(never)]
fn read<K: DeserializeOwned>(text: &str, shown: Shown<'_>) -> Result<K, serde_json::Error> {
    read_text(text, |json| K::deserialize(Typed { inner: json, shown }))
}

/// Reads a whole text from bytes. Errors are those of `serde_json`.
pub(crate) fn read_with<'de, T>(
    bytes: &'de [u8],
    read: impl FnOnce(&mut Json<'de>) -> Result<T, serde_json::Error>,
) -> Result<T, serde_json::Error> {
    match std::str::from_utf8(bytes) {
        Ok(text) => read_text(text, read),
        Err(_) => Err(not_utf8(bytes)),
    }
}

#[inline]
fn read_text<'de, T>(
    text: &'de str,
    read: impl FnOnce(&mut Json<'de>) -> Result<T, serde_json::Error>,
) -> Result<T, serde_json::Error> {
    let mut json = Json::new(text);
    let read = read(&mut json);
    let read = read.and_then(|object| json.end().map(|()| object));
    read.map_err(|error| json.explain(&error))
}

/// The error at the first byte that is not UTF-8.
#[cold]
fn not_utf8(bytes: &[u8]) -> serde_json::Error {
    match serde_json::from_slice::<serde_json::Value>(bytes) {
        Ok(_) => serde::de::Error::custom("invalid UTF-8"),
        Err(error) => error,
    }
}

/// True if the type comes before the metadata, where every server puts it.
fn states_type_first(bytes: &[u8]) -> Result<bool, JsonError> {
    let mut reader = Reader::new(bytes);
    let Some(mut members) = reader.object()? else {
        return Ok(false);
    };
    while let Some(key) = members.next_key(&mut reader)? {
        match &*key {
            "kind" => return Ok(true),
            "metadata" => break,
            _ => drop(reader.skip()?),
        }
    }
    Ok(false)
}

/// Members presented before the object's own: its type, unless it states it.
type Shown<'t> = &'t [(&'static str, &'t str)];

/// A deserializer, and the members it presents first.
struct Typed<'t, D> {
    inner: D,
    shown: Shown<'t>,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Typed<'_, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let shown = self.shown;
        self.inner.deserialize_any(Typed {
            inner: visitor,
            shown,
        })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let shown = self.shown;
        self.inner.deserialize_struct(
            name,
            fields,
            Typed {
                inner: visitor,
                shown,
            },
        )
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        visitor.visit_some(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq
        tuple tuple_struct map identifier ignored_any
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Typed<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(Members {
            inner: members,
            shown: self.shown.iter(),
            value: None,
        })
    }

    // Only an object has a type to present.

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        self.inner.visit_seq(items)
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<V::Value, E> {
        self.inner.visit_bool(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<V::Value, E> {
        self.inner.visit_i64(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<V::Value, E> {
        self.inner.visit_u64(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<V::Value, E> {
        self.inner.visit_f64(value)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<V::Value, E> {
        self.inner.visit_str(text)
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<V::Value, E> {
        self.inner.visit_borrowed_str(text)
    }

    fn visit_string<E: Error>(self, text: String) -> Result<V::Value, E> {
        self.inner.visit_string(text)
    }
}

/// The presented members, then the object's own.
struct Members<'t, A> {
    inner: A,
    shown: std::slice::Iter<'t, (&'static str, &'t str)>,
    value: Option<&'t str>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Members<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        match self.shown.next() {
            Some(&(key, value)) => {
                self.value = Some(value);
                seed.deserialize(StrDeserializer::new(key)).map(Some)
            }
            None => self.inner.next_key_seed(seed),
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        match self.value.take() {
            Some(value) => seed.deserialize(StrDeserializer::new(value)),
            None => self.inner.next_value_seed(seed),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Widget {
        api_version: String,
        kind: String,
        metadata: Value,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Wrapped(Option<Widget>);

    #[test]
    fn the_type_is_there_whether_stated_or_not() {
        let widget = || Widget {
            api_version: "v1".into(),
            kind: "Widget".into(),
            metadata: json!({"name": "a"}),
        };
        for text in [
            r#"{"metadata":{"name":"a"}}"#,
            r#"{"apiVersion":"v1","kind":"Widget","metadata":{"name":"a"}}"#,
            r#"{"metadata":{"name":"a"},"apiVersion":"v1","kind":"Widget"}"#,
        ] {
            assert_eq!(
                decode::<Widget>(text.as_bytes(), "v1", "Widget").unwrap(),
                widget(),
                "{text}"
            );
            assert_eq!(
                decode::<Wrapped>(text.as_bytes(), "v1", "Widget").unwrap(),
                Wrapped(Some(widget()))
            );
            let value: Value = decode(text.as_bytes(), "v1", "Widget").unwrap();
            assert_eq!(
                value,
                json!({"apiVersion": "v1", "kind": "Widget", "metadata": {"name": "a"}})
            );
        }
    }

    #[test]
    fn bad_objects_are_refused() {
        let check = |text: &str, error: &str| {
            assert_eq!(
                decode::<Widget>(text.as_bytes(), "v1", "Widget")
                    .unwrap_err()
                    .to_string(),
                error
            );
        };
        check("{}", "missing field `metadata` at line 1 column 2");
        check(r#"{"metadata":{}} x"#, "trailing characters at line 1 column 17");
        check(
            r#"{"metadata":{"#,
            "EOF while parsing an object at line 1 column 13",
        );
        assert_eq!(
            decode::<Widget>(b"{\"metadata\":\"\xff\"}", "v1", "Widget")
                .unwrap_err()
                .to_string(),
            "invalid unicode code point at line 1 column 14"
        );
        check(
            "[]",
            "invalid length 0, expected struct Widget with 3 elements at line 1 column 2",
        );
    }
}
