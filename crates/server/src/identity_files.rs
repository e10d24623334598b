//! Keys and certificates from files instead of generated ones, as in kube-apiserver's flags of the same names. All
//! files are PEM.

use std::path::{Path, PathBuf};

use rustls::pki_types::pem::{PemObject as _, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ParsedCertificate;

use crate::front_proxy::FrontProxy;
use crate::service_account_keys::{PublicKey, SigningKey};

/// The files of a server's keys and certificates. Missing ones are generated.
#[derive(Clone, Debug, Default)]
pub struct IdentityFiles {
    /// The listener's certificate. Read again when it changes.
    pub serving: Option<ServingFiles>,
    /// Authorities of client certificates: the common name is the user, the organizations are the groups. Read again
    /// when the file changes.
    pub client_ca: Option<PathBuf>,
    /// The trusted front proxies.
    pub front_proxy: Option<FrontProxy>,
    /// The client certificate for aggregated API servers: `--proxy-client-cert-file` and `--proxy-client-key-file`.
    /// Its authority should be that of [`IdentityFiles::front_proxy`].
    pub proxy_client: Option<ServingFiles>,
    /// The key that signs service account tokens.
    pub service_account_signing_key: Option<PathBuf>,
    /// Further keys that verify tokens: public or private keys, or certificates.
    pub service_account_keys: Vec<PathBuf>,
}

/// The certificate of a listener, leaf first, and its key.
#[derive(Clone, Debug)]
pub struct ServingFiles {
    /// `--tls-cert-file`
    pub certificate: PathBuf,
    /// `--tls-private-key-file`
    pub key: PathBuf,
}

/// The reason a file is rejected.
#[derive(Debug, thiserror::Error)]
pub enum IdentityFileError {
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// It does not contain the expected data.
    #[error("{} contains no {wanted}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The expected data.
        wanted: &'static str,
    },
}

impl IdentityFiles {
    /// The files that may change while the server runs.
    pub(crate) fn rotating(&self) -> impl Iterator<Item = &Path> {
        let serving = self.serving.iter().flat_map(|it| [&it.certificate, &it.key]);
        let proxies = self.front_proxy.iter().map(|proxy| &proxy.client_ca);
        serving
            .chain(&self.client_ca)
            .chain(proxies)
            .map(PathBuf::as_path)
    }

    /// The signing key, if configured.
    pub(crate) fn signing_key(&self) -> Result<Option<SigningKey>, IdentityFileError> {
        let Some(path) = &self.service_account_signing_key else {
            return Ok(None);
        };
        let key = private_key(path)?;
        let key = SigningKey::from_der(key.secret_der());
        let unusable = || {
            content(
                path,
                "key that can sign tokens (RSA, or EC on P-256, P-384 or P-521)",
            )
        };
        key.map(Some).ok_or_else(unusable)
    }

    /// The keys that verify tokens.
    pub(crate) fn verifying_keys(&self) -> Result<Vec<PublicKey>, IdentityFileError> {
        let mut all = Vec::new();
        for path in &self.service_account_keys {
            let text = read(path)?;
            let sections = <(SectionKind, Vec<u8>)>::pem_slice_iter(&text);
            let keys = sections
                .filter_map(Result::ok)
                .filter_map(|(kind, der)| public_key(kind, der));
            let before = all.len();
            all.extend(keys);
            if all.len() == before {
                return Err(content(path, "key that can verify tokens"));
            }
        }
        Ok(all)
    }
}

fn public_key(kind: SectionKind, der: Vec<u8>) -> Option<PublicKey> {
    match kind {
        SectionKind::PublicKey => PublicKey::from_der(&der),
        SectionKind::Certificate => {
            let certificate = CertificateDer::from(der);
            let certificate = ParsedCertificate::try_from(&certificate).ok()?;
            PublicKey::from_der(&certificate.subject_public_key_info())
        }
        _ => SigningKey::from_der(&der).map(|key| key.public().clone()),
    }
}

/// The certificates of a file; at least one.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, IdentityFileError> {
    let text = read(path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let all = all.unwrap_or_default();
    match all.is_empty() {
        true => Err(content(path, "certificate")),
        false => Ok(all),
    }
}

/// The first private key of a file.
pub(crate) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, IdentityFileError> {
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|_| content(path, "private key"))
}

/// The bytes of a file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, IdentityFileError> {
    std::fs::read(path).map_err(|source| IdentityFileError::Read {
        path: path.to_owned(),
        source,
    })
}

/// The text of a file, with a final newline.
pub(crate) fn read_text(path: &Path) -> Result<String, IdentityFileError> {
    let bytes = read(path)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(format!("{}\n", text.trim_end()))
}

fn content(path: &Path, wanted: &'static str) -> IdentityFileError {
    IdentityFileError::Content {
        path: path.to_owned(),
        wanted,
    }
}
