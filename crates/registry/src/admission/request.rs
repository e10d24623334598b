//! A write as those see it who judge it: the policies and webhooks that a cluster was given.

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

/// The group of policies, bindings and webhooks, which are not subject to each other: a wrong one could not be repaired.
pub(super) const GROUP: &str = "admissionregistration.k8s.io";

/// What is done to an object.
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

/// What is done to which resource.
#[derive(Clone, Copy)]
pub(crate) struct Action<'w> {
    pub(super) definition: &'w Definition,
    /// `status`; empty for the object itself.
    pub(super) subresource: &'static str,
    pub(super) operation: Operation,
    /// What is written, if it is not an object of the resource.
    pub(super) kind: Option<&'static PartKind>,
}

/// A kind that is written at a subresource, instead of the resource's own.
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
    /// What objects of this kind are made of.
    pub(super) fn root(&self) -> Option<TypeId> {
        Schema::builtin().kind(self.api_version, self.kind)
    }

    /// Takes a value for an object of this kind.
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
    /// The object as it will be; `None` if it goes.
    pub(crate) object: Option<&'w Value>,
    /// The object as it is; `None` if it is new.
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

    /// Something is posted to an object.
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

    /// Whether nobody is asked: about what judges others, and what the server writes to do its own work. It could not
    /// even start again otherwise.
    pub(super) fn is_exempt(&self, context: &WriteContext) -> bool {
        context.by_server || self.definition.resource.group == GROUP
    }
}

impl<'w> AdmissionRequest<'w> {
    /// The object as it will be, or as it was if it goes.
    pub(super) fn shown(&self) -> &'w Value {
        self.object.or(self.old).unwrap_or(&Value::Null)
    }

    /// The name of the object.
    pub(super) fn name(&self) -> &'w str {
        metadata::text(self.shown(), "name")
    }

    /// The name in the request; empty if it is about a collection.
    pub(super) fn requested_name(&self) -> &'w str {
        match self.context.of_collection {
            true => "",
            false => self.name(),
        }
    }

    /// The name that a refusal says.
    pub(super) fn refused_name(&self) -> &'w str {
        match self.requested_name() {
            "" => "Unknown",
            name => name,
        }
    }

    pub(super) fn is_of_namespace(&self) -> bool {
        self.action.definition.is(&builtin::NAMESPACE)
    }

    /// Where the object is; a namespace is in itself.
    pub(super) fn namespace(&self) -> &'w str {
        match self.is_of_namespace() {
            true => self.name(),
            false => metadata::text(self.shown(), "namespace"),
        }
    }

    /// The write in the words of `admission.k8s.io`, without the objects, which are shown in a version of the resource.
    pub(super) fn described(&self, shown: &Definition) -> Value {
        let named = |resource: &Resource| {
            let (group, version) = (&resource.group, &resource.version);
            let kind = match self.action.kind {
                // All of them are of the first version.
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
        });
        put_text(&mut request, "name", self.requested_name());
        put_text(&mut request, "namespace", self.namespace());
        put_text(&mut request, "subResource", self.action.subresource);
        put_text(&mut request, "requestSubResource", self.action.subresource);
        request
    }
}

/// An object, and who manages its fields: that is kept apart from it, and shown with it.
pub(super) type State<'w> = (&'w Value, &'w Managers);

/// A write that policies and webhooks may want to see.
#[derive(Clone, Copy)]
pub(super) struct Asked<'w> {
    pub(super) action: Action<'w>,
    /// As it will be, for those that only refuse.
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

/// An object with all it has.
pub(super) fn whole((value, managers): State<'_>) -> Value {
    let mut whole = value.clone();
    managers.write_to(&mut whole);
    whole
}

/// A user in the words of `authentication.k8s.io`.
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

/// Go leaves out what is empty.
fn put_text(object: &mut Value, field: &str, text: &str) {
    if !text.is_empty() {
        object[field] = json!(text);
    }
}
