//! Builds, starts and controls a server.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, RwLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use watchkeeper_meta::Status;
use watchkeeper_registry::{AnnouncedProxy, Announcement, FeatureGates, Registry, RegistryOptions};
#[cfg(feature = "etcd")]
use watchkeeper_storage::EtcdOptions;
use watchkeeper_storage::{OpenError, Retention, Snapshot, Store, StoreOptions, Transformer};

use crate::activity::Activity;
use crate::aggregation::{Aggregator, ProxyIdentity, proxy_identity};
use crate::aggregation_controller;
use crate::audit::{Audit, AuditError, AuditOptions};
use crate::catalog::Catalog;
use crate::certificate_names::name_instead_of;
use crate::certificates::{Authority, CertificateError, ClientCertificate, host_names};
use crate::connector::Connector;
use crate::encryption::{Encryption, EncryptionError};
use crate::faults::Faults;
use crate::flow_control::FlowControl;
#[cfg(feature = "testing")]
use crate::handlers::testing::Testing;
use crate::identity;
use crate::identity_files::{self, IdentityFileError, IdentityFiles};
use crate::impersonate::LastModes;
use crate::kubeconfig::{kubeconfig, write_merged};
use crate::limits::{MAX_READS_IN_FLIGHT, MAX_WAITING_CONNECTIONS, MAX_WRITES_IN_FLIGHT};
use crate::listener::{self, Sources};
use crate::metrics::Metrics;
use crate::service_account_keys::{ISSUER, ServiceAccountKeys, SigningKey};
use crate::shared::Shared;
use crate::tls::ListenerTls;
use crate::tokens::{Token, TokenFileError, Tokens};
use crate::unwritten::Unwritten;
use crate::webhooks::Webhooks;
use crate::write_log::{Answering, Observed, WriteLog, Writes};

/// The key prefix of the registry; in etcd, the configured prefix replaces it.
#[cfg(feature = "etcd")]
const ROOT: &str = "/registry/";

/// An API server; see [`Server::builder`].
#[derive(Debug)]
pub struct Server;

impl Server {
    /// A builder: in memory and without a port by default.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

/// The options of a server.
#[derive(Debug, Default)]
pub struct Builder {
    storage: Storage,
    quota_bytes: Option<u64>,
    encryption: Option<PathBuf>,
    listen: Option<SocketAddr>,
    token_file: Option<PathBuf>,
    tokens: Tokens,
    admin_token: Option<Token>,
    host_names: Vec<String>,
    identity: IdentityFiles,
    issuers: Vec<String>,
    max_requests_inflight: Option<usize>,
    max_mutating_requests_inflight: Option<usize>,
    audit: Option<AuditOptions>,
    debug_endpoints: bool,
    write_log: bool,
    testing: bool,
    registry: RegistryOptions,
}

/// The retention of a replay, whose changes are old: nothing is compacted.
const EVERYTHING: Retention = Retention {
    age: Duration::MAX,
    revisions: u64::MAX,
    superseded_bytes: u64::MAX,
};

type OpenDirectory = fn(PathBuf, StoreOptions) -> BoxFuture<'static, Result<Store, OpenError>>;

/// The storage of a server.
#[derive(Debug, Default)]
enum Storage {
    #[default]
    Memory,
    Fork(Snapshot),
    Replay(Snapshot),
    /// The function is a value, so that only programs that ask for a directory link the engine on disk.
    Directory(PathBuf, OpenDirectory),
    #[cfg(feature = "etcd")]
    Etcd(EtcdOptions),
}

impl Storage {
    /// True if the store outlives the server.
    fn is_durable(&self) -> bool {
        !matches!(self, Self::Memory | Self::Fork(_) | Self::Replay(_))
    }

