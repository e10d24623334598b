//! Impersonation: `Impersonate-User`, `-Group`, `-Uid` and `-Extra-…`.
//!
//! A request with such headers is never handled as its sender: a client that wants to test another user's permissions
//! would get its own.
//!
//! The permission can be given in several [`Mode`]s (KEP-5284). The constrained ones name a kind of user, and also require
//! `impersonate-on:MODE:VERB` for the request itself. The legacy one, `impersonate`, allows every request.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use http::{HeaderMap, HeaderValue};
use percent_encoding::percent_decode_str;
use watchkeeper_meta::Status;
use watchkeeper_meta::validation::dns1123_subdomain;
use watchkeeper_registry::Registry;
use watchkeeper_registry::user::{ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, User};

use crate::authorize::{authorize, denied};
use crate::request_info::{RequestInfo, ResourceInfo};

/// The prefix of all impersonation headers.
const PREFIX: &str = "impersonate-";

/// The prefix of headers with extra attributes; the key follows.
const EXTRA: &str = "impersonate-extra-";

/// The API group of `uids` and `userextras`, and in constrained modes of all parts of a user.
const AUTHENTICATION: &str = "authentication.k8s.io";

/// The prefix of the names of nodes as users, and their group.
const NODE: &str = "system:node:";
const NODES: &str = "system:nodes";

/// The attribute of a service account token with the node of its pod.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// The number of senders whose impersonation mode is remembered. Beyond it, all are forgotten.
const MAX_REMEMBERED: usize = 1024;

/// A request to act as another user, as its headers state it.
#[derive(Debug)]
pub(crate) struct Impersonation {
    wanted: User,
}

/// A way to be allowed to impersonate, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// A service account acts as the node of its pod.
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    /// Users that are neither nodes nor service accounts.
    UserInfo,
    Legacy,
}

/// A condition of a mode: a permission of the sender, or something nobody may do in that mode.
#[derive(Debug)]
enum Condition {
    Permission(RequestInfo),
    Never(RequestInfo, &'static str),
}

/// The mode in which each sender last succeeded. It is tried first, and its denial is the one in the answer.
#[derive(Debug, Default)]
pub(crate) struct LastModes(Mutex<HashMap<String, Mode>>);

impl LastModes {
    fn order(&self, sender: &User) -> Vec<Mode> {
        let known = self.0.lock().expect("no panic under the lock");
        let last = known.get(&sender.name).copied();
        let others = Mode::ALL.into_iter().filter(|mode| Some(*mode) != last);
        last.into_iter().chain(others).collect()
    }

    fn remember(&self, sender: &User, mode: Mode) {
        let mut known = self.0.lock().expect("no panic under the lock");
        if known.len() >= MAX_REMEMBERED {
            known.clear();
        }
        known.insert(sender.name.clone(), mode);
    }
}

/// Reads the impersonation headers; `None` if there are none.
pub(crate) fn impersonation(headers: &HeaderMap) -> Result<Option<Impersonation>, Status> {
    if !headers.keys().any(|name| name.as_str().starts_with(PREFIX)) {
        return Ok(None);
    }
    let wanted = User {
        name: values(headers, "impersonate-user").pop().unwrap_or_default(),
        uid: values(headers, "impersonate-uid").pop().unwrap_or_default(),
        groups: values(headers, "impersonate-group"),
        extra: extras(headers),
    };
    match wanted.name.is_empty() {
        false => Ok(Some(Impersonation { wanted })),
        true if wanted == User::default() => Ok(None),
        true => Err(Status::bad_request(format!(
            "requested {} without impersonating a user name",
            in_go(&wanted)
        ))),
    }
}

impl Impersonation {
    /// Returns the user a request acts as, if its sender is allowed to in one of the modes.
    pub(crate) async fn permitted(
        &self,
        registry: &Registry,
        sender: &User,
        request: &RequestInfo,
        last: &LastModes,
    ) -> Result<User, Status> {
        let mut first = None;
        for mode in last.order(sender) {
            if !mode.applies(&self.wanted, sender) {
                continue;
            }
            match permits(registry, sender, self.conditions(mode, request)).await {
                Ok(()) => {
                    last.remember(sender, mode);
                    return Ok(self.user(mode));
                }
                Err(status) => {
                    first.get_or_insert(status);
                }
            }
        }
        Err(first.unwrap_or_else(|| Status::internal_error("all impersonation modes failed")))
    }

