//! Front proxies, which authenticate users and name them in headers: kube-apiserver's `--requestheader-…` flags.
//!
//! A proxy is trusted if its client certificate is signed by the proxies' authority and has an allowed name. The
//! headers of other clients are ignored.

use std::collections::BTreeMap;
use std::path::PathBuf;

use http::HeaderMap;
use percent_encoding::percent_decode_str;
use watchkeeper_registry::User;

/// The trusted proxies, and the headers in which they name a user.
#[derive(Clone, Debug, Default)]
pub struct FrontProxy {
    /// The authority of their certificates: `--requestheader-client-ca-file`. Read again when it changes.
    pub client_ca: PathBuf,
    /// The common names of trusted proxies; empty trusts all certificates of the authority.
    pub allowed_names: Vec<String>,
    /// The headers with the user name, such as `X-Remote-User`. The first one with a value counts.
    pub username_headers: Vec<String>,
    /// The headers with the groups, such as `X-Remote-Group`.
    pub group_headers: Vec<String>,
    /// The headers with the uid, such as `X-Remote-Uid`.
    pub uid_headers: Vec<String>,
    /// The prefixes of headers with extra attributes, such as `X-Remote-Extra-`.
    pub extra_headers_prefix: Vec<String>,
}

impl FrontProxy {
    /// True if a proxy with this common name is trusted.
    pub(crate) fn allows(&self, name: &str) -> bool {
        self.allowed_names.is_empty() || self.allowed_names.iter().any(|allowed| allowed == name)
    }

    /// The user in a trusted proxy's headers, if there is one.
    pub(crate) fn user(&self, headers: &HeaderMap) -> Option<User> {
        let name = first(headers, &self.username_headers)?;
        let groups = self
            .group_headers
            .iter()
            .flat_map(|header| values(headers, header));
        let uid = first(headers, &self.uid_headers).unwrap_or_default();
        let mut user = User::authenticated(name, uid, groups.collect());
        user.extra = self.extras(headers);
        Some(user)
    }

    fn extras(&self, headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
        let mut extras: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for prefix in &self.extra_headers_prefix {
            let prefix = prefix.to_ascii_lowercase();
            for name in headers.keys().map(|name| name.as_str()) {
                if let Some(key) = name.strip_prefix(&*prefix) {
                    let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
                    extras.entry(key).or_default().extend(values(headers, name));
                }
            }
        }
        extras
    }
}

fn first(headers: &HeaderMap, names: &[String]) -> Option<String> {
    let mut all = names.iter().flat_map(|name| values(headers, name));
    all.find(|value| !value.is_empty())
}

fn values(headers: &HeaderMap, name: &str) -> impl Iterator<Item = String> {
    let lines = headers.get_all(name).iter();
    lines.map(|line| String::from_utf8_lossy(line.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    fn proxy() -> FrontProxy {
        FrontProxy {
            allowed_names: vec!["front".to_owned()],
            username_headers: vec!["X-Remote-User".to_owned()],
            group_headers: vec!["X-Remote-Group".to_owned()],
            uid_headers: vec!["X-Remote-Uid".to_owned()],
            extra_headers_prefix: vec!["X-Remote-Extra-".to_owned()],
            ..FrontProxy::default()
        }
    }

    fn user(headers: &[(&'static str, &'static str)]) -> Option<User> {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        proxy().user(&headers.collect())
    }

    #[test]
    fn headers_name_the_user_groups_uid_and_extras() {
        let named = user(&[
            ("x-remote-user", "zoe"),
            ("x-remote-group", "dev"),
            ("x-remote-group", "ops"),
            ("x-remote-uid", "7"),
            ("x-remote-extra-example.com%2fscope", "all"),
        ]);
        let named = named.unwrap();
        assert_eq!((named.name.as_str(), named.uid.as_str()), ("zoe", "7"));
        assert_eq!(named.groups, ["dev", "ops", "system:authenticated"]);
        assert_eq!(named.extra["example.com/scope"], ["all"]);
    }

    #[test]
    fn without_a_name_there_is_no_user() {
        assert_eq!(user(&[("x-remote-group", "system:masters")]), None);
        assert_eq!(user(&[("x-remote-user", "")]), None);
    }

    #[test]
    fn only_allowed_names_are_trusted() {
        assert!(proxy().allows("front"));
        assert!(!proxy().allows("back"));
        assert!(FrontProxy::default().allows("back"));
    }
}
