//! Histories with cuts, gaps, torn ends and rotations are read as they were written.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use proptest::prelude::*;
use watchkeeper_meta::{ObjectKey, ResourceVersion};
use watchkeeper_recording::{Moment, Recording, RecordingError, Rotation, What, Writer};
use watchkeeper_runtime::follow::{FollowEvent, Gone, Restart};
use watchkeeper_wire::Object;

use crate::support::{at, cluster, config_map, config_maps, entries, show, shown, writer};

fn gone(last: Object) -> FollowEvent {
    FollowEvent::Deleted(Gone {
        key: last.key(),
        uid: last.uid().into(),
        version: last.version(),
        last: Some(last),
    })
}

fn gone_unseen(name: &str) -> FollowEvent {
    FollowEvent::Deleted(Gone {
        key: ObjectKey::new("default", name),
        uid: format!("u-{name}").into(),
        version: ResourceVersion::unset(),
        last: None,
    })
}

fn gap(from: u64, to: u64) -> FollowEvent {
    FollowEvent::Restarted(Restart {
        from: Some(from.into()),
        to: Some(to.into()),
        reason: "too old".to_owned(),
        knows_deletes: true,
    })
}

/// A history with every type of entry.
fn write_history(path: &Path) {
    let (mut writer, maps) = (writer(path, Rotation::default()), config_maps());
    writer.begin(at(0), &maps).unwrap();
    let story = [
        FollowEvent::Added(config_map("a", 3, "x")),
        FollowEvent::Synced(5.into()),
        FollowEvent::Added(config_map("b", 6, "x")),
        FollowEvent::Modified(config_map("a", 7, "y")),
        FollowEvent::Bookmark(9.into()),
        gap(9, 20),
        gone_unseen("b"),
        FollowEvent::Added(config_map("c", 15, "z")),
        FollowEvent::Synced(20.into()),
        gone(config_map("a", 21, "y")),
    ];
    for (second, event) in story.iter().enumerate() {
        writer.event(at(second as i64 + 1), &maps.name, event).unwrap();
    }
    writer.fail(at(20), &maps.name, "forbidden").unwrap();
    writer.sync().unwrap();
}

#[test]
fn a_history_is_read_as_it_was_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("story.rec");
    write_history(&path);
    let expected = [
        "began",
        "=default/a@3 x",
        "synced 5",
        "+default/b@6 x",
        "~default/a@7 y (was @3)",
        "at 9",
        "gap Some(ResourceVersion(\"9\"))→Some(ResourceVersion(\"20\")): too old",
        "-default/b@6 x?",
        "+default/c@15 z",
        "synced 20",
        "-default/a@21 y",
        "failed: forbidden",
    ];
    assert_eq!(shown(&path), expected);
    let revisions: Vec<_> = entries(&path).iter().filter_map(|entry| entry.revision).collect();
    assert_eq!(revisions, [3, 5, 6, 7, 9, 9, 10, 15, 20, 21]);
}

#[test]
fn the_state_is_known_at_any_time_and_version() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("story.rec");
    write_history(&path);
    let recording = Recording::open(&path).unwrap();
    let check = |moment: Moment, expected: &str| {
        let state = recording.state_at(&moment).unwrap();
        let objects = state
            .objects()
            .map(|(_, object)| format!("{}@{}", object.name(), object.resource_version()));
        assert_eq!(objects.collect::<Vec<_>>().join(" "), expected, "{moment}");
    };
    check(Moment::Time(at(0)), "");
    check(Moment::Time(at(3)), "a@3 b@6");
    check(Moment::Time(at(4)), "a@7 b@6");
    check(Moment::Revision(3), "a@3");
    check(Moment::Revision(6), "a@3 b@6");
    check(Moment::Revision(7), "a@7 b@6");
    check(Moment::Revision(20), "a@7 c@15");
    check(Moment::End, "c@15");
}

