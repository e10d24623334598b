//! An admission request, as policies and webhooks see it.

use serde_json::{Value, json};
use watchkeeper_kinds::{Part, builtin};
use watchkeeper_meta::{DeleteOptions, Resource, Status};
use watchkeeper_patch::managed_fields::Managers;
use watchkeeper_wire::canonical::canonicalize;
use watchkeeper_wire::schema::{Schema, TypeId};

use crate::context::WriteContext;
use crate::definition::Definition;
use crate::metadata;
use crate::user::User;

/// The group of policies, bindings and webhooks. They are exempt from each other, so that a broken one can be
/// repaired.
pub(super) const GROUP: &str = "admissionregistration.k8s.io";

/// The operation on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// The operation and its resource.
#[derive(Clone, Copy)]
pub(crate) struct Action<'w> {
    pub(super) definition: &'w Definition,
    /// `status`; empty for the object itself.
    pub(super) subresource: &'static str,
    pub(super) operation: Operation,
    /// The kind of the body, if it is not the resource's.
    pub(super) kind: Option<&'static PartKind>,
}

/// The kind of a subresource's body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PartKind {
    group: &'static str,
    api_version: &'static str,
    kind: &'static str,
    subresource: &'static str,
}

pub(crate) const BINDING: PartKind = PartKind {
    group: "",
    api_version: "v1",
    kind: "Binding",
    subresource: "binding",
};
pub(crate) const EVICTION: PartKind = PartKind {
    group: "policy",
    api_version: "policy/v1",
    kind: "Eviction",
    subresource: "eviction",
};
pub(crate) const SCALE: PartKind = PartKind {
    group: "autoscaling",
    api_version: "autoscaling/v1",
    kind: "Scale",
    subresource: "scale",
};
pub(crate) const TOKEN_REQUEST: PartKind = PartKind {
    group: "authentication.k8s.io",
    api_version: "authentication.k8s.io/v1",
    kind: "TokenRequest",
    subresource: "token",
};

impl PartKind {
    /// The schema type of this kind.
    pub(super) fn root(&self) -> Option<TypeId> {
        Schema::builtin().kind(self.api_version, self.kind)
    }

    /// Decodes a value as an object of this kind.
    pub(super) fn read(&self, value: Value) -> Result<Value, Status> {
        let known = self.root().ok_or_else(Status::path_not_found)?;
        let mut read = canonicalize(Schema::builtin(), known, value)
            .map_err(Status::internal_error)?
            .value;
        read["apiVersion"] = json!(self.api_version);
        read["kind"] = json!(self.kind);
        Ok(read)
    }
}

/// A write as policies and webhooks see it.
#[derive(Clone, Copy)]
pub(crate) struct AdmissionRequest<'w> {
    pub(crate) action: Action<'w>,
    /// The new object; `None` for a delete.
    pub(crate) object: Option<&'w Value>,
    /// The live object; `None` for a create.
    pub(crate) old: Option<&'w Value>,
    pub(crate) context: &'w WriteContext,
}

impl<'w> Action<'w> {
    pub(crate) fn create(definition: &'w Definition) -> Self {
        Self {
            definition,
            subresource: "",
            operation: Operation::Create,
            kind: None,
        }
    }

    /// A POST to a subresource.
    pub(crate) fn post(definition: &'w Definition, kind: &'static PartKind) -> Self {
        Self {
            subresource: kind.subresource,
            kind: Some(kind),
            ..Self::create(definition)
        }
    }

    pub(crate) fn update(definition: &'w Definition, part: Part) -> Self {
        Self {
            subresource: part.subresource(),
            operation: Operation::Update,
            kind: (part == Part::Scale).then_some(&SCALE),
            ..Self::create(definition)
        }
    }

    pub(crate) fn delete(definition: &'w Definition) -> Self {
        Self {
            operation: Operation::Delete,
            ..Self::create(definition)
        }
    }

    /// True if admission is skipped: for policies and webhooks themselves, and for the server's own writes, without
    /// which it could not start again.
    pub(super) fn is_exempt(&self, context: &WriteContext) -> bool {
        context.by_server || self.definition.resource.group == GROUP
    }
}

