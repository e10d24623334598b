//! A program that follows with a position on disk and is restarted now and then: checks its events and accumulates
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use watchkeeper_runtime::follow::{Follow, FollowEvent};
use watchkeeper_runtime::position::Position;
use watchkeeper_wire::Object;

use super::odd_source::OddSource;
use super::{Versions, config};
use crate::runtime::support::IN_THE_END;

/// More events than any catch-up has.
const MANY: usize = 10_000;

pub(super) struct Follower {
    sources: Vec<Arc<OddSource>>,
    path: PathBuf,
    _directory: tempfile::TempDir,
    follow: Option<Follow>,
    /// Uid and version by key.
    seen: BTreeMap<String, (String, String)>,
}

impl Follower {
    pub(super) fn start(sources: &[Arc<OddSource>], rng: &mut Rng) -> Self {
        let sources = sources.iter().map(|source| Arc::new(source.twin())).collect();
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let directory = directory.expect("a directory");
        let mut follower = Self {
            sources,
            path: directory.path().join("position"),
            _directory: directory,
            follow: None,
            seen: BTreeMap::new(),
        };
        follower.restart(rng);
        follower
    }

    /// Stops the program and starts it again.
    pub(super) fn restart(&mut self, rng: &mut Rng) {
        if let Some(follow) = self.follow.take() {
            follow.finish().expect("written");
        }
        let position = Position::open(&self.path).expect("a position");
        let mut follow = Follow::from_position(position);
        for (number, source) in self.sources.iter().enumerate() {
            follow.add(&number.to_string(), source.clone(), config(rng));
        }
        self.follow = Some(follow);
    }

    /// Ends all faults. Undecodable objects appear in the next list.
    pub(super) fn heal(&self) {
        self.sources.iter().for_each(|source| source.expire());
    }

    /// Takes the available events.
    pub(super) async fn look(&mut self, deleted: &BTreeSet<String>) {
        while tokio::time::timeout(Duration::ZERO, self.take(deleted))
            .await
            .is_ok()
        {}
    }

    /// Takes events until they add up to the truth, in bounded time.
    pub(super) async fn reaches(&mut self, truth: &Versions, deleted: &BTreeSet<String>) {
        for _ in 0..MANY {
            let seen = self.seen.iter();
            let seen: Versions = seen
                .map(|(key, (_, version))| (key.clone(), version.clone()))
                .collect();
            if seen == *truth {
                return;
            }
            let more = tokio::time::timeout(IN_THE_END, self.take(deleted)).await;
            assert!(more.is_ok(), "stays at {seen:?} instead of {truth:?}");
        }
        panic!(
            "is told without end and does not reach {truth:?}: {:?}",
            self.seen
        );
    }

    async fn take(&mut self, deleted: &BTreeSet<String>) {
        let follow = self.follow.as_mut().expect("it runs");
        let next = follow.next().await.expect("a position").expect("not the end");
        match next.what {
            Err(_) => {}
            Ok(FollowEvent::Added(object)) => {
                assert_eq!(self.put(&object), None, "added what was there");
            }
            Ok(FollowEvent::Modified(object)) => {
                let (uid, version) = self.put(&object).expect("modified what was not there");
                assert_eq!(uid, object.uid(), "modified, and not made anew");
                assert_ne!(version, object.resource_version(), "it is the same");
            }
            Ok(FollowEvent::Deleted(gone)) => {
                let key = gone.key.to_string();
                assert!(deleted.contains(&key), "{key} was never deleted");
                let (uid, _) = self.seen.remove(&key).expect("deleted what was not there");
                assert_eq!(uid, *gone.uid);
            }
            Ok(FollowEvent::Restarted(restart)) => assert!(restart.knows_deletes),
            Ok(FollowEvent::Synced(_) | FollowEvent::Bookmark(_)) => {}
        }
    }

    fn put(&mut self, object: &Object) -> Option<(String, String)> {
        let state = (object.uid().to_owned(), object.resource_version().to_owned());
        self.seen.insert(object.key().to_string(), state)
    }
}
