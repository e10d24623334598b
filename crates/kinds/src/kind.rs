//! The rules of a kind, as one value.
//!
//! Generic code handles objects of all kinds and asks the [`Kind`] where they differ. Each built-in kind is one such
//! value, in the file of [`builtin`](crate::builtin) named after it; omitted fields have the values of nearly all
//! kinds ([`Kind::PLAIN`]).

use std::fmt;
use std::time::Duration;

use serde_json::Value;
use watchkeeper_meta::Time;
use watchkeeper_meta::validation::{FinalizerRule, NameRule};

use crate::conversion::Conversion;
use crate::fields::Selectable;
use crate::quota::Usage;
use crate::rules::place::{Errors, Place, Rule};
use crate::table::Column;
use crate::user::User;
use crate::{Part, Warnings};

/// A kind: its differences from other kinds.
pub struct Kind {
    /// `apps`; empty for the core group.
    pub group: &'static str,
    /// `Deployment`.
    pub name: &'static str,
    /// `deployments`.
    pub plural: &'static str,

    /// The syntax of names.
    pub names: NameRule,
    /// The syntax of finalizers.
    pub finalizers: FinalizerRule,
    /// The name in storage, if it is not the plural.
    pub storage_name: Option<&'static str>,
    /// In Kubernetes its key begins with its group, as that of a custom kind; errors show the key.
    pub key_has_group: bool,
    /// The lifetime of an object that is not written.
    pub ttl: Option<Duration>,
    /// The conversion between versions, if it is served in more than one.
    pub conversion: Option<&'static Conversion>,
    /// The group in validation errors, if it differs.
    pub error_group: Option<&'static str>,
    /// The deprecation warning, sent with every request.
    pub deprecation: Option<&'static str>,

    /// PUT of a missing object creates it.
    pub creates_on_update: bool,
    /// PUT without a resourceVersion overwrites the object.
    pub updates_unconditionally: bool,
    /// The meaning of `metadata.generation`.
    pub generation: Generation,
    /// A new object has no generation; its first change sets it to one.
    pub generation_begins_with_change: bool,
    /// DELETE returns the object instead of a Status.
    pub delete_returns_object: bool,
    /// Dependents are orphaned unless the delete says otherwise.
    pub orphans_by_default: bool,
    /// The warning for a delete without a propagation policy.
    pub orphan_warning: Option<&'static str>,
    /// Propagation policies have an effect.
    pub garbage_collected: bool,
    /// Objects get a grace period when they are deleted.
    pub graceful: bool,
    /// Returns the reason an object of this name cannot be deleted.
    pub undeletable: fn(name: &str) -> Option<&'static str>,
    /// True if an object also has finalizers in its spec.
    pub finalizers_in_spec: bool,
    /// The start of the error for another UID in a precondition of a delete, if it has its own text.
    pub uid_precondition: Option<&'static str>,
    /// The object with its deletion mark, given the live one and the current time, if it is marked in its own way.
    pub deletion_mark: Option<fn(&Value, &str) -> Value>,

    /// The status of a new object is kept: its creator reports it.
    pub keeps_new_status: bool,
    /// Fields besides the status that a write of the whole object does not own.
    pub unmanaged: &'static [&'static str],
    /// A write of the status does not change labels, annotations, finalizers and owners.
    pub status_keeps_metadata: bool,
    /// True if `…/status` has no Table form.
    pub status_without_table: bool,
    /// Fields besides the spec that a write of the status cannot set.
    pub not_of_status: &'static [&'static [&'static str]],

    /// The columns of a Table.
    pub columns: &'static [Column],
    /// Additional cells of a row beyond its columns, which Kubernetes sends for one kind.
    pub cells_beyond: &'static [Column],
    /// The sort key of rows, if not the name.
    pub row_order: Option<fn(&Value) -> i64>,
    /// The annotations of a default object, if the Table of a list marks it.
    pub default_marks: &'static [&'static str],
    /// The condition of a row.
    pub row_condition: fn(&Value) -> Option<RowCondition>,
    /// The selectable fields, beyond `metadata.name` and `metadata.namespace`.
    pub selectable: Option<&'static [Selectable]>,
    /// The error for other fields, if it has its own text.
    pub unselectable: Option<fn(field: &str) -> String>,
    /// The JSON pointer of its pod spec.
    pub pod_spec: Option<&'static str>,
    /// The quota usage of an object, besides its count.
    pub usage: fn(&Value, &mut Usage),
    /// A quota may limit its number under its plural name.
    pub counted_by_plural: bool,
    /// Updates that may increase its quota usage.
    pub grows_by: &'static [Part],
    /// Quotas ignore it.
    pub quota_exempt: bool,
    /// Kubernetes keeps no watch cache of it: a watch from a compacted version is refused with the store's error.
    pub uncached: bool,
    /// Removes metadata that only exists because the served version has no field for it. Metadata-only answers omit
    /// it.
    pub drop_alien_metadata: Option<fn(&mut Value)>,
    /// True if the canonical form states the number of replicas even if it is zero.
    pub states_replicas: bool,
    /// Addresses and ports are allocated to its objects.
    pub allocates_addresses: bool,
    /// Fills in what an answer has and the stored form has not.
    pub completion: Option<Completion>,

    /// The hooks for its fields.
    pub(crate) hooks: Hooks,
}

