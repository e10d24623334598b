//! Impersonation: `Impersonate-User`, `-Group`, `-Uid` and `-Extra-…`.
//!
//! A request with such headers is never handled as its sender: a client that wants to test another user's permissions
//! would get its own.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderValue};
use percent_encoding::percent_decode_str;
use watchkeeper_meta::Status;
use watchkeeper_registry::user::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User};

use crate::request_info::{RequestInfo, ResourceInfo};

/// The prefix of all impersonation headers.
const PREFIX: &str = "impersonate-";

/// The prefix of headers with extra attributes; the key follows.
const EXTRA: &str = "impersonate-extra-";

/// The API group of `uids` and `userextras`.
const AUTHENTICATION: &str = "authentication.k8s.io";

/// The impersonated user, and the permissions it requires.
#[derive(Debug)]
pub(crate) struct Impersonation {
    pub(crate) user: User,
    pub(crate) needed: Vec<RequestInfo>,
}

/// Reads the impersonation headers; `None` if there are none.
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
    let needed = needed(&user).into_iter().map(permission).collect();
    join_groups(&mut user);
    Ok(Some(Impersonation { user, needed }))
}

/// The required permissions: one for each part of the user.
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

fn permission(resource: ResourceInfo) -> RequestInfo {
    RequestInfo {
        verb: "impersonate".to_owned(),
        path: String::new(),
        resource: Some(resource),
        any_version: false,
    }
}

/// Adds the implied groups: those of service accounts if none are given, and `system:authenticated` or
/// `system:unauthenticated`.
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
    // Names may be any UTF-8 text. Skipping an unreadable line would run the request as its sender.
    let lines = headers.get_all(name).iter().map(HeaderValue::as_bytes);
    lines
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderName;

    /// `name groups < required permissions`.
    fn check(headers: &[(&'static str, &'static str)], expected: &str) {
        let headers = headers.iter().map(|(name, value)| {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            (HeaderName::from_static(name), value)
        });
        let headers = HeaderMap::from_iter(headers);
        let printed = match impersonation(&headers) {
            Ok(None) => "the sender".to_owned(),
            Ok(Some(asked)) => {
                let needed = asked
                    .needed
                    .iter()
                    .filter_map(|permission| permission.resource.as_ref());
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
    fn impersonation_requires_a_permission_for_each_part_of_the_user() {
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
