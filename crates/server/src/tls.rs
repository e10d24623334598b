//! TLS of the listener: its certificate, and the client certificates it accepts.
//!
//! ```text
//! own authority, files ▶ ListenerTls ─ next connection ─▶ Tls ▶ handshake ▶ Peer: the user of the client certificate
//! ```
//!
//! Files are checked whenever a connection arrives. After a change, that connection is the first with the new
//! certificates; if they are invalid, the old ones stay in use and the error is logged.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use tokio_rustls::TlsAcceptor;

use crate::certificate_subject::user_of;
use crate::certificates::{Authority, CertificateError, Serving};
use crate::filter::Peer;
use crate::front_proxy::FrontProxy;
use crate::identity_files::{IdentityFiles, certificates, private_key};

/// The TLS configuration for new connections.
pub(crate) struct ListenerTls {
    /// The server's authority, whose client certificates are always accepted.
    authority: CertificateDer<'static>,
    /// The certificate used if no files are configured.
    own: Option<Serving>,
    files: IdentityFiles,
    loaded: Mutex<Loaded>,
}

struct Loaded {
    stamps: Vec<Stamp>,
    tls: Arc<Tls>,
}

/// The identity of a file's content: modification time, size and inode; `None` if it does not exist.
type Stamp = Option<(SystemTime, u64, u64)>;

/// The TLS configuration of one connection.
pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    clients: Arc<ClientVerifier>,
    front_proxy: Option<Arc<FrontProxy>>,
    /// The certificate, if it comes from a file.
    given: Option<CertificateDer<'static>>,
}

impl ListenerTls {
    /// Uses the files, or else a certificate of the authority for these names.
    pub(crate) fn new(
        authority: &Authority,
        names: &[String],
        files: IdentityFiles,
    ) -> Result<Self, CertificateError> {
        let own = match files.serving {
            Some(_) => None,
            None => Some(authority.serving(names)?),
        };
        let stamps = files.rotating().map(stamp).collect();
        let tls = Arc::new(Tls::load(authority.certificate(), own.as_ref(), &files)?);
        Ok(Self {
            authority: authority.certificate().clone(),
            own,
            files,
            loaded: Mutex::new(Loaded { stamps, tls }),
        })
    }

    /// The configuration for the next connection.
    pub(crate) fn current(&self) -> Arc<Tls> {
        let mut loaded = self.loaded.lock();
        let stamps: Vec<Stamp> = self.files.rotating().map(stamp).collect();
        if stamps != loaded.stamps {
            loaded.stamps = stamps;
            match Tls::load(&self.authority, self.own.as_ref(), &self.files) {
                Ok(tls) => loaded.tls = Arc::new(tls),
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(
                        error,
                        "changed certificates cannot be used: the old ones stay in use"
                    );
                }
            }
        }
        loaded.tls.clone()
    }
}

impl Tls {
    fn load(
        authority: &CertificateDer<'static>,
        own: Option<&Serving>,
        files: &IdentityFiles,
    ) -> Result<Self, CertificateError> {
        let (chain, key) = match (&files.serving, own) {
            (Some(serving), _) => (certificates(&serving.certificate)?, private_key(&serving.key)?),
            (None, Some((chain, key))) => (chain.clone(), key.clone_key()),
            (None, None) => return Err(CertificateError::Nothing),
        };
        let given = files.serving.as_ref().and_then(|_| chain.first().cloned());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let clients = Arc::new(ClientVerifier::new(authority, files, &provider)?);
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(clients.clone())
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            clients,
            front_proxy: files.front_proxy.clone().map(Arc::new),
            given,
        })
    }

    /// The peer of a verified chain, leaf first; anonymous without one.
    pub(crate) fn peer(&self, chain: Option<&[CertificateDer<'_>]>) -> Peer {
        let unknown = Peer {
            shown: self.given.clone(),
            over_socket: true,
            ..Peer::default()
        };
        let Some((leaf, rest)) = chain.and_then(<[_]>::split_first) else {
            return unknown;
        };
        let (named, now) = (user_of(leaf), UnixTime::now());
        let accepts =
            |verifier: &Arc<dyn ClientCertVerifier>| verifier.verify_client_cert(leaf, rest, now).is_ok();
        let is_proxy = self.clients.proxies.as_ref().is_some_and(accepts);
        let proxy = self.front_proxy.clone().filter(|proxy| {
            let name = named.as_ref().map(|user| user.name.as_str());
            is_proxy && proxy.allows(name.unwrap_or_default())
        });
        // Without an authority of proxies, the handshake has verified the user's certificate already.
        let is_user = self.clients.proxies.is_none() || accepts(&self.clients.users);
        Peer {
            certified: named.filter(|_| is_user),
            front_proxy: proxy,
            ..unknown
        }
    }
}

/// Accepts certificates of users and of proxies, and connections without one.
#[derive(Debug)]
struct ClientVerifier {
    users: Arc<dyn ClientCertVerifier>,
    proxies: Option<Arc<dyn ClientCertVerifier>>,
    hints: Vec<DistinguishedName>,
}

impl ClientVerifier {
    fn new(
        authority: &CertificateDer<'static>,
        files: &IdentityFiles,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, CertificateError> {
        let mut users = vec![authority.clone()];
        if let Some(path) = &files.client_ca {
            users.extend(certificates(path)?);
        }
        let users = verifier(users, provider)?;
        let proxies = match &files.front_proxy {
            Some(proxy) => Some(verifier(certificates(&proxy.client_ca)?, provider)?),
            None => None,
        };
        let hints = std::iter::once(&users).chain(&proxies);
        let hints = hints.flat_map(|verifier| verifier.root_hint_subjects().iter().cloned());
        Ok(Self {
            hints: hints.collect(),
            users,
            proxies,
        })
    }
}

fn verifier(
    authorities: Vec<CertificateDer<'static>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, CertificateError> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority)?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    Ok(verifier.allow_unauthenticated().build()?)
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.users.verify_client_cert(leaf, chain, now);
        match &self.proxies {
            Some(proxies) => verified.or_else(|_| proxies.verify_client_cert(leaf, chain, now)),
            None => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.users.verify_tls12_signature(message, leaf, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.users.verify_tls13_signature(message, leaf, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.users.supported_verify_schemes()
    }
}

fn stamp(path: &Path) -> Stamp {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len(), file_id(&metadata)))
}

#[cfg(unix)]
fn file_id(metadata: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn file_id(_metadata: &std::fs::Metadata) -> u64 {
    0
}
