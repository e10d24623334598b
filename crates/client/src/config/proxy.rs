//! The proxy of a server: from the kubeconfig, else from the environment.

use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::Matcher;

use crate::Secret;
use crate::config::{ConfigError, Environment};

/// A proxy: `http`, `https` or `socks5`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Scheme, host and port.
    pub address: Uri,
    /// The credentials for the proxy.
    pub login: Option<ProxyLogin>,
}

/// User and password in the form of the proxy's protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyLogin {
    /// A `Proxy-Authorization` header; marked sensitive, so it does not print.
    Header(HeaderValue),
    /// SOCKS sends both as plain text.
    Socks {
        /// The user.
        username: String,
        /// The password.
        password: Secret,
    },
}

/// The supported schemes of a proxy URL.
const SCHEMES: [&str; 4] = ["http", "https", "socks5", "socks5h"];

impl Proxy {
    /// Parses a `proxy-url`.
    pub fn parse(url: &str) -> Result<Self, ConfigError> {
        let invalid = |reason: String| ConfigError::Invalid {
            field: "proxy-url",
            reason,
        };
        let address: Uri = url.parse().map_err(|error| invalid(format!("{error}")))?;
        let scheme = address.scheme_str().unwrap_or_default();
        if !SCHEMES.contains(&scheme) {
            return Err(invalid(format!(
                "scheme {scheme:?} is not supported, must be one of {}",
                SCHEMES.join(", ")
            )));
        }
        // The matcher also splits off user and password; it only knows http and https destinations.
        let matcher = Matcher::builder().all(url).build();
        Self::chosen(&matcher, &Uri::from_static("https://any"))
            .ok_or_else(|| invalid("has no host".to_owned()))
    }

    /// `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`; never for this machine, as in Go.
    pub fn from_environment(server: &Uri, environment: &Environment) -> Result<Option<Self>, ConfigError> {
        if is_this_machine(server.host().unwrap_or_default()) {
            return Ok(None);
        }
        let get = |upper: &str| {
            let lower = upper.to_ascii_lowercase();
            environment
                .get(upper)
                .or_else(|| environment.get(&lower))
                .unwrap_or_default()
                .to_owned()
        };
        let matcher = Matcher::builder()
            .all(get("ALL_PROXY"))
            .http(get("HTTP_PROXY"))
            .https(get("HTTPS_PROXY"))
            .no(get("NO_PROXY"))
            .build();
        Ok(Self::chosen(&matcher, server))
    }

    fn chosen(matcher: &Matcher, server: &Uri) -> Option<Self> {
        let proxy = matcher.intercept(server)?;
        let socks = |(username, password): (&str, &str)| ProxyLogin::Socks {
            username: username.to_owned(),
            password: Secret::new(password),
        };
        let header = proxy.basic_auth().cloned().map(ProxyLogin::Header);
        Some(Self {
            address: proxy.uri().clone(),
            login: header.or_else(|| proxy.raw_auth().map(socks)),
        })
    }

    /// True for a SOCKS proxy.
    pub fn is_socks(&self) -> bool {
        self.address
            .scheme_str()
            .is_some_and(|scheme| scheme.starts_with("socks5"))
    }
}

/// True if a URL's host is this machine.
pub(crate) fn is_this_machine(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_environment(server: &str, variables: &[(&str, &str)]) -> Option<String> {
        let environment = Environment {
            variables: variables
                .iter()
                .map(|&(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            service_account: "/none".into(),
        };
        let proxy = Proxy::from_environment(&server.parse().unwrap(), &environment).unwrap();
        proxy.map(|proxy| proxy.address.to_string())
    }

    #[test]
    fn the_environment_chooses_a_proxy() {
        let https = ("HTTPS_PROXY", "http://proxy:3128");
        let check = |server, variables: &[_], expected: Option<&str>| {
            assert_eq!(
                from_environment(server, variables).as_deref(),
                expected,
                "{server}"
            );
        };
        check("https://kube.example:6443", &[https], Some("http://proxy:3128/"));
        check("http://kube.example", &[https], None);
        check("https://127.0.0.1:6443", &[https], None);
        check("https://localhost:6443", &[https], None);
        check("https://kube.example", &[https, ("NO_PROXY", ".example")], None);
        check("https://10.1.2.3", &[https, ("no_proxy", "10.0.0.0/8")], None);
    }

    #[test]
    fn a_proxy_url_is_read_with_its_password() {
        let proxy = Proxy::parse("http://user:pass@proxy:3128").unwrap();
        assert_eq!(proxy.address.authority().unwrap(), "proxy:3128");
        assert!(!format!("{proxy:?}").contains("pass"));
        assert_eq!(
            proxy.login,
            Some(ProxyLogin::Header(HeaderValue::from_static("Basic dXNlcjpwYXNz")))
        );
        let socks = Proxy::parse("socks5://user:pass@127.0.0.1:1080").unwrap();
        assert!(socks.is_socks() && matches!(socks.login, Some(ProxyLogin::Socks { .. })));
        assert_eq!(
            Proxy::parse("ftp://x").unwrap_err().to_string(),
            "proxy-url: scheme \"ftp\" is not supported, must be one of http, https, socks5, socks5h"
        );
    }
}
