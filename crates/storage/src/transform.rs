//! Encryption at rest: the stored form of values.
//!
//! ```text
//! write   ─▶ seal ─▶ engine, etcd, backup
//! startup ─▶ open ─▶ MVCC core ─▶ readers
//! ```
//!
//! Memory has plain values. The [`Transformer`] of a store stands between memory and everything durable. Encrypted
//! values start with [`ENCRYPTED`], as in Kubernetes, and are bound to their key, so that values cannot be swapped. A
//! value that cannot be decrypted does not prevent a store from opening; reading it returns an error.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::model::Record;

/// The prefix of encrypted values. No plain value of an API server starts with it.
pub const ENCRYPTED: &[u8] = b"k8s:enc:";

/// Encrypts and decrypts values.
pub trait Transformer: fmt::Debug + Send + Sync {
    /// Returns the stored form of a key's value.
    fn seal(&self, key: &str, value: &Bytes) -> Result<Bytes, TransformError>;

    /// Returns the value of a key from its stored form.
    fn open(&self, key: &str, stored: &Bytes) -> Result<Transformed, TransformError>;
}

/// A value that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transformed {
    /// The value.
    pub value: Bytes,
    /// True if its stored form is outdated: encrypted under another key, or not encrypted. A write without changes is
    /// then stored anyway.
    pub is_stale: bool,
}

/// The error of an encryption or decryption.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TransformError(pub String);

/// The stored form of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Seal {
    /// The current form.
    #[default]
    Current,
    /// An outdated form.
    Stale,
    /// Undecryptable, with the reason. The record has the stored value.
    Locked(Arc<str>),
}

/// The transformation of a store's values.
#[derive(Clone, Debug)]
pub(crate) enum Values {
    /// None; for tools that do not look at values.
    Raw,
    /// No encryption; reading an encrypted value fails.
    Plain,
    Transformed(Arc<dyn Transformer>),
}

impl Values {
    pub(crate) fn of(transformer: Option<Arc<dyn Transformer>>) -> Self {
        transformer.map_or(Self::Plain, Self::Transformed)
    }

    pub(crate) fn seal(&self, key: &str, value: &Bytes) -> Result<Bytes, TransformError> {
        match self {
            Self::Raw | Self::Plain => Ok(value.clone()),
            Self::Transformed(transformer) => transformer.seal(key, value),
        }
    }

    /// The decrypted value, and its stored form.
    pub(crate) fn open(&self, key: &str, stored: Bytes) -> (Bytes, Seal) {
        let transformed = match self {
            Self::Raw => return (stored, Seal::Current),
            Self::Plain if stored.starts_with(ENCRYPTED) => Err(TransformError(
                "identity transformer tried to read encrypted data".to_owned(),
            )),
            Self::Plain => return (stored, Seal::Current),
            Self::Transformed(transformer) => transformer.open(key, &stored),
        };
        match transformed {
            Ok(Transformed { value, is_stale }) => {
                (value, if is_stale { Seal::Stale } else { Seal::Current })
            }
            Err(error) => (stored, Seal::Locked(error.0.into())),
        }
    }

    /// Decrypts a record.
    pub(crate) fn opened(&self, mut record: Record) -> Record {
        if let Some(stored) = record.value.take() {
            let (value, seal) = self.open(&record.key, stored.bytes());
            record.value = Some(value.into());
            record.seal = seal;
        }
        record
    }

    /// Encrypts a record. An undecryptable one is stored as it was found.
    pub(crate) fn sealed(&self, mut record: Record) -> Result<Record, TransformError> {
        if let (Some(value), Seal::Current | Seal::Stale) = (&record.value, &record.seal) {
            record.value = Some(self.seal(&record.key, &value.bytes())?.into());
        }
        Ok(record)
    }
}