    async fn open(&self, options: StoreOptions) -> Result<Store, OpenError> {
        match self {
            Self::Memory => Ok(Store::memory(options)),
            Self::Fork(snapshot) => Ok(Store::fork(snapshot, options)),
            Self::Replay(snapshot) => Ok(Store::fork(
                snapshot,
                StoreOptions {
                    retention: EVERYTHING,
                    ..options
                },
            )),
            Self::Directory(path, open) => open(path.clone(), options).await,
            #[cfg(feature = "etcd")]
            Self::Etcd(etcd) => Store::etcd(etcd.clone(), options).await,
        }
    }
}

/// The reason a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The token file is invalid.
    #[error("cannot use the token file")]
    TokenFile(#[from] TokenFileError),
    /// Only loopback addresses are allowed if the only credential is the generated token.
    #[error(
        "{0} can be reached from other machines: configure a token file or a client certificate authority to listen there"
    )]
    Exposed(SocketAddr),
    /// The address is in use or unavailable.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error.
        source: io::Error,
    },
    /// The data directory is locked, damaged or foreign, or etcd cannot be used.
    #[error("cannot open the store")]
    Storage(#[from] OpenError),
    /// The encryption configuration is invalid.
    #[error("cannot use the encryption configuration")]
    Encryption(#[from] EncryptionError),
    /// The objects every cluster starts with could not be created.
    #[error("cannot create the objects every cluster starts with")]
    Bootstrap(#[source] Status),
    /// The audit log cannot be written.
    #[error("cannot write an audit log")]
    Audit(#[from] AuditError),
    /// A key file is invalid.
    #[error("cannot use a key file")]
    IdentityFile(#[from] IdentityFileError),
    /// Certificates cannot be created.
    #[error("cannot make the server's certificates")]
    Certificates(#[from] CertificateError),
}

impl Builder {
    /// Stores objects in memory. This is the default.
    pub fn in_memory(mut self) -> Self {
        self.storage = Storage::Memory;
        self
    }

    /// Like [`Builder::in_memory`], starting with a snapshot of another server's store. The data is shared until one
    /// of them writes.
    pub fn fork_of(mut self, snapshot: &Snapshot) -> Self {
        self.storage = Storage::Fork(snapshot.clone());
        self
    }

    /// Like [`Builder::fork_of`], of the [imported](Snapshot::import) history of another cluster. All history is
    /// kept, and nothing is written at start: neither the default objects nor this server's address. Its custom kinds
    /// are served.
    pub fn replay_of(mut self, history: &Snapshot) -> Self {
        self.storage = Storage::Replay(history.clone());
        self.registry.is_replay = true;
        self
    }

    /// Stores objects in this directory.
    pub fn data_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.storage = Storage::Directory(path.into(), |path, options| Box::pin(Store::open(path, options)));
        self
    }

    /// The limit on the size of records in a data directory. Beyond it, writes that grow are rejected with etcd's
    /// error; reads and deletes continue. Without it, the disk is the limit.
    pub fn quota_backend_bytes(mut self, bytes: u64) -> Self {
        self.quota_bytes = Some(bytes);
        self
    }

    /// Encrypts stored objects by an `EncryptionConfiguration` file: providers `aesgcm` and `identity`. Servers that
    /// share an etcd need the same file.
    pub fn encryption_provider_config(mut self, path: impl Into<PathBuf>) -> Self {
        self.encryption = Some(path.into());
        self
    }

    fn transformer(&self) -> Result<Option<Arc<dyn Transformer>>, EncryptionError> {
        let read = |path: &PathBuf| Ok(Arc::new(Encryption::read(path)?) as Arc<dyn Transformer>);
        self.encryption.as_ref().map(read).transpose()
    }

    /// Stores objects in an etcd, which several servers may share: writes through one are seen by the watches of all.
    /// They share the certificate authority and the administrator's token, which are stored there.
    #[cfg(feature = "etcd")]
    pub fn etcd(mut self, options: EtcdOptions) -> Self {
        self.storage = Storage::Etcd(EtcdOptions {
            replaces: ROOT.to_owned(),
            ..options
        });
        self
    }

    /// Listens on an address with TLS; port 0 selects a free port. Without this, only [`Handle::connector`] can be
    /// used.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = Some(address);
        self
    }

    /// Accepts the users of a token file: `token,user,uid,"group1,group2"` per line.
    pub fn token_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.token_file = Some(path.into());
        self
    }

    /// Accepts these users.
    pub fn tokens(mut self, tokens: Tokens) -> Self {
        self.tokens = tokens;
        self
    }

    /// The administrator's token, instead of a generated one.
    pub fn admin_token(mut self, token: Token) -> Self {
        self.admin_token = Some(token);
        self
    }

    /// Keys and certificates from files, instead of generated ones.
    pub fn identity_files(mut self, files: IdentityFiles) -> Self {
        self.identity = files;
        self
    }

    /// The issuers of service account tokens, instead of `https://kubernetes.default.svc`: the first one issues.
    /// Tokens of the others are accepted too, so that an issuer can be replaced.
    pub fn service_account_issuers(mut self, issuers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.issuers = issuers.into_iter().map(Into::into).collect();
        self
    }

    /// An additional host name of the server, also in its certificate.
    pub fn host_name(mut self, name: impl Into<String>) -> Self {
        self.host_names.push(name.into());
        self
    }

    /// The in-flight limit, together with [`Builder::max_mutating_requests_inflight`]; by default 400. The sum is
    /// distributed among the priority levels.
    pub fn max_requests_inflight(mut self, requests: usize) -> Self {
        self.max_requests_inflight = Some(requests);
        self
    }

    /// See [`Builder::max_requests_inflight`]; by default 200.
    pub fn max_mutating_requests_inflight(mut self, requests: usize) -> Self {
        self.max_mutating_requests_inflight = Some(requests);
        self
    }

    /// Writes an audit log.
    pub fn audit(mut self, options: AuditOptions) -> Self {
        self.audit = Some(options);
        self
    }

    /// Allows administrators to inject faults over HTTP, below `/debug/`. For tests only.
    pub fn debug_endpoints(mut self, on: bool) -> Self {
        self.debug_endpoints = on;
        self
    }

    /// Serves the testing API to administrators, below `/testing/v1/`: clock, faults, snapshots, writes. For tests
    /// only. Moving the clock requires a single-threaded runtime.
    #[cfg(feature = "testing")]
    pub fn testing(mut self, on: bool) -> Self {
        self.testing = on;
        self
    }

    /// Keeps a log of all writes, for [`Handle::writes`]. For tests only: it retains overwritten objects.
    pub fn write_log(mut self, on: bool) -> Self {
        self.write_log = on;
        self
    }

    /// Allows privileged containers; on by default: see [`RegistryOptions`].
    pub fn allow_privileged(mut self, on: bool) -> Self {
        self.registry.allow_privileged = on;
        self
    }

    /// Adds service accounts and tokens to pods; off by default: see [`RegistryOptions`].
    pub fn service_accounts(mut self, on: bool) -> Self {
        self.registry.service_accounts = on;
        self
    }

    /// Turns features on or off.
    pub fn feature_gates(mut self, gates: FeatureGates) -> Self {
        self.registry.feature_gates = gates;
        self
    }

    /// Starts the server. When this returns, connections are served.
    ///
    /// Boxed, so that callers do not compile a server.
    pub fn start(self) -> BoxFuture<'static, Result<Handle, StartError>> {
        Box::pin(self.start_unboxed())
    }

    async fn start_unboxed(self) -> Result<Handle, StartError> {
        let audit = self.audit.as_ref().map(Audit::open).transpose()?;
        let mut tokens = self.user_tokens()?;
        let listener = self.bind().await?;
        let address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let hosts = host_names(address.map(|address| address.ip()), &self.host_names);
        let registry = self.open_registry().await?;
        let keeps = self.storage.is_durable().then(|| registry.store());
        let admin_token = self.kept_admin_token(keeps).await?;
        tokens.add_admin(&admin_token);
        let service_account_keys = OnceLock::new();
        if let Some(keys) = self.service_account_keys(keeps).await? {
            let _ = service_account_keys.set(keys);
        }
        // In-process servers need no TLS, and generating keys is the slowest part of a start.
        let tls = match listener {
            Some(listener) => Some((listener, kept_authority(keeps).await?)),
            None => None,
        };
        let proxy = self.proxy_identity(keeps, tls.is_some()).await?;
        let announcement = Announcement {
            address: address.map(reachable),
            client_authority: match &tls {
                Some((_, authority)) => Some(self.client_authorities(authority)?),
                None => None,
            },
            front_proxy: self.announced_proxy(proxy.as_ref())?,
        };
        if !self.registry.is_replay {
            let announced = registry.announce(&announcement).await;
            announced.map_err(StartError::Bootstrap)?;
        }
        let server = Arc::new(Shared {
            catalog: RwLock::new(Catalog::built_in()),
            aggregator: Aggregator::new(proxy),
            tokens,
            service_account_keys,
            issuers: self.issuers(),
            address: address.map_or_else(|| "localhost".to_owned(), |address| address.to_string()),
            debug_endpoints: self.debug_endpoints,
            started: Instant::now(),
            flow_control: FlowControl::new(self.seats()),
            impersonation_modes: LastModes::default(),
            unwritten: Unwritten::default(),
            audit,
            counts: Arc::default(),
            faults: Arc::new(Faults::default()),
            write_log: WriteLog::new(self.write_log || self.testing),
            #[cfg(feature = "testing")]
            testing: self.testing.then(|| Testing::new(registry.store().snapshot())),
            registry,
            metrics: Metrics::default(),
            draining: CancellationToken::new(),
            tasks: TaskTracker::new(),
            hosts,
        });
        let (pipes, waiting_pipes) = mpsc::channel(MAX_WAITING_CONNECTIONS);
        let (socket, authority) = match tls {
            Some((listener, authority)) => {
                let tls = ListenerTls::new(&authority, &server.hosts, self.identity.clone())?;
                (Some((listener, tls)), Some(authority))
            }
            None => (None, None),
        };
        let sources = Sources {
            socket,
            pipes: waiting_pipes,
        };
        let serving = tokio::spawn(listener::run(sources, server.clone()));
        self.follow_aggregated(&server, address.is_some());
        Ok(Handle {
            server,
            serving: Some(serving),
            connector: Connector::new(pipes),
            address,
            authority,
            shown_pem: self.shown_pem()?,
            admin_token,
        })
    }

    async fn open_registry(&self) -> Result<Registry, StartError> {
        let options = StoreOptions {
            quota_bytes: self.quota_bytes,
            transformer: self.transformer()?,
            shared_part: Some(watchkeeper_registry::shared_part),
            ..StoreOptions::default()
        };
        let store = self.storage.open(options).await?;
        let options = RegistryOptions {
            webhooks: Some(Arc::new(Webhooks::default())),
            ..self.registry.clone()
        };
        options.open(store).await.map_err(StartError::Bootstrap)
    }

    /// The administrator's token: the given one, that of the store, or a new one.
    async fn kept_admin_token(&self, keeps: Option<&Store>) -> Result<Token, StartError> {
        match (&self.admin_token, keeps) {
            (Some(token), _) => Ok(token.clone()),
            (None, Some(store)) => identity::admin_token(store).await.map_err(StartError::Bootstrap),
            (None, None) => Ok(Token::random()),
        }
    }

    /// Follows aggregated API servers, except in a replay: it writes nothing by itself, because the first write ends
    /// what is played, and the aggregated servers of the recorded cluster cannot be reached.
    fn follow_aggregated(&self, server: &Arc<Shared>, has_port: bool) {
        if !self.registry.is_replay {
            let aggregation = aggregation_controller::run(server.clone(), has_port);
            server.tasks.spawn(aggregation);
        }
    }

    /// The keys of service account tokens; `None` if they are generated on first use.
    async fn service_account_keys(
        &self,
        keeps: Option<&Store>,
    ) -> Result<Option<ServiceAccountKeys>, StartError> {
        let others = self.identity.verifying_keys()?;
        let signing = match (self.identity.signing_key()?, keeps) {
            (Some(given), _) => given,
            (None, Some(store)) => identity::service_account_key(store)
                .await
                .map_err(StartError::Bootstrap)?,
            (None, None) if others.is_empty() => return Ok(None),
            (None, None) => SigningKey::random(),
        };
        Ok(Some(ServiceAccountKeys::new(signing, others)))
    }

    /// The in-flight limit.
    fn seats(&self) -> usize {
        let reads = self.max_requests_inflight.unwrap_or(MAX_READS_IN_FLIGHT);
        let writes = self
            .max_mutating_requests_inflight
            .unwrap_or(MAX_WRITES_IN_FLIGHT);
        reads.saturating_add(writes)
    }

    /// The front-proxy client certificate; `None` if it is generated on first use.
    async fn proxy_identity(
        &self,
        keeps: Option<&Store>,
        has_port: bool,
    ) -> Result<Option<ProxyIdentity>, StartError> {
        Ok(match (&self.identity.proxy_client, keeps) {
            (Some(files), _) => Some(ProxyIdentity::from_files(files)?),
            (None, Some(store)) => {
                let authority = identity::front_proxy_authority(store).await;
                Some(ProxyIdentity::signed_by(
                    &authority.map_err(StartError::Bootstrap)?,
                )?)
            }
            (None, None) if has_port => Some(ProxyIdentity::random()?),
            (None, None) => None,
        })
    }

    /// The accepted client certificate authorities, PEM: the server's own, and a configured one.
    fn client_authorities(&self, own: &Authority) -> Result<String, StartError> {
        let given = self.identity.client_ca.as_deref().map(identity_files::read_text);
        Ok(own.pem() + &given.transpose()?.unwrap_or_default())
    }

    /// The identity to publish for aggregated API servers: this server's front-proxy certificate, and the trusted
    /// proxies.
    fn announced_proxy(&self, own: Option<&ProxyIdentity>) -> Result<Option<AnnouncedProxy>, StartError> {
        let mut announced = AnnouncedProxy::default();
        if let Some(authority) = own.and_then(ProxyIdentity::authority) {
            announced.authority.push_str(authority);
            announced.allowed_names.push(proxy_identity::NAME.to_owned());
        }
        if let Some(given) = &self.identity.front_proxy {
            announced
                .authority
                .push_str(&identity_files::read_text(&given.client_ca)?);
            match given.allowed_names.is_empty() {
                true => announced.allowed_names.clear(),
                false => announced
                    .allowed_names
                    .extend(given.allowed_names.iter().cloned()),
            }
            announced
                .username_headers
                .extend(given.username_headers.iter().cloned());
            announced
                .group_headers
                .extend(given.group_headers.iter().cloned());
            announced.uid_headers.extend(given.uid_headers.iter().cloned());
            announced
                .extra_headers_prefix
                .extend(given.extra_headers_prefix.iter().cloned());
        }
        Ok((!announced.authority.is_empty()).then_some(announced))
    }

    fn issuers(&self) -> Vec<String> {
        match self.issuers.is_empty() {
            true => vec![ISSUER.to_owned()],
            false => self.issuers.clone(),
        }
    }

    /// The configured certificate of the listener, PEM, which clients can trust directly.
    fn shown_pem(&self) -> Result<Option<String>, StartError> {
        let Some(files) = &self.identity.serving else {
            return Ok(None);
        };
        let pem = identity_files::read(&files.certificate)?;
        Ok(Some(String::from_utf8_lossy(&pem).into_owned()))
    }

    /// The tokens of all users but the administrator.
    fn user_tokens(&self) -> Result<Tokens, StartError> {
        let mut tokens = self.tokens.clone();
        if let Some(path) = &self.token_file {
            tokens.add_file(path)?;
        }
        Ok(tokens)
    }

    async fn bind(&self) -> Result<Option<TcpListener>, StartError> {
        let Some(address) = self.listen else {
            return Ok(None);
        };
        let has_credentials =
            self.token_file.is_some() || !self.tokens.is_empty() || self.identity.client_ca.is_some();
        if !address.ip().is_loopback() && !has_credentials {
            return Err(StartError::Exposed(address));
        }
        match TcpListener::bind(address).await {
            Ok(listener) => Ok(Some(listener)),
            Err(source) => Err(StartError::Listen { address, source }),
        }
    }
}

/// The certificate authority of the store, or a new one.
async fn kept_authority(keeps: Option<&Store>) -> Result<Authority, StartError> {
    match keeps {
        Some(store) => identity::authority(store).await.map_err(StartError::Bootstrap),
        None => Ok(Authority::new()?),
    }
}

/// The address at which a server can be reached: if it listens on all interfaces, that of the default route.
fn reachable(address: SocketAddr) -> SocketAddr {
    if !address.ip().is_unspecified() {
        return address;
    }
    let (from, to) = match address.is_ipv4() {
        true => ("0.0.0.0:0", "10.255.255.255:9"),
        false => ("[::]:0", "[2001:db8::1]:9"),
    };
    // Nothing is sent: connecting a UDP socket only selects the route.
    let own = UdpSocket::bind(from).and_then(|socket| {
        socket.connect(to)?;
        socket.local_addr()
    });
    let ip = own.map_or_else(|_| from_here(address).ip(), |own| own.ip());
    SocketAddr::new(ip, address.port())
}

/// The address at which this machine reaches a server: if it listens on all interfaces, loopback.
fn from_here(address: SocketAddr) -> SocketAddr {
    let loopback: IpAddr = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        specific => specific,
    };
    SocketAddr::new(loopback, address.port())
}

