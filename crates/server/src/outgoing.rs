//! Connections opened by the server, to webhooks and aggregated API servers: TLS over TCP, HTTP/1.1.
//!
//! Errors have the texts of Go's HTTP client, because conditions and error messages quote them.

use std::error::Error as _;
use std::io;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::certificates::Serving;

/// The accepted certificates.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Trust<'a> {
    /// Those signed by these authorities, PEM.
    Authorities(&'a [u8]),
    /// Those signed by an authority of the operating system.
    System,
    /// Any.
    Everyone,
}

/// The TLS connector of a trust setting. `identity` is the client certificate.
pub(crate) fn connector(trust: Trust<'_>, identity: Option<&Serving>) -> Result<TlsConnector, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let (authorities, whose) = match trust {
        Trust::Authorities(pem) => (certificates(pem)?, "the caBundle"),
        Trust::System => (
            rustls_native_certs::load_native_certs().certs,
            "there is no caBundle, and the system",
        ),
        Trust::Everyone => (Vec::new(), ""),
    };
    let verifier = match trust {
        Trust::Everyone => watchkeeper_trust::everyone(&provider),
        _ => watchkeeper_trust::verifier(authorities, &provider)
            .map_err(|error| error.to_string())?
            .ok_or_else(|| format!("{whose} has no authority that can be read"))?,
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match identity {
        None => config.with_no_client_auth(),
        Some((chain, key)) => config
            .with_client_auth_cert(chain.clone(), key.clone_key())
            .map_err(|error| error.to_string())?,
    };
    // As in Kubernetes: concurrent calls may go to several servers behind one name.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err("unable to parse bytes as PEM block".to_owned()),
    }
}

/// Connects to an address; the certificate must be valid for the host.
pub(crate) async fn connect(
    address: &str,
    host: &str,
    tls: &TlsConnector,
) -> Result<TlsStream<TcpStream>, String> {
    let stream = dial(address).await?;
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|_| format!("{host:?} is not a name that a certificate can have"))?;
    let stream = tls.connect(name, stream).await;
    stream.map_err(|error| untrusted(&error))
}

async fn dial(address: &str) -> Result<TcpStream, String> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let found = lookup_host(address).await;
    let found = found.map_err(|_| format!("dial tcp: lookup {host}: no such host"))?;
    let mut failed = format!("dial tcp: lookup {host}: no such host");
    for address in found {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // Requests and watch frames are small and latency-sensitive.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                failed = format!("dial tcp {address}: connect: connection refused");
            }
            Err(error) => failed = format!("dial tcp {address}: {error}"),
        }
    }
    Err(failed)
}

/// The error of a TLS handshake, with Go's text where it is known.
fn untrusted(error: &io::Error) -> String {
    let Some(error) = error.get_ref().and_then(|error| error.downcast_ref()) else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
            _ => error.to_string(),
        };
    };
    let why = match error {
        rustls::Error::InvalidCertificate(why) => why,
        error => return format!("tls: {error}"),
    };
    let why = match why {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            "certificate has expired or is not yet valid".to_owned()
        }
        why => why.to_string(),
    };
    format!("tls: failed to verify certificate: x509: {why}")
}

/// The error of a missing response, with Go's text.
pub(crate) fn broken(error: &hyper::Error) -> String {
    let is_gone = error.is_incomplete_message() || error.is_canceled() || error.is_closed();
    let below = error
        .source()
        .and_then(|source| source.downcast_ref::<io::Error>());
    match below.map(io::Error::kind) {
        _ if is_gone => "EOF".to_owned(),
        Some(io::ErrorKind::UnexpectedEof) => "EOF".to_owned(),
        Some(io::ErrorKind::ConnectionReset) => "read: connection reset by peer".to_owned(),
        _ => below.map_or_else(|| error.to_string(), ToString::to_string),
    }
}
