//! Managed fields: the entries of `metadata.managedFields`.
//!
//! Every write is recorded for a manager. An *Update* entry lists the fields its manager was the last to change; it
//! loses fields that others change. An *Apply* entry lists the fields its manager applied; others cannot change them
//! without force (see [`apply`](crate::apply)).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use smol_str::SmolStr;
use watchkeeper_meta::Time;
use watchkeeper_wire::difference::Difference;
use watchkeeper_wire::schema::{Schema, Shape, TypeId};
use watchkeeper_wire::values::read_time;

use crate::compare::{Comparison, compare_at, omits_key};
use crate::endpoint::{Changes, Endpoint};
use crate::field_set::{FieldSet, FieldSetError, PathElement};
use crate::structure::Place;

mod owned_fields;
mod stored;
mod text;

pub use owned_fields::OwnedFields;

/// The limit of Kubernetes: an object with many writers keeps a bounded history.
pub const MAX_UPDATE_MANAGERS: usize = 10;

/// The entry into which the oldest update entries are merged if there are too many.
const ANCIENT_CHANGES: &str = "ancient-changes";

/// Fields that belong to the server or identify the object; they have no manager.
const UNMANAGED: &[&[&str]] = &[
    &["apiVersion"],
    &["kind"],
    &["metadata"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "creationTimestamp"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
    &["metadata", "clusterName"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "resourceVersion"],
];

/// The manager, endpoint and time of a write.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The name of the manager.
    pub manager: &'a str,
    /// The API version of the request.
    pub api_version: &'a str,
    /// The subresource written to; empty for the object itself.
    pub subresource: &'a str,
    /// The time of the write; `None` leaves times unchanged.
    pub time: Option<Time>,
}

/// The operation by which a manager got its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// By a server-side apply.
    Apply,
    /// By any other write.
    Update,
}

/// One entry of `metadata.managedFields`. Most of its texts are short enough to be stored inline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manager {
    /// The name of the manager.
    pub name: SmolStr,
    /// The operation.
    pub operation: Operation,
    /// The API version in which the fields are named.
    pub api_version: SmolStr,
    /// The time of the last change of the entry, in whole seconds.
    pub time: Option<Time>,
    /// The subresource written to; empty for the object itself.
    pub subresource: SmolStr,
    /// The fields.
    pub fields: OwnedFields,
}

/// The managers of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managers(Vec<Manager>);

/// An invalid `metadata.managedFields`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagedFieldsError {
    /// An invalid field set.
    #[error("metadata.managedFields[{index}].fieldsV1: {source}")]
    Fields {
        /// The entry.
        index: usize,
        /// The error.
        source: FieldSetError,
    },
    /// Neither `Apply` nor `Update`.
    #[error("metadata.managedFields[{index}].operation: {found:?} is neither Apply nor Update")]
    Operation {
        /// The entry.
        index: usize,
        /// The value found.
        found: String,
    },
}

impl Operation {
    /// The text in objects.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

impl Managers {
    /// No managers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the managers of an object.
    pub fn of(object: &Value) -> Result<Self, ManagedFieldsError> {
        let entries = object.pointer("/metadata/managedFields");
        Self::read(entries.and_then(Value::as_array).map_or(&[], Vec::as_slice))
    }

    fn read(entries: &[Value]) -> Result<Self, ManagedFieldsError> {
        entries
            .iter()
            .enumerate()
            .map(|(index, entry)| Manager::read(index, entry))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The managers after a client wrote these entries: those, if they are valid, else the previous ones. With `[]`
    /// or `[{}]` a client resets them.
    pub fn replaced_by(self, entries: &Value) -> Self {
        let Some(entries) = entries.as_array() else {
            return self;
        };
        let is_reset = match entries.as_slice() {
            [] => true,
            [only] => only.as_object().is_some_and(Map::is_empty),
            _ => false,
        };
        if is_reset {
            return Self::new();
        }
        Self::read(entries).unwrap_or(self)
    }

    /// True if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Every entry.
    pub fn entries(&self) -> &[Manager] {
        &self.0
    }

    /// Writes the managers into an object; without entries the field is removed.
    pub fn write_to(&self, object: &mut Value) {
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
            return;
        };
        metadata.remove("managedFields");
        if self.0.is_empty() {
            return;
        }
        metadata.insert("managedFields".to_owned(), self.to_value());
    }

