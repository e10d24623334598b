//! `kill -9` of a whole server under load, many times, on one data directory. Every acknowledged write is complete
//! after the restart, versions keep growing, and watchers resume without a gap or get 410.
//!
//! The test starts itself again as the process to be killed. The writes and the time of the kill come from a seed;
//! the state of the server at that moment depends on the machine.

#![cfg(unix)]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ::http::Method;
use fastrand::Rng;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use watchkeeper_server::{Server, Token};

use crate::client::Client;
use crate::observer::{CONFIG_MAPS, Observer, Read, config_map, snapshot, version};
use watchkeeper_conformance::promises::{Change, Event, Kind, Seen, Selection, State, all_kept};

/// The data directory of the child.
const DIR: &str = "WATCHKEEPER_SERVER_CRASH_DIR";
const SEED: &str = "WATCHKEEPER_SERVER_CRASH_SEED";
const DEFAULT_SEED: u64 = 20_261_116;
const KILLS: &str = "WATCHKEEPER_SERVER_CRASH_KILLS";
const DEFAULT_KILLS: u64 = 12;
const TOKEN: &str = "the-token-of-the-crash-test";
/// Each writes its own names, one write at a time, so that the order of its writes is known.
const WRITERS: usize = 8;
const NAMES_PER_WRITER: usize = 3;
/// The server is killed after at most this many writes.
const MAX_WRITES: usize = 150;
/// About the duration of a start.
const MAX_START: Duration = Duration::from_millis(150);

/// Runs in the process that is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by the test below"]
async fn serve_until_killed() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    // If the test itself is killed, its child must end too.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(1);
    });
    let server = Server::builder()
        .data_dir(dir)
        .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        .admin_token(Token::new(TOKEN))
        .debug_endpoints(true);
    let server = server.start().await.unwrap();
    let authority = server.authority_pem().unwrap().replace('\n', "|");
    let line = format!("serving {} {authority}\n", server.address().unwrap());
    std::io::stdout().write_all(line.as_bytes()).unwrap();
    std::future::pending::<()>().await;
}

/// A server in its own process.
struct Running {
    process: Child,
    address: SocketAddr,
    authority: String,
}

