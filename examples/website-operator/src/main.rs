//! The process, in a pod or with a kubeconfig.

use watchkeeper::prelude::*;
use website_operator::{Website, operator};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    watchkeeper_logging::init(&Default::default())?;
    let client = Client::from_environment()?;
    install_crds(&client, &[Website::crd()]).await?;
    operator(client, ([0, 0, 0, 0], 9443))
        .metrics(([0, 0, 0, 0], 8080))
        .probes(([0, 0, 0, 0], 8081))
        .run_until(signals())
        .await?;
    Ok(())
}