impl<'w> AdmissionRequest<'w> {
    /// The new object, or the old one for a delete.
    pub(super) fn shown(&self) -> &'w Value {
        self.object.or(self.old).unwrap_or(&Value::Null)
    }

    /// The name of the object.
    pub(super) fn name(&self) -> &'w str {
        metadata::text(self.shown(), "name")
    }

    /// The name in the request; empty for a collection.
    pub(super) fn requested_name(&self) -> &'w str {
        match self.context.of_collection {
            true => "",
            false => self.name(),
        }
    }

    /// The name in errors.
    pub(super) fn refused_name(&self) -> &'w str {
        match self.requested_name() {
            "" => "Unknown",
            name => name,
        }
    }

    pub(super) fn is_of_namespace(&self) -> bool {
        self.action.definition.is(&builtin::NAMESPACE)
    }

    /// The namespace of the object; a Namespace is in itself.
    pub(super) fn namespace(&self) -> &'w str {
        match self.is_of_namespace() {
            true => self.name(),
            false => metadata::text(self.shown(), "namespace"),
        }
    }

    /// The options of the operation. A patch has those of the resulting operation.
    pub(super) fn options(&self, deletion: Option<&DeleteOptions>) -> Value {
        let (operation, context) = (self.action.operation, self.context);
        let kind = match operation {
            Operation::Create => "CreateOptions",
            Operation::Update => "UpdateOptions",
            Operation::Delete => "DeleteOptions",
        };
        let mut options = deletion.map_or(json!({}), |options| json!(options));
        if context.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        if operation != Operation::Delete && !context.manager.is_empty() {
            options["fieldManager"] = json!(context.manager);
        }
        options["kind"] = json!(kind);
        options["apiVersion"] = json!("meta.k8s.io/v1");
        options
    }

    /// The request as in `admission.k8s.io`, without the objects and what only a deletion has.
    pub(super) fn described(&self, shown: &Definition) -> Value {
        let named = |resource: &Resource| {
            let (group, version) = (&resource.group, &resource.version);
            let kind = match self.action.kind {
                // All of them have version v1.
                Some(part) => json!({"group": part.group, "version": "v1", "kind": part.kind}),
                None => json!({"group": group, "version": version, "kind": resource.kind}),
            };
            let plural = json!({"group": group, "version": version, "resource": resource.plural});
            (kind, plural)
        };
        let (kind, plural) = named(&shown.resource);
        let (requested_kind, requested_plural) = named(&self.action.definition.resource);
        let mut request = json!({
            "kind": kind, "resource": plural, "requestKind": requested_kind, "requestResource": requested_plural,
            "operation": self.action.operation.name(), "dryRun": self.context.dry_run,
            "userInfo": self.context.requester.as_ref().map_or(json!({}), described_user),
            "options": self.options(None),
        });
        put_text(&mut request, "name", self.requested_name());
        put_text(&mut request, "namespace", self.namespace());
        put_text(&mut request, "subResource", self.action.subresource);
        put_text(&mut request, "requestSubResource", self.action.subresource);
        request
    }
}

/// An object and its managers, which are stored apart from it.
pub(super) type State<'w> = (&'w Value, &'w Managers);

/// A write that policies and webhooks may match.
#[derive(Clone, Copy)]
pub(super) struct Asked<'w> {
    pub(super) action: Action<'w>,
    /// The new object, for validating ones.
    pub(super) new: Option<State<'w>>,
    pub(super) old: Option<State<'w>>,
    pub(super) deletion: Option<&'w DeleteOptions>,
    pub(super) context: &'w WriteContext,
}

impl<'w> Asked<'w> {
    pub(super) fn write<'s>(&self, new: Option<&'s Value>, old: Option<&'s Value>) -> AdmissionRequest<'s>
    where
        'w: 's,
    {
        AdmissionRequest {
            action: self.action,
            object: new,
            old,
            context: self.context,
        }
    }
}

/// The object including managed fields.
pub(super) fn whole((value, managers): State<'_>) -> Value {
    let mut whole = value.clone();
    managers.write_to(&mut whole);
    whole
}

/// A user as in `authentication.k8s.io`.
fn described_user(user: &User) -> Value {
    let mut described = json!({});
    put_text(&mut described, "username", &user.name);
    put_text(&mut described, "uid", &user.uid);
    if !user.groups.is_empty() {
        described["groups"] = json!(user.groups);
    }
    if !user.extra.is_empty() {
        described["extra"] = json!(user.extra);
    }
    described
}

/// Go omits empty fields.
fn put_text(object: &mut Value, field: &str, text: &str) {
    if !text.is_empty() {
        object[field] = json!(text);
    }
}