    /// The conditions of a mode: one for each part of the user, in constrained modes also one for the request.
    fn conditions(&self, mode: Mode, request: &RequestInfo) -> Vec<Condition> {
        let mut conditions = Vec::new();
        if let Some(name) = mode.constrained() {
            let verb = format!("impersonate-on:{name}:{}", request.verb);
            conditions.push(Condition::Permission(RequestInfo {
                verb,
                ..request.clone()
            }));
        }
        let wanted = &self.wanted;
        conditions.push(Condition::Permission(mode.asks(mode.name_part(wanted))));
        if !wanted.uid.is_empty() {
            conditions.push(Condition::Permission(mode.asks(part(
                AUTHENTICATION,
                "uids",
                &wanted.uid,
            ))));
        }
        conditions.extend(wanted.groups.iter().map(|group| mode.group_condition(group)));
        for (key, values) in &wanted.extra {
            conditions.extend(values.iter().map(|value| mode.extra_condition(key, value)));
        }
        conditions
    }

    /// The user as which a request is handled, with the implied groups: those of nodes and service accounts, and
    /// `system:authenticated` or `system:unauthenticated`.
    fn user(&self, mode: Mode) -> User {
        let mut user = self.wanted.clone();
        if mode.constrained().is_some() && node(&user.name).is_some() {
            user.groups = vec![NODES.to_owned()];
        } else if user.groups.is_empty()
            && let Some((namespace, _)) = user.service_account()
        {
            let of_namespace = format!("system:serviceaccounts:{namespace}");
            user.groups = vec!["system:serviceaccounts".to_owned(), of_namespace];
        }
        let all = match user.name.as_str() {
            ANONYMOUS => UNAUTHENTICATED,
            _ => AUTHENTICATED,
        };
        if !user.is_in(all) && !user.is_in(UNAUTHENTICATED) {
            user.groups.push(all.to_owned());
        }
        user
    }
}

async fn permits(registry: &Registry, sender: &User, conditions: Vec<Condition>) -> Result<(), Status> {
    for condition in conditions {
        match condition {
            Condition::Permission(permission) => authorize(registry, sender, &permission).await?,
            Condition::Never(asked, why) => return Err(denied(sender, &asked, why)),
        }
    }
    Ok(())
}

impl Mode {
    const ALL: [Self; 5] = [
        Self::AssociatedNode,
        Self::ArbitraryNode,
        Self::ServiceAccount,
        Self::UserInfo,
        Self::Legacy,
    ];

    /// The name of a constrained mode.
    fn constrained(self) -> Option<&'static str> {
        match self {
            Self::AssociatedNode => Some("associated-node"),
            Self::ArbitraryNode => Some("arbitrary-node"),
            Self::ServiceAccount => Some("serviceaccount"),
            Self::UserInfo => Some("user-info"),
            Self::Legacy => None,
        }
    }

    /// True if the mode is for this user.
    fn applies(self, wanted: &User, sender: &User) -> bool {
        let only_named = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let (node, account) = (node(&wanted.name), wanted.service_account());
        match self {
            Self::AssociatedNode => only_named && node.is_some_and(|node| is_on(sender, node)),
            Self::ArbitraryNode => only_named && node.is_some(),
            Self::ServiceAccount => only_named && account.is_some(),
            Self::UserInfo => node.is_none() && account.is_none(),
            Self::Legacy => true,
        }
    }

    /// The permission for a part of a user.
    fn asks(self, resource: ResourceInfo) -> RequestInfo {
        let verb = match self.constrained() {
            Some(mode) => format!("impersonate:{mode}"),
            None => "impersonate".to_owned(),
        };
        RequestInfo {
            verb,
            path: String::new(),
            resource: Some(resource),
            any_version: false,
        }
    }

    /// The API group of names and groups.
    fn api_group(self) -> &'static str {
        self.constrained().map_or("", |_| AUTHENTICATION)
    }

    fn name_part(self, wanted: &User) -> ResourceInfo {
        let group = self.api_group();
        match (node(&wanted.name), wanted.service_account()) {
            (Some(_), _) if self == Self::AssociatedNode => part(group, "nodes", "*"),
            (Some(node), _) if self == Self::ArbitraryNode => part(group, "nodes", node),
            (_, Some((namespace, name))) => ResourceInfo {
                namespace: namespace.to_owned(),
                ..part(group, "serviceaccounts", name)
            },
            _ => part(group, "users", &wanted.name),
        }
    }

    fn group_condition(self, group: &str) -> Condition {
        let asked = self.asks(part(self.api_group(), "groups", group));
        match group {
            _ if self == Self::Legacy => Condition::Permission(asked),
            "" => Condition::Never(asked, "impersonating the empty string group is not allowed"),
            MASTERS => Condition::Never(asked, "impersonating the system:masters group is not allowed"),
            _ => Condition::Permission(asked),
        }
    }

    fn extra_condition(self, key: &str, value: &str) -> Condition {
        let asked = self.asks(ResourceInfo {
            subresource: key.to_owned(),
            ..part(AUTHENTICATION, "userextras", value)
        });
        let is_prefixed = |key: &str| {
            let parts = key.split_once('/');
            parts.is_some_and(|(domain, path)| dns1123_subdomain(domain).is_empty() && !path.is_empty())
        };
        if self == Self::Legacy {
            Condition::Permission(asked)
        } else if !is_prefixed(key) {
            Condition::Never(asked, "impersonating an invalid key in extra is not allowed")
        } else if value.is_empty() {
            Condition::Never(
                asked,
                "impersonating the empty string value in extra is not allowed",
            )
        } else {
            Condition::Permission(asked)
        }
    }
}