    /// Every entry as JSON.
    pub fn to_value(&self) -> Value {
        self.0.iter().map(Manager::to_value).collect()
    }

    /// Sorts the entries in Kubernetes' order.
    pub(crate) fn put_in_order(&mut self) {
        self.0.sort_by(|one, other| one.order().cmp(&other.order()));
    }

    /// True if both have the same managers with the same fields; times, and thus the order, are ignored.
    pub fn is_same_but_for_times(&self, other: &Self) -> bool {
        let is_same = |one: &Manager, other: &Manager| {
            (
                one.operation,
                &one.name,
                &one.api_version,
                &one.subresource,
                &one.fields,
            ) == (
                other.operation,
                &other.name,
                &other.api_version,
                &other.subresource,
                &other.fields,
            )
        };
        let all_same = |ours: &[&Manager], theirs: &[&Manager]| {
            ours.iter().zip(theirs).all(|(one, other)| is_same(one, other))
        };
        self.0.len() == other.0.len() && all_same(&self.by_identity(), &other.by_identity())
    }

    fn by_identity(&self) -> Vec<&Manager> {
        let mut managers: Vec<&Manager> = self.0.iter().collect();
        managers.sort_by_key(|it| (it.operation, &it.name, &it.api_version, &it.subresource));
        managers
    }

    /// Records a write other than an apply: its manager owns the changed fields, and nobody owns the removed ones.
    /// `states` are the previous object ([`empty_object`] for a create), the new one, and their difference.
    pub fn record_update(
        &mut self,
        schema: &Schema,
        root: TypeId,
        states: (&Value, &Value, &Difference),
        endpoint: &Endpoint<'_>,
        writer: &Writer<'_>,
    ) {
        if omits_key(Place::root(schema, root), states.1, states.2) {
            return;
        }
        let changes = endpoint.changes(schema, root, states, self, writer.api_version);
        self.forget(&changes, Operation::Update, writer);
        if !changes.own.changed.is_empty() {
            let entry = self.entry(Operation::Update, writer);
            entry.fields.add(changes.own.changed);
            entry.set_time(writer);
        }
        self.limit_update_managers();
        self.put_in_order();
    }

    /// All managed fields in a version.
    pub(crate) fn all_fields(&self, api_version: Option<&str>) -> FieldSet {
        let speak = self
            .0
            .iter()
            .filter(|manager| api_version.is_none_or(|version| manager.api_version == version));
        union(
            speak
                .map(|manager| manager.fields.to_set().into_owned())
                .collect(),
        )
    }

    /// The other versions managers use, each once.
    pub(crate) fn other_versions<'a>(&'a self, api_version: &'a str) -> impl Iterator<Item = &'a str> {
        let mut seen = HashSet::from([api_version]);
        let versions = self.0.iter().map(|manager| manager.api_version.as_str());
        versions.filter(move |version| seen.insert(*version))
    }

    /// Removes changed fields from all managers but the writer, and removed fields from all. A manager whose version
    /// no longer exists loses all its fields.
    pub(crate) fn forget(&mut self, changes: &Changes, operation: Operation, writer: &Writer<'_>) {
        for manager in &mut self.0 {
            let Some(change) = changes.in_version(&manager.api_version) else {
                manager.fields = OwnedFields::default();
                continue;
            };
            if !manager.is(operation, writer) {
                manager.fields.subtract(&change.changed);
            }
            manager.fields.subtract(&change.removed);
        }
        self.drop_empty();
    }