#[test]
fn segments_are_rotated_and_the_oldest_may_be_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("long.rec");
    let rotation = Rotation {
        bytes: 1,
        keep: Some(2),
        ..Rotation::default()
    };
    let (mut writer, maps) = (writer(&path, rotation), config_maps());
    writer.begin(at(0), &maps).unwrap();
    writer
        .event(at(1), &maps.name, &FollowEvent::Synced(1.into()))
        .unwrap();
    for version in 2..6 {
        let event = FollowEvent::Added(config_map(&format!("m{version}"), version, ""));
        writer.event(at(version as i64), &maps.name, &event).unwrap();
        writer.flush().unwrap();
    }
    drop(writer);
    let mut files: Vec<_> = fs::read_dir(directory.path())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, ["long.rec.4", "long.rec.5"]);
    let expected = [
        "began",
        "=default/m2@2 ",
        "=default/m3@3 ",
        "=default/m4@4 ",
        "synced 4",
        "+default/m5@5 ",
    ];
    assert_eq!(shown(&path), expected);
}

/// A writer of a recording with one config map, each segment of which ends by a rule.
fn rotating(path: &Path, rotation: Rotation) -> Writer {
    let (mut writer, maps) = (writer(path, rotation), config_maps());
    writer.begin(at(0), &maps).unwrap();
    for event in [
        FollowEvent::Added(config_map("a", 1, &"state ".repeat(1000))),
        FollowEvent::Synced(1.into()),
    ] {
        writer.event(at(0), &maps.name, &event).unwrap();
    }
    writer
}

#[test]
fn segments_are_rotated_by_age() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("long.rec");
    let rotation = Rotation {
        age: Some(std::time::Duration::from_secs(60)),
        ..Rotation::default()
    };
    let mut writer = rotating(&path, rotation);
    let maps = config_maps();
    for (second, name) in [
        (59, "long.rec"),
        (60, "long.rec.2"),
        (119, "long.rec.2"),
        (120, "long.rec.3"),
    ] {
        let event = FollowEvent::Bookmark((second as u64).into());
        writer.event(at(second), &maps.name, &event).unwrap();
        writer.flush().unwrap();
        assert_eq!(writer.path(), directory.path().join(name), "after {second} s");
    }
}

#[test]
fn the_state_that_a_segment_begins_with_is_no_reason_to_rotate() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("long.rec");
    let rotation = Rotation {
        bytes: 100,
        ..Rotation::default()
    };
    let mut writer = rotating(&path, rotation);
    writer.flush().unwrap();
    let second = writer.path();
    assert_eq!(second, directory.path().join("long.rec.2"));
    assert!(fs::metadata(&second).unwrap().len() > 100, "more than the limit");
    for _ in 0..3 {
        writer.flush().unwrap();
    }
    assert_eq!(writer.path(), second, "nothing has happened");
}

#[test]
fn a_rotation_that_did_not_finish_leaves_the_recording_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("long.rec");
    let rotation = Rotation {
        bytes: 100,
        ..Rotation::default()
    };
    let mut writer = rotating(&path, rotation);
    // The next segment cannot be written, as on a full disk.
    let unfinished = directory.path().join("long.rec.2.unfinished");
    fs::create_dir(&unfinished).unwrap();
    let failed = writer.flush().unwrap_err();
    assert!(matches!(failed, RecordingError::Write { .. }), "{failed}");
    let before = shown(&path);
    assert_eq!(before.len(), 3, "{before:?}");
    // The writer goes on with the old segment, and a process that died in the midst left a part of the next one.
    fs::remove_dir(&unfinished).unwrap();
    fs::write(&unfinished, "watchkeeper recording 1\n and a part").unwrap();
    assert_eq!(shown(&path), before);
    writer.flush().unwrap();
    assert_eq!(writer.path(), directory.path().join("long.rec.2"));
    assert!(!unfinished.exists());
    assert_eq!(shown(&path), before);
}

