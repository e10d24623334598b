//! Watchers under random writes, compactions, faults and reconnects, on an in-process server with paused time. The
//! observed histories are checked by the [promises](watchkeeper_conformance::promises) of a watch.
//!
//! A run is determined by its seed, which a failure prints.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use ::http::Method;
use fastrand::Rng;
use futures_util::FutureExt as _;
use watchkeeper_server::{Flow, Handle, RequestMatch, Server, Verb};
use watchkeeper_storage::Revision;

use crate::client::Client;
use crate::observer::{CONFIG_MAPS, Observer, Read, config_map, version};
use watchkeeper_conformance::promises::{Change, History, Seen, Selection, Start, State, all_kept};

/// Runs only one seed: `WATCHKEEPER_SIMULATION_SEED=7`.
const SEED: &str = "WATCHKEEPER_SIMULATION_SEED";
/// The number of seeds: `WATCHKEEPER_SIMULATION_RUNS=1000` for a long search.
const RUNS: &str = "WATCHKEEPER_SIMULATION_RUNS";
const DEFAULT_RUNS: u64 = 12;
const STEPS: usize = 250;
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const COLOURS: [&str; 2] = ["red", "blue"];
/// Long enough for everything in transit, shorter than the bookmark interval.
const QUIET: Duration = Duration::from_millis(1);

struct Simulation {
    server: Handle,
    client: Client,
    random: Rng,
    truth: Vec<Change>,
    live: BTreeMap<&'static str, (State, u64)>,
    observers: Vec<Observer>,
}

async fn connect(server: &Handle) -> Client {
    let pipe = server.connector().connect().await.unwrap();
    Client::http2(pipe).await.with_token(server)
}

impl Simulation {
    async fn start(seed: u64) -> Self {
        let server = Server::builder().start().await.unwrap();
        let client = connect(&server).await;
        let selection = |colour: Option<&str>, name: Option<&str>| Selection {
            colour: colour.map(str::to_owned),
            name: name.map(str::to_owned),
        };
        let selections = [
            selection(None, None),
            selection(Some("red"), None),
            selection(Some("blue"), None),
            selection(None, Some("a")),
            selection(Some("red"), Some("b")),
        ];
        Self {
            server,
            client,
            random: Rng::with_seed(seed),
            truth: Vec::new(),
            live: BTreeMap::new(),
            observers: selections.map(Observer::new).into(),
        }
    }

    async fn step(&mut self) {
        let observer = self.random.usize(..self.observers.len());
        match self.random.u32(..100) {
            0..45 => self.write().await,
            45..48 => self.write_nothing_new().await,
            48..52 => self.compact().await,
            52..64 if self.observers[observer].stream.is_none() => self.connect(observer).await,
            52..84 => self.read(observer).await,
            84..87 => self.observers[observer].stream = None,
            87..89 => self.set_flow(Flow::Cut),
            89 => self.set_flow(Flow::Ended),
            90..92 => self.set_flow(Flow::Stalled),
            92..94 => self.set_flow(Flow::Running),
            // Bookmarks become due, and old history is compacted.
            _ => self.pass_time().await,
        }
    }

    async fn pass_time(&mut self) {
        tokio::time::advance(Duration::from_secs(self.random.u64(1..120))).await;
        // The server may have closed an idle connection.
        self.client = connect(&self.server).await;
    }

    fn some_state(&mut self) -> State {
        State {
            colour: (*self.random.choice(COLOURS).unwrap()).to_owned(),
            number: self.truth.len() as u64,
        }
    }

    async fn write(&mut self) {
        let name = *self.random.choice(NAMES.iter()).unwrap();
        let state = self.some_state();
        let path = format!("{CONFIG_MAPS}/{name}");
        let before = self.live.remove(name);
        let after = match &before {
            Some(_) if self.random.u32(..4) == 0 => None,
            _ => Some(state),
        };
        let answer = match (&before, &after) {
            (None, Some(state)) => {
                let body = config_map(name, state, None);
                self.client.send(Method::POST, CONFIG_MAPS, &[], &body).await
            }
            (Some((_, version)), Some(state)) => {
                let body = config_map(name, state, Some(*version));
                self.client.send(Method::PUT, &path, &[], &body).await
            }
            _ => self.client.send(Method::DELETE, &path, &[], "").await,
        };
        assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
        let version = match &after {
            Some(_) => version(&answer.json()),
            // The response to a deletion has no version, but there is no other writer.
            None => self.server.registry().store().current_revision().get(),
        };
        self.truth.push(Change {
            version,
            name: name.to_owned(),
            before: before.map(|(state, _)| state),
            after: after.clone(),
        });
        self.live.extend(after.map(|state| (name, (state, version))));
    }