fn spawn(dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::serve_until_killed", "--ignored", "--nocapture"])
        .env(DIR, dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn kill(mut process: Child) {
    process.kill().unwrap();
    process.wait().unwrap();
}

impl Running {
    fn start(dir: &Path) -> Self {
        let mut process = spawn(dir);
        let mut output = BufReader::new(process.stdout.take().unwrap()).lines();
        let found = output.find_map(|line| {
            let line = line.unwrap();
            let (address, authority) = line.strip_prefix("serving ")?.split_once(' ')?;
            Some((address.parse().unwrap(), authority.replace('|', "\n")))
        });
        let (address, authority) = found.expect("the server did not start");
        Self {
            process,
            address,
            authority,
        }
    }

    async fn client(&self) -> Client {
        let client = Client::tls_to(self.address, &self.authority, b"h2", None).await;
        client.with_bearer(TOKEN)
    }
}

/// A write as its writer knows it. The response to a deletion has no version.
#[derive(Clone, Debug)]
struct Attempt {
    name: String,
    before: Option<State>,
    after: Option<State>,
    answer: Answer,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    Acknowledged(Option<u64>),
    /// The server was killed before it answered: the outcome is unknown.
    None,
}

/// A writer, and its knowledge of its objects.
struct Writer {
    id: usize,
    random: Rng,
    live: BTreeMap<String, State>,
    attempts: Vec<Attempt>,
    count: u64,
}

impl Writer {
    /// Writes until the server is gone.
    async fn run(mut self, mut client: Client, acknowledged: mpsc::UnboundedSender<()>) -> Self {
        loop {
            let attempt = self.attempt(&mut client).await;
            let answered = attempt.answer != Answer::None;
            self.attempts.push(attempt);
            if !answered {
                return self;
            }
            let _ = acknowledged.send(());
        }
    }

    async fn attempt(&mut self, client: &mut Client) -> Attempt {
        let name = format!("w{}-{}", self.id, self.random.usize(..NAMES_PER_WRITER));
        self.count += 1;
        let state = State {
            colour: (*self.random.choice(["red", "blue"].iter()).unwrap()).to_owned(),
            number: self.count * WRITERS as u64 + self.id as u64,
        };
        let before = self.live.get(&name).cloned();
        let after = match before {
            Some(_) if self.random.u32(..3) == 0 => None,
            _ => Some(state),
        };
        let path = format!("{CONFIG_MAPS}/{name}");
        let body = after
            .as_ref()
            .map(|state| config_map(&name, state, None))
            .unwrap_or_default();
        let (method, path) = match (&before, &after) {
            (None, _) => (Method::POST, CONFIG_MAPS),
            (_, Some(_)) => (Method::PUT, &*path),
            (_, None) => (Method::DELETE, &*path),
        };
        let answer = match client.try_send(method, path, &[], &body).await {
            Ok(answer) => {
                assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
                match &after {
                    Some(state) => drop(self.live.insert(name.clone(), state.clone())),
                    None => drop(self.live.remove(&name)),
                }
                Answer::Acknowledged(after.as_ref().map(|_| version(&answer.json())))
            }
            Err(_) => Answer::None,
        };
        Attempt {
            name,
            before,
            after,
            answer,
        }
    }
}

/// The state that outlives the server's processes.
struct Crashes {
    random: Rng,
    truth: Vec<Change>,
    writers: Vec<Writer>,
    /// Reads the events of the previous run after each restart.
    auditor: Observer,
    /// Watch during the load: one always, one at times and only a part of the objects.
    watchers: Vec<Observer>,
    compacted: u64,
    restarts: u64,
}

impl Crashes {
    fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let writers = (0..WRITERS).map(|id| Writer {
            id,
            random: random.fork(),
            live: BTreeMap::new(),
            attempts: Vec::new(),
            count: 0,
        });
        let red = Selection {
            colour: Some("red".to_owned()),
            name: None,
        };
        Self {
            writers: writers.collect(),
            random,
            truth: Vec::new(),
            auditor: Observer::new(Selection::default()),
            watchers: vec![Observer::new(Selection::default()), Observer::new(red)],
            compacted: 0,
            restarts: 0,
        }
    }

    /// Checks the state of a restarted server, and learns the outcome of the last writes before the kill. Returns the
    /// latest version.
    async fn audit(&mut self, client: &mut Client) -> u64 {
        let newest = self.truth.last().map_or(0, |change| change.version);
        if !self.auditor.can_resume() {
            self.auditor.list(client).await.unwrap();
        } else {
            self.auditor.resume(client).await.unwrap();
        }
        let sentinel = self.write_sentinel(client).await;
        while self.auditor.position() < sentinel {
            let read = self
                .auditor
                .read(|| unreachable!("history is kept until it has been audited"))
                .await;
            assert_eq!(read, Read::Something, "the server ended the auditor's watch");
        }
        self.settle(newest);
        let list = client
            .get(&format!("{CONFIG_MAPS}?resourceVersion=0"))
            .await
            .json();
        let (_, found) = snapshot(&list);
        let known = self.writers.iter().flat_map(|writer| writer.live.clone());
        let known: BTreeMap<_, _> = known.collect();
        let found: BTreeMap<_, _> = found
            .into_iter()
            .filter(|(name, _)| name.starts_with('w'))
            .collect();
        assert_eq!(found, known, "objects after the restart");
        sentinel
    }

    /// A write that everyone sees and that marks the end of the previous run.
    async fn write_sentinel(&mut self, client: &mut Client) -> u64 {
        self.restarts += 1;
        let state = State {
            colour: "red".to_owned(),
            number: self.restarts,
        };
        let body = config_map(&format!("sentinel-{}", self.restarts), &state, None);
        let answer = client.send(Method::POST, CONFIG_MAPS, &[], &body).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        version(&answer.json())
    }

    /// Compares the auditor's events with the writers' responses.
    fn settle(&mut self, newest: u64) {
        let read = self.auditor.history.sessions.last().unwrap().seen.clone();
        let mut happened: BTreeMap<String, Vec<Event>> = BTreeMap::new();
        for seen in read {
            if let Seen::Event(event) = seen {
                assert!(event.version > newest, "versions go on growing");
                happened.entry(event.name.clone()).or_default().push(event);
            }
        }
        for writer in &mut self.writers {
            for attempt in std::mem::take(&mut writer.attempts) {
                let events = happened.entry(attempt.name.clone()).or_default();
                let Some(change) = settle(&attempt, events) else {
                    continue;
                };
                match &change.after {
                    Some(state) => drop(writer.live.insert(change.name.clone(), state.clone())),
                    None => drop(writer.live.remove(&change.name)),
                }
                self.truth.push(change);
            }
        }
        for event in happened.into_values().flatten() {
            assert!(event.name.starts_with("sentinel"), "nobody wrote {event:?}");
            self.truth.push(Change {
                version: event.version,
                name: event.name,
                before: None,
                after: Some(event.state),
            });
        }
        self.truth.sort_by_key(|change| change.version);
    }

    /// Compacts a part of history at times, so that some watchers cannot resume.
    async fn compact(&mut self, client: &mut Client, newest: u64) {
        if self.random.u32(..3) > 0 {
            return;
        }
        let revision = self.random.u64(self.compacted + 1..=newest);
        let path = format!("/debug/compact?revision={revision}");
        let answer = client.send(Method::POST, &path, &[], "").await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        self.compacted = self.compacted.max(revision);
    }

    /// Runs writers and watchers until the server is killed.
    async fn load(&mut self, server: Running) {
        let (acknowledged, mut count) = mpsc::unbounded_channel();
        let mut writing = JoinSet::new();
        for writer in self.writers.drain(..) {
            let client = server.client().await;
            writing.spawn(writer.run(client, acknowledged.clone()));
        }
        let mut watching = JoinSet::new();
        for (index, watcher) in self.watchers.drain(..).enumerate() {
            let patience = if index == 0 {
                usize::MAX
            } else {
                self.random.usize(..60)
            };
            let (client, compacted) = (server.client().await, self.compacted);
            let enough = move |lines: usize, _: &Observer| lines >= patience;
            watching.spawn(async move { (index, watch(watcher, client, enough, compacted).await) });
        }
        for _ in 0..self.random.usize(..MAX_WRITES) {
            count.recv().await;
        }
        kill(server.process);
        self.writers = writing.join_all().await;
        let mut watchers = watching.join_all().await;
        watchers.sort_by_key(|(index, _)| *index);
        self.watchers
            .extend(watchers.into_iter().map(|(_, watcher)| watcher));
    }
}

/// The event of a write, or `None` if it was never answered and did not happen.
fn settle(attempt: &Attempt, events: &mut Vec<Event>) -> Option<Change> {
    let (kind, state) = match (&attempt.before, &attempt.after) {
        (None, after) => (Kind::Added, after),
        (Some(_), Some(_)) => (Kind::Modified, &attempt.after),
        (before, None) => (Kind::Deleted, before),
    };
    let fits = |event: &&Event| event.kind == kind && Some(&event.state) == state.as_ref();
    let Some(event) = events.first().filter(fits).cloned() else {
        assert_eq!(
            attempt.answer,
            Answer::None,
            "{attempt:?} was lost; then came {events:?}"
        );
        return None;
    };
    if let Answer::Acknowledged(Some(version)) = attempt.answer {
        assert_eq!(event.version, version, "{attempt:?}");
    }
    events.remove(0);
    Some(Change {
        version: event.version,
        name: attempt.name.clone(),
        before: attempt.before.clone(),
        after: attempt.after.clone(),
    })
}

/// Watches until the server is gone, or the limit is reached.
async fn watch(
    mut watcher: Observer,
    mut client: Client,
    enough: impl Fn(usize, &Observer) -> bool,
    compacted: u64,
) -> Observer {
    let mut lines = 0;
    while !enough(lines, &watcher) {
        if watcher.stream.is_none() {
            let begun = match watcher.can_resume() {
                true => watcher.resume(&mut client).await,
                false => watcher.list(&mut client).await,
            };
            if begun.is_err() {
                break;
            }
        }
        match watcher.read(|| compacted).await {
            Read::Something => lines += 1,
            Read::Nothing => break,
        }
    }
    watcher.stream = None;
    watcher
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_keeps_every_promise() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seed = number(SEED).unwrap_or(DEFAULT_SEED);
    // Shown if the test fails.
    let _ = writeln!(std::io::stderr(), "{SEED}={seed}");
    let dir = tempfile::tempdir().unwrap();
    let mut crashes = Crashes::new(seed);
    for _ in 0..number(KILLS).unwrap_or(DEFAULT_KILLS) {
        if crashes.random.u32(..4) == 0 {
            // During its start: anywhere from the first instruction to the first connection.
            let process = spawn(dir.path());
            tokio::time::sleep(MAX_START.mul_f64(crashes.random.f64())).await;
            kill(process);
        }
        let server = Running::start(dir.path());
        let mut client = server.client().await;
        let newest = crashes.audit(&mut client).await;
        crashes.compact(&mut client, newest).await;
        crashes.load(server).await;
    }
    let server = Running::start(dir.path());
    let mut client = server.client().await;
    let newest = crashes.audit(&mut client).await;
    for watcher in crashes.watchers {
        let has_all = |_: usize, watcher: &Observer| watcher.position() >= newest;
        let mut watcher = watch(watcher, server.client().await, has_all, crashes.compacted).await;
        watcher.history.caught_up = newest;
        assert_eq!(all_kept(&crashes.truth, &watcher.history), Ok(()));
    }
    assert_eq!(all_kept(&crashes.truth, &crashes.auditor.history), Ok(()));
    kill(server.process);
}