/// A running server. Dropping it stops the server without waiting; [`Handle::shutdown`] waits.
pub struct Handle {
    server: Arc<Shared>,
    serving: Option<JoinHandle<()>>,
    connector: Connector,
    address: Option<SocketAddr>,
    authority: Option<Authority>,
    shown_pem: Option<String>,
    admin_token: Token,
}

impl Handle {
    /// The address of the listener; `None` without a port.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The source of in-process connections.
    pub fn connector(&self) -> Connector {
        self.connector.clone()
    }

    /// The token of the administrator.
    pub fn admin_token(&self) -> &Token {
        &self.admin_token
    }

    /// The certificate that clients trust, PEM: the server's authority, or the configured certificate. `None` without
    /// a port.
    pub fn authority_pem(&self) -> Option<String> {
        let authority = self.authority.as_ref()?;
        Some(self.shown_pem.clone().unwrap_or_else(|| authority.pem()))
    }

    /// A client certificate for a user and optionally a group; `None` without a port.
    pub fn client_certificate(
        &self,
        user: &str,
        group: Option<&str>,
    ) -> Option<Result<ClientCertificate, CertificateError>> {
        self.authority
            .as_ref()
            .map(|authority| authority.client(user, group))
    }

    /// The certificate and key of the authority of client certificates, PEM: a secret, for those who sign in its name.
    /// `None` without a port.
    pub fn signing_authority_pem(&self) -> Option<String> {
        self.authority.as_ref().map(Authority::to_pem)
    }

