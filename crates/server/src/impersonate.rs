//! Acting as someone else: `Impersonate-User` and `Impersonate-Group`, for those who may.
//!
//! A request that asks for it must not pass as its sender: a caller who wants to try another's rights would be given
//! their own.

use http::HeaderMap;
use watchkeeper_meta::Status;

use crate::authorize::authorize;
use crate::identity::{ANONYMOUS, UNAUTHENTICATED, User};
use crate::request_info::{RequestInfo, ResourceInfo};

/// Who a request is to be answered as.
pub(crate) fn impersonate(sender: User, headers: &HeaderMap) -> Result<User, Status> {
    let groups = values(headers, "impersonate-group");
    let uid = values(headers, "impersonate-uid").pop().unwrap_or_default();
    let Some(name) = values(headers, "impersonate-user")
        .pop()
        .filter(|name| !name.is_empty())
    else {
        return match groups.is_empty() && uid.is_empty() {
            true => Ok(sender),
            false => Err(Status::internal_error(
                "requested groups or uid without impersonating a user",
            )),
        };
    };
    authorize(&sender, &wish("users", &name))?;
    for group in &groups {
        authorize(&sender, &wish("groups", group))?;
    }
    if !uid.is_empty() {
        authorize(&sender, &wish("uids", &uid))?;
    }
    Ok(match name.as_str() {
        ANONYMOUS if groups.is_empty() => User::anonymous(),
        _ if groups.iter().any(|group| group == UNAUTHENTICATED) => User { name, uid, groups },
        _ => User::authenticated(name, uid, groups),
    })
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
    use crate::identity::MASTERS;
    use http::{HeaderName, HeaderValue};

    fn check(sender: User, headers: &[(&'static str, &'static str)], expected: &str) {
        let headers = HeaderMap::from_iter(
            headers
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))),
        );
        let printed = match impersonate(sender, &headers) {
            Ok(user) => format!("{} {}", user.name, user.groups.join(" ")),
            Err(status) => status.message,
        };
        assert_eq!(printed, expected);
    }

    #[test]
    fn only_those_who_may_act_as_others() {
        let admin = || User::authenticated("admin", "", vec![MASTERS.to_owned()]);
        let alice = || User::authenticated("alice", "", Vec::new());
        check(alice(), &[], "alice system:authenticated");
        check(
            admin(),
            &[("impersonate-user", "bob")],
            "bob system:authenticated",
        );
        let with_group = [("impersonate-user", "bob"), ("impersonate-group", "dev")];
        check(admin(), &with_group, "bob dev system:authenticated");
        let refused = r#"users "bob" is forbidden: User "alice" cannot impersonate resource "users" in API group "" at the cluster scope"#;
        check(alice(), &[("impersonate-user", "bob")], refused);
        let alone = "Internal error occurred: requested groups or uid without impersonating a user";
        check(admin(), &[("impersonate-group", "dev")], alone);
    }
}
