//! The front-proxy client certificate, by which aggregated API servers recognize this server's user headers.
//!
//! Its authority signs nothing else: with a user certificate of the same authority, anyone could impersonate any
//! user.

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::certificates::{Authority, CertificateError, Serving};
use crate::identity_files::{self, ServingFiles};

/// The common name of a generated certificate, as in kubeadm.
pub(crate) const NAME: &str = "front-proxy-client";

/// A client certificate and its authority.
pub(crate) struct ProxyIdentity {
    client: Serving,
    /// PEM; `None` if the operator provides the certificate and publishes its authority.
    authority: Option<String>,
}

impl ProxyIdentity {
    /// A generated identity that is not stored.
    pub(crate) fn random() -> Result<Self, CertificateError> {
        Self::signed_by(&Authority::front_proxy()?)
    }

    /// An identity signed by a stored authority.
    pub(crate) fn signed_by(authority: &Authority) -> Result<Self, CertificateError> {
        let made = authority.client(NAME, None)?;
        let certificate = CertificateDer::from_pem_slice(made.certificate_pem.as_bytes());
        let key = PrivateKeyDer::from_pem_slice(made.key_pem.as_bytes());
        let (Ok(certificate), Ok(key)) = (certificate, key) else {
            return Err(CertificateError::Nothing);
        };
        Ok(Self {
            client: (vec![certificate], key),
            authority: Some(authority.pem()),
        })
    }

    /// The operator's files: `--proxy-client-cert-file` and `--proxy-client-key-file`.
    pub(crate) fn from_files(files: &ServingFiles) -> Result<Self, CertificateError> {
        let chain = identity_files::certificates(&files.certificate)?;
        let key = identity_files::private_key(&files.key)?;
        Ok(Self {
            client: (chain, key),
            authority: None,
        })
    }

    /// The client certificate.
    pub(crate) fn client(&self) -> &Serving {
        &self.client
    }

    /// The authority to publish, PEM.
    pub(crate) fn authority(&self) -> Option<&str> {
        self.authority.as_deref()
    }
}