/// The name of the node, if a user is one.
fn node(user: &str) -> Option<&str> {
    user.strip_prefix(NODE)
        .filter(|name| dns1123_subdomain(name).is_empty())
}

/// True if a user is the service account of a pod on this node.
fn is_on(user: &User, node: &str) -> bool {
    let placed = user.extra.get(NODE_NAME).map(Vec::as_slice);
    user.service_account().is_some() && placed.is_some_and(|names| names == [node])
}

fn part(group: &str, resource: &str, name: &str) -> ResourceInfo {
    ResourceInfo {
        group: group.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        ..ResourceInfo::default()
    }
}

/// A user as Go prints the struct.
fn in_go(user: &User) -> String {
    let texts = |texts: &[String]| match texts {
        [] => "[]string(nil)".to_owned(),
        _ => format!(
            "[]string{{{}}}",
            texts
                .iter()
                .map(|text| format!("{text:?}"))
                .collect::<Vec<_>>()
                .join(", ")
        ),
    };
    let extra = user
        .extra
        .iter()
        .map(|(key, values)| format!("{key:?}:{}", texts(values)));
    let extra = match user.extra.is_empty() {
        true => "(nil)".to_owned(),
        false => format!("{{{}}}", extra.collect::<Vec<_>>().join(", ")),
    };
    format!(
        "&user.DefaultInfo{{Name:{:?}, UID:{:?}, Groups:{}, Extra:map[string][]string{extra}}}",
        user.name,
        user.uid,
        texts(&user.groups)
    )
}

fn extras(headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
    let keys = headers.keys().map(|name| name.as_str());
    let named = keys.filter_map(|name| Some((name, name.strip_prefix(EXTRA)?)));
    named
        .map(|(name, key)| {
            (
                percent_decode_str(key).decode_utf8_lossy().into_owned(),
                values(headers, name),
            )
        })
        .collect()
}

