//! Checks the host of a request, against DNS rebinding: a web page can make a foreign name resolve to this machine;
//! such requests carry that name and are rejected. Addresses cannot be rebound and always pass.

use std::net::IpAddr;

use http::header::HOST;
use http::{HeaderMap, Uri};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use watchkeeper_meta::{GroupResource, Status};

/// Accepts known names, and requests without a host: browsers always send one. Known are also the names in the
/// operator's certificate, if the connection uses it.
pub(crate) fn check_host(
    names: &[String],
    shown: Option<&CertificateDer<'_>>,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<(), Status> {
    let header = headers.get(HOST).map(|host| host.to_str().unwrap_or("?"));
    let Some(host) = uri.authority().map(|authority| authority.as_str()).or(header) else {
        return Ok(());
    };
    let name = without_port(host);
    let known = name.parse::<IpAddr>().is_ok()
        || names.iter().any(|it| it.eq_ignore_ascii_case(name))
        || shown.is_some_and(|certificate| is_for(certificate, name));
    match known {
        true => Ok(()),
        false => Err(Status::forbidden(
            &GroupResource::default(),
            "",
            format!("host {host:?} is not served here"),
        )),
    }
}

fn is_for(certificate: &CertificateDer<'_>, name: &str) -> bool {
    match (
        ParsedCertificate::try_from(certificate),
        ServerName::try_from(name),
    ) {
        (Ok(certificate), Ok(name)) => rustls::client::verify_server_name(&certificate, &name).is_ok(),
        _ => false,
    }
}

fn without_port(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn foreign_names_are_rejected() {
        let names = ["localhost".to_owned()];
        let passes = |host: &'static str| {
            let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]);
            check_host(&names, None, &Uri::from_static("/"), &headers).is_ok()
        };
        for host in [
            "localhost",
            "LOCALHOST:6443",
            "127.0.0.1:6443",
            "[::1]:6443",
            "10.1.2.3",
        ] {
            assert!(passes(host), "{host}");
        }
        for host in ["evil.example", "evil.example:6443", "localhost.evil.example"] {
            assert!(!passes(host), "{host}");
        }
        assert!(check_host(&names, None, &Uri::from_static("/"), &HeaderMap::new()).is_ok());
    }

    #[test]
    fn the_names_of_the_operators_certificate_are_accepted() {
        let made = rcgen::generate_simple_self_signed(["api.example.com".to_owned()]).unwrap();
        let passes = |host: &'static str| {
            let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]);
            check_host(&[], Some(made.cert.der()), &Uri::from_static("/"), &headers).is_ok()
        };
        assert!(passes("api.example.com:6443"));
        assert!(!passes("evil.example.com"));
    }
}
