//! The headers that name the user to an aggregated API server.

use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use http::{HeaderMap, HeaderName, HeaderValue};
use watchkeeper_registry::User;

const USER: HeaderName = HeaderName::from_static("x-remote-user");
const UID: HeaderName = HeaderName::from_static("x-remote-uid");
const GROUP: HeaderName = HeaderName::from_static("x-remote-group");
/// The prefix of headers with extra attributes.
const EXTRA: &str = "x-remote-extra-";

/// Browsers send their token as a WebSocket subprotocol with this prefix.
const WEBSOCKET_TOKEN: &str = "base64url.bearer.authorization.k8s.io.";

/// Sets the user headers. Credentials and user headers of the client are removed.
pub(crate) fn identify(headers: &mut HeaderMap, user: &User) {
    remove_claims(headers);
    let mut say = |name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
            headers.append(name, value);
        }
    };
    say(USER, &user.name);
    if !user.uid.is_empty() {
        say(UID, &user.uid);
    }
    for group in &user.groups {
        say(GROUP, group);
    }
    for (key, values) in &user.extra {
        let Ok(name) = HeaderName::try_from(format!("{EXTRA}{}", escaped(key))) else {
            continue;
        };
        for value in values {
            say(name.clone(), value);
        }
    }
}

/// Removes credentials, front-proxy headers, and impersonation headers, which were already applied.
fn remove_claims(headers: &mut HeaderMap) {
    let is_claim = |name: &HeaderName| {
        let name = name.as_str();
        name.starts_with("impersonate-") || name.starts_with(EXTRA)
    };
    let claims: Vec<HeaderName> = headers.keys().filter(|name| is_claim(name)).cloned().collect();
    for name in claims.iter().chain(&[AUTHORIZATION, USER, UID, GROUP]) {
        headers.remove(name);
    }
    remove_websocket_token(headers);
}

fn remove_websocket_token(headers: &mut HeaderMap) {
    let lines = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    let protocols = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','));
    let protocols: Vec<&str> = protocols.map(str::trim).collect();
    let kept: Vec<&str> = protocols
        .iter()
        .copied()
        .filter(|protocol| !protocol.starts_with(WEBSOCKET_TOKEN))
        .collect();
    if kept.len() == protocols.len() {
        return;
    }
    let kept = kept.join(", ");
    headers.remove(SEC_WEBSOCKET_PROTOCOL);
    if let (false, Ok(kept)) = (kept.is_empty(), HeaderValue::try_from(kept)) {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, kept);
    }
}

/// A key as part of a header name: `%` and invalid characters are percent-encoded.
fn escaped(key: &str) -> String {
    let mut text = String::new();
    for byte in key.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => text.push(byte.into()),
            b'!' | b'#' | b'$' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|'
            | b'~' => {
                text.push(byte.into());
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identified(headers: &[(&'static str, &'static str)], user: &User) -> Vec<String> {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let mut headers: HeaderMap = headers.collect();
        identify(&mut headers, user);
        let mut lines: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        lines.sort();
        lines
    }

    #[test]
    fn a_user_is_named_with_groups_uid_and_extras() {
        let mut user = User::authenticated("zoe", "7", vec!["dev".to_owned()]);
        user.extra.insert(
            "example.com/scopes".to_owned(),
            vec!["a".to_owned(), "b".to_owned()],
        );
        assert_eq!(
            identified(&[("accept", "*/*")], &user),
            [
                "accept: */*",
                "x-remote-extra-example.com%2fscopes: a",
                "x-remote-extra-example.com%2fscopes: b",
                "x-remote-group: dev",
                "x-remote-group: system:authenticated",
                "x-remote-uid: 7",
                "x-remote-user: zoe",
            ]
        );
    }

    #[test]
    fn credentials_and_user_headers_of_the_client_are_removed() {
        let claims = [
            ("authorization", "Bearer secret"),
            ("x-remote-user", "admin"),
            ("x-remote-group", "system:masters"),
            ("x-remote-uid", "0"),
            ("x-remote-extra-scopes", "all"),
            ("impersonate-user", "admin"),
            ("impersonate-extra-scopes", "all"),
            (
                "sec-websocket-protocol",
                "v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2VjcmV0",
            ),
        ];
        let user = User {
            name: "zoe".to_owned(),
            ..User::default()
        };
        assert_eq!(
            identified(&claims, &user),
            ["sec-websocket-protocol: v5.channel.k8s.io", "x-remote-user: zoe"]
        );
    }
}
