//! The front-proxy client certificate: by it, aggregated API servers know that headers naming a user are this server's.
//!
//! The authority signs nothing else. If it also signed certificates of users, anyone with such a certificate could name
//! any user.

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::certificates::{Authority, CertificateError, Serving};
use crate::identity_files::{self, ServingFiles};

/// The common name of the certificate that the server makes for itself, as kubeadm names it.
pub(crate) const NAME: &str = "front-proxy-client";

/// A client certificate, and the authority that others know it by.
pub(crate) struct ProxyIdentity {
    client: Serving,
    /// PEM; `None` if the certificate is the operator's, who then says which authority it is.
    authority: Option<String>,
}

impl ProxyIdentity {
    /// An identity that ends with the server.
    pub(crate) fn random() -> Result<Self, CertificateError> {
        Self::signed_by(&Authority::front_proxy()?)
    }

    /// An identity of an authority that is kept.
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

    /// The operator's own: `--proxy-client-cert-file` and `--proxy-client-key-file`.
    pub(crate) fn from_files(files: &ServingFiles) -> Result<Self, CertificateError> {
        let chain = identity_files::certificates(&files.certificate)?;
        let key = identity_files::private_key(&files.key)?;
        Ok(Self {
            client: (chain, key),
            authority: None,
        })
    }

    /// What is shown to other servers.
    pub(crate) fn client(&self) -> &Serving {
        &self.client
    }

    /// The authority that is to be published, PEM.
    pub(crate) fn authority(&self) -> Option<&str> {
        self.authority.as_deref()
    }
}
