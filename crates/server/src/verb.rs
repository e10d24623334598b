//! The verbs of the resource API.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A verb, as in discovery and authorization rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Create an object.
    Create,
    /// Delete an object.
    Delete,
    /// Delete all selected objects.
    DeleteCollection,
    /// Read one object.
    Get,
    /// Read all selected objects.
    List,
    /// Change parts of an object.
    Patch,
    /// Replace an object.
    Update,
    /// Watch the selected objects.
    Watch,
}

impl Verb {
    /// The verb on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Get => "get",
            Self::List => "list",
            Self::Patch => "patch",
            Self::Update => "update",
            Self::Watch => "watch",
        }
    }

    /// Parses a verb; `None` if it is unknown.
    pub fn parse(word: &str) -> Option<Self> {
        use Verb::*;
        [Create, Delete, DeleteCollection, Get, List, Patch, Update, Watch]
            .into_iter()
            .find(|verb| verb.as_str() == word)
    }

    /// True if the verb changes stored objects.
    pub const fn is_mutating(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
