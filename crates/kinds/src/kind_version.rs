//! A kind in one served version: its names, schema, storage key and rules.
//!
//! Built-in and custom kinds are the same type. The rules of a custom kind are those of its definition
//! ([`CustomVersion`]); this is the only place that distinguishes the two.

mod compile;
mod fields;

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use serde_json::{Value, json};
use watchkeeper_meta::{
    ApiResource, FieldErrors, FieldPath, GroupKind, GroupResource, Resource, Scope, Time,
};
use watchkeeper_patch::endpoint::Versions;
use watchkeeper_patch::field_set::{FieldSet, PathElement};
use watchkeeper_wire::difference::Difference;
use watchkeeper_wire::schema::resources;
use watchkeeper_wire::schema::{Schema, TypeId};

use crate::conversion::Conversion;
use crate::custom::{CustomVersion, expressions, nulls, table};
use crate::kind::{Change, Hooks, Kind, RowCondition};
use crate::rules::defaulting::{DefaultsTooLarge, fill_from_schema};
use crate::rules::gated_fields;
use crate::rules::place::{Errors, Place};
use crate::rules::schema_rules;
use crate::table::descriptions::Descriptions;
use crate::table::{Column, Heading, heading};
use crate::user::User;
use crate::{Part, Warnings, builtin};

/// The storage prefix, as in the etcd of a Kubernetes server.
const ROOT: &str = "/registry";

/// A kind in one version.
#[derive(Debug)]
pub struct KindVersion {
    /// The kind.
    pub kind: &'static Kind,
    /// Group, version, kind, plural name and scope.
    pub resource: Resource,
    /// Its discovery entry.
    pub listing: Cow<'static, ApiResource>,
    /// `v1`, `apps/v1`.
    pub api_version: String,
    /// `PodList`.
    pub list_kind: String,
    /// The schema.
    pub schema: SharedSchema,
    /// The type of its objects.
    pub type_id: TypeId,
    /// The conversion to the stored version, if it differs.
    pub conversion: Option<&'static Conversion>,
    /// The parts of a custom resource definition, if it is one.
    pub custom: Option<Box<CustomVersion>>,
    /// `/registry/pods/`.
    prefix: String,
}

/// A schema of built-in kinds, or one shared by the versions of a custom kind.
#[derive(Clone, Debug)]
pub enum SharedSchema {
    /// The schema of all built-in kinds.
    Builtin(&'static Schema),
    /// One built at run time.
    Custom(Arc<Schema>),
}

impl Deref for SharedSchema {
    type Target = Schema;

    fn deref(&self) -> &Schema {
        match self {
            Self::Builtin(schema) => schema,
            Self::Custom(schema) => schema,
        }
    }
}

/// Names, storage and versions.
impl KindVersion {
    /// Every stored built-in resource: those that can be listed and created.
    pub fn all() -> Vec<Self> {
        let stored = resources::all()
            .iter()
            .filter(|builtin| builtin.has_verb("list") && builtin.has_verb("create"));
        stored.filter_map(Self::of).collect()
    }

    /// Component statuses, which can be read but are not stored.
    pub fn component_statuses() -> Option<Self> {
        resources::by_plural("", "v1", builtin::COMPONENT_STATUS.plural).and_then(Self::of)
    }

    fn of(listing: &'static ApiResource) -> Option<Self> {
        let resource = listing.resource.clone();
        let schema = Schema::builtin();
        let api_version = listing.api_version();
        let kind = builtin::find(&resource.group, &resource.kind)?;
        Some(Self {
            type_id: schema.kind(&api_version, &resource.kind)?,
            list_kind: format!("{}List", resource.kind),
            conversion: kind.conversion.filter(|it| it.served_api_version == api_version),
            prefix: format!("{ROOT}/{}/", kind.storage_name.unwrap_or(kind.plural)),
            kind,
            resource,
            listing: Cow::Borrowed(listing),
            api_version,
            schema: SharedSchema::Builtin(schema),
            custom: None,
        })
    }

    /// A version of a custom kind.
    pub(crate) fn custom(
        listing: ApiResource,
        list_kind: String,
        schema: Arc<Schema>,
        type_id: TypeId,
        custom: CustomVersion,
    ) -> Self {
        let resource = listing.resource.clone();
        Self {
            kind: &builtin::CUSTOM,
            api_version: listing.api_version(),
            list_kind,
            schema: SharedSchema::Custom(schema),
            type_id,
            conversion: None,
            custom: Some(Box::new(custom)),
            prefix: format!("{ROOT}/{}/{}/", resource.group, resource.plural),
            listing: Cow::Owned(listing),
            resource,
        }
    }

