//! Who may decide about requests for certificates, who may sign them, and who may vouch for a signer: rights on the
//! *signer*, which its users have besides their rights on the objects.

use serde_json::Value;
use watchkeeper_kinds::{Part, builtin};
use watchkeeper_meta::{Status, quote};

use crate::context::WriteContext;
use crate::definition::Definition;
use crate::rbac::Action;
use crate::{Registry, User, metadata};

/// The group of signers, of which there are only names.
const GROUP: &str = "certificates.k8s.io";

impl Registry {
    /// Refuses a word in a signer's name by someone who may not speak for it.
    pub(super) async fn check_signer(
        &self,
        definition: &Definition,
        part: Part,
        live: Option<&Value>,
        object: &Value,
        context: &WriteContext,
    ) -> Result<(), Status> {
        let (Some(user), GROUP) = (&context.requester, &*definition.resource.group) else {
            return Ok(());
        };
        let signer = live.unwrap_or(object)["spec"]["signerName"].as_str();
        let signer = signer.unwrap_or_default();
        let Some(word) = Word::of(definition, part, live, object).filter(|_| !signer.is_empty()) else {
            return Ok(());
        };
        if self.may_speak_for(user, word.verb(), signer).await? {
            return Ok(());
        }
        let why = format!("user not permitted to {} {}", word.done(), quote(signer));
        let name = metadata::text(object, "name");
        Err(Status::forbidden(&definition.group_resource(), name, why))
    }

    /// Whether a user has a right on a signer, or on all signers of its domain.
    async fn may_speak_for(&self, user: &User, verb: &str, signer: &str) -> Result<bool, Status> {
        let domain = signer.split('/').next().unwrap_or_default();
        for name in [signer, &format!("{domain}/*")] {
            let speak = Action::Resource {
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

/// What is done in a signer's name.
#[derive(Clone, Copy)]
enum Word {
    Approve,
    Sign,
    Attest,
}

impl Word {
    /// What a write does; `None` if it is no signer's business.
    fn of(definition: &Definition, part: Part, live: Option<&Value>, object: &Value) -> Option<Self> {
        let changes = |field: &str| live.is_none_or(|live| live[field] != object[field]);
        let (is_request, is_bundle) = (
            definition.is(&builtin::CERTIFICATE_SIGNING_REQUEST),
            definition.is(&builtin::CLUSTER_TRUST_BUNDLE),
        );
        match part {
            Part::Approval if is_request => Some(Self::Approve),
            Part::Status if is_request && changes("status") => Some(Self::Sign),
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

    /// As the refusal says it.
    fn done(self) -> &'static str {
        match self {
            Self::Approve => "approve requests with signerName",
            Self::Sign => "sign requests with signerName",
            Self::Attest => "attest for signerName",
        }
    }
}
