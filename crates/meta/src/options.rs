//! What a request asks for beyond its path: one struct per verb, public fields, `Default`.
//!
//! A client turns a struct into a query string with `to_query`, in the form and order client-go sends. A server
//! reads it back with `from_query`, which decodes and checks as Kubernetes does, in its words: text that is no
//! number is a 400, a combination that makes no sense a 422. Fields that only make sense together are one field
//! here, so that a client cannot ask for what every server refuses.

mod delete;
mod pod_stream;
mod query;
mod read;
mod write;

use serde::{Deserialize, Serialize};

pub use delete::{DeleteOptions, Preconditions, PropagationPolicy};
pub use pod_stream::{AttachOptions, ExecOptions, LogOptions, PortForwardOptions};
pub use query::{QueryParams, QueryWriter};
pub use read::{GetOptions, ListOptions, ResourceVersionMatch, WatchOptions, asks_to_watch};
pub(crate) use write::field_manager_faults;
pub use write::{
    ApplyOptions, CreateOptions, FieldValidation, PatchOptions, UpdateOptions, field_manager_from_user_agent,
};

use crate::field_error::{FieldError, FieldErrors, FieldPath};
use crate::{GroupKind, Status};

/// The longest name of a field manager.
pub const MAX_FIELD_MANAGER: usize = 128;

/// The only value `dryRun` has.
const DRY_RUN_ALL: &str = "All";

/// `dryRun` on the wire: a list that may hold `All`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
struct DryRun(Vec<String>);

impl DryRun {
    fn is_unset(&self) -> bool {
        self.0.is_empty()
    }

    fn from_params(params: &QueryParams<'_>) -> Self {
        Self(params.all("dryRun").map(str::to_owned).collect())
    }

    /// Anything but `All` is refused; twice `All` is still `All`.
    fn read(self, faults: &mut FieldErrors) -> bool {
        if self.0.iter().any(|value| value != DRY_RUN_ALL) {
            faults.push(FieldError::not_supported(
                &FieldPath::new("dryRun"),
                self.0,
                &[DRY_RUN_ALL],
            ));
            return false;
        }
        !self.0.is_empty()
    }
}

impl From<bool> for DryRun {
    fn from(dry_run: bool) -> Self {
        Self(if dry_run {
            vec![DRY_RUN_ALL.to_owned()]
        } else {
            Vec::new()
        })
    }
}

/// The options, or the 422 that lists what is wrong with them.
fn accept<T>(kind: &'static str, options: T, faults: &FieldErrors) -> Result<T, Status> {
    match faults.is_empty() {
        true => Ok(options),
        false => Err(Status::invalid(&GroupKind::new("meta.k8s.io", kind), "", faults)),
    }
}
