//! Who is calling.

use std::collections::BTreeMap;

/// Everyone who proved who they are.
pub const AUTHENTICATED: &str = "system:authenticated";
/// Everyone who did not.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// Those who may do everything.
pub const MASTERS: &str = "system:masters";
/// How the names of service accounts begin; their namespace and name follow.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
/// All service accounts; with a namespace behind a colon, those in it.
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
/// The name of a caller without credentials.
pub const ANONYMOUS: &str = "system:anonymous";

/// A caller, as authorization and audit see one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// An identity that outlives a change of name; may be empty.
    pub uid: String,
    /// The groups, including the ones every caller has.
    pub groups: Vec<String>,
    /// What else its credentials say.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A caller who proved to be `name`; the group of all such callers is added.
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

    /// A caller who showed no credentials.
    pub fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// A service account, as an authorizer is asked about one that has not called.
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

    /// The namespace and the name of the service account that the caller is, if it is one.
    pub fn service_account(&self) -> Option<(&str, &str)> {
        self.name.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')
    }

    /// Whether the caller belongs to a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|it| it == group)
    }
}
