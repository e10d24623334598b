//! Time limits of requests: none, unless the client or the request sets one. What looks like a timeout may be a
//! refused connection, or a server that does not speak TLS.
#![allow(clippy::print_stdout)]

use std::error::Error as _;
use std::fmt::Display;
use std::net::TcpListener;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use tokio::time::Instant;
use watchkeeper::client::{Client, ClientOptions, Config, Error};
use watchkeeper_testing::Sandbox;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::open(Default::default()).await?;
    report(async { Ok(sandbox.client().server_version().await?.git_version) }).await;
    sandbox.close().await?;

    // From here on no server answers; time is moved instead of awaited.
    tokio::time::pause();
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let (http, https) = (server("http", &silent)?, server("https", &silent)?);
    let limited = ClientOptions {
        timeout: Some(Duration::from_secs(30)),
        ..Default::default()
    };
    let client = Client::new(&http, limited)?;
    report(async { Ok(client.server_version().await?.git_version) }).await;
    let namespaces = client.api::<Namespace>().timeout(Duration::from_secs(5));
    report(async { Ok(namespaces.list().await?.len()) }).await;

    let client = Client::new(&https, Default::default())?;
    report(async { Ok(client.server_version().await?.git_version) }).await;
    drop(silent);
    report(async { Ok(client.server_version().await?.git_version) }).await;
    Ok(())
}

fn server(scheme: &str, listener: &TcpListener) -> Result<Config, Box<dyn std::error::Error>> {
    Ok(Config::new(
        format!("{scheme}://{}", listener.local_addr()?).parse()?,
    ))
}

async fn report<T: Display>(request: impl Future<Output = Result<T, Error>>) {
    let begun = Instant::now();
    let answer = request.await;
    println!("Used {:.2} seconds", begun.elapsed().as_secs_f64());
    match answer {
        Ok(answer) => println!("{answer}"),
        Err(error) => {
            let cause = error.source().map(|cause| format!(": {cause}"));
            println!("Error: {error}{}", cause.unwrap_or_default());
        }
    }
}
