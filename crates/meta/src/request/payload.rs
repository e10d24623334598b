//! Request bodies and their content types.

use crate::DeleteOptions;

/// JSON.
pub(super) const JSON: &str = "application/json";
/// Server-side apply; the body may also be JSON.
pub(super) const APPLY: &str = "application/apply-patch+yaml";

/// A body with its content type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    content_type: &'static str,
    bytes: Vec<u8>,
}

/// The type of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PatchKind {
    /// A list of operations (RFC 6902).
    Json,
    /// The changed fields; null removes (RFC 7386).
    Merge,
    /// Like a merge patch, but lists merge by the keys of their items. Built-in kinds only.
    Strategic,
    /// The configuration of a field manager (server-side apply). It has its own options, such as `force`: use
    /// [`ObjectRequests::apply`](super::ObjectRequests::apply), or `apply` of the clients.
    Apply,
}

impl Payload {
    /// A body in any encoding.
    pub fn new(content_type: &'static str, bytes: Vec<u8>) -> Self {
        Self { content_type, bytes }
    }

    /// A body in JSON.
    pub fn json(bytes: Vec<u8>) -> Self {
        Self::new(JSON, bytes)
    }

    /// A body in Kubernetes' protobuf envelope.
    pub fn protobuf(bytes: Vec<u8>) -> Self {
        Self::new("application/vnd.kubernetes.protobuf", bytes)
    }

    /// A body in YAML.
    pub fn yaml(bytes: Vec<u8>) -> Self {
        Self::new("application/yaml", bytes)
    }

    /// The content type.
    pub fn content_type(&self) -> &'static str {
        self.content_type
    }

    /// The body.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(super) fn delete_options(options: &DeleteOptions) -> Self {
        // Only text, numbers and booleans: serializing cannot fail.
        Self::json(serde_json::to_vec(options).unwrap_or_default())
    }
}

impl PatchKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Json, Self::Merge, Self::Strategic, Self::Apply];

    /// The patch type of a content type without parameters.
    pub fn of_content_type(content_type: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.content_type() == content_type)
    }

    /// The content type of this patch.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }
}
