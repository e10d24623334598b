//! Authorization checks in expressions: `authorizer.group('').resource('pods').check('get').allowed()`.
//!
//! The expression builds the question; the caller of the evaluation provides the authorizer.

use std::fmt;

/// Decides whether requests would be allowed.
pub trait Authorizer: fmt::Debug {
    /// The decision about a request. It must not wait.
    fn decide(&self, question: &Question) -> Decision;
}

/// A hypothetical request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// The namespace and the name of a service account; `None` for the user of the current request.
    pub service_account: Option<(String, String)>,
    /// The target of the request.
    pub target: Target,
    /// `get`, `list`…
    pub verb: String,
}

/// The target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A non-resource path.
    Path(String),
    /// A resource.
    Resource(ResourceTarget),
}

/// The resource of a request; empty fields are unset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceTarget {
    /// The group; empty for core.
    pub group: String,
    /// The plural name.
    pub resource: String,
    /// The subresource.
    pub subresource: String,
    /// The namespace; empty for the whole cluster.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
}

impl Default for Target {
    fn default() -> Self {
        Self::Resource(ResourceTarget::default())
    }
}

/// A decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// True if the request would be allowed.
    pub is_allowed: bool,
    /// The reason.
    pub reason: String,
    /// The error that prevented a decision.
    pub error: Option<String>,
}
