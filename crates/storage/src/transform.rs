//! What values look like where they are stored: as they are, or encrypted.
//!
//! ```text
//! write ─▶ seal ─▶ engine, etcd, backup
//! start ─▶ open ─▶ MVCC heart ─▶ readers
//! ```
//!
//! Memory holds values as readers see them. The [`Transformer`] of a store stands between memory and everything that lasts.
//! Encrypted values begin with [`ENCRYPTED`], as those of Kubernetes; they are bound to their key, so that values cannot be
//! swapped. A value that cannot be decrypted does not keep a store from opening: whoever reads it is told.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::model::Record;

/// What encrypted values begin with. No value of an API server does otherwise.
pub const ENCRYPTED: &[u8] = b"k8s:enc:";

/// Turns values into what is stored, and back.
pub trait Transformer: fmt::Debug + Send + Sync {
    /// A value as it is to be stored under a key.
    fn seal(&self, key: &str, value: &Bytes) -> Result<Bytes, TransformError>;

    /// The value that is stored under a key.
    fn open(&self, key: &str, stored: &Bytes) -> Result<Transformed, TransformError>;
}

/// A value that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transformed {
    /// The value.
    pub value: Bytes,
    /// It would be stored otherwise today: under another key, or encrypted at all. A write that changes nothing is then
    /// stored all the same.
    pub is_stale: bool,
}

/// Why a value cannot be turned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TransformError(pub String);

/// How a record was stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Seal {
    /// As it would be stored today.
    #[default]
    Current,
    /// In a way that is out of date.
    Stale,
    /// In a way that cannot be read, and why. Its value is what is stored.
    Locked(Arc<str>),
}

/// How the values of a store are stored.
#[derive(Clone, Debug)]
pub(crate) enum Values {
    /// Whatever they are: for those who look at no value.
    Raw,
    /// As they are; an encrypted one cannot be read.
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

    /// The value as readers see it.
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

    /// A record as readers see it.
    pub(crate) fn opened(&self, mut record: Record) -> Record {
        if let Some(stored) = record.value.take() {
            let (value, seal) = self.open(&record.key, stored);
            record.value = Some(value);
            record.seal = seal;
        }
        record
    }

    /// A record as it is stored. One that cannot be read is stored as it was found.
    pub(crate) fn sealed(&self, mut record: Record) -> Result<Record, TransformError> {
        if let (Some(value), Seal::Current | Seal::Stale) = (&record.value, &record.seal) {
            record.value = Some(self.seal(&record.key, value)?);
        }
        Ok(record)
    }
}