    /// The writer's entry, created if missing.
    pub(crate) fn entry(&mut self, operation: Operation, writer: &Writer<'_>) -> &mut Manager {
        let position = self.0.iter().position(|manager| manager.is(operation, writer));
        let position = position.unwrap_or_else(|| {
            self.0.push(Manager {
                name: writer.manager.into(),
                operation,
                api_version: writer.api_version.into(),
                time: None,
                subresource: writer.subresource.into(),
                fields: OwnedFields::default(),
            });
            self.0.len() - 1
        });
        &mut self.0[position]
    }

    /// The writer's entry, if there is one.
    pub(crate) fn find(&self, operation: Operation, writer: &Writer<'_>) -> Option<&Manager> {
        self.0.iter().find(|manager| manager.is(operation, writer))
    }

    /// Adds an entry unchanged.
    pub(crate) fn push(&mut self, manager: Manager) {
        self.0.push(manager);
    }

    /// Drops entries without fields.
    pub(crate) fn drop_empty(&mut self) {
        self.0.retain(|manager| !manager.fields.is_empty());
    }

    /// Merges the oldest update entries of a version into the first of them, until the limit is met.
    fn limit_update_managers(&mut self) {
        let is_update = |manager: &Manager| manager.operation == Operation::Update;
        let mut oldest: Vec<usize> = (0..self.0.len())
            .filter(|&index| is_update(&self.0[index]))
            .collect();
        let excess = oldest.len().saturating_sub(MAX_UPDATE_MANAGERS);
        if excess == 0 {
            return;
        }
        oldest.sort_by(|&one, &other| self.0[one].order().cmp(&self.0[other].order()));
        let mut first_of: HashMap<SmolStr, usize> = HashMap::new();
        let mut merged: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut is_merged = vec![false; self.0.len()];
        let later = oldest.into_iter().filter(|&index| {
            let first = *first_of.entry(self.0[index].api_version.clone()).or_insert(index);
            if first != index {
                merged.entry(first).or_default().push(index);
            }
            first != index
        });
        later.take(excess).for_each(|index| is_merged[index] = true);
        for (first, others) in merged {
            self.merge_into(first, &others);
        }
        let mut is_merged = is_merged.into_iter();
        self.0.retain(|_| !is_merged.next().unwrap_or_default());
    }

    /// Turns an entry into the one of ancient changes, with the fields of `others` added.
    fn merge_into(&mut self, first: usize, others: &[usize]) {
        let sets = others
            .iter()
            .map(|&other| self.0[other].fields.to_set().into_owned());
        let fields = union(sets.collect());
        let time = others.last().and_then(|&last| self.0[last].time);
        let bucket = &mut self.0[first];
        bucket.name = ANCIENT_CHANGES.into();
        bucket.subresource = SmolStr::default();
        bucket.time = time;
        bucket.fields.add(fields);
    }
}

/// The union of all sets. Sets are merged pairwise, so that each path is moved a logarithmic number of times.
fn union(mut sets: Vec<FieldSet>) -> FieldSet {
    while sets.len() > 1 {
        let mut pairs = sets.into_iter();
        sets = Vec::new();
        while let Some(mut one) = pairs.next() {
            if let Some(other) = pairs.next() {
                one.absorb(other);
            }
            sets.push(one);
        }
    }
    sets.pop().unwrap_or_default()
}

impl Manager {
    fn read(index: usize, entry: &Value) -> Result<Self, ManagedFieldsError> {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        let operation = match text("operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            found => {
                return Err(ManagedFieldsError::Operation {
                    index,
                    found: found.to_owned(),
                });
            }
        };
        let empty = json!({});
        let fields = FieldSet::from_value(entry.get("fieldsV1").unwrap_or(&empty))
            .map_err(|source| ManagedFieldsError::Fields { index, source })?;
        Ok(Self {
            name: text("manager").into(),
            operation,
            api_version: text("apiVersion").into(),
            time: entry.get("time").and_then(Value::as_str).and_then(whole_second),
            subresource: text("subresource").into(),
            fields: fields.into(),
        })
    }

