//! The address of a server, with what a client needs to talk to it.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio_rustls::TlsConnector;

use crate::Failure;
use watchkeeper_bench_parts::connector::connector;

/// A server and its credentials.
pub(crate) struct Address {
    pub(crate) address: SocketAddr,
    /// The name in its certificate.
    pub(crate) name: String,
    /// `None` for a client with a certificate.
    pub(crate) token: Option<String>,
    pub(crate) tls: TlsConnector,
}

impl Address {
    /// Reads a kubeconfig with one cluster and one user, and everything in it, as
    /// `kubectl config view --raw --flatten --minify` prints it.
    pub(crate) fn of_kubeconfig(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let value = |key: &str| {
            let mut lines = text.lines().map(|line| line.trim().trim_start_matches("- "));
            let found = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
            found.map(|value| value.trim_matches('"').to_owned())
        };
        let data = |key: &str| value(key).map(|text| STANDARD.decode(text)).transpose();
        let server = value("server").ok_or("a kubeconfig without a server")?;
        let host = server.strip_prefix("https://").ok_or("a server without TLS")?;
        let host = host.trim_end_matches('/');
        let (name, _) = host.rsplit_once(':').ok_or("a server without a port")?;
        let authority = data("certificate-authority-data")?.ok_or("a kubeconfig without an authority")?;
        let identity = data("client-certificate-data")?.zip(data("client-key-data")?);
        let token = value("token");
        if token.is_none() && identity.is_none() {
            return Err("a kubeconfig without a token or a certificate".into());
        }
        Ok(Self {
            address: host
                .to_socket_addrs()?
                .next()
                .ok_or("a server without an address")?,
            name: name.trim_matches(['[', ']']).to_owned(),
            token,
            tls: connector(&authority, "h2", identity)?,
        })
    }
}
