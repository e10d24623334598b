//! The commands, one file each.

mod annotate;
mod api_resources;
mod api_versions;
mod apply;
mod backup;
mod bisect;
mod check;
mod check_server;
mod compact;
mod complete;
mod completion;
mod create;
mod defragment;
mod delete;
mod demo;
mod describe;
mod diff;
mod envtest_assets;
mod events;
mod explain;
mod get;
mod history;
mod label;
mod man;
mod options;
mod patch;
mod record;
mod replay;
mod restore;
mod rollout;
mod scale;
mod ui;
mod up;
mod verify;
mod version;
mod view;
mod wait;
mod watch;

use clap::Subcommand;

use crate::arguments::Arguments;
use crate::cluster::Cluster;
use crate::cluster_arguments::ClusterArguments;
use crate::failure::Failure;
use crate::one_thread::{on_one_pausing_thread, on_one_thread};
use crate::output::Output;
use crate::session::Session;

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(demo::Demo),
    Up(Box<up::Up>),
    Get(get::Get),
    Watch(watch::Watch),
    View(view::View),
    Ui(ui::Ui),
    Record(Box<record::Record>),
    Replay(replay::ReplayArguments),
    History(history::History),
    Diff(diff::Diff),
    Bisect(bisect::Bisect),
    Describe(describe::Describe),
    Explain(explain::Explain),
    Events(events::Events),
    Apply(apply::Apply),
    Create(create::Create),
    Delete(delete::Delete),
    Patch(patch::Patch),
    Label(label::Label),
    Annotate(annotate::Annotate),
    Scale(scale::Scale),
    Rollout(rollout::Rollout),
    Wait(wait::Wait),
    Check(check::Check),
    CheckServer(check_server::CheckServer),
    EnvtestAssets(envtest_assets::EnvtestAssets),
    Backup(backup::Backup),
    Restore(restore::Restore),
    Verify(verify::Verify),
    Compact(compact::Compact),
    Defragment(defragment::Defragment),
    ApiResources(api_resources::ApiResources),
    ApiVersions(api_versions::ApiVersions),
    Version(version::Version),
    Completion(completion::Completion),
    #[command(name = "man")]
    Manual(man::Manual),
    Options(options::Options),
    #[command(name = "__complete", hide = true)]
    Complete(complete::Complete),
}