#[test]
fn foreign_newer_damaged_and_locked_files_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("story.rec");
    write_history(&path);
    let good = fs::read(&path).unwrap();
    let check = |bytes: &[u8], expected: &str| {
        fs::write(&path, bytes).unwrap();
        let read = Recording::open(&path).and_then(|recording| {
            let entries: Result<Vec<_>, _> = recording.entries().collect();
            entries
        });
        let error = read.unwrap_err().to_string();
        let error = error.replace(&format!("{}/", directory.path().display()), "");
        assert_eq!(error, expected);
    };
    check(b"", "story.rec is not a recording");
    check(
        b"PK\x03\x04 something else entirely",
        "story.rec is not a recording",
    );
    check(
        b"watchkeeper recording 2\n",
        "story.rec has format 2; this program reads format 1",
    );
    check(
        b"watchkeeper recording 1\n",
        "recording story.rec has no entries yet",
    );
    let mut damaged = good.clone();
    damaged[40] ^= 1;
    check(
        &damaged,
        "recording story.rec is damaged at byte 24: the checksum does not match",
    );
    // A length that reaches beyond the end looks like the frame of a crash, but here a block follows.
    damaged = good.clone();
    damaged[27] = 0x7f;
    let damage =
        "recording story.rec is damaged at byte 24: a frame of 2130706525 bytes, and blocks within it";
    check(&damaged, damage);
    let resumed = Writer::open(&path, &cluster(), &[], Rotation::default(), at(0));
    assert!(matches!(resumed, Err(RecordingError::Damaged { .. })));
    assert_eq!(fs::read(&path).unwrap(), damaged, "nothing is cut off");
    fs::write(&path, &good).unwrap();
    let _busy = writer(&path, Rotation::default());
    let second = Writer::open(&path, &cluster(), &[], Rotation::default(), at(0));
    assert!(matches!(second, Err(RecordingError::InUse { .. })));
}

#[test]
fn a_recording_of_another_cluster_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("story.rec");
    write_history(&path);
    let mut other = cluster();
    other.id = Some("two".to_owned());
    let opened = Writer::open(&path, &other, &[], Rotation::default(), at(0));
    assert!(matches!(opened, Err(RecordingError::OtherCluster { .. })));
}

/// One step of a random history.
#[derive(Clone, Debug)]
enum Step {
    Write(u8, u8),
    Delete(u8),
    /// Events were missed; these objects are found to be deleted.
    Gap(Vec<u8>),
    Bookmark,
    Flush,
    /// The recorder stops and starts again.
    Restart,
    /// The recorder dies during a write.
    Torn(Vec<u8>),
    /// The stream ends and starts again.
    Ended,
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0..4_u8;
    prop_oneof![
        8 => (name.clone(), any::<u8>()).prop_map(|(name, data)| Step::Write(name, data)),
        3 => name.clone().prop_map(Step::Delete),
        1 => prop::collection::vec(name, 0..3).prop_map(Step::Gap),
        1 => Just(Step::Bookmark),
        2 => Just(Step::Flush),
        1 => Just(Step::Restart),
        1 => prop::collection::vec(any::<u8>(), 0..12).prop_map(Step::Torn),
        1 => Just(Step::Ended),
    ]
}

/// Writes a history and records the expected entries.
struct Model<'a> {
    path: &'a Path,
    writer: Option<Writer>,
    rotation: Rotation,
    version: u64,
    held: std::collections::BTreeMap<u8, Object>,
    expected: Vec<String>,
}

