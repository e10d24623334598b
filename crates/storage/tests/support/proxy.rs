//! A TCP proxy that can cut its connections.

#![allow(dead_code, unreachable_pub)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A proxy to a port.
#[derive(Clone)]
pub struct Proxy {
    port: u16,
    cuts: Arc<watch::Sender<u64>>,
    refuses: Arc<AtomicBool>,
    to: Arc<AtomicU16>,
}

impl Proxy {
    /// Forwards until the runtime ends.
    pub async fn start(to: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let proxy = Self {
            port: listener.local_addr().unwrap().port(),
            cuts: Arc::new(watch::Sender::new(0)),
            refuses: Arc::default(),
            to: Arc::new(to.into()),
        };
        tokio::spawn(proxy.clone().run(listener));
        proxy
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Cuts all current connections.
    pub fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Refuses new connections, or accepts them again.
    pub fn refuse(&self, refuse: bool) {
        self.refuses.store(refuse, Ordering::SeqCst);
    }

    /// Forwards new connections to another port.
    pub fn redirect(&self, to: u16) {
        self.to.store(to, Ordering::SeqCst);
    }

    async fn run(self, listener: TcpListener) {
        while let Ok((mut from, _)) = listener.accept().await {
            if self.refuses.load(Ordering::SeqCst) {
                continue;
            }
            let (mut cuts, to) = (self.cuts.subscribe(), self.to.load(Ordering::SeqCst));
            tokio::spawn(async move {
                let Ok(mut onward) = TcpStream::connect(("127.0.0.1", to)).await else {
                    return;
                };
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut from, &mut onward) => {}
                    _ = cuts.changed() => {}
                }
            });
        }
    }
}
