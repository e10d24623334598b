//! Makes webhook conversion available to synchronous code: managed fields are compared in every version that a
//! manager uses.
//!
//! ```text
//! work out ─▶ needs an object in v2: missing, recorded ─▶ the webhook converts what is recorded ─▶ repeat
//! ```
//!
//! Few writes meet a manager of another version, and those need one or two rounds. A failed conversion is recorded
//! too; its manager's fields stay unchanged.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use watchkeeper_patch::endpoint::Versions;
use watchkeeper_wire::schema::TypeId;

use crate::definition::Definition;
use crate::reader::Reader;

/// The conversions of a write so far.
#[derive(Debug)]
pub(crate) struct Ledger {
    definition: Arc<Definition>,
    known: Mutex<Vec<Conversion>>,
    missing: Mutex<Vec<(Value, String)>>,
}

#[derive(Debug)]
struct Conversion {
    object: Value,
    api_version: String,
    /// `None` if the conversion failed.
    converted: Option<Value>,
}

impl Ledger {
    /// A ledger for writes of a kind with a conversion webhook; `None` for others.
    pub(crate) fn of(definition: &Arc<Definition>) -> Option<Arc<Self>> {
        definition.converter.as_ref()?;
        Some(Arc::new(Self {
            definition: definition.clone(),
            known: Mutex::default(),
            missing: Mutex::default(),
        }))
    }

    /// True if a conversion was requested and is missing.
    pub(crate) fn has_missing(&self) -> bool {
        !self.missing.lock().is_empty()
    }

    /// Performs the missing conversions.
    pub(crate) async fn complete(&self, reader: &Reader) {
        let missing = std::mem::take(&mut *self.missing.lock());
        for (object, api_version) in missing {
            let converted = reader.convert(&self.definition, vec![object.clone()], &api_version);
            let converted = match converted.await {
                Ok(converted) => converted.into_iter().next(),
                Err(status) => {
                    tracing::warn!("managed fields could not be converted: {}", status.message);
                    None
                }
            };
            self.known.lock().push(Conversion {
                object,
                api_version,
                converted,
            });
        }
    }
}

impl Versions for Ledger {
    fn convert(&self, object: &Value, api_version: &str) -> Option<(TypeId, Value)> {
        let (id, same) = self.definition.versions()?.convert(object, api_version)?;
        if object["apiVersion"] == api_version {
            return Some((id, same));
        }
        let known = self.known.lock();
        let is_this = |it: &&Conversion| it.api_version == api_version && it.object == *object;
        match known.iter().find(is_this) {
            Some(found) => Some((id, found.converted.clone()?)),
            None => {
                let missing = (object.clone(), api_version.to_owned());
                self.missing.lock().push(missing);
                None
            }
        }
    }
}
