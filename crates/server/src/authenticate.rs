//! Authentication: by a front proxy, a client certificate, a bearer token, or anonymous.
//!
//! Invalid credentials are rejected even where anonymous access is allowed.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};

use crate::filter::Peer;
use crate::tokens::Tokens;
use watchkeeper_registry::User;

/// Browsers cannot set headers on a WebSocket; they send the token as a subprotocol with this prefix.
const WEBSOCKET_TOKEN: &str = "base64url.bearer.authorization.k8s.io.";

/// The credentials of a request.
#[derive(Debug)]
pub(crate) enum Credentials {
    /// The user is known.
    Known(User),
    /// A token that is not in the token file; this server may have issued it.
    Token(String),
}

/// Reads the credentials of a request.
pub(crate) fn credentials(peer: &Peer, headers: &HeaderMap, tokens: &Tokens) -> Credentials {
    let proxied = peer.front_proxy.as_ref().and_then(|proxy| proxy.user(headers));
    if let Some(user) = proxied.or_else(|| peer.certified.clone()) {
        return Credentials::Known(user);
    }
    let Some(token) = bearer(headers) else {
        return Credentials::Known(User::anonymous());
    };
    match tokens.user(&token) {
        Some(user) => Credentials::Known(user.clone()),
        None => Credentials::Token(token),
    }
}

fn bearer(headers: &HeaderMap) -> Option<String> {
    let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    match header.and_then(|value| value.trim().split_once(' ')) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Some(token.trim().to_owned()),
        _ => websocket_bearer(headers),
    }
}

fn websocket_bearer(headers: &HeaderMap) -> Option<String> {
    let protocols = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    let mut protocols = protocols
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    let hidden = protocols.find_map(|protocol| protocol.trim().strip_prefix(WEBSOCKET_TOKEN))?;
    String::from_utf8(URL_SAFE_NO_PAD.decode(hidden).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn check(name: http::HeaderName, value: &'static str, expected: &str) {
        let mut tokens = Tokens::default();
        tokens.add_csv("t,bob,u").unwrap();
        let headers = HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
        let printed = match credentials(&Peer::default(), &headers, &tokens) {
            Credentials::Known(user) => user.name,
            Credentials::Token(token) => format!("token {token}"),
        };
        assert_eq!(printed, expected, "{value}");
    }

    #[test]
    fn tokens_are_read() {
        check(AUTHORIZATION, "Bearer t", "bob");
        check(AUTHORIZATION, "bearer  t ", "bob");
        check(AUTHORIZATION, "Bearer x", "token x");
        check(AUTHORIZATION, "Basic YWRtaW46YWRtaW4=", "system:anonymous");
        check(
            SEC_WEBSOCKET_PROTOCOL,
            "a, base64url.bearer.authorization.k8s.io.dA",
            "bob",
        );
    }
}
