//! An object still in the buffer of its stream.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use watchkeeper_meta::GroupVersionKind;

use crate::kept::with_kept;
use crate::protobuf::Message;
use crate::protobuf::primitive::ProtobufError;
use crate::schema::Schema;
use crate::{Encoding, ObjectOptions, WireError, json};

/// An object as it was cut out of a list or a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawObject<'a> {
    /// The encoding of `bytes`.
    pub encoding: Encoding,
    /// `apiVersion` from the envelope (protobuf); empty if it is in the bytes or stated by the list.
    pub api_version: &'a str,
    /// `kind`, likewise.
    pub kind: &'a str,
    /// The object; in protobuf its own message, without envelope.
    pub bytes: &'a [u8],
}

impl<'a> RawObject<'a> {
    /// An item of a list.
    pub fn item(encoding: Encoding, bytes: &'a [u8]) -> Self {
        Self {
            encoding,
            api_version: "",
            kind: "",
            bytes,
        }
    }

    /// Decodes the object in place. `expected` is its type if it states none.
    pub fn decode<K: DeserializeOwned>(&self, expected: &GroupVersionKind) -> Result<K, WireError> {
        let (api_version, kind) = self.type_or(expected);
        match self.encoding {
            Encoding::Json => json::typed::decode(self.bytes, &api_version, kind)
                .map_err(|error| self.error(expected, error.to_string())),
            Encoding::Protobuf => {
                let failed = |error: ProtobufError| self.error(expected, error.to_string());
                Message::of_kind(Schema::builtin(), &api_version, kind, self.bytes)
                    .map_err(failed)?
                    .decode_or(failed)
            }
        }
    }

    /// Like [`decode`](Self::decode), without the parts `options` drop.
    pub fn decode_kept<K: DeserializeOwned>(
        &self,
        expected: &GroupVersionKind,
        options: &ObjectOptions,
    ) -> Result<K, WireError> {
        with_kept(self.encoding, self.bytes, options, |bytes| {
            RawObject { bytes, ..*self }.decode(expected)
        })
    }

    /// A protobuf object as JSON text, its type first.
    pub(crate) fn protobuf_to_json(&self, expected: &GroupVersionKind) -> Result<Vec<u8>, WireError> {
        let (api_version, kind) = self.type_or(expected);
        Message::of_kind(Schema::builtin(), &api_version, kind, self.bytes)
            .and_then(|message| message.to_json())
            .map_err(|error| self.error(expected, error.to_string()))
    }

    fn type_or<'k>(&'k self, expected: &'k GroupVersionKind) -> (Cow<'k, str>, &'k str) {
        match self.kind.is_empty() {
            true => (api_version(expected), &expected.kind),
            false => (Cow::Borrowed(self.api_version), self.kind),
        }
    }

    #[cold]
    fn error(&self, expected: &GroupVersionKind, reason: String) -> WireError {
        let (api_version, kind) = self.type_or(expected);
        WireError::Decode {
            kind: format!("{api_version} {kind}"),
            key: self.key(),
            reason,
        }
    }

    /// Namespace and name for an error message, if they can be read.
    fn key(&self) -> String {
        let header = match self.encoding {
            Encoding::Json => json::item_header(self.bytes).ok(),
            Encoding::Protobuf => crate::protobuf::header::header(self.bytes).ok(),
        };
        header.map(|header| header.key().to_string()).unwrap_or_default()
    }
}

/// The `apiVersion`; borrowed for the core group, the most frequent one.
pub(crate) fn api_version(kind: &GroupVersionKind) -> Cow<'_, str> {
    match kind.group.is_empty() {
        true => Cow::Borrowed(&kind.version),
        false => Cow::Owned(kind.api_version()),
    }
}
