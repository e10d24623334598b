//! The certificate admission plugins: approving and signing certificate requests, and attesting for a signer, require
//! permission on the *signer*, in addition to that on the object.

use futures_util::future::BoxFuture;
use serde_json::Value;
use watchkeeper_kinds::{Part, builtin, requested_certificate};
use watchkeeper_meta::{FieldError, FieldPath, Status, quote};

use crate::context::WriteContext;
use crate::definition::Definition;
use crate::rbac::Attributes;
use crate::user::MASTERS;
use crate::{Registry, User, metadata};

/// The group of `signers`, a virtual resource.
const GROUP: &str = "certificates.k8s.io";
/// The signer of certificates with which the server knows its users.
const API_CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

impl Registry {
    /// Rejects an action for a signer that the user has no permission on.
    pub(super) fn check_signer<'a>(
        &'a self,
        definition: &'a Definition,
        part: Part,
        live: Option<&'a Value>,
        object: &'a Value,
        context: &'a WriteContext,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let (Some(user), GROUP) = (&context.requester, &*definition.resource.group) else {
                return Ok(());
            };
            let signer = live.unwrap_or(object)["spec"]["signerName"].as_str();
            let signer = signer.unwrap_or_default();
            let Some(word) = Word::of(definition, part, live, object).filter(|_| !signer.is_empty()) else {
                return Ok(());
            };
            if self.may_act_for_signer(user, word.verb(), signer).await? {
                return Ok(());
            }
            Err(refused(definition, object, user, word, signer))
        })
    }

    /// Refuses a request for a certificate that would make its owner an administrator by its signature alone.
    pub(super) fn check_subject(&self, definition: &Definition, object: &Value) -> Result<(), Status> {
        let is_client = object["spec"]["signerName"] == API_CLIENT_SIGNER;
        if !definition.is(&builtin::CERTIFICATE_SIGNING_REQUEST) || !is_client {
            return Ok(());
        }
        let groups = requested_certificate(object).unwrap_or_default().organizations;
        if !groups.iter().any(|group| group == MASTERS) {
            return Ok(());
        }
        let why = format!("use of {API_CLIENT_SIGNER} signer with {MASTERS} group is not allowed");
        let name = metadata::text(object, "name");
        Err(Status::forbidden(&definition.group_resource(), name, why))
    }

    /// True if a user has a verb on a signer, or on all signers of its domain.
    async fn may_act_for_signer(&self, user: &User, verb: &str, signer: &str) -> Result<bool, Status> {
        let domain = signer.split('/').next().unwrap_or_default();
        for name in [signer, &format!("{domain}/*")] {
            let speak = Attributes::Resource {
                verb,
                group: GROUP,
                resource: "signers",
                subresource: "",
                namespace: "",
                name,
            };
            if self.may(user, speak).await?.is_allowed() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The error of a user without permission on a signer. For pod certificates it is a validation error, as in Kubernetes.
fn refused(definition: &Definition, object: &Value, user: &User, word: Word, signer: &str) -> Status {
    let name = metadata::text(object, "name");
    if definition.is(&builtin::POD_CERTIFICATE_REQUEST) {
        let (user, signer) = (quote(&user.name), quote(signer));
        let why = format!(r#"User {user} is not permitted to "sign" for signer {signer}"#);
        let error = FieldError::forbidden(&FieldPath::from("spec.signerName"), why);
        return Status::invalid(&definition.group_kind(), name, &error.into());
    }
    let why = format!("user not permitted to {} {}", word.done(), quote(signer));
    Status::forbidden(&definition.group_resource(), name, why)
}

/// True if a write changes the certificates of a pod certificate request.
fn changes_chain(live: Option<&Value>, object: &Value) -> bool {
    let chain = |object: &Value| {
        object["status"]["certificateChain"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    live.is_some_and(|live| chain(live) != chain(object))
}

/// An action for a signer.
#[derive(Clone, Copy)]
enum Word {
    Approve,
    Sign,
    Attest,
}

impl Word {
    /// The action of a write, if it concerns a signer.
    fn of(definition: &Definition, part: Part, live: Option<&Value>, object: &Value) -> Option<Self> {
        let changes = |field: &str| live.is_none_or(|live| live[field] != object[field]);
        let [is_request, is_pod_request, is_bundle] = [
            &builtin::CERTIFICATE_SIGNING_REQUEST,
            &builtin::POD_CERTIFICATE_REQUEST,
            &builtin::CLUSTER_TRUST_BUNDLE,
        ]
        .map(|kind| definition.is(kind));
        match part {
            Part::Approval if is_request => Some(Self::Approve),
            Part::Status if is_request && changes("status") => Some(Self::Sign),
            Part::Status if is_pod_request && changes_chain(live, object) => Some(Self::Sign),
            _ if is_bundle && changes("spec") => Some(Self::Attest),
            _ => None,
        }
    }

    fn verb(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Sign => "sign",
            Self::Attest => "attest",
        }
    }

    /// The action in the error text.
    fn done(self) -> &'static str {
        match self {
            Self::Approve => "approve requests with signerName",
            Self::Sign => "sign requests with signerName",
            Self::Attest => "attest for signerName",
        }
    }
}
