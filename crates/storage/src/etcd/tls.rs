//! TLS to etcd: trusted CAs and the client certificate. Files are read for every connection, because certificates are
//! renewed under the same names.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use super::EtcdOptions;

/// The error of a TLS configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("cannot use {path}: {why}")]
    File { path: String, why: String },
    #[error("a certificate needs its key, and a key its certificate")]
    HalfIdentity,
    #[error("the system has no certificate authorities, and none is given")]
    NoAuthorities,
    #[error("cannot use the certificates: {0}")]
    Unusable(#[from] rustls::Error),
}

/// The TLS configuration of a new connection.
pub(crate) fn config(options: &EtcdOptions) -> Result<TlsConnector, TlsError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(authorities(options)?);
    let mut config = match (&options.cert_file, &options.key_file) {
        (None, None) => config.with_no_client_auth(),
        (Some(certificate), Some(key)) => {
            config.with_client_auth_cert(certificates(certificate)?, private_key(key)?)?
        }
        _ => return Err(TlsError::HalfIdentity),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn authorities(options: &EtcdOptions) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    match &options.ca_file {
        Some(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate)?;
            }
        }
        None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
    }
    match roots.is_empty() {
        true => Err(TlsError::NoAuthorities),
        false => Ok(roots),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_file_iter(path).map_err(|why| bad(path, why))?;
    let found: Result<Vec<_>, _> = found.collect();
    match found.map_err(|why| bad(path, why))? {
        found if found.is_empty() => Err(bad(path, "there is no certificate in it")),
        found => Ok(found),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|why| bad(path, why))
}

fn bad(path: &Path, why: impl ToString) -> TlsError {
    TlsError::File {
        path: path.display().to_string(),
        why: why.to_string(),
    }
}