    /// True if it is a version of that built-in kind.
    pub fn is(&self, kind: &'static Kind) -> bool {
        self.kind == kind
    }

    /// True for a custom kind, whose objects are encoded as JSON only.
    pub fn is_custom(&self) -> bool {
        self.custom.is_some()
    }

    /// The storage prefix of the resource's objects, in one namespace or all.
    pub fn prefix(&self, namespace: &str) -> String {
        match namespace {
            "" => self.prefix.clone(),
            namespace => format!("{}{namespace}/", self.prefix),
        }
    }

    /// The storage key of an object.
    pub fn key(&self, namespace: &str, name: &str) -> String {
        match namespace {
            "" => [&self.prefix, name].concat(),
            namespace => [&self.prefix, namespace, "/", name].concat(),
        }
    }

    /// The versions of the kind, if it has several.
    pub fn versions(&self) -> Option<&dyn Versions> {
        match (&self.custom, self.kind.conversion) {
            (Some(custom), _) => custom.versions(),
            (None, Some(conversion)) => Some(conversion),
            (None, None) => None,
        }
    }

    /// The `apiVersion` in which objects are stored.
    pub fn stored_api_version(&self) -> &str {
        match (&self.custom, self.conversion) {
            (Some(custom), _) => &custom.stored_api_version,
            (None, Some(conversion)) => conversion.stored_api_version,
            (None, None) => &self.api_version,
        }
    }

    /// The version in which objects are stored, without its group.
    pub fn stored_version(&self) -> &str {
        let stored = self.stored_api_version();
        stored.rsplit_once('/').map_or(stored, |(_, version)| version)
    }

    /// True if its objects are stored as the protobuf messages they are served as.
    pub fn stores_messages(&self) -> bool {
        self.conversion.is_none() && !self.is_custom()
    }

    /// The OpenAPI schema of a custom kind.
    pub fn open_api(&self) -> Option<&Value> {
        self.custom.as_ref().map(|custom| &custom.open_api)
    }

    /// The deprecation warning of a kind or version.
    pub fn deprecation(&self) -> Option<&str> {
        match &self.custom {
            Some(custom) => custom.deprecation.as_deref(),
            None => self.kind.deprecation,
        }
    }

    /// `deployments.apps`, for error texts.
    pub fn group_resource(&self) -> GroupResource {
        self.resource.group_resource()
    }

    /// `Deployment.apps`, for error texts.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind {
            group: match self.kind.error_group {
                Some(group) => group.into(),
                None => self.resource.group.clone(),
            },
            kind: self.resource.kind.clone(),
        }
    }

    /// The package name that some of Kubernetes' error texts show for the group.
    pub fn internal_group(&self) -> &str {
        match self.resource.group.split('.').next() {
            Some("") | None => "core",
            Some(first) => first,
        }
    }

    /// True if its objects are namespaced.
    pub fn is_namespaced(&self) -> bool {
        self.resource.scope == Scope::Namespaced
    }

    /// True if it has a status subresource.
    pub fn has_status(&self) -> bool {
        self.listing.subresource("status").is_some()
    }
}