    /// A kubeconfig of the administrator for this machine: a secret. `None` without a port.
    ///
    /// A server on all interfaces is reached over loopback. If a configured certificate lacks the address, clients
    /// verify its first DNS name.
    pub fn kubeconfig(&self) -> Option<String> {
        let address = from_here(self.address?);
        let given = self.shown_pem.as_deref();
        let name = given.and_then(|pem| name_instead_of(address.ip(), pem));
        let (server, authority) = (format!("https://{address}"), self.authority_pem()?);
        Some(kubeconfig(
            &server,
            name.as_deref(),
            &authority,
            &self.admin_token,
        ))
    }

    /// Writes the kubeconfig, readable only by its owner. An existing kubeconfig is merged: other entries stay, and
    /// the context of this server becomes the current one.
    pub fn write_kubeconfig(&self, path: &Path) -> io::Result<()> {
        let text = self.kubeconfig().ok_or_else(|| {
            let why = "a server without a port has no kubeconfig";
            io::Error::new(io::ErrorKind::Unsupported, why)
        })?;
        write_merged(path, &text)
    }

    /// The registry below HTTP, for tests that inspect or compact the store.
    pub fn registry(&self) -> &Registry {
        &self.server.registry
    }

    /// The activity of the server.
    pub fn activity(&self) -> Activity {
        self.server.counts.activity()
    }