    fn to_value(&self) -> Value {
        let mut entry = json!({
            "manager": self.name.as_str(),
            "operation": self.operation.as_str(),
            "apiVersion": self.api_version.as_str(),
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields.to_set().to_value(),
        });
        if let Some(time) = self.time {
            entry["time"] = json!(time.to_rfc3339());
        }
        if !self.subresource.is_empty() {
            entry["subresource"] = json!(self.subresource.as_str());
        }
        entry
    }

    /// True if this is the writer's entry. For an apply, the version does not matter.
    fn is(&self, operation: Operation, writer: &Writer<'_>) -> bool {
        self.operation == operation
            && self.name == writer.manager
            && self.subresource == writer.subresource
            && (operation == Operation::Apply || self.api_version == writer.api_version)
    }

    /// Sets the time to that of the write.
    pub(crate) fn set_time(&mut self, writer: &Writer<'_>) {
        if let Some(time) = writer.time {
            self.time = Some(Time::from_seconds(time.seconds));
        }
    }

    fn order(&self) -> (Operation, Option<Time>, &str, &str, &str) {
        (
            self.operation,
            self.time,
            &self.name,
            &self.api_version,
            &self.subresource,
        )
    }
}

/// Parses a time. An invalid one counts as none: every stored time comes from a clock or was parsed before.
fn whole_second(text: &str) -> Option<Time> {
    let time = read_time(text).ok()?;
    Some(Time::from_seconds(time.seconds))
}

/// The difference between two states of an object, in fields that can be managed.
pub(crate) fn managed_change(
    schema: &Schema,
    root: TypeId,
    live: &Value,
    new: &Value,
    difference: &Difference,
) -> Comparison {
    let mut change = compare_at(schema, root, live, new, difference);
    change.leave_out(&UNMANAGED_FIELDS);
    change
}

impl Comparison {
    /// Removes these paths from the comparison, but not the paths below them.
    fn leave_out(&mut self, fields: &FieldSet) {
        self.changed.subtract(fields);
        self.removed.subtract(fields);
    }

    /// Removes these paths from the comparison, with everything below them.
    pub(crate) fn leave_out_subtrees(&mut self, fields: &FieldSet) {
        if !fields.is_empty() {
            self.changed = self.changed.without_subtrees(fields);
            self.removed = self.removed.without_subtrees(fields);
        }
    }
}

/// [`UNMANAGED`] as a set; every write needs it.
pub(crate) static UNMANAGED_FIELDS: LazyLock<FieldSet> = LazyLock::new(|| {
    let mut set = FieldSet::new();
    for path in UNMANAGED {
        let path: Vec<PathElement> = path.iter().map(|name| PathElement::field(name)).collect();
        set.insert(&path);
    }
    set
});

/// The empty object of a type: what Go prints of an empty struct. A create is compared with it, so that nobody owns
/// structs that are always there.
pub fn empty_object(schema: &Schema, id: TypeId) -> Value {
    let fields = schema.fields(id).into_iter().filter(|field| !field.pointer);
    let shown = fields.filter_map(|field| {
        let value = match &field.shape {
            _ if field.omit_zero => return None,
            // Go's `omitempty` never omits a struct.
            Shape::Struct(inner) => empty_object(schema, *inner),
            Shape::Time | Shape::MicroTime | Shape::RawExtension => Value::Null,
            Shape::Quantity => json!("0"),
            Shape::IntOrString => json!(0),
            Shape::Duration => json!("0s"),
            _ if field.omit_empty => return None,
            Shape::String(_) => json!(""),
            Shape::Bool => json!(false),
            Shape::Int32 | Shape::Int64 | Shape::Float64 => json!(0),
            _ => Value::Null,
        };
        Some((field.name.to_string(), value))
    });
    Value::Object(shown.collect())
}