/// Preparation and validation of writes.
impl KindVersion {
    fn hooks(&self) -> &'static Hooks {
        &self.kind.hooks
    }

    /// Drops fields of features that are off, and sets defaults: those of the schema, then those of the kind. Unchanged
    /// parts have them already. `now` is the time, for fields that start with the write.
    pub fn default(
        &self,
        object: &mut Value,
        difference: &Difference,
        now: &str,
    ) -> Result<(), DefaultsTooLarge> {
        gated_fields::drop_from(&self.schema, self.type_id, object, difference);
        fill_from_schema(&self.schema, self.type_id, object, difference)?;
        match &self.custom {
            Some(custom) => nulls::drop_entries(&custom.open_api, object),
            None => {
                (self.hooks().default)(object);
                (self.hooks().date)(object, now);
            }
        }
        Ok(())
    }

    /// Adjusts an object that has got its deletion mark.
    pub fn on_deletion(&self, object: &mut Value) {
        (self.hooks().on_deletion)(object);
    }

    /// Resets fields the client cannot set on a new object, above all the status.
    pub fn prepare_for_create(&self, object: &mut Value, warnings: &Warnings) {
        if self.drops_new_status() {
            match object.as_object_mut() {
                Some(fields) if self.is_custom() => drop(fields.remove("status")),
                _ => object["status"] = json!({}),
            }
        }
        (self.hooks().prepare_for_create)(object, warnings);
    }

    fn drops_new_status(&self) -> bool {
        self.has_status() && !self.kind.keeps_new_status
    }

    /// Records the requester in a new object, if the kind does so.
    pub fn sign(&self, object: &mut Value, requester: Option<&User>) {
        (self.hooks().sign)(object, requester);
    }

    /// Resets fields the client cannot change.
    pub fn prepare_for_update(&self, part: Part, object: &mut Value, live: &Value, now: &str) {
        (self.hooks().prepare_for_update)(part, object, live, now);
    }

    /// The fields of a new object its writer does not own: the status, even if it is kept, and immutable fields.
    pub fn unmanaged_fields(&self) -> Vec<&'static str> {
        let status = self.has_status().then_some("status");
        self.kind.unmanaged.iter().copied().chain(status).collect()
    }

    /// The fields a write of one part cannot set: they keep their live values, whatever an apply states.
    pub fn reset_fields(&self, part: Part) -> FieldSet {
        let mut fields = FieldSet::new();
        let mut add = |path: &[&str]| {
            let path: Vec<PathElement> = path.iter().map(|name| PathElement::field(name)).collect();
            fields.insert(&path);
        };
        match part {
            Part::Object => {
                self.kind.unmanaged.iter().for_each(|field| add(&[field]));
                if self.has_status() {
                    add(&["status"]);
                }
            }
            Part::Finalize if self.has_status() => add(&["status"]),
            Part::Approval => {
                add(&["spec"]);
                add(&["status", "certificate"]);
            }
            Part::Status => {
                add(&["spec"]);
                self.kind.not_of_status.iter().for_each(|path| add(path));
                if self.kind.status_keeps_metadata && !self.is_custom() {
                    add(&["metadata"]);
                }
                if self.is_custom() {
                    let all = self.schema.fields(self.type_id).into_iter();
                    let others =
                        all.filter(|field| !matches!(&*field.name, "status" | "apiVersion" | "kind"));
                    others.for_each(|field| add(&[&field.name]));
                }
            }
            _ => {}
        }
        fields
    }

    /// Validates a new object except for its metadata.
    pub fn errors(&self, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        self.check(object, None, &Warnings::default(), &mut errors);
        (self.hooks().check_new)(&Place::object(object), &mut errors);
        errors
    }

    /// Validates an updated object except for its metadata. In a status write the rest is unchanged and was validated
    /// before.
    pub fn update_errors(
        &self,
        part: Part,
        object: &Value,
        live: &Value,
        now: Time,
        warnings: &Warnings,
    ) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let hooks = self.hooks();
        let change = Change {
            part,
            new: Place::object(object),
            live: Place::object(live),
            now,
        };
        if hooks.change_first {
            (hooks.check_change)(&change, &mut errors);
        }
        match &self.custom {
            Some(custom) if part == Part::Status => {
                errors.append(custom.rules.errors_of_part("status", object, Some(live)));
                if let Some(scale) = &custom.scale {
                    scale.status_errors(object, &mut errors);
                }
                // These apply to the whole object and relations between its parts.
                check_expressions(custom, object, Some(live), warnings, &mut errors);
            }
            _ if part != Part::Status => self.check(object, Some(live), warnings, &mut errors),
            _ => {}
        }
        if !hooks.change_first {
            (hooks.check_change)(&change, &mut errors);
        }
        errors
    }

    /// Validates an object's own fields, by its kind or else by its schema.
    fn check(&self, object: &Value, live: Option<&Value>, warnings: &Warnings, errors: &mut Errors) {
        if let Some(custom) = &self.custom {
            errors.append(custom.rules.errors(object, live));
            if let Some(scale) = &custom.scale {
                scale.spec_errors(object, errors);
                scale.status_errors(object, errors);
            }
            return check_expressions(custom, object, live, warnings, errors);
        }
        (self.hooks().check)(&Place::object(object), errors);
        if self.hooks().checked_by_schema {
            errors.append(schema_rules::errors(&self.schema, self.type_id, object));
        }
    }

    /// Returns true if a label or annotation with this key matters to the rules of the kind. `None` if other parts of
    /// the object do as well.
    pub fn heeds(&self) -> Option<fn(&str) -> bool> {
        self.hooks().heeds
    }

    /// Adds warnings.
    pub fn warn(&self, part: Part, object: &Value, live: Option<&Value>, warnings: &Warnings) {
        if self.is_custom() {
            warn_of_finalizers(object, live, warnings);
        }
        match part {
            Part::Status => (self.hooks().warn_of_status)(&Place::object(object).field("status"), warnings),
            _ => (self.hooks().warn)(object, live, warnings),
        }
    }

    /// True if nothing delays the deletion of a deleted object.
    pub fn is_ready_to_go(&self, object: &Value) -> bool {
        let is_empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
        let metadata = &object["metadata"];
        let grace = metadata["deletionGracePeriodSeconds"].as_i64();
        let kept_by_spec = self.kind.finalizers_in_spec && !is_empty(&object["spec"]["finalizers"]);
        !metadata["deletionTimestamp"].is_null()
            && is_empty(&metadata["finalizers"])
            && grace.unwrap_or_default() == 0
            && !kept_by_spec
    }
}

