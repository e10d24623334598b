//! What every write has in common: who writes, how strictly, and what they should be warned of.

use parking_lot::Mutex;
use serde_json::{Value, json};
use watchkeeper_kinds::{Part, Warnings};
use watchkeeper_meta::{FieldErrors, FieldValidation, Status, Time};
use watchkeeper_patch::managed_fields::Writer;
use watchkeeper_storage::WriteError;

use crate::definition::Definition;
use crate::user::User;

/// Whom managed fields name for a writer that says nothing of itself, as Kubernetes.
const UNNAMED: &str = "unknown";

/// Who writes, and how.
#[derive(Debug)]
pub struct WriteContext {
    /// The field manager, as the client named it or as its User-Agent does.
    pub manager: String,
    /// Do everything but store.
    pub dry_run: bool,
    /// An apply takes fields from other managers.
    pub force: bool,
    /// What to do about fields that do not exist or stand twice.
    pub field_validation: FieldValidation,
    /// What the writer should hear, in order and once each.
    pub warnings: Warnings,
    /// Who asks, if the server knows.
    pub requester: Option<User>,
    /// The requester was let in for another verb: a write that turns out to create asks for that right first.
    pub asks_to_create: bool,
    /// A whole collection is deleted: admission is asked about each object, in a request that names none.
    pub of_collection: bool,
    /// The server writes this itself, to do its work: no policy can keep it from that.
    pub by_server: bool,
    /// Maps that the object has empty, as the request has it.
    pub emptied: Emptied,
}

/// Maps that came empty. They are not kept, and told from those that did not come only where an object is refused.
#[derive(Debug, Default)]
pub struct Emptied(Mutex<Vec<String>>);

impl Emptied {
    /// Notes where they stand, as JSON pointers, in place of what was noted before.
    pub(crate) fn set(&self, pointers: Vec<String>) {
        *self.0.lock() = pointers;
    }

    /// The object with them; `None` if there are none.
    pub(crate) fn shown_in(&self, object: &Value) -> Option<Value> {
        let pointers = self.0.lock();
        if pointers.is_empty() {
            return None;
        }
        let mut shown = object.clone();
        for pointer in pointers.iter() {
            let Some((parent, name)) = pointer.rsplit_once('/') else {
                continue;
            };
            let name = name.replace("~1", "/").replace("~0", "~");
            if let Some(Value::Object(fields)) = shown.pointer_mut(parent) {
                fields.entry(name).or_insert_with(|| json!({}));
            }
        }
        Some(shown)
    }
}

impl Default for WriteContext {
    fn default() -> Self {
        Self {
            manager: String::new(),
            dry_run: false,
            force: false,
            field_validation: FieldValidation::Warn,
            warnings: Warnings::default(),
            requester: None,
            asks_to_create: false,
            by_server: false,
            of_collection: false,
            emptied: Emptied::default(),
        }
    }
}

impl WriteContext {
    /// A write by the server itself, under the name that managed fields show for the part of it that writes.
    pub(crate) fn by_server(manager: &str) -> Self {
        Self {
            manager: manager.to_owned(),
            by_server: true,
            ..Self::default()
        }
    }

    /// The writer as managed fields record it.
    pub(crate) fn writer<'a>(
        &'a self,
        definition: &'a Definition,
        subresource: &'a str,
        now: Time,
    ) -> Writer<'a> {
        Writer {
            manager: match self.manager.as_str() {
                "" => UNNAMED,
                manager => manager,
            },
            api_version: &definition.api_version,
            subresource,
            // Kubernetes keeps a scale's managers by another way, on which the time is lost.
            time: (subresource != Part::Scale.subresource()).then_some(now),
        }
    }
}

/// What a client hears when a write could not be stored for another reason than a conflict.
pub(crate) fn not_stored(error: WriteError) -> Status {
    match error {
        // The text clients know from the store behind a Kubernetes server.
        WriteError::ValueTooLarge { .. } => Status::unclassified("etcdserver: request is too large"),
        WriteError::ReadOnly | WriteError::NoSpace => {
            Status::unclassified("etcdserver: mvcc: database space exceeded")
        }
        // Not a failure: whoever asks again must look first.
        WriteError::Unknown(_) => Status::timeout(error, 0),
        error => Status::internal_error(error),
    }
}

/// Refuses an object with errors.
pub(crate) fn accept(definition: &Definition, object: &Value, errors: &FieldErrors) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    Err(Status::invalid(&definition.group_kind(), name, errors))
}

/// A time as objects carry it.
pub(crate) fn timestamp(now: Time) -> String {
    now.to_rfc3339()
}
