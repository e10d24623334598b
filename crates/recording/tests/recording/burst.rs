//! A burst of a hundred thousand events is written in blocks of bounded size and read completely.

use std::fs;

use watchkeeper_recording::{BLOCK_BYTES, Recording, Rotation, What};
use watchkeeper_runtime::follow::FollowEvent;

use crate::support::{at, config_map, config_maps, writer};

const EVENTS: u64 = 100_000;
const OBJECTS: u64 = 500;

#[test]
fn a_hundred_thousand_events_in_one_second_are_all_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("burst.rec");
    let (mut writer, maps) = (writer(&path, Rotation::default()), config_maps());
    writer.begin(at(0), &maps).unwrap();
    writer
        .event(at(0), &maps.name, &FollowEvent::Synced(1.into()))
        .unwrap();
    let mut written = fs::metadata(&path).unwrap().len();
    for turn in 0..EVENTS {
        let object = config_map(&format!("m{}", turn % OBJECTS), turn + 2, &turn.to_string());
        let event = match turn < OBJECTS {
            true => FollowEvent::Added(object),
            false => FollowEvent::Modified(object),
        };
        writer.event(at(1), &maps.name, &event).unwrap();
        // Without a flush, one block is in memory and written when it is full.
        if turn % 100 != 0 {
            continue;
        }
        let now = fs::metadata(&path).unwrap().len();
        assert!(
            now - written <= BLOCK_BYTES as u64,
            "a block of {} bytes",
            now - written
        );
        written = now;
    }
    assert_eq!(writer.count(), EVENTS);
    writer.sync().unwrap();
    let mut read = 0;
    for entry in Recording::open(&path).unwrap().entries() {
        let entry = entry.unwrap();
        if let What::Added(object) | What::Modified { object, .. } = &entry.what {
            assert_eq!(object.resource_version(), (read + 2).to_string());
            read += 1;
        }
    }
    assert_eq!(read, EVENTS);
}
