//! The life of a manager.
//!
//! ```text
//!   start ──▶ work ──▶ finish ──▶ drain ──▶ release ──▶ close
//!     │         │  first signal,     events    the       webhooks,
//!   signal    or an error            written   lease     probes, metrics
//! ```
//! Everything after `work` shares one deadline; a second signal cuts it short.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use futures_util::{FutureExt as _, StreamExt as _};
use http::{Request, StatusCode};
use hyper::body::Incoming;
use tokio::sync::oneshot;
use tokio::task::{self, AbortHandle, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use watchkeeper_runtime::controller::BoxError;
use watchkeeper_runtime::metrics::{CONTENT_TYPE, Metrics};
use watchkeeper_runtime::recorder::Writer;

use crate::election::Candidate;
use crate::error::ManagerError;
use crate::http_server::{Answer, Handler, serve, text, typed};
use crate::manager::Manager;
use crate::probes::Probes;
use crate::runnable::{Runnable, Stop};

type Signals = Pin<Box<dyn Stream<Item = ()> + Send>>;

pub(crate) async fn run(manager: Manager, mut signals: Signals) -> Result<(), ManagerError> {
    let mut running = tokio::select! {
        biased;
        () = next(&mut signals) => return Ok(()),
        running = Running::start(manager) => running?,
    };
    let ended = running.work(&mut signals).await;
    let finished = tokio::select! {
        biased;
        () = next(&mut signals) => Err(ManagerError::Interrupted { unfinished: running.unfinished() }),
        finished = running.shut_down() => finished,
    };
    // The first error is the reason the process ends.
    match (ended, finished) {
        (Err(error), Err(late)) => {
            tracing::error!(
                error = &late as &dyn std::error::Error,
                "the shutdown failed, too"
            );
            Err(error)
        }
        (Err(error), Ok(())) | (Ok(()), Err(error)) => Err(error),
        (Ok(()), Ok(())) => Ok(()),
    }
}

/// The next signal; pending forever if there are no more.
async fn next(signals: &mut Signals) {
    if signals.next().await.is_none() {
        std::future::pending().await
    }
}

/// Everything that runs. Dropping it ends all of it.
struct Running {
    /// The runnables, which a shutdown waits for first.
    tasks: JoinSet<Result<(), BoxError>>,
    names: HashMap<task::Id, Task>,
    /// The lease: held, waited for, or not needed.
    election: Election,
    waiting_to_lead: Vec<Box<dyn Runnable>>,
    writers: Vec<Writer>,
    /// Webhooks, probes and metrics, which close last.
    servers: JoinSet<()>,
    steps: Steps,
    deadline: Duration,
}

/// The steps of a shutdown, in order.
#[derive(Clone, Default)]
struct Steps {
    stop: CancellationToken,
    release: CancellationToken,
    close: CancellationToken,
}

struct Task {
    name: String,
    /// Aborts the work that needs the lease.
    needs_lease: Option<AbortHandle>,
}

#[derive(Default)]
struct Election {
    won: Option<oneshot::Receiver<()>>,
    /// Its error is the name of a lost lease.
    candidate: JoinSet<Result<(), String>>,
}

impl Running {
    async fn start(mut manager: Manager) -> Result<Self, ManagerError> {
        let steps = Steps::default();
        let candidate = match manager.election.take() {
            Some(election) => {
                manager.metrics.add(election.leads.clone());
                Some(election.candidate(&manager.client)?)
            }
            None => None,
        };
        let mut running = Self {
            tasks: JoinSet::new(),
            names: HashMap::new(),
            election: Election::default(),
            waiting_to_lead: std::mem::take(&mut manager.while_leading),
            writers: std::mem::take(&mut manager.writers),
            servers: JoinSet::new(),
            deadline: manager.shutdown_deadline,
            steps,
        };
        let always = std::mem::take(&mut manager.always);
        // Before anything works: what cannot be observed or reached should not run.
        running.open_servers(manager).await?;
        for runnable in always {
            running.spawn(runnable, false);
        }
        match candidate {
            Some(candidate) => running.take_part(candidate),
            None => running.lead(),
        }
        Ok(running)
    }

    /// Opens webhooks, probes and metrics. An address in use fails the start.
    async fn open_servers(&mut self, manager: Manager) -> Result<(), ManagerError> {
        let (mut probes, metrics, close) = (manager.probes, manager.metrics, &self.steps.close);
        if let Some(webhooks) = manager.webhooks {
            let serving = webhooks.start(&manager.client, &metrics, close.clone()).await?;
            probes.add_ready("webhooks", serving.readiness);
            self.servers.spawn(serving.served);
        }
        let stop = self.steps.stop.clone();
        let shutdown = move || match stop.is_cancelled() {
            true => Err("the process shuts down".to_owned()),
            false => Ok(()),
        };
        probes.add_ready("shutdown", Box::new(shutdown));
        if let Some(listen) = manager.probes_at {
            let listener = listen.bind("probes").await?;
            self.servers
                .spawn(serve(listener, None, probes_handler(probes), close.clone()));
        }
        if let Some(listen) = manager.metrics_at {
            let listener = listen.bind("metrics").await?;
            self.servers
                .spawn(serve(listener, None, metrics_handler(metrics), close.clone()));
        }
        Ok(())
    }

    fn take_part(&mut self, candidate: Candidate) {
        let (winner, won) = oneshot::channel();
        let (stop, release) = (self.steps.stop.clone(), self.steps.release.clone());
        self.election.won = Some(won);
        self.election
            .candidate
            .spawn(candidate.run(winner, stop, release));
    }

    fn spawn(&mut self, runnable: Box<dyn Runnable>, needs_lease: bool) {
        let name = runnable.name().to_owned();
        let task = self.tasks.spawn(runnable.run(Stop::new(self.steps.stop.clone())));
        let id = task.id();
        let needs_lease = needs_lease.then_some(task);
        self.names.insert(id, Task { name, needs_lease });
    }

    /// Starts the runnables that need leadership.
    fn lead(&mut self) {
        for runnable in std::mem::take(&mut self.waiting_to_lead) {
            self.spawn(runnable, true);
        }
    }

    /// Works until the first signal, or until a runnable fails.
    async fn work(&mut self, signals: &mut Signals) -> Result<(), ManagerError> {
        loop {
            let won = async {
                match &mut self.election.won {
                    Some(won) => won.await.is_ok(),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = next(signals) => return Ok(()),
                Some(lost) = self.election.candidate.join_next() => return self.lease_ended(lost),
                won = won => {
                    self.election.won = None;
                    if won {
                        self.lead();
                    }
                }
                Some(ended) = self.tasks.join_next_with_id() => self.task_ended(ended)?,
                Some(Err(error)) = self.servers.join_next() => return Err(panicked("a server".to_owned(), error)),
            }
        }
    }

    /// The lease was lost: work that needs it is dropped at once.
    fn lease_ended(&mut self, ended: Result<Result<(), String>, JoinError>) -> Result<(), ManagerError> {
        for task in self.names.values() {
            if let Some(task) = &task.needs_lease {
                task.abort();
            }
        }
        match ended {
            Ok(Ok(())) => Ok(()),
            Ok(Err(lease)) => Err(ManagerError::LeaseLost { lease }),
            Err(error) => Err(panicked("leader election".to_owned(), error)),
        }
    }

    fn task_ended(
        &mut self,
        ended: Result<(task::Id, Result<(), BoxError>), JoinError>,
    ) -> Result<(), ManagerError> {
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let name = self.names.remove(&id).map(|task| task.name).unwrap_or_default();
        match ended {
            Ok((_, Ok(()))) => Ok(()),
            Ok((_, Err(source))) => Err(ManagerError::Failed { name, source }),
            // Aborted with its lease.
            Err(error) if error.is_cancelled() => Ok(()),
            Err(error) => Err(panicked(name, error)),
        }
    }

    async fn shut_down(&mut self) -> Result<(), ManagerError> {
        let deadline = self.deadline;
        match tokio::time::timeout(deadline, self.wind_up()).await {
            Ok(ended) => ended,
            Err(_) => Err(ManagerError::Deadline {
                unfinished: self.unfinished(),
                deadline,
            }),
        }
    }

    /// The order of a shutdown. The first error is kept; the other steps still run.
    async fn wind_up(&mut self) -> Result<(), ManagerError> {
        let mut result = Ok(());
        // Nothing new is started, and `/readyz` fails.
        self.steps.stop.cancel();
        while let Some(ended) = self.tasks.join_next_with_id().await {
            let ended = self.task_ended(ended);
            result = result.and(ended);
        }
        // Events are about finished work, and may only be written while the lease is held.
        while let Some(writer) = self.writers.pop() {
            writer.drain().await;
        }
        self.steps.release.cancel();
        while let Some(ended) = self.election.candidate.join_next().await {
            let ended = self.lease_ended(ended);
            result = result.and(ended);
        }
        // Until now, probes and metrics could observe the shutdown.
        self.steps.close.cancel();
        while self.servers.join_next().await.is_some() {}
        result
    }

    /// A description of what still runs.
    fn unfinished(&self) -> String {
        let mut names: Vec<&str> = self.names.values().map(|task| task.name.as_str()).collect();
        names.sort_unstable();
        match (
            names.is_empty(),
            self.steps.release.is_cancelled(),
            self.steps.close.is_cancelled(),
        ) {
            (false, ..) => names.join(", "),
            (true, false, _) => "the event recorder".to_owned(),
            (true, true, false) => "the leader election".to_owned(),
            (true, true, true) => "the webhook, probe and metrics servers".to_owned(),
        }
    }
}

fn panicked(name: String, error: JoinError) -> ManagerError {
    let message = match error.try_into_panic() {
        Ok(panic) => match panic.downcast::<String>() {
            Ok(text) => *text,
            Err(panic) => panic
                .downcast_ref::<&str>()
                .copied()
                .unwrap_or("no text")
                .to_owned(),
        },
        Err(error) => error.to_string(),
    };
    ManagerError::Panicked { name, message }
}

fn probes_handler(probes: Probes) -> Handler {
    let probes = Arc::new(probes);
    Arc::new(move |request: Request<Incoming>| {
        let answer = probes.answer(&request);
        async move { answer }.boxed()
    })
}

fn metrics_handler(metrics: Metrics) -> Handler {
    Arc::new(move |request: Request<Incoming>| {
        let answer: Answer = match request.uri().path() {
            "/metrics" => typed(StatusCode::OK, CONTENT_TYPE, Bytes::from(metrics.render())),
            _ => text(StatusCode::NOT_FOUND, "404 page not found\n"),
        };
        async move { answer }.boxed()
    })
}
