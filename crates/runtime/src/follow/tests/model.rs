//! Random histories by seed: with any writes, cuts, compactions and restarts, a follower's events replay to exactly
//! the server's state, with correct types.
//!
//! To run more: `WATCHKEEPER_SEEDS=2000`, as the gate does. To repeat a failure: `WATCHKEEPER_SEED=17`.

use std::path::Path;

use fastrand::Rng;

use super::history::{History, State};
use super::*;

const DEFAULT_SEEDS: u64 = 300;
const STEPS: usize = 40;

#[test]
fn what_a_follower_is_told_replays_to_the_servers_state() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("WATCHKEEPER_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("WATCHKEEPER_SEEDS").unwrap_or(DEFAULT_SEEDS),
    };
    for seed in seeds {
        let run = std::panic::catch_unwind(|| run(seed));
        assert!(run.is_ok(), "failed with WATCHKEEPER_SEED={seed}");
    }
}

fn run(seed: u64) {
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(simulate(Rng::with_seed(seed)));
}

async fn simulate(mut rng: Rng) {
    let (_directory, path) = file_in_memory();
    let server = History::new(&["+a/first@1"]);
    let mut reader = Reader::new(server.clone());
    let mut follow = start(&path, &server, &mut rng);
    for _ in 0..STEPS {
        for _ in 0..rng.u8(..4) {
            write(&server, &mut rng);
        }
        match rng.u8(..10) {
            0 => server.cut(),
            1 => server.refuse(rng.u32(1..4)),
            2 => {
                server.compact(server.version());
                server.cut();
            }
            3 => {
                follow.finish().unwrap();
                reader.handled();
                reader.saved = reader.states.len() - 1;
                follow = start(&path, &server, &mut rng);
            }
            4 => {
                drop(follow);
                follow = start(&path, &server, &mut rng);
                reader.goes_back_to(&follow);
            }
            _ => {}
        }
        for _ in 0..rng.u8(..8) {
            let some_time = Duration::from_millis(rng.u64(..500));
            if let Ok(next) = tokio::time::timeout(some_time, follow.next()).await {
                reader.take(next.unwrap().unwrap().what);
            } else {
                // The call was dropped after it had started: the event before it counts as handled.
                reader.handled();
            }
        }
    }
    server.refuse(0);
    while reader.version != server.version() {
        let next = tokio::time::timeout(Duration::from_secs(600), follow.next()).await;
        reader.take(next.expect("it catches up").unwrap().unwrap().what);
    }
    assert_eq!(reader.state, server.state_at(server.version()));
}

/// A file in a directory in memory, if the system has one: the disk is not under test.
fn file_in_memory() -> (tempfile::TempDir, PathBuf) {
    let Ok(directory) = tempfile::tempdir_in("/dev/shm") else {
        return file();
    };
    let path = directory.path().join("position");
    (directory, path)
}

fn start(path: &Path, server: &Arc<History>, rng: &mut Rng) -> Follow {
    let config = if rng.bool() {
        Config::paged()
    } else {
        Config::default()
    };
    let mut follow = Follow::from_position(Position::open(path).unwrap());
    follow.add("pods", Arc::new(server.clone()), config);
    follow
}

/// Adds, modifies or deletes one of a few objects.
fn write(server: &History, rng: &mut Rng) {
    let version = server.version() + rng.u64(1..3);
    let key = format!("a/{}", rng.u8(..5));
    match server.state_at(server.version()).get(&key) {
        None => server.write(&format!("+{key}@{version}#{version}")),
        Some((uid, _)) if rng.bool() => server.write(&format!("~{key}@{version}#{uid}")),
        Some((uid, _)) => server.write(&format!("-{key}@{version}#{uid}")),
    }
}

/// Replays events and checks them.
struct Reader {
    server: Arc<History>,
    state: State,
    /// The version up to which everything was delivered; 0 within a list.
    version: u64,
    /// The state after each handled event, and the index of the last one known to be saved.
    states: Vec<(u64, State)>,
    saved: usize,
}

impl Reader {
    fn new(server: Arc<History>) -> Self {
        Self {
            server,
            state: State::new(),
            version: 0,
            states: vec![(0, State::new())],
            saved: 0,
        }
    }

    fn take(&mut self, what: Result<FollowEvent, Failure>) {
        self.handled();
        let Ok(event) = what else { return };
        match event {
            FollowEvent::Added(object) => {
                let before = self.put(&object);
                assert_eq!(before, None, "added {}, which was there", show(&object));
            }
            FollowEvent::Modified(object) => {
                let (uid, version) = self.put(&object).expect("modified what was not there");
                assert_eq!(uid, object.uid());
                assert_ne!(version.to_string(), object.resource_version(), "it is the same");
            }
            FollowEvent::Deleted(gone) => self.delete(&gone),
            FollowEvent::Restarted(restart) => {
                let from = restart.from.map_or(0, |version| number(&version));
                assert_eq!(from, self.version, "restarted from another version");
                assert!(restart.knows_deletes);
                self.version = 0;
            }
            FollowEvent::Synced(version) | FollowEvent::Bookmark(version) => {
                self.version = number(&version);
                assert_eq!(self.state, self.server.state_at(self.version), "at {version}");
            }
        }
    }

    fn put(&mut self, object: &Object) -> Option<(String, u64)> {
        let version = number(&object.version());
        self.moves_to(version);
        self.state
            .insert(object.key().to_string(), (object.uid().to_owned(), version))
    }

    fn delete(&mut self, gone: &Gone) {
        let (uid, version) = self
            .state
            .remove(gone.key.as_str())
            .expect("deleted what was not there");
        assert_eq!(uid, *gone.uid);
        match &gone.last {
            None => assert_eq!(version, number(&gone.version), "the last version that was known"),
            Some(_) => self.moves_to(number(&gone.version)),
        }
    }

    /// Outside of a list, every write is delivered: the next event is the write after the last.
    fn moves_to(&mut self, version: u64) {
        if self.version != 0 {
            assert_eq!(
                Some(version),
                self.server.after(self.version),
                "after {}",
                self.version
            );
            self.version = version;
        }
    }

    fn handled(&mut self) {
        let now = (self.version, self.state.clone());
        if self.states.last() != Some(&now) {
            self.states.push(now);
        }
    }

    /// After a crash the follower continues from an earlier state, but none before the last saved one.
    fn goes_back_to(&mut self, follow: &Follow) {
        let unknown = StreamPosition::default();
        let known = follow.position.get("pods").unwrap_or(&unknown);
        let objects = known.inventory.iter();
        let state = objects.map(|(key, held)| {
            let held = (held.uid.to_string(), number(&held.version));
            (key.to_string(), held)
        });
        let saved = (number(&known.version), state.collect::<State>());
        let found = self.states[self.saved..]
            .iter()
            .rposition(|state| *state == saved);
        let found = self.saved + found.unwrap_or_else(|| panic!("{saved:?} was never: {:?}", self.states));
        self.states.truncate(found + 1);
        self.saved = found;
        (self.version, self.state) = saved;
    }
}

fn number(version: &ResourceVersion) -> u64 {
    version.as_str().parse().unwrap_or(0)
}
