//! The user of a request.

use std::collections::BTreeMap;

/// The group of all authenticated users.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of all unauthenticated users.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group with all permissions.
pub const MASTERS: &str = "system:masters";
/// The prefix of service account names; namespace and name follow.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
/// The group of all service accounts; with a namespace after a colon, those in it.
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
/// The name of a user without credentials.
pub const ANONYMOUS: &str = "system:anonymous";

/// A user, as authorization and audit see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// A stable identity; may be empty.
    pub uid: String,
    /// The groups, including the implicit ones.
    pub groups: Vec<String>,
    /// Further attributes of the credentials.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// An authenticated user; the group of all authenticated users is added.
    pub fn authenticated(name: impl Into<String>, uid: impl Into<String>, groups: Vec<String>) -> Self {
        let mut groups = groups;
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Self {
            name: name.into(),
            uid: uid.into(),
            groups,
            extra: BTreeMap::new(),
        }
    }

    /// A user without credentials.
    pub fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// A service account, for authorization checks about one that is not calling.
    pub fn of_service_account(namespace: &str, name: &str) -> Self {
        Self {
            name: format!("{SERVICE_ACCOUNT}{namespace}:{name}"),
            groups: vec![
                SERVICE_ACCOUNTS.to_owned(),
                format!("{SERVICE_ACCOUNTS}:{namespace}"),
            ],
            ..Self::default()
        }
    }

    /// The namespace and the name of the service account, if it is one.
    pub fn service_account(&self) -> Option<(&str, &str)> {
        self.name.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')
    }

    /// True if the user is in a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|it| it == group)
    }
}
