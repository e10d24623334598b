//! Runs a server on a loopback port until it is interrupted.
//!
//! ```text
//! cargo run -p watchkeeper-server --example serve -- --port 6443 --token-file tokens.csv --kubeconfig kubeconfig
//! ```

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use watchkeeper_server::{Server, Token};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut port = 0;
    let mut kubeconfig = None;
    let mut builder = Server::builder();
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{flag} needs a value"))?;
        match flag.as_str() {
            "--port" => port = value.parse()?,
            "--token-file" => builder = builder.token_file(value),
            "--admin-token" => builder = builder.admin_token(Token::new(value)),
            "--data-dir" => builder = builder.data_dir(value),
            "--debug-endpoints" => builder = builder.debug_endpoints(value.parse()?),
            "--kubeconfig" => kubeconfig = Some(PathBuf::from(value)),
            unknown => return Err(format!("unknown flag {unknown}").into()),
        }
    }
    let server = builder
        .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .start()
        .await?;
    if let Some(path) = kubeconfig {
        server.write_kubeconfig(&path)?;
    }
    tokio::signal::ctrl_c().await?;
    server.shutdown().await;
    Ok(())
}