fn values(headers: &HeaderMap, name: &str) -> Vec<String> {
    // Names may be any UTF-8 text. Skipping an unreadable line would run the request as its sender.
    let lines = headers.get_all(name).iter().map(HeaderValue::as_bytes);
    lines
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, Method};

    fn sender() -> User {
        let extra = BTreeMap::from([(NODE_NAME.to_owned(), vec!["n1".to_owned()])]);
        let name = "system:serviceaccount:ns:agent".to_owned();
        User {
            name,
            extra,
            ..User::default()
        }
    }

    /// A line for each mode that applies to a list of pods: `mode name groups < conditions`.
    fn check(headers: &[(&'static str, &'static str)], expected: &[&str]) {
        let headers = headers.iter().map(|(name, value)| {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            (HeaderName::from_static(name), value)
        });
        let headers = HeaderMap::from_iter(headers);
        let request = RequestInfo::read(&Method::GET, "/api/v1/namespaces/a/pods", "");
        let printed = match impersonation(&headers) {
            Ok(None) => vec!["the sender".to_owned()],
            Ok(Some(asked)) => {
                let modes = Mode::ALL.into_iter();
                let modes = modes.filter(|mode| mode.applies(&asked.wanted, &sender()));
                modes
                    .map(|mode| {
                        let User { name, groups, .. } = asked.user(mode);
                        let conditions = asked.conditions(mode, &request);
                        let conditions: Vec<String> = conditions.iter().map(printed_condition).collect();
                        format!("{mode:?} {name} {} < {}", groups.join(" "), conditions.join(" "))
                    })
                    .collect()
            }
            Err(status) => vec![status.message],
        };
        assert_eq!(printed, expected);
    }

    fn printed_condition(condition: &Condition) -> String {
        let (asked, word) = match condition {
            Condition::Permission(asked) => (asked, ""),
            Condition::Never(asked, _) => (asked, "never-"),
        };
        let it = asked.resource.as_ref().unwrap();
        let parts = [&*it.namespace, &it.resource, &it.subresource, &it.name];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        format!("{word}{}({})", asked.verb, parts.join("/"))
    }

    #[test]
    fn each_mode_has_a_condition_for_each_part_of_the_user() {
        check(&[], &["the sender"]);
        check(
            &[("impersonate-user", "bob")],
            &[
                "UserInfo bob system:authenticated < impersonate-on:user-info:list(a/pods) \
                 impersonate:user-info(users/bob)",
                "Legacy bob system:authenticated < impersonate(users/bob)",
            ],
        );
        check(
            &[
                ("impersonate-user", "jürgen"),
                ("impersonate-group", "system:masters"),
            ],
            &[
                "UserInfo jürgen system:masters system:authenticated < impersonate-on:user-info:list(a/pods) \
                 impersonate:user-info(users/jürgen) never-impersonate:user-info(groups/system:masters)",
                "Legacy jürgen system:masters system:authenticated < impersonate(users/jürgen) \
                 impersonate(groups/system:masters)",
            ],
        );
        check(
            &[("impersonate-user", "system:serviceaccount:ns:robot")],
            &[
                "ServiceAccount system:serviceaccount:ns:robot system:serviceaccounts system:serviceaccounts:ns \
                 system:authenticated < impersonate-on:serviceaccount:list(a/pods) \
                 impersonate:serviceaccount(ns/serviceaccounts/robot)",
                "Legacy system:serviceaccount:ns:robot system:serviceaccounts system:serviceaccounts:ns \
                 system:authenticated < impersonate(ns/serviceaccounts/robot)",
            ],
        );
        check(
            &[
                ("impersonate-user", "bob"),
                ("impersonate-uid", "7"),
                ("impersonate-extra-example.com%2fscope", "all"),
                ("impersonate-extra-bare", "x"),
            ],
            &[
                "UserInfo bob system:authenticated < impersonate-on:user-info:list(a/pods) \
                 impersonate:user-info(users/bob) impersonate:user-info(uids/7) \
                 never-impersonate:user-info(userextras/bare/x) \
                 impersonate:user-info(userextras/example.com/scope/all)",
                "Legacy bob system:authenticated < impersonate(users/bob) impersonate(uids/7) \
                 impersonate(userextras/bare/x) impersonate(userextras/example.com/scope/all)",
            ],
        );
        check(
            &[("impersonate-user", "system:anonymous")],
            &[
                "UserInfo system:anonymous system:unauthenticated < impersonate-on:user-info:list(a/pods) \
                 impersonate:user-info(users/system:anonymous)",
                "Legacy system:anonymous system:unauthenticated < impersonate(users/system:anonymous)",
            ],
        );
    }

    #[test]
    fn a_service_account_can_act_as_the_node_of_its_pod() {
        let legacy = |node: &str| format!("Legacy {node} system:authenticated < impersonate(users/{node})");
        check(
            &[("impersonate-user", "system:node:n1")],
            &[
                "AssociatedNode system:node:n1 system:nodes system:authenticated < \
                 impersonate-on:associated-node:list(a/pods) impersonate:associated-node(nodes/*)",
                "ArbitraryNode system:node:n1 system:nodes system:authenticated < \
                 impersonate-on:arbitrary-node:list(a/pods) impersonate:arbitrary-node(nodes/n1)",
                &legacy("system:node:n1"),
            ],
        );
        check(
            &[("impersonate-user", "system:node:n2")],
            &[
                "ArbitraryNode system:node:n2 system:nodes system:authenticated < \
                 impersonate-on:arbitrary-node:list(a/pods) impersonate:arbitrary-node(nodes/n2)",
                &legacy("system:node:n2"),
            ],
        );
    }

    #[test]
    fn a_user_without_a_name_is_refused() {
        check(
            &[("impersonate-group", "dev"), ("impersonate-extra-a", "b")],
            &[
                "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"dev\"}, \
                Extra:map[string][]string{\"a\":[]string{\"b\"}}} without impersonating a user name",
            ],
        );
    }

    #[test]
    fn the_mode_that_last_succeeded_is_tried_first() {
        let last = LastModes::default();
        assert_eq!(last.order(&sender()), Mode::ALL);
        last.remember(&sender(), Mode::Legacy);
        assert_eq!(last.order(&sender())[..2], [Mode::Legacy, Mode::AssociatedNode]);
    }
}
