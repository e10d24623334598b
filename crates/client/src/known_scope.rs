//! The scope of a kind, from the marker types of `k8s-openapi`.

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use watchkeeper_meta::Scope;

/// The two scopes an object can have.
pub trait KnownScope {
    /// The scope.
    const SCOPE: Scope;
}

impl KnownScope for NamespaceResourceScope {
    const SCOPE: Scope = Scope::Namespaced;
}

impl KnownScope for ClusterResourceScope {
    const SCOPE: Scope = Scope::Cluster;
}
