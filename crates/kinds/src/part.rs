//! The part of an object that a write changes.

/// The part of an object that a write changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The object, except for its status.
    Object,
    /// The status only.
    Status,
    /// The desired number of replicas.
    Scale,
    /// A pod's debugging containers.
    EphemeralContainers,
    /// The resources of a pod's containers.
    Resize,
    /// The approval of a signing request.
    Approval,
    /// The finalizers in a namespace's spec.
    Finalize,
    /// The whole object, for the server's own subresources.
    Whole,
}

impl Part {
    /// The subresource in managed fields.
    pub fn subresource(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Scale => "scale",
            Self::EphemeralContainers => "ephemeralcontainers",
            Self::Resize => "resize",
            Self::Approval => "approval",
            Self::Finalize => "finalize",
            Self::Object | Self::Whole => "",
        }
    }
}
