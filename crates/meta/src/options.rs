//! Request options: one struct per verb, public fields, `Default`.
//!
//! A client turns a struct into a query string with `to_query`, in the form and order client-go sends. A server reads
//! it back with `from_query`, which checks as Kubernetes does and answers with its texts: a malformed number is a
//! 400, an invalid combination a 422. Fields that only make sense together are one field here, so that a client
//! cannot ask for what every server refuses.

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
pub(crate) use write::field_manager_errors;
pub use write::{
    ApplyOptions, CreateOptions, FieldValidation, PatchOptions, UpdateOptions, field_manager_from_user_agent,
};

use crate::field_error::{FieldError, FieldErrors, FieldPath};
use crate::{GroupKind, Status};

/// The longest allowed name of a field manager.
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

    /// Refuses anything but `All`; `All` twice is still `All`.
    fn read(self, errors: &mut FieldErrors) -> bool {
        if self.0.iter().any(|value| value != DRY_RUN_ALL) {
            errors.push(FieldError::not_supported(
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

/// Returns the options, or a 422 with their validation errors.
fn accept<T>(kind: &'static str, options: T, errors: &FieldErrors) -> Result<T, Status> {
    match errors.is_empty() {
        true => Ok(options),
        false => Err(Status::invalid(&GroupKind::new("meta.k8s.io", kind), "", errors)),
    }
}
