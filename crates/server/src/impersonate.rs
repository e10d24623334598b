//! Acting as someone else: `Impersonate-User` and `Impersonate-Group`, for those who may.
//!
//! A request that asks for it must not pass as its sender: a caller who wants to try another's rights would be given
//! their own.

use http::HeaderMap;
use watchkeeper_meta::Status;

use crate::request_info::{RequestInfo, ResourceInfo};
use watchkeeper_registry::user::{ANONYMOUS, UNAUTHENTICATED, User};

/// Whom a sender wants to be taken for, and what rights that takes.
#[derive(Debug)]
pub(crate) struct Impersonation {
    pub(crate) user: User,
    pub(crate) needed: Vec<RequestInfo>,
}

/// Reads what a request asks for; `None` if it comes in its sender's own name.
pub(crate) fn impersonation(headers: &HeaderMap) -> Result<Option<Impersonation>, Status> {
    let groups = values(headers, "impersonate-group");
    let uid = values(headers, "impersonate-uid").pop().unwrap_or_default();
    let Some(name) = values(headers, "impersonate-user")
        .pop()
        .filter(|name| !name.is_empty())
    else {
        return match groups.is_empty() && uid.is_empty() {
            true => Ok(None),
            false => Err(Status::internal_error(
                "requested groups or uid without impersonating a user",
            )),
        };
    };
    let mut needed = vec![wish("users", &name)];
    needed.extend(groups.iter().map(|group| wish("groups", group)));
    if !uid.is_empty() {
        needed.push(wish("uids", &uid));
    }
    let user = match name.as_str() {
        ANONYMOUS if groups.is_empty() => User::anonymous(),
        _ if groups.iter().any(|group| group == UNAUTHENTICATED) => User {
            name,
            uid,
            groups,
            ..User::default()
        },
        _ => User::authenticated(name, uid, groups),
    };
    Ok(Some(Impersonation { user, needed }))
}

/// The right that is needed: to impersonate a user, a group or a uid of that name.
fn wish(resource: &str, name: &str) -> RequestInfo {
    RequestInfo {
        verb: "impersonate".to_owned(),
        path: String::new(),
        resource: Some(ResourceInfo {
            resource: resource.to_owned(),
            name: name.to_owned(),
            ..ResourceInfo::default()
        }),
    }
}

fn values(headers: &HeaderMap, name: &str) -> Vec<String> {
    let lines = headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok());
    lines.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    /// `name groups < the rights that takes`.
    fn check(headers: &[(&'static str, &'static str)], expected: &str) {
        let headers = HeaderMap::from_iter(
            headers
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))),
        );
        let printed = match impersonation(&headers) {
            Ok(None) => "the sender".to_owned(),
            Ok(Some(asked)) => {
                let needed = asked.needed.iter().filter_map(|right| right.resource.as_ref());
                let needed: Vec<String> = needed.map(|it| format!("{}/{}", it.resource, it.name)).collect();
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
        let with_group = [("impersonate-user", "bob"), ("impersonate-group", "dev")];
        check(&with_group, "bob dev system:authenticated < users/bob groups/dev");
        let alone = "Internal error occurred: requested groups or uid without impersonating a user";
        check(&[("impersonate-group", "dev")], alone);
    }
}
