//! What is particular to a kind, as one value.
//!
//! Everything the server does with an object is written once, for all kinds. Where kinds differ, that code asks the
//! [`Kind`]. Each built-in kind is one such value, in the file of [`builtin`](crate::builtin) that is named after it;
//! a field that is left out is what nearly all kinds have ([`Kind::PLAIN`]).

use std::fmt;
use std::time::Duration;

use serde_json::Value;
use watchkeeper_meta::validation::{FinalizerRule, NameRule};

use crate::conversion::Conversion;
use crate::fields::Selectable;
use crate::quota::Usage;
use crate::rules::place::{Errors, Place, Rule};
use crate::table::Column;
use crate::user::User;
use crate::{Part, Warnings};

/// A kind: where it differs from all others.
pub struct Kind {
    /// `apps`; empty for the core group.
    pub group: &'static str,
    /// `Deployment`.
    pub name: &'static str,
    /// `deployments`.
    pub plural: &'static str,

    /// What names of its objects may look like.
    pub names: NameRule,
    /// What finalizers of its objects may look like.
    pub finalizers: FinalizerRule,
    /// The name under which its objects are stored, where that is not the plural.
    pub storage_name: Option<&'static str>,
    /// How long an object lives without being written.
    pub ttl: Option<Duration>,
    /// How its versions are converted, if it is served in more than one.
    pub conversion: Option<&'static Conversion>,
    /// The group that validation errors name, where it is another.
    pub error_group: Option<&'static str>,
    /// What everyone hears who uses it, whatever becomes of the request.
    pub deprecation: Option<&'static str>,

    /// PUT of an object that is not there creates it.
    pub creates_on_update: bool,
    /// PUT without a resourceVersion overwrites whatever is there.
    pub updates_unconditionally: bool,
    /// What `metadata.generation` counts.
    pub generation: Generation,
    /// A new object has no generation; its first change is the first.
    pub generation_begins_with_change: bool,
    /// DELETE answers with the object instead of a Status.
    pub delete_returns_object: bool,
    /// Dependents stay when the deletion does not say otherwise.
    pub orphans_by_default: bool,
    /// What is said to someone who deletes an object without a word about its dependents.
    pub orphan_warning: Option<&'static str>,
    /// Propagation policies mean something.
    pub garbage_collected: bool,
    /// Something runs that must stop first: objects are given a grace period when they are deleted.
    pub graceful: bool,
    /// Names of objects that cannot be deleted, and why.
    pub undeletable: fn(name: &str) -> Option<&'static str>,
    /// Whether an object has a list of finalizers in its spec too, which keep it.
    pub finalizers_in_spec: bool,

    /// The status of a new object is kept: whoever creates it reports it.
    pub keeps_new_status: bool,
    /// Fields besides the status in which the writer of the whole object manages nothing.
    pub unmanaged: &'static [&'static str],
    /// Who writes the status writes no labels, annotations, finalizers and owners.
    pub status_keeps_metadata: bool,
    /// Whether `…/status` cannot be had as a Table.
    pub status_without_table: bool,
    /// Fields besides the spec that a writer of the status does not say.
    pub not_of_status: &'static [&'static [&'static str]],

    /// The columns of a Table.
    pub columns: &'static [Column],
    /// Cells of a row beyond its columns, which Kubernetes sends for one kind.
    pub cells_beyond: &'static [Column],
    /// What the rows of a list are sorted by, if not by name.
    pub row_order: Option<fn(&Value) -> i64>,
    /// What is special about a row.
    pub row_condition: fn(&Value) -> Option<RowCondition>,
    /// The fields that a field selector may name, beyond `metadata.name` and `metadata.namespace`.
    pub selectable: Option<&'static [Selectable]>,
    /// What is said of a field that is not among those, where that is in words of its own.
    pub unselectable: Option<fn(field: &str) -> String>,
    /// Where the spec of its pods stands.
    pub pod_spec: Option<&'static str>,
    /// What an object takes of a quota, beyond being counted.
    pub usage: fn(&Value, &mut Usage),
    /// A quota may limit its number under its plural name alone.
    pub counted_by_plural: bool,
    /// Writes to an object that is there by which it may take more of a quota.
    pub grows_by: &'static [Part],
    /// Quotas do not look at it.
    pub quota_exempt: bool,
    /// Kubernetes keeps no watch cache of it: a watch that begins too early is refused in the words of its store.
    pub uncached: bool,
    /// Takes out of the metadata what stands there only because the served version has no field for it. Answers that show
    /// metadata alone leave it out.
    pub drop_alien_metadata: Option<fn(&mut Value)>,
    /// Whether the server's own form states how many replicas there are to be, even if it is none.
    pub states_replicas: bool,

    /// What its fields mean.
    pub(crate) hooks: Hooks,
}

