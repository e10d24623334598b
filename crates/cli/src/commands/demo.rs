//! `demo`: a cluster in this process, and a live watch of a rollout, an update and a deletion.
//!
//! Two tasks run side by side: the [`story`], which acts as a user, and the view, which prints the events of the
//! watch.

mod story;

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use tokio::sync::mpsc;
use watchkeeper_client::DiscoveryClient;
use watchkeeper_runtime::api_source::ApiSource;
use watchkeeper_runtime::follow::{Follow, FollowEvent};
use watchkeeper_runtime::watcher::Config;
use watchkeeper_view::feed::FeedOptions;
use watchkeeper_view::web::PageOptions;

use crate::cluster::Cluster;
use crate::duration;
use crate::embedded::{LocalCluster, LocalOptions};
use crate::failure::Failure;
use crate::live_view::LiveView;
use crate::page::OpenPage;
use crate::session::Session;
use crate::stop;

/// The namespace of the demo.
const NAMESPACE: &str = "demo";

/// The watched kinds.
const KINDS: [&str; 4] = ["deployments", "replicasets", "pods", "services"];

/// The default limit of its duration.
const LONGEST: Duration = Duration::from_secs(60);

/// The number of sentences that may be queued; then the story waits.
const SENTENCES: usize = 4;

/// Show a live cluster, with nothing installed
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper demo
  watchkeeper demo --for 20s
  watchkeeper demo --ui           in the browser as well
  watchkeeper demo | cat          no colours

The API server, its storage and the controllers run in this process; nothing is left behind.")]
pub(crate) struct Demo {
    /// The longest it may take; 60s unless there is a page to look at
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse)]
    duration: Option<Duration>,

    /// Also show it on a page in the browser, until Ctrl-C
    #[arg(long)]
    ui: bool,

    /// Time between two steps
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration::parse)]
    pace: Duration,

    #[command(flatten)]
    local: LocalOptions,
}

/// Runs the story until it is over, the time limit passes or the user stops it.
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
    let page = match demo.ui {
        true => Some(
            OpenPage::serve(
                cluster.client.clone(),
                FeedOptions::default(),
                PageOptions::titled("demo"),
            )
            .await?,
        ),
        false => None,
    };
    if let Some(page) = &page {
        stage.view.say(&page.line(), session)?;
    }
    let time = demo.duration.or((!demo.ui).then_some(LONGEST));
    let (sentences, told) = mpsc::channel(SENTENCES);
    let story = story::tell(cluster, demo.local.simulates(), demo.pace, sentences);
    let play = async {
        stage.play(story, told, session).await?;
        match page {
            // There is still something to look at.
            Some(_) => std::future::pending().await,
            None => Ok(()),
        }
    };
    let result = tokio::select! {
        result = play => result,
        () = time_up(time) => Ok(()),
        () = stop::requested() => Ok(()),
    };
    drop(page);
    local.stop().await;
    stage.close(started.elapsed(), session)?;
    result
}

async fn time_up(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

/// The output of the demo.
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

    /// Prints events until the story is over and all objects are gone.
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
                // In this order, a sentence is printed above its events.
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
  watchkeeper up                                      a local cluster for kubectl and any client
  export KUBECONFIG=watchkeeper.kubeconfig            in another terminal, then
  watchkeeper watch pods,deployments -A               watch events
  kubectl create deployment web --image=web --replicas=3",
        );
        Ok(())
    }
}
