//! The words for what a request wants done.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A verb of the resource API, as discovery lists it and authorization rules name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Store a new object.
    Create,
    /// Remove one object.
    Delete,
    /// Remove every object of a selection.
    DeleteCollection,
    /// Read one object.
    Get,
    /// Read a selection.
    List,
    /// Change parts of one object.
    Patch,
    /// Replace one object.
    Update,
    /// Follow a selection.
    Watch,
}

impl Verb {
    /// The word on the wire.
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

    /// Reads the word; `None` for words that are no verb of the resource API.
    pub fn parse(word: &str) -> Option<Self> {
        use Verb::*;
        [Create, Delete, DeleteCollection, Get, List, Patch, Update, Watch]
            .into_iter()
            .find(|verb| verb.as_str() == word)
    }

    /// Whether the verb changes what is stored: such requests have a limit of their own.
    pub const fn is_mutating(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