/// What `metadata.generation` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// Nothing: it is not set.
    None,
    /// The states of everything but metadata and status.
    Spec,
    /// The states of the labels as well.
    SpecAndLabels,
}

/// What is special about the row of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowCondition {
    /// In a word.
    pub reason: &'static str,
    /// In a sentence.
    pub message: &'static str,
}

/// What the fields of a kind mean. Every hook sees whole objects, in the form the server prints.
pub(crate) struct Hooks {
    /// Fills in what the client left open.
    pub(crate) default: fn(&mut Value),
    /// Fills in the time where something begins with the write.
    pub(crate) date: fn(&mut Value, &str),
    /// Resets what the client may not set on a new object.
    pub(crate) prepare_for_create: fn(&mut Value),
    /// Writes into a new object who asks for it.
    pub(crate) sign: fn(&mut Value, Option<&User>),
    /// Resets what the client may not change; the second value is the live object, the text what time it is.
    pub(crate) prepare_for_update: fn(Part, &mut Value, &Value, &str),
    /// The schema says what else is wrong with an object, after `check`.
    pub(crate) checked_by_schema: bool,
    /// What is wrong with an object.
    pub(crate) check: Rule,
    /// What is wrong with a new object, and would not be with one that is there.
    pub(crate) check_new: Rule,
    /// What is wrong with a change.
    pub(crate) check_change: fn(&Change<'_>, &mut Errors),
    /// Whether the change is looked at before the object is, which shows in the order of errors.
    pub(crate) change_first: bool,
    /// What the writer should hear; the second value is the live object, if there is one.
    pub(crate) warn: fn(&Value, Option<&Value>, &Warnings),
    /// Whether a label or an annotation with this key means anything to the other hooks. Where none of an object's
    /// does, they have nothing to do when its labels, annotations or finalizers change and nothing else. `None` if they
    /// may have.
    pub(crate) heeds: Option<fn(&str) -> bool>,
}

/// A write to an object that is there.
pub(crate) struct Change<'v> {
    /// What is written.
    pub(crate) part: Part,
    /// The object as it would be.
    pub(crate) new: Place<'v, 'v>,
    /// The object as it is.
    pub(crate) live: Place<'v, 'v>,
}

/// Hooks of a kind with rules of its own: none of them does anything.
pub(crate) const PLAIN: Hooks = Hooks {
    default: |_| {},
    date: |_, _| {},
    prepare_for_create: |_| {},
    sign: |_, _| {},
    prepare_for_update: |_, _, _, _| {},
    checked_by_schema: false,
    check: |_, _| {},
    check_new: |_, _| {},
    check_change: |_, _| {},
    change_first: false,
    warn: |_, _, _| {},
    heeds: None,
};

/// Hooks of a kind of which the schema says what is not allowed.
pub(crate) const BY_SCHEMA: Hooks = Hooks {
    checked_by_schema: true,
    ..PLAIN
};

impl Kind {
    /// What nearly all kinds have in common.
    pub(crate) const PLAIN: Self = Self {
        group: "",
        name: "",
        plural: "",
        names: NameRule::Dns1123Subdomain,
        finalizers: FinalizerRule::WithDomain,
        storage_name: None,
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
        keeps_new_status: false,
        unmanaged: &[],
        status_keeps_metadata: false,
        status_without_table: false,
        not_of_status: &[],
        columns: &[],
        cells_beyond: &[],
        row_order: None,
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
        hooks: BY_SCHEMA,
    };

    /// What every custom kind has in common. What its definition says comes beside it
    /// ([`CustomVersion`](crate::custom::CustomVersion)).
    pub(crate) const CUSTOM: Self = Self {
        updates_unconditionally: false,
        generation: Generation::Spec,
        finalizers: FinalizerRule::AnyQualifiedName,
        status_keeps_metadata: true,
        hooks: PLAIN,
        ..Self::PLAIN
    };
}

/// Two kinds are the same if they are the same value: no other kind can pretend to be it by its name.
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
