//! Acting as someone else, for those who may: `Impersonate-User`, `-Group`, `-Uid` and `-Extra-…`.
//!
//! A request that asks for it must not pass as its sender: a caller who wants to try another's rights would be given
//! their own.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderValue};
use percent_encoding::percent_decode_str;
use watchkeeper_meta::Status;
use watchkeeper_registry::user::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User};

use crate::request_info::{RequestInfo, ResourceInfo};

/// How the names of all such headers begin.
const PREFIX: &str = "impersonate-";

/// What follows it in a header's name is the key of one thing more to be said of a user.
const EXTRA: &str = "impersonate-extra-";

/// The group of rights to uids and extras.
const AUTHENTICATION: &str = "authentication.k8s.io";

/// Whom a sender wants to be taken for, and what rights that takes.
#[derive(Debug)]
pub(crate) struct Impersonation {
    pub(crate) user: User,
    pub(crate) needed: Vec<RequestInfo>,
}

/// Reads what a request asks for; `None` if it comes in its sender's own name.
pub(crate) fn impersonation(headers: &HeaderMap) -> Result<Option<Impersonation>, Status> {
    if !headers.keys().any(|name| name.as_str().starts_with(PREFIX)) {
        return Ok(None);
    }
    let mut user = User {
        name: values(headers, "impersonate-user").pop().unwrap_or_default(),
        uid: values(headers, "impersonate-uid").pop().unwrap_or_default(),
        groups: values(headers, "impersonate-group"),
        extra: extras(headers),
    };
    if user.name.is_empty() {
        return match user == User::default() {
            true => Ok(None),
            false => Err(Status::internal_error(
                "requested groups or uid without impersonating a user",
            )),
        };
    }
    let needed = needed(&user).into_iter().map(right).collect();
    join_groups(&mut user);
    Ok(Some(Impersonation { user, needed }))
}

/// What a sender must be allowed to impersonate: each part of the user by itself.
fn needed(user: &User) -> Vec<ResourceInfo> {
    let whole = match user.service_account() {
        Some((namespace, name)) => ResourceInfo {
            namespace: namespace.to_owned(),
            ..part("", "serviceaccounts", name)
        },
        None => part("", "users", &user.name),
    };
    let mut needed = vec![whole];
    needed.extend(user.groups.iter().map(|group| part("", "groups", group)));
    for (key, values) in &user.extra {
        needed.extend(values.iter().map(|value| ResourceInfo {
            subresource: key.clone(),
            ..part(AUTHENTICATION, "userextras", value)
        }));
    }
    if !user.uid.is_empty() {
        needed.push(part(AUTHENTICATION, "uids", &user.uid));
    }
    needed
}

fn part(group: &str, resource: &str, name: &str) -> ResourceInfo {
    ResourceInfo {
        group: group.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        ..ResourceInfo::default()
    }
}

fn right(resource: ResourceInfo) -> RequestInfo {
    RequestInfo {
        verb: "impersonate".to_owned(),
        path: String::new(),
        resource: Some(resource),
        any_version: false,
    }
}

/// Adds the groups that come with being someone: those of service accounts if none are named, and that of everyone who
/// has proved to be someone, or has not.
fn join_groups(user: &mut User) {
    if user.groups.is_empty()
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
    // Names are text of any language. A line that was passed over would leave a request in its sender's own name.
    let lines = headers.get_all(name).iter().map(HeaderValue::as_bytes);
    lines
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderName;

    /// `name groups < the rights that takes`.
    fn check(headers: &[(&'static str, &'static str)], expected: &str) {
        let headers = headers.iter().map(|(name, value)| {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            (HeaderName::from_static(name), value)
        });
        let headers = HeaderMap::from_iter(headers);
        let printed = match impersonation(&headers) {
            Ok(None) => "the sender".to_owned(),
            Ok(Some(asked)) => {
                let needed = asked.needed.iter().filter_map(|right| right.resource.as_ref());
                let needed: Vec<String> = needed
                    .map(|it| match it.subresource.as_str() {
                        "" => format!("{}/{}", it.resource, it.name),
                        key => format!("{}/{key}/{}", it.resource, it.name),
                    })
                    .collect();
                let User { name, groups, .. } = asked.user;
                format!("{name} {} < {}", groups.join(" "), needed.join(" "))
            }
            Err(status) => status.message,
        };
        assert_eq!(printed, expected);
    }

    #[test]
    fn acting_as_someone_takes_a_right_for_each_part_of_them() {
        check(&[], "the sender");
        check(
            &[("impersonate-user", "bob")],
            "bob system:authenticated < users/bob",
        );
        check(
            &[("impersonate-user", "jürgen")],
            "jürgen system:authenticated < users/jürgen",
        );
        let with_group = [("impersonate-user", "bob"), ("impersonate-group", "dev")];
        check(&with_group, "bob dev system:authenticated < users/bob groups/dev");
        let account = [("impersonate-user", "system:serviceaccount:ns:robot")];
        check(
            &account,
            "system:serviceaccount:ns:robot system:serviceaccounts system:serviceaccounts:ns system:authenticated < \
             serviceaccounts/robot",
        );
        let more = [
            ("impersonate-user", "bob"),
            ("impersonate-uid", "7"),
            ("impersonate-extra-example.com%2fscope", "all"),
        ];
        check(
            &more,
            "bob system:authenticated < users/bob userextras/example.com/scope/all uids/7",
        );
        check(
            &[("impersonate-user", "system:anonymous")],
            "system:anonymous system:unauthenticated < users/system:anonymous",
        );
        let alone = "Internal error occurred: requested groups or uid without impersonating a user";
        check(&[("impersonate-group", "dev")], alone);
    }
}