    /// The writes since the start or the last clear, if the server [keeps a log](Builder::write_log): the last
    /// [`MAX_LOGGED_WRITES`](crate::limits::MAX_LOGGED_WRITES).
    pub fn writes(&self) -> Writes {
        self.server.write_log.writes()
    }

    /// Clears the log of writes.
    pub fn clear_writes(&self) {
        self.server.write_log.clear();
    }

    /// Calls the observer with every request before it is handled, and with every write before its response is sent;
    /// the observer decides if the response is sent. Requires a [write log](Builder::write_log).
    pub fn observe(&self, observer: impl Fn(Observed<'_>) -> Answering + Send + Sync + 'static) {
        self.server.write_log.observe(Some(Arc::new(observer)));
    }

    /// Fault injection.
    pub fn faults(&self) -> &Arc<Faults> {
        &self.server.faults
    }

    /// Stops the server: new connections are refused, streams end cleanly, requests may finish. When this returns, no
    /// part of the server is running.
    pub fn shutdown(mut self) -> BoxFuture<'static, ()> {
        self.server.drain();
        #[cfg(feature = "testing")]
        if let Some(testing) = &self.server.testing {
            testing.thaw();
        }
        Box::pin(async move {
            if let Some(serving) = self.serving.take() {
                // A panic in the accept loop has ended the server, too.
                let _ = serving.await;
            }
            if let Some(audit) = self.server.audit.clone() {
                // Blocking: it waits for the disk.
                let _ = tokio::task::spawn_blocking(move || audit.close()).await;
            }
            self.server.registry.store().close().await;
        })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.server.drain();
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}