/// The meaning of `metadata.generation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// It is not set.
    None,
    /// Counts changes of everything but metadata and status.
    Spec,
    /// Counts changes of the labels as well.
    SpecAndLabels,
}

/// The condition of an object's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowCondition {
    /// The reason.
    pub reason: &'static str,
    /// The message.
    pub message: &'static str,
}

/// Fills in what an answer has and the stored form has not: both functions do the same.
#[derive(Clone, Copy)]
pub struct Completion {
    /// Completes an object.
    pub value: fn(&mut Value),
    /// Completes the object whose JSON starts at that offset.
    pub json: fn(&mut Vec<u8>, usize),
}

/// The hooks of a kind. Each gets whole objects in canonical form.
pub(crate) struct Hooks {
    /// Sets defaults.
    pub(crate) default: fn(&mut Value),
    /// Sets times that start with the write.
    pub(crate) date: fn(&mut Value, &str),
    /// Resets fields the client cannot set on a new object.
    pub(crate) prepare_for_create: fn(&mut Value, &Warnings),
    /// Records the requester in a new object.
    pub(crate) sign: fn(&mut Value, Option<&User>),
    /// Resets fields the client cannot change, given the live object and the current time.
    pub(crate) prepare_for_update: fn(Part, &mut Value, &Value, &str),
    /// Adjusts an object that has got its deletion mark.
    pub(crate) on_deletion: fn(&mut Value),
    /// True if the schema is validated after `check`.
    pub(crate) checked_by_schema: bool,
    /// Validates an object.
    pub(crate) check: Rule,
    /// Validates a new object, with rules that do not apply to existing ones.
    pub(crate) check_new: Rule,
    /// Validates an update.
    pub(crate) check_change: fn(&Change<'_>, &mut Errors),
    /// True if the update is validated before the object, which shows in the order of errors.
    pub(crate) change_first: bool,
    /// Adds warnings, given the live object if there is one. Not called for a write of the status.
    pub(crate) warn: fn(&Value, Option<&Value>, &Warnings),
    /// Adds warnings about a written status.
    pub(crate) warn_of_status: fn(&Place<'_, '_>, &Warnings),
    /// Returns true if a label or annotation with this key matters to the other hooks. If none of an object's keys
    /// do, the hooks can be skipped for a write of only labels, annotations or finalizers. `None` if they can never
    /// be skipped.
    pub(crate) heeds: Option<fn(&str) -> bool>,
}

/// An update of an object.
pub(crate) struct Change<'v> {
    /// The written part.
    pub(crate) part: Part,
    /// The new object.
    pub(crate) new: Place<'v, 'v>,
    /// The live object.
    pub(crate) live: Place<'v, 'v>,
    /// The current time.
    pub(crate) now: Time,
}

/// Hooks that do nothing.
pub(crate) const PLAIN: Hooks = Hooks {
    default: |_| {},
    date: |_, _| {},
    prepare_for_create: |_, _| {},
    sign: |_, _| {},
    prepare_for_update: |_, _, _, _| {},
    on_deletion: |_| {},
    checked_by_schema: false,
    check: |_, _| {},
    check_new: |_, _| {},
    check_change: |_, _| {},
    change_first: false,
    warn: |_, _, _| {},
    warn_of_status: |_, _| {},
    heeds: None,
};

/// Hooks of a kind that is validated by its schema.
pub(crate) const BY_SCHEMA: Hooks = Hooks {
    checked_by_schema: true,
    ..PLAIN
};

impl Kind {
    /// The defaults of nearly all kinds.
    pub(crate) const PLAIN: Self = Self {
        group: "",
        name: "",
        plural: "",
        names: NameRule::Dns1123Subdomain,
        finalizers: FinalizerRule::WithDomain,
        storage_name: None,
        key_has_group: false,
        ttl: None,
        conversion: None,
        error_group: None,
        deprecation: None,
        creates_on_update: false,
        updates_unconditionally: true,
        generation: Generation::None,
        generation_begins_with_change: false,
        delete_returns_object: false,
        orphans_by_default: false,
        orphan_warning: None,
        garbage_collected: true,
        graceful: false,
        undeletable: |_| None,
        finalizers_in_spec: false,
        uid_precondition: None,
        deletion_mark: None,
        keeps_new_status: false,
        unmanaged: &[],
        status_keeps_metadata: false,
        status_without_table: false,
        not_of_status: &[],
        columns: &[],
        cells_beyond: &[],
        row_order: None,
        default_marks: &[],
        row_condition: |_| None,
        selectable: None,
        unselectable: None,
        pod_spec: None,
        usage: |_, _| {},
        counted_by_plural: false,
        grows_by: &[],
        quota_exempt: false,
        uncached: false,
        drop_alien_metadata: None,
        states_replicas: false,
        allocates_addresses: false,
        completion: None,
        hooks: BY_SCHEMA,
    };

    /// The common part of all custom kinds. The parts of a definition are in
    /// [`CustomVersion`](crate::custom::CustomVersion).
    pub(crate) const CUSTOM: Self = Self {
        updates_unconditionally: false,
        generation: Generation::Spec,
        finalizers: FinalizerRule::AnyQualifiedName,
        status_keeps_metadata: true,
        hooks: PLAIN,
        ..Self::PLAIN
    };
}

/// Kinds are compared by address: no other kind can pretend to be one by its name.
impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Kind {}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kind({}/{})", self.group, self.name)
    }
}
