//! One file per command; here is which is which.

mod annotate;
mod api_resources;
mod api_versions;
mod apply;
mod check;
mod check_server;
mod complete;
mod completion;
mod create;
mod delete;
mod demo;
mod describe;
mod envtest_assets;
mod explain;
mod get;
mod label;
mod patch;
mod scale;
mod up;
mod version;
mod wait;
mod watch;

use clap::Subcommand;

use crate::arguments::Arguments;
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::session::Session;

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(demo::Demo),
    Up(Box<up::Up>),
    Get(get::Get),
    Watch(watch::Watch),
    Describe(describe::Describe),
    Explain(explain::Explain),
    Apply(apply::Apply),
    Create(create::Create),
    Delete(delete::Delete),
    Patch(patch::Patch),
    Label(label::Label),
    Annotate(annotate::Annotate),
    Scale(scale::Scale),
    Wait(wait::Wait),
    Check(check::Check),
    CheckServer(check_server::CheckServer),
    EnvtestAssets(envtest_assets::EnvtestAssets),
    ApiResources(api_resources::ApiResources),
    ApiVersions(api_versions::ApiVersions),
    Version(version::Version),
    Completion(completion::Completion),
    #[command(name = "__complete", hide = true)]
    Complete(complete::Complete),
}

/// Does it.
pub(crate) async fn run(arguments: Arguments, session: &mut Session) -> Result<(), Failure> {
    let Arguments {
        command,
        cluster: typed,
        logging,
    } = arguments;
    // A command that cannot be right says so before it looks for a cluster, as kubectl does.
    match &command {
        Command::Apply(apply) => apply.check()?,
        Command::Create(create) => create.check()?,
        Command::Delete(delete) => delete.check()?,
        _ => {}
    }
    let cluster = |session: &Session| Cluster::new(&typed, logging.v, session);
    // Boxed, or the future of every command would have the size of the largest.
    match command {
        Command::Demo(demo) => Box::pin(demo::run(demo, logging.v, session)).await,
        Command::Up(up) => Box::pin(up::run(*up, typed.kubeconfig, logging.v, session)).await,
        Command::Get(get) => Box::pin(get::run(get, &cluster(session)?, session)).await,
        Command::Watch(watch) => Box::pin(watch::run(watch, &cluster(session)?, session)).await,
        Command::Describe(describe) => Box::pin(describe::run(describe, &cluster(session)?, session)).await,
        Command::Explain(explain) => Box::pin(explain::run(explain, &cluster(session)?, session)).await,
        Command::Apply(apply) => Box::pin(apply::run(apply, &cluster(session)?, session)).await,
        Command::Create(create) => Box::pin(create::run(create, &cluster(session)?, session)).await,
        Command::Delete(delete) => Box::pin(delete::run(delete, &cluster(session)?, session)).await,
        Command::Patch(patch) => Box::pin(patch::run(patch, &cluster(session)?, session)).await,
        Command::Label(label) => Box::pin(label::run(label, &cluster(session)?, session)).await,
        Command::Annotate(annotate) => Box::pin(annotate::run(annotate, &cluster(session)?, session)).await,
        Command::Scale(scale) => Box::pin(scale::run(scale, &cluster(session)?, session)).await,
        Command::Wait(wait) => Box::pin(wait::run(wait, &cluster(session)?, session)).await,
        Command::Check(check) => Box::pin(check::run(check, typed.namespace, logging.v, session)).await,
        Command::CheckServer(check) if check.lists() => check_server::list(session),
        Command::CheckServer(check) => Box::pin(check_server::run(check, &cluster(session)?, session)).await,
        Command::ApiResources(asked) => {
            Box::pin(api_resources::run(asked, &cluster(session)?, session)).await
        }
        Command::ApiVersions(_) => Box::pin(api_versions::run(&cluster(session)?, session)).await,
        Command::Version(version) => Box::pin(version::run(version, cluster(session), session)).await,
        Command::EnvtestAssets(assets) => envtest_assets::run(&assets, session),
        Command::Completion(completion) => completion::run(&completion, session),
        Command::Complete(complete) => Box::pin(complete::run(complete, session)).await,
    }
}
