//! The server's certificate authority and the certificates it signs: the listener's, and client certificates for
//! users of the handle.
//!
//! Nothing is written to disk here; [`identity`](crate::identity) stores the authority in a durable store. The
//! listener's certificate is generated at every start, for its current names.

use std::io;
use std::net::IpAddr;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::identity_files::{IdentityFileError, ServingFiles};
use crate::kubeconfig::write_private;

/// A certificate chain, leaf first, and its key.
pub(crate) type Serving = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// The start of the key in a stored authority.
const KEY_BEGIN: &str = "-----BEGIN PRIVATE KEY-----";

/// The name of the authority of listeners and users.
const OWN: &str = "watchkeeper-ca";
/// The name of the authority of front proxies.
const FRONT_PROXY: &str = "watchkeeper-front-proxy-ca";

/// The certificate authority of a server, or of several that share a store.
pub(crate) struct Authority {
    certificate: CertificateDer<'static>,
    certificate_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A client certificate and its key, both PEM.
#[derive(Clone)]
pub struct ClientCertificate {
    /// The certificate.
    pub certificate_pem: String,
    /// Its private key: a secret.
    pub key_pem: String,
}

impl std::fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientCertificate")
            .field("certificate_pem", &self.certificate_pem)
            .field("key_pem", &"[redacted]")
            .finish()
    }
}

/// The reason a certificate cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A key or certificate cannot be generated.
    #[error("cannot make a certificate")]
    Make(#[from] rcgen::Error),
    /// TLS rejected the configuration.
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
    /// The clients' certificate authority cannot be used.
    #[error("cannot use the client certificate authority")]
    ClientAuthority(#[from] rustls::server::VerifierBuilderError),
    /// A configured file cannot be used.
    #[error(transparent)]
    File(#[from] IdentityFileError),
    /// There is no certificate for the listener.
    #[error("the listener has no certificate")]
    Nothing,
}

impl Authority {
    /// Generates an authority of listeners and users.
    pub(crate) fn new() -> Result<Self, CertificateError> {
        Self::named(OWN)
    }

    /// Generates an authority of only front proxies.
    pub(crate) fn front_proxy() -> Result<Self, CertificateError> {
        Self::named(FRONT_PROXY)
    }

    fn named(name: &str) -> Result<Self, CertificateError> {
        let (params, key) = (authority_params(name), KeyPair::generate()?);
        let certificate = params.self_signed(&key)?;
        Ok(Self {
            certificate_pem: certificate.pem(),
            certificate: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        })
    }

    /// Reads an authority from its certificate and key.
    pub(crate) fn from_pem(pem: &[u8]) -> Result<Self, AuthorityPemError> {
        Self::named_from_pem(OWN, pem)
    }

    /// Reads the authority of front proxies from its certificate and key.
    pub(crate) fn front_proxy_from_pem(pem: &[u8]) -> Result<Self, AuthorityPemError> {
        Self::named_from_pem(FRONT_PROXY, pem)
    }

    fn named_from_pem(name: &str, pem: &[u8]) -> Result<Self, AuthorityPemError> {
        let text = str::from_utf8(pem).map_err(|_| AuthorityPemError)?;
        let key = text.find(KEY_BEGIN).ok_or(AuthorityPemError)?;
        let (certificate_pem, key_pem) = text.split_at(key);
        let certificate = CertificateDer::from_pem_slice(certificate_pem.as_bytes());
        let key = KeyPair::from_pem(key_pem).map_err(|_| AuthorityPemError)?;
        Ok(Self {
            certificate: certificate.map_err(|_| AuthorityPemError)?,
            certificate_pem: certificate_pem.to_owned(),
            issuer: Issuer::new(authority_params(name), key),
        })
    }

    /// The certificate and key of the authority: a secret.
    pub(crate) fn to_pem(&self) -> String {
        format!("{}{}", self.certificate_pem, self.issuer.key().serialize_pem())
    }

    /// The certificate of the authority, which clients trust.
    pub(crate) fn pem(&self) -> String {
        self.certificate_pem.clone()
    }

    /// Like [`Authority::pem`], for TLS.
    pub(crate) fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// Signs a certificate for a user.
    pub(crate) fn client(
        &self,
        user: &str,
        group: Option<&str>,
    ) -> Result<ClientCertificate, CertificateError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = named(user, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(ClientCertificate {
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
        })
    }

    /// Signs a certificate for a listener with these names.
    pub(crate) fn serving(&self, names: &[String]) -> Result<Serving, CertificateError> {
        let (certificate, key) = self.signed_for(names)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Ok((vec![certificate.der().clone()], key))
    }

    fn signed_for(&self, names: &[String]) -> Result<(rcgen::Certificate, KeyPair), CertificateError> {
        let mut params = CertificateParams::new(names.to_vec())?;
        params.distinguished_name = named("watchkeeper", None);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok((certificate, key))
    }
}

/// The certificate of a listener and its key, both PEM.
#[derive(Clone)]
pub struct ServingCertificate {
    /// The certificate, and that of its authority.
    pub chain_pem: String,
    /// Its private key: a secret.
    pub key_pem: String,
}

impl ServingCertificate {
    /// Generates an authority that signs a certificate for an address and the standard host names; its key is then
    /// dropped.
    pub fn new(address: IpAddr) -> Result<Self, CertificateError> {
        let authority = Authority::new()?;
        let (certificate, key) = authority.signed_for(&host_names(Some(address), &[]))?;
        Ok(Self {
            chain_pem: certificate.pem() + &authority.pem(),
            key_pem: key.serialize_pem(),
        })
    }

    /// Writes it to files that only their owner can read. Missing directories are created.
    pub fn write(&self, files: &ServingFiles) -> io::Result<()> {
        for (path, text) in [(&files.key, &self.key_pem), (&files.certificate, &self.chain_pem)] {
            if let Some(directory) = path.parent() {
                std::fs::create_dir_all(directory)?;
            }
            write_private(path, text)?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for ServingCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServingCertificate")
            .field("chain_pem", &self.chain_pem)
            .field("key_pem", &"[redacted]")
            .finish()
    }
}

/// A text that is not the certificate and key of an authority.
#[derive(Debug)]
pub(crate) struct AuthorityPemError;

/// The parameters of an authority's certificate, which are the same after a restart.
fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named(name, None);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// The host names of a listener: loopback, the names by which pods know an API server, its address, and configured
/// ones.
pub(crate) fn host_names(address: Option<IpAddr>, own: &[String]) -> Vec<String> {
    const ALWAYS: [&str; 7] = [
        "localhost",
        "127.0.0.1",
        "::1",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ];
    let mut names: Vec<String> = ALWAYS.map(str::to_owned).to_vec();
    names.extend(address.map(|address| address.to_string()));
    names.extend(own.iter().cloned());
    names.sort();
    names.dedup();
    names
}

fn named(name: &str, organization: Option<&str>) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    if let Some(organization) = organization {
        subject.push(DnType::OrganizationName, organization);
    }
    subject
}
