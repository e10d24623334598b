//! Which part of an object a write is about.

/// Which part of an object a write is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The object, except for its status.
    Object,
    /// The status alone.
    Status,
    /// How many replicas there are to be.
    Scale,
    /// A pod's debugging containers.
    EphemeralContainers,
    /// What a pod's containers may use.
    Resize,
    /// Whether a signing request is approved.
    Approval,
    /// What keeps a namespace from going.
    Finalize,
    /// All of it, as the server's own subresources write.
    Whole,
}

impl Part {
    /// As managed fields name it.
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
