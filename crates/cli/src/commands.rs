//! One file per command; here is which is which.

mod api_resources;
mod api_versions;
mod apply;
mod completion;
mod create;
mod delete;
mod get;
mod up;
mod version;

use clap::Subcommand;

use crate::arguments::Arguments;
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::session::Session;

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Up(up::Up),
    Get(get::Get),
    Apply(apply::Apply),
    Create(create::Create),
    Delete(delete::Delete),
    ApiResources(api_resources::ApiResources),
    ApiVersions(api_versions::ApiVersions),
    Version(version::Version),
    Completion(completion::Completion),
}

/// Does it.
pub(crate) async fn run(arguments: Arguments, session: &mut Session) -> Result<(), Failure> {
    let Arguments {
        command,
        cluster: typed,
        logging,
    } = arguments;
    let cluster = |session: &Session| Cluster::new(&typed, logging.v, session);
    match command {
        Command::Up(up) => up::run(up, typed.kubeconfig, session).await,
        Command::Get(get) => get::run(get, &cluster(session)?, session).await,
        Command::Apply(apply) => apply::run(apply, &cluster(session)?, session).await,
        Command::Create(create) => create::run(create, &cluster(session)?, session).await,
        Command::Delete(delete) => delete::run(delete, &cluster(session)?, session).await,
        Command::ApiResources(asked) => api_resources::run(asked, &cluster(session)?, session).await,
        Command::ApiVersions(_) => api_versions::run(&cluster(session)?, session).await,
        Command::Version(version) => version::run(version, cluster(session), session).await,
        Command::Completion(completion) => completion::run(&completion, session),
    }
}