impl Model<'_> {
    fn run(&mut self, event: &FollowEvent, expected: String) {
        self.version += 1;
        let writer = self.writer.as_mut().unwrap();
        let (time, maps) = (at(self.version as i64), config_maps());
        writer.event(time, &maps.name, event).unwrap();
        self.expected.push(expected);
    }

    fn step(&mut self, step: &Step) {
        let version = self.version + 1;
        match step {
            Step::Write(name, data) => {
                let object = config_map(&format!("m{name}"), version, &"d".repeat(usize::from(*data)));
                match self.held.insert(*name, object.clone()) {
                    None => self.run(&FollowEvent::Added(object.clone()), show(&What::Added(object))),
                    Some(previous) => self.run(
                        &FollowEvent::Modified(object.clone()),
                        show(&What::Modified { object, previous }),
                    ),
                }
            }
            Step::Delete(name) => {
                if self.held.remove(name).is_some() {
                    let last = config_map(&format!("m{name}"), version, "last");
                    let inferred = false;
                    self.run(&gone(last.clone()), show(&What::Deleted { last, inferred }));
                }
            }
            Step::Gap(names) => self.gap(names),
            Step::Bookmark => self.run(&FollowEvent::Bookmark(version.into()), format!("at {version}")),
            Step::Flush => self.writer.as_mut().unwrap().flush().unwrap(),
            Step::Restart => self.reopen(),
            Step::Torn(bytes) => {
                let path = self.writer.as_mut().unwrap().path();
                self.writer = None;
                let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
                file.write_all(bytes).unwrap();
                self.reopen();
            }
            Step::Ended => self.end(),
        }
    }

    fn gap(&mut self, names: &[u8]) {
        let version = self.version;
        let expected = What::Gap(watchkeeper_recording::Gap {
            from: Some(version.into()),
            to: Some((version + 5).into()),
            reason: "too old".to_owned(),
        });
        self.run(&gap(version, version + 5), show(&expected));
        for name in names {
            if let Some(last) = self.held.remove(name) {
                let inferred = true;
                let expected = show(&What::Deleted { last, inferred });
                self.run(&gone_unseen(&format!("m{name}")), expected);
            }
        }
        self.version = self.version.max(version + 5);
        let synced = self.version + 1;
        self.run(&FollowEvent::Synced(synced.into()), format!("synced {synced}"));
    }

    fn end(&mut self) {
        let (writer, maps) = (self.writer.as_mut().unwrap(), config_maps());
        let time = at(self.version as i64);
        writer.end(time, &maps.name, "gone").unwrap();
        writer.begin(time, &maps).unwrap();
        self.held.clear();
        self.expected
            .extend(["ended: gone".to_owned(), "began".to_owned()]);
        let synced = self.version + 1;
        self.run(&FollowEvent::Synced(synced.into()), format!("synced {synced}"));
    }

    fn reopen(&mut self) {
        self.writer = None;
        let mut writer = writer(self.path, self.rotation);
        writer.begin(at(0), &config_maps()).unwrap();
        let held: Vec<_> = writer
            .state()
            .objects()
            .map(|(_, object)| object.clone())
            .collect();
        assert_eq!(held, self.held.values().cloned().collect::<Vec<_>>());
        self.writer = Some(writer);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_history_is_read_as_it_was_written(
        steps in prop::collection::vec(step(), 1..40),
        rotation in prop_oneof![Just(1_u64), Just(2000), Just(1 << 20)],
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("any.rec");
        let rotation = Rotation { bytes: rotation, ..Rotation::default() };
        let mut model = Model {
            path: &path,
            writer: Some(writer(&path, rotation)),
            rotation,
            version: 0,
            held: Default::default(),
            expected: vec!["began".to_owned()],
        };
        model.writer.as_mut().unwrap().begin(at(0), &config_maps()).unwrap();
        model.run(&FollowEvent::Synced(1.into()), "synced 1".to_owned());
        for step in &steps {
            model.step(step);
        }
        model.reopen();
        prop_assert_eq!(shown(&path), model.expected);
    }

    #[test]
    fn a_truncated_file_has_a_prefix_of_the_history(cut in 0_usize..2000) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cut.rec");
        let maps = config_maps();
        let mut writer = writer(&path, Rotation::default());
        writer.begin(at(0), &maps).unwrap();
        for version in 1..20 {
            let event = FollowEvent::Added(config_map(&format!("m{version}"), version, "text"));
            writer.event(at(version as i64), &maps.name, &event).unwrap();
            writer.flush().unwrap();
        }
        drop(writer);
        let whole = shown(&path);
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..cut.min(bytes.len())]).unwrap();
        if let Ok(recording) = Recording::open(&path) {
            let read: Vec<_> = recording.entries().map(|entry| show(&entry.unwrap().what)).collect();
            prop_assert!(whole.starts_with(&read));
        }
    }
}
