//! Server processes, and a load balancer in front of them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use watchkeeper_client::{Client, ClientOptions, Config, DynamicApi, LoadOptions};
use watchkeeper_meta::Resource;
use watchkeeper_server::{EtcdOptions, Server};

/// The variable with the addresses of etcd.
const ETCD: &str = "WATCHKEEPER_SEVERAL_SERVERS_ETCD";
const TIMEOUT: Duration = Duration::from_secs(5);

/// Serves until killed.
pub(super) async fn serve() {
    let Ok(urls) = std::env::var(ETCD) else { return };
    // If the test itself is killed, its servers must end too.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(1);
    });
    let server = Server::builder()
        .etcd(EtcdOptions::at(urls.split(',')))
        .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let server = server.start().await.unwrap();
    let line = format!(
        "serving {} {} {}\n",
        server.address().unwrap(),
        server.admin_token().reveal(),
        server.authority_pem().unwrap().replace('\n', "|")
    );
    std::io::stdout().write_all(line.as_bytes()).unwrap();
    std::future::pending::<()>().await;
}

/// The server's certificate authority and a client's credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Credentials {
    token: String,
    authority: String,
}

impl Credentials {
    /// A client for ConfigMaps at an address, with its own connections.
    pub(super) fn api(&self, address: SocketAddr) -> DynamicApi {
        let dir = tempfile::tempdir().unwrap();
        let authority = dir.path().join("ca.pem");
        std::fs::write(&authority, &self.authority).unwrap();
        let kubeconfig = dir.path().join("kubeconfig");
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: c, \
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}], \
             clusters: [{{name: c, cluster: {{server: 'https://{address}', certificate-authority: '{}'}}}}], \
             users: [{{name: u, user: {{token: '{}'}}}}]}}",
            authority.display(),
            self.token
        );
        std::fs::write(&kubeconfig, text).unwrap();
        let config = Config::load(&LoadOptions {
            path: Some(kubeconfig),
            ..LoadOptions::default()
        });
        let options = ClientOptions {
            rate_limit: None,
            timeout: Some(TIMEOUT),
            ..ClientOptions::default()
        };
        let client = Client::new(&config.unwrap(), options).unwrap();
        let config_maps = Resource::namespaced("", "v1", "ConfigMap", "configmaps");
        client.dynamic(config_maps).namespace("default")
    }
}

/// A server process.
pub(super) struct ServerProcess {
    process: Child,
    pub(super) address: SocketAddr,
    pub(super) credentials: Credentials,
}

impl ServerProcess {
    pub(super) fn start(etcd: &[String]) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "several_servers::serve_until_killed",
                "--ignored",
                "--nocapture",
            ])
            .env(ETCD, etcd.join(","))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap()).lines();
        let found = output.find_map(|line| {
            let line = line.unwrap();
            let mut words = line.strip_prefix("serving ")?.splitn(3, ' ');
            let address = words.next()?.parse().unwrap();
            let token = words.next()?.to_owned();
            let authority = words.next()?.replace('|', "\n");
            Some((address, Credentials { token, authority }))
        });
        let (address, credentials) = found.expect("a server did not start");
        Self {
            process,
            address,
            credentials,
        }
    }

    /// `kill -9`.
    pub(super) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Forwards each connection to the next server that accepts it.
pub(super) struct Balancer {
    pub(super) address: SocketAddr,
    servers: Arc<Mutex<Vec<SocketAddr>>>,
}

impl Balancer {
    pub(super) async fn start(servers: impl Iterator<Item = SocketAddr>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let servers = Arc::new(Mutex::new(servers.collect::<Vec<_>>()));
        let (known, turn) = (servers.clone(), Arc::new(AtomicUsize::new(0)));
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(pass(client, known.clone(), turn.clone()));
            }
        });
        Self { address, servers }
    }

    /// Replaces a server by another one.
    pub(super) fn replace(&self, index: usize, address: SocketAddr) {
        self.servers.lock().unwrap()[index] = address;
    }
}

async fn pass(mut client: TcpStream, servers: Arc<Mutex<Vec<SocketAddr>>>, turn: Arc<AtomicUsize>) {
    let servers = servers.lock().unwrap().clone();
    for _ in &servers {
        let next = servers[turn.fetch_add(1, Ordering::Relaxed) % servers.len()];
        if let Ok(mut server) = TcpStream::connect(next).await {
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            return;
        }
    }
}