    /// A no-op write keeps the version and causes no event.
    async fn write_nothing_new(&mut self) {
        let Some((name, (state, kept))) = self.random.choice(self.live.iter()) else {
            return;
        };
        let path = format!("{CONFIG_MAPS}/{name}");
        let body = config_map(name, state, None);
        let answer = self.client.send(Method::PUT, &path, &[], &body).await;
        assert_eq!(version(&answer.json()), *kept);
    }

    async fn compact(&mut self) {
        let store = self.server.registry().store();
        let revision = self.random.u64(1..=store.current_revision().get());
        store.compact(Revision::new(revision)).await.unwrap();
    }

    fn set_flow(&self, flow: Flow) {
        let watches = RequestMatch::new(Verb::Watch, "configmaps");
        self.server.faults().set_flow(&watches, flow);
    }

    async fn connect(&mut self, index: usize) {
        let observer = &mut self.observers[index];
        match observer.can_resume() {
            true => observer.resume(&mut self.client).await.unwrap(),
            false if self.random.bool() => observer.list(&mut self.client).await.unwrap(),
            false => observer.stream_list(&mut self.client).await.unwrap(),
        }
    }

    /// Reads some lines, possibly not all.
    async fn read(&mut self, index: usize) {
        for _ in 0..self.random.u32(1..20) {
            if self.read_line(index).await == Read::Nothing {
                break;
            }
        }
    }

    async fn read_line(&mut self, index: usize) -> Read {
        let store = self.server.registry().store();
        let reading = self.observers[index].read(|| store.compacted_revision().get());
        tokio::time::timeout(QUIET, reading)
            .await
            .unwrap_or(Read::Nothing)
    }

    /// Lets a watcher read all events.
    async fn catch_up(&mut self, index: usize) {
        loop {
            while self.read_line(index).await == Read::Something {}
            if self.observers[index].stream.is_some() {
                break;
            }
            self.connect(index).await;
        }
        let current = self.server.registry().store().current_revision().get();
        self.observers[index].history.caught_up = current;
    }
}

/// The counts of what a watcher must handle, so that an uneventful run is detected.
#[derive(Debug, Default, PartialEq)]
struct Tally {
    events: usize,
    bookmarks: usize,
    expired: usize,
    resumed: usize,
    snapshots: usize,
}

impl Tally {
    fn add(&mut self, history: &History) {
        for session in &history.sessions {
            match session.start {
                Start::Snapshot { .. } => self.snapshots += 1,
                Start::Resumed(_) => self.resumed += 1,
            }
            for seen in &session.seen {
                match seen {
                    Seen::Event(_) => self.events += 1,
                    Seen::Bookmark(_) => self.bookmarks += 1,
                    Seen::Expired { .. } => self.expired += 1,
                }
            }
        }
    }
}

async fn run(seed: u64) -> Tally {
    let mut tally = Tally::default();
    let mut simulation = Simulation::start(seed).await;
    for _ in 0..STEPS {
        simulation.step().await;
    }
    simulation.set_flow(Flow::Running);
    for index in 0..simulation.observers.len() {
        simulation.catch_up(index).await;
        let kept = all_kept(&simulation.truth, &simulation.observers[index].history);
        assert_eq!(kept, Ok(()), "{SEED}={seed}, watcher {index}");
        tally.add(&simulation.observers[index].history);
    }
    simulation.server.shutdown().await;
    tally
}

#[tokio::test(start_paused = true)]
async fn watches_keep_their_promises() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seeds = match number(SEED) {
        Some(seed) => seed..seed + 1,
        None => 0..number(RUNS).unwrap_or(DEFAULT_RUNS),
    };
    for seed in seeds {
        // Any panic in a run, not only a broken promise, prints its seed.
        let finished = AssertUnwindSafe(run(seed)).catch_unwind().await;
        let tally = finished.unwrap_or_else(|_| panic!("{SEED}={seed} shows the failure again"));
        let Tally {
            events,
            bookmarks,
            expired,
            resumed,
            snapshots,
        } = tally;
        let least = [events, bookmarks, expired, resumed, snapshots].into_iter().min();
        assert!(least > Some(0), "{SEED}={seed} tries too little: {tally:?}");
    }
}
