//! Questions about rights that an expression asks: `authorizer.group('').resource('pods').check('get').allowed()`.
//!
//! The language builds the question; whoever evaluates the expression answers it.

use std::fmt;

/// Answers whether requests would be allowed.
pub trait Authorizer: fmt::Debug {
    /// The answer to a question. It must be known without waiting.
    fn decide(&self, question: &Question) -> Decision;
}

/// A request that somebody could make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// The namespace and the name of a service account; `None` for whoever makes the request at hand.
    pub service_account: Option<(String, String)>,
    /// What would be asked for.
    pub target: Target,
    /// `get`, `list`…
    pub verb: String,
}

/// What a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A path outside the resource API.
    Path(String),
    /// A resource.
    Resource(ResourceTarget),
}

/// A resource that a request is about; what is empty is not named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceTarget {
    /// The group; empty for core.
    pub group: String,
    /// The plural name.
    pub resource: String,
    /// The part of the object.
    pub subresource: String,
    /// The namespace; empty for the whole cluster.
    pub namespace: String,
    /// The object.
    pub name: String,
}

impl Default for Target {
    fn default() -> Self {
        Self::Resource(ResourceTarget::default())
    }
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether the request would be allowed.
    pub is_allowed: bool,
    /// Why.
    pub reason: String,
    /// What kept the question from being answered.
    pub error: Option<String>,
}
