//! The lower bound of latency: a minimal client in its own process.
//!
//! One thread, two connections, HTTP/1.1 and TLS. It sends writes whose bytes are prepared, and searches for the mark
//! in the bytes of the watch without decoding objects. On this server and machine, no client can see a write sooner.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use memchr::memmem;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use watchkeeper_bench_codec::written;

use super::curl::value_of;
use super::latency::{FIRST_WRITES, MARK, OF_A_CONFIG_MAP, WRITES, report_times};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Enough for one answer of the server.
const READ_BYTES: usize = 64 << 10;

pub(crate) fn run(scenario: &str, kubeconfig: &Path) -> Result<()> {
    let server = Server::read(kubeconfig)?;
    let plural = match scenario {
        OF_A_CONFIG_MAP => "configmaps",
        _ => "pods",
    };
    let (mut watch, mut writes) = (server.connect()?, server.connect()?);
    let stream = format!("{PROTOBUF};stream=watch");
    watch.ask(&server.request("GET", &format!("/api/v1/{plural}?watch=1"), &stream, ""))?;
    watch.read_until(written::name(0).as_bytes())?;
    let path = format!(
        "/api/v1/namespaces/{}/{plural}/{}",
        written::NAMESPACE,
        written::name(0)
    );
    let (mut answered, mut seen) = (Vec::new(), Vec::new());
    for turn in 0..FIRST_WRITES + WRITES {
        let mark = format!("{}-{turn}.", std::process::id());
        let patch = format!(r#"{{"metadata":{{"annotations":{{"{MARK}":"{mark}"}}}}}}"#);
        let request = server.request("PATCH", &path, PROTOBUF, &patch);
        let began = Instant::now();
        writes.ask(&request)?;
        watch.read_until(mark.as_bytes())?;
        let told = began.elapsed();
        writes.read_until(mark.as_bytes())?;
        if turn >= FIRST_WRITES {
            answered.push(began.elapsed());
            seen.push(told);
        }
    }
    report_times(answered, seen);
    Ok(())
}

/// The content of the kubeconfig.
struct Server {
    address: String,
    authority: CertificateDer<'static>,
    token: String,
}

impl Server {
    fn read(kubeconfig: &Path) -> Result<Self> {
        let text = fs::read_to_string(kubeconfig)?;
        let address = value_of(&text, "server:")?;
        let authority = BASE64_STANDARD.decode(value_of(&text, "certificate-authority-data:")?)?;
        Ok(Self {
            address: address.trim_start_matches("https://").to_owned(),
            authority: CertificateDer::from_pem_slice(&authority)?,
            token: value_of(&text, "token:")?,
        })
    }

    fn connect(&self) -> Result<Connection> {
        let mut authorities = RootCertStore::empty();
        authorities.add(self.authority.clone())?;
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(authorities)
            .with_no_client_auth();
        let (host, _) = self.address.rsplit_once(':').context("an address with a port")?;
        let session = ClientConnection::new(Arc::new(config), ServerName::try_from(host.to_owned())?)?;
        let socket = TcpStream::connect(&self.address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(Connection {
            stream: StreamOwned::new(session, socket),
            buffer: vec![0; READ_BYTES],
        })
    }

    fn request(&self, method: &str, path: &str, accept: &str, body: &str) -> String {
        let (host, token, length) = (&self.address, &self.token, body.len());
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nAccept: {accept}\r\n\
             Content-Type: application/merge-patch+json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    }
}

struct Connection {
    stream: StreamOwned<ClientConnection, TcpStream>,
    buffer: Vec<u8>,
}

impl Connection {
    fn ask(&mut self, request: &str) -> Result<()> {
        self.stream.write_all(request.as_bytes())?;
        Ok(self.stream.flush()?)
    }

    /// Discards input until it contains a text. The text is never split: small answers and events arrive in one read.
    fn read_until(&mut self, text: &[u8]) -> Result<()> {
        loop {
            let count = self.stream.read(&mut self.buffer)?;
            ensure!(count > 0, "the server has hung up");
            if memmem::find(&self.buffer[..count], text).is_some() {
                return Ok(());
            }
        }
    }
}