/// Pods, Tables and metadata.
impl KindVersion {
    /// The errors of privileged containers, if none are allowed.
    pub fn privileged_errors(&self, object: &Value) -> FieldErrors {
        let Some(pointer) = self.kind.pod_spec else {
            return FieldErrors::new();
        };
        let mut names = pointer.split('/').filter(|name| !name.is_empty());
        let first = FieldPath::new(names.next().unwrap_or_default());
        let path = names.fold(first, |path, name| path.child(name));
        match object.pointer(pointer) {
            Some(spec) => builtin::pod::privileged_errors(&path, spec),
            None => FieldErrors::new(),
        }
    }

    /// The pod template of an object, for kinds that create pods.
    pub fn template<'v>(&self, object: &'v Value) -> Option<&'v Value> {
        let pointer = self.kind.pod_spec.filter(|_| !self.is(&builtin::POD))?;
        object.pointer(pointer.strip_suffix("/spec")?)
    }

    /// Removes metadata that only exists because the served version has no field for it.
    pub fn bare_metadata(&self, metadata: &mut Value) {
        if let Some(drop_alien) = self.kind.drop_alien_metadata {
            drop_alien(metadata);
        }
    }

    /// The columns of a Table.
    pub fn headings(&self) -> Vec<Heading<'_>> {
        let described = Descriptions::of(&self.group_resource().to_string());
        let heading = |column: &'static Column| heading(column, described);
        match &self.custom {
            None => self.kind.columns.iter().map(heading).collect(),
            Some(custom) => {
                let others = custom.columns.iter().map(|column| Heading {
                    name: &column.name,
                    kind: &column.kind,
                    format: &column.format,
                    description: match &column.description {
                        Some(text) => text,
                        None => described.column(&column.name),
                    },
                    priority: column.priority,
                });
                std::iter::once(heading(&Column::NAME)).chain(others).collect()
            }
        }
    }

    /// The cells of an object's row, one per column. They are computed in the stored version, which has all fields.
    pub fn cells(&self, object: &Value, now: Time) -> Vec<Value> {
        if let Some(custom) = &self.custom {
            let name = object["metadata"]["name"].clone();
            let others = table::cells(&custom.columns, object, now);
            return std::iter::once(name).chain(others).collect();
        }
        let stored = self
            .conversion
            .map(|conversion| conversion.to_stored(object.clone()));
        let row = crate::table::Row {
            object: stored.as_ref().unwrap_or(object),
            now,
        };
        let columns = self.kind.columns.iter().chain(self.kind.cells_beyond);
        columns.map(|column| (column.cell)(&row)).collect()
    }

    /// The condition of an object's row.
    pub fn row_condition(&self, object: &Value) -> Option<RowCondition> {
        (self.kind.row_condition)(object)
    }
}

/// Evaluates the CEL rules of an object, unless other errors prevent it.
fn check_expressions(
    custom: &CustomVersion,
    object: &Value,
    live: Option<&Value>,
    warnings: &Warnings,
    errors: &mut Errors,
) {
    let Some(rules) = &custom.expressions else { return };
    match expressions::unchecked(errors) {
        Some(unchecked) => errors.push(unchecked),
        None => errors.append(rules.errors(object, live, warnings)),
    }
}

/// Warns of finalizers without a domain, which custom objects may have but should not.
fn warn_of_finalizers(object: &Value, live: Option<&Value>, warnings: &Warnings) {
    let list = |object: &Value| -> Vec<String> {
        let list = object["metadata"]["finalizers"].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let known = live.map(list).unwrap_or_default();
    for name in list(object) {
        let is_qualified = name.contains('/') || matches!(&*name, "orphan" | "foregroundDeletion");
        if !is_qualified && !known.contains(&name) {
            warnings.add(format!(
                "metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name to avoid accidental conflicts \
                 with other finalizer writers"
            ));
        }
    }
}
