//! `demo`: a cluster in this process and, live, what a watch sees of it: a rollout, an update, a deletion.
//!
//! Two things run side by side: the [`story`], which does what a user would do, and the view, which knows nothing
//! of the story and prints what the watch brings.

mod story;

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use tokio::sync::mpsc;
use watchkeeper_client::DiscoveryClient;
use watchkeeper_runtime::api_source::ApiSource;
use watchkeeper_runtime::follow::{Follow, FollowEvent};
use watchkeeper_runtime::watcher::Config;

use crate::cluster::Cluster;
use crate::duration;
use crate::embedded::{LocalCluster, LocalOptions};
use crate::failure::Failure;
use crate::live_view::LiveView;
use crate::session::Session;
use crate::stop;

/// The namespace everything happens in.
const NAMESPACE: &str = "demo";

/// What the watch follows, in one stream.
const KINDS: [&str; 4] = ["deployments", "replicasets", "pods", "services"];

/// Sentences that wait to be printed; the story waits when there are more.
const SENTENCES: usize = 4;

/// See a cluster live, with nothing installed
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper demo
  watchkeeper demo --for 20s
  watchkeeper demo | cat          no colours

The API server, its storage and the controllers run in this process; nothing is left behind.")]
pub(crate) struct Demo {
    /// The longest it may take
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = duration::parse)]
    duration: Duration,

    /// The time between two acts
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration::parse)]
    pace: Duration,

    #[command(flatten)]
    local: LocalOptions,
}

/// Plays the story until it is over, time is up or the user has seen enough.
pub(crate) async fn run(demo: Demo, verbosity: i32, session: &mut Session) -> Result<(), Failure> {
    let started = Instant::now();
    let local = LocalCluster::start(&demo.local, verbosity, session).await?;
    let cluster = Cluster {
        discovery: DiscoveryClient::new(local.client.clone(), Default::default()),
        client: local.client.clone(),
        namespace: NAMESPACE.to_owned(),
        namespace_typed: false,
        request_timeout: None,
    };
    let mut stage = Stage::new(&cluster).await?;
    let (sentences, told) = mpsc::channel(SENTENCES);
    let story = story::tell(cluster, demo.local.simulates(), demo.pace, sentences);
    let result = tokio::select! {
        result = stage.play(story, told, session) => result,
        () = tokio::time::sleep(demo.duration) => Ok(()),
        () = stop::requested() => Ok(()),
    };
    local.stop().await;
    stage.close(started.elapsed(), session)?;
    result
}

/// What the audience sees.
struct Stage {
    follow: Follow,
    resources: Vec<(Arc<str>, watchkeeper_meta::Resource)>,
    view: LiveView,
}

impl Stage {
    async fn new(cluster: &Cluster) -> Result<Self, Failure> {
        let mut stage = Self {
            follow: Follow::new(),
            resources: Vec::new(),
            view: LiveView::new(true),
        };
        for kind in KINDS {
            let resource = cluster.resource(kind).await?.resource;
            let source = ApiSource::new(cluster.objects(&resource, false));
            stage.follow.add(kind, Arc::new(source), Config::default());
            stage.resources.push((kind.into(), resource));
        }
        Ok(stage)
    }

    /// Prints what happens until the story is over and the stage is empty again.
    async fn play(
        &mut self,
        story: impl Future<Output = Result<(), Failure>>,
        mut told: mpsc::Receiver<String>,
        session: &mut Session,
    ) -> Result<(), Failure> {
        let mut story = std::pin::pin!(story);
        let mut over = false;
        while !(over && self.view.counts.present() == 0) {
            tokio::select! {
                // In this order, a sentence stands above the lines it is about.
                biased;
                Some(sentence) = told.recv() => self.view.say(&sentence, session)?,
                followed = self.follow.next() => {
                    let Some(followed) = followed.map_err(Failure::other)? else { return Ok(()) };
                    if let Ok(event) = followed.what {
                        self.show(&followed.stream, &event, session)?;
                    }
                }
                result = &mut story, if !over => { result?; over = true; }
            }
        }
        Ok(())
    }

    fn show(&mut self, stream: &str, event: &FollowEvent, session: &mut Session) -> Result<(), Failure> {
        match self.resources.iter().find(|(name, _)| **name == *stream) {
            Some((_, resource)) => Ok(self.view.show(event, stream, resource, session)?),
            None => Ok(()),
        }
    }

    fn close(&self, took: Duration, session: &mut Session) -> Result<(), Failure> {
        let counts = self.view.counts;
        self.view.say(
            &format!(
                "{} events in {:.1}s: {} added, {} modified, {} deleted",
                counts.all(),
                took.as_secs_f64(),
                counts.added,
                counts.modified,
                counts.deleted
            ),
            session,
        )?;
        session.out.line(
            "\nWhat to type next:
  watchkeeper up                                      a cluster of your own, for kubectl and any client
  export KUBECONFIG=watchkeeper.kubeconfig            in another terminal, then
  watchkeeper watch pods,deployments -A               what happens there
  kubectl create deployment web --image=web --replicas=3",
        );
        Ok(())
    }
}
