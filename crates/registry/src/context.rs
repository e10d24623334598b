//! The context of a write: the user, the field manager, the strictness of validation, and warnings.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use watchkeeper_kinds::{Part, Warnings};
use watchkeeper_meta::{FieldErrors, FieldValidation, Status, Time};
use watchkeeper_patch::managed_fields::Writer;
use watchkeeper_storage::WriteError;

use crate::audit_annotations::AuditAnnotations;
use crate::definition::Definition;
use crate::user::User;

/// The field manager of a client without a name, as in Kubernetes.
const UNNAMED: &str = "unknown";

/// The context of a write.
#[derive(Debug)]
pub struct WriteContext {
    /// The field manager, from the options or from the User-Agent.
    pub manager: String,
    /// Do not store the result.
    pub dry_run: bool,
    /// Apply takes over fields of other managers.
    pub force: bool,
    /// The treatment of unknown and duplicate fields.
    pub field_validation: FieldValidation,
    /// The warnings for the client, in order, without duplicates.
    pub warnings: Warnings,
    /// The user, if known.
    pub requester: Option<User>,
    /// The request was authorized for another verb: before it creates an object, permission to create is checked.
    pub authorize_create: bool,
    /// The request deletes a collection: admission sees each object in a request without a name.
    pub of_collection: bool,
    /// The server itself writes; admission policies do not apply.
    pub by_server: bool,
    /// Empty maps in the request's object.
    pub emptied: Emptied,
    /// The annotations of the request's audit event, if there is one.
    pub audit: Option<Arc<AuditAnnotations>>,
}

/// Maps that were sent empty. They are not stored; only validation errors show them.
#[derive(Debug, Default)]
pub struct Emptied(Mutex<Vec<String>>);

impl Emptied {
    /// Replaces the list, given as JSON pointers.
    pub(crate) fn set(&self, pointers: Vec<String>) {
        *self.0.lock() = pointers;
    }

    /// The object with its empty maps; `None` if there are none.
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
            authorize_create: false,
            by_server: false,
            of_collection: false,
            emptied: Emptied::default(),
            audit: None,
        }
    }
}

impl WriteContext {
    /// A write by the server itself, with this field manager.
    pub(crate) fn by_server(manager: &str) -> Self {
        Self {
            manager: manager.to_owned(),
            by_server: true,
            ..Self::default()
        }
    }

    /// Adds an annotation to the request's audit event, if there is one.
    pub(crate) fn annotate(&self, key: impl FnOnce() -> String, value: impl FnOnce() -> String) {
        if let Some(audit) = &self.audit {
            audit.add(key(), value());
        }
    }

    /// Adds an annotation about the object to the request's audit event, if that shows the object.
    pub(crate) fn annotate_request(&self, key: impl FnOnce() -> String, value: impl FnOnce() -> String) {
        if let Some(audit) = self.audit.as_ref().filter(|audit| audit.shows_request) {
            audit.add_whole(key(), value());
        }
    }

    /// The writer, for managed fields.
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
            // Kubernetes records the managers of a scale without a time.
            time: (subresource != Part::Scale.subresource()).then_some(now),
        }
    }
}

/// The error for a write that failed for a reason other than a conflict.
pub(crate) fn not_stored(error: WriteError) -> Status {
    match error {
        // etcd's error texts, which clients know.
        WriteError::ValueTooLarge { .. } => Status::unclassified("etcdserver: request is too large"),
        WriteError::ReadOnly | WriteError::NoSpace => {
            Status::unclassified("etcdserver: mvcc: database space exceeded")
        }
        // The outcome is unknown: the client must read before it retries.
        WriteError::Unknown(_) => Status::timeout(error, 0),
        error => Status::internal_error(error),
    }
}

/// Returns the validation error for `errors`, if there are any.
pub(crate) fn accept(definition: &Definition, object: &Value, errors: &FieldErrors) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    Err(Status::invalid(&definition.group_kind(), name, errors))
}

/// A time in the format of objects.
pub(crate) fn timestamp(now: Time) -> String {
    now.to_rfc3339()
}