/// Runs a command.
pub(crate) async fn run(arguments: Arguments, session: &mut Session) -> Result<(), Failure> {
    let Arguments {
        command,
        cluster: typed,
        logging,
    } = arguments;
    // Usage errors are reported before a cluster is looked for, as in kubectl.
    match &command {
        Command::Apply(apply) => apply.check()?,
        Command::Create(create) => create.check()?,
        Command::Delete(delete) => delete.check()?,
        _ => {}
    }
    let cluster = |session: &Session| Cluster::new(&typed, logging.v, session);
    let reader = |warns: bool, session: &mut Session| reader(&typed, logging.v, warns, session);
    // Boxed, or the future of every command would have the size of the largest.
    match command {
        Command::Demo(demo) => Box::pin(demo::run(demo, logging.v, session)).await,
        Command::Up(up) => Box::pin(up::run(*up, typed.kubeconfig, logging.v, session)).await,
        Command::Get(get) if get.recording().is_some() => {
            let file = get.recording().unwrap_or_default();
            Box::pin(get::run_recorded(get, &file, &typed, session)).await
        }
        Command::Get(get) => Box::pin(get::run(get, &cluster(session)?, session)).await,
        Command::Watch(watch) => Box::pin(watch::run(watch, &cluster(session)?, session)).await,
        Command::View(view) => {
            // A warning from the server would be printed over the picture.
            let cluster = reader(false, session)?;
            // Memory that one thread frees, another does not reuse.
            on_one_thread(|| async { view::run(view, &cluster).await })
        }
        Command::Ui(ui) if ui.recording().is_some() => {
            let file = ui.recording().unwrap_or_default();
            Box::pin(ui::run_recorded(&ui, &file, session)).await
        }
        Command::Ui(ui) => {
            let cluster = reader(!ui.only_reads_all_kinds(), session)?;
            Box::pin(ui::run(ui, &cluster, session)).await
        }
        // A client that is given belongs to the runtime of the caller.
        Command::Record(record) if session.client.is_some() => {
            Box::pin(record::run(*record, &cluster(session)?, session)).await
        }
        Command::Record(record) => on_one_pausing_thread(record::PAUSE, || async {
            let cluster = reader(!record.is_of_all_kinds(), session)?;
            record::run(*record, &cluster, session).await
        }),
        Command::Replay(asked) => Box::pin(replay::run(asked, typed.kubeconfig, session)).await,
        Command::History(asked) => match asked.recording()? {
            Some(file) => history::run_recorded(&asked, &file, typed.namespace.as_deref(), session),
            None => Box::pin(history::run_live(&asked, &cluster(session)?, session)).await,
        },
        Command::Diff(asked) if asked.is_of_manifests() => {
            Box::pin(diff::run_manifests(asked, &cluster(session)?, session)).await
        }
        Command::Diff(asked) if asked.is_live() => {
            Box::pin(diff::run_live(&asked, &cluster(session)?, session)).await
        }
        Command::Diff(asked) => diff::run_recorded(&asked, typed.namespace.as_deref(), session),
        Command::Bisect(asked) => match asked.recording()? {
            Some(file) => bisect::run_recorded(&asked, &file, typed.namespace.as_deref(), session),
            None => Box::pin(bisect::run_live(&asked, &cluster(session)?, session)).await,
        },
        Command::Describe(describe) => Box::pin(describe::run(describe, &cluster(session)?, session)).await,
        Command::Events(events) => Box::pin(events::run(events, &cluster(session)?, session)).await,
        Command::Explain(explain) => Box::pin(explain::run(explain, &cluster(session)?, session)).await,
        Command::Apply(apply) => Box::pin(apply::run(apply, &cluster(session)?, session)).await,
        Command::Create(create) => Box::pin(create::run(create, cluster(session), session)).await,
        Command::Delete(delete) => Box::pin(delete::run(delete, &cluster(session)?, session)).await,
        Command::Patch(patch) => Box::pin(patch::run(patch, &cluster(session)?, session)).await,
        Command::Label(label) => Box::pin(label::run(label, &cluster(session)?, session)).await,
        Command::Annotate(annotate) => Box::pin(annotate::run(annotate, &cluster(session)?, session)).await,
        Command::Scale(scale) => Box::pin(scale::run(scale, &cluster(session)?, session)).await,
        Command::Rollout(rollout) => Box::pin(rollout::run(rollout, &cluster(session)?, session)).await,
        Command::Wait(wait) => Box::pin(wait::run(wait, &cluster(session)?, session)).await,
        Command::Check(check) => Box::pin(check::run(check, typed.namespace, logging.v, session)).await,
        Command::CheckServer(check) if check.lists() => check_server::list(session),
        Command::CheckServer(check) => Box::pin(check_server::run(check, &cluster(session)?, session)).await,
        Command::Backup(backup) => Box::pin(backup::run(backup, &typed, logging.v, session)).await,
        Command::Restore(restore) => restore::run(&restore, session),
        Command::Verify(verify) => verify::run(&verify, session),
        Command::Compact(compact) => Box::pin(compact::run(compact, &typed, logging.v, session)).await,
        Command::Defragment(defragment) => {
            Box::pin(defragment::run(defragment, &typed, logging.v, session)).await
        }
        Command::ApiResources(asked) => {
            Box::pin(api_resources::run(asked, &cluster(session)?, session)).await
        }
        Command::ApiVersions(_) => Box::pin(api_versions::run(&cluster(session)?, session)).await,
        Command::Version(version) => Box::pin(version::run(version, cluster(session), session)).await,
        Command::EnvtestAssets(assets) => envtest_assets::run(&assets, session),
        Command::Completion(completion) => completion::run(&completion, session),
        Command::Manual(manual) => man::run(&manual, session),
        Command::Options(_) => options::run(session),
        Command::Complete(complete) => Box::pin(complete::run(complete, session)).await,
    }
}

/// The cluster for a command that reads many kinds. The server's warnings are for those who ask for a kind by name.
fn reader(
    arguments: &ClusterArguments,
    verbosity: i32,
    warns: bool,
    session: &mut Session,
) -> Result<Cluster, Failure> {
    if warns {
        return Cluster::new(arguments, verbosity, session);
    }
    let err = std::mem::replace(&mut session.err, Output::new(std::io::sink()));
    let cluster = Cluster::new(arguments, verbosity, session);
    session.err = err;
    cluster
}
