//! A position in a file: recorded steps are read back, whatever happens to the process.

use std::fs;

use super::*;
use crate::store::tests::object;

/// A directory, and the path of a new file in it.
fn file() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("position");
    (directory, path)
}

fn held(position: &Position, stream: &str) -> Vec<String> {
    let objects = position.get(stream).unwrap().inventory.iter();
    let mut held: Vec<_> = objects
        .map(|(key, held)| format!("{key}@{}#{}", held.version, held.uid))
        .collect();
    held.sort();
    held
}

#[test]
fn positions_are_read_back() {
    let (directory, path) = file();
    let uid = "0e1a9f6c-0c3c-4b5e-9a5b-2f3e4d5c6b7a";
    let mut position = Position::open(&path).unwrap();
    assert_eq!(position.get("pods"), None);
    position.put("pods", &object(&format!("a/x@7#{uid}")));
    position.put("pods", &object("a/y@8#odd"));
    position.synced("pods", &ResourceVersion::new("9"));
    position.save().unwrap();
    position.put("apps/deployments in shop", &object("shop/web@0010"));
    position.remove("pods", &ObjectKey::new("a", "y"));
    position.reach("pods", &ResourceVersion::new("10"));
    position.save().unwrap();
    drop(position);
    let again = Position::open(&path).unwrap();
    assert_eq!(again.get("pods").unwrap().version.as_str(), "10");
    assert!(again.get("pods").unwrap().is_complete);
    assert_eq!(held(&again, "pods"), [format!("a/x@7#{uid}")]);
    let deployments = again.get("apps/deployments in shop").unwrap();
    assert!(
        deployments.version.is_unset() && !deployments.is_complete,
        "in the midst of a list"
    );
    assert_eq!(held(&again, "apps/deployments in shop"), ["shop/web@0010#x"]);
    assert_eq!(
        fs::read_dir(directory.path()).unwrap().count(),
        1,
        "nothing is left behind"
    );
}

#[test]
fn a_file_of_the_first_format_is_read_and_rewritten() {
    let (_directory, path) = file();
    fs::write(&path, r#"{"cluster": "one", "pods": "7"}"#).unwrap();
    let mut position = Position::open(&path).unwrap();
    assert_eq!(position.get("pods").unwrap().version.as_str(), "7");
    assert!(!position.get("pods").unwrap().is_complete);
    assert!(position.bind_to("another").is_err());
    position.bind_to("one").unwrap();
    position.save().unwrap();
    assert!(fs::read(&path).unwrap().starts_with(b"{"), "nothing has changed");
    position.reach("pods", &ResourceVersion::new("8"));
    position.save().unwrap();
    drop(position);
    let again = Position::open(&path).unwrap();
    assert_eq!(again.get("pods").unwrap().version.as_str(), "8");
    assert_eq!(again.state.cluster.as_deref(), Some("one"));
}

#[test]
fn a_position_of_another_cluster_is_refused() {
    let (_directory, path) = file();
    let mut position = Position::open(&path).unwrap();
    position.bind_to("one").unwrap();
    position.save().unwrap();
    drop(position);
    let mut position = Position::open(&path).unwrap();
    position.bind_to("one").unwrap();
    let error = position.bind_to("two").unwrap_err().to_string();
    assert!(
        error.contains("a position in another cluster (one, this one is two)"),
        "{error}"
    );
}

#[test]
fn another_file_is_an_error_that_names_it() {
    let (_directory, path) = file();
    fs::write(&path, "[1]").unwrap();
    let error = Position::open(&path).unwrap_err();
    assert!(
        error.to_string().ends_with("position is not a position file"),
        "{error}"
    );
}

#[test]
fn a_file_in_use_is_refused() {
    let (_directory, path) = file();
    let mut position = Position::open(&path).unwrap();
    let refused = |path| matches!(Position::open(path), Err(PositionError::InUse { .. }));
    assert!(refused(&path));
    position.reach("pods", &ResourceVersion::new("1"));
    position.save().unwrap();
    assert!(refused(&path), "after a rewrite, too");
    drop(position);
    assert!(Position::open(&path).is_ok());
}

#[test]
fn a_version_that_is_not_set_moves_nothing() {
    let (_directory, path) = file();
    let mut position = Position::open(&path).unwrap();
    position.reach("pods", &ResourceVersion::unset());
    position.save().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"");
}

/// Changes a thousand objects repeatedly, each time in another process. Returns the last position, and the length of
/// the file after each save.
fn thousand(path: &PathBuf) -> (StreamPosition, Vec<u64>) {
    let mut lengths = Vec::new();
    for round in 1..20 {
        let mut position = Position::open(path).unwrap();
        for number in 0..1000 {
            let uid = format!("0e1a9f6c-0c3c-4b5e-9a5b-{number:012}");
            position.put(
                "pods",
                &object(&format!("namespace/name-of-a-pod-{number:06}@{round}#{uid}")),
            );
        }
        position.synced("pods", &ResourceVersion::from(round));
        position.save().unwrap();
        lengths.push(fs::metadata(path).unwrap().len());
    }
    let position = Position::open(path).unwrap();
    (position.get("pods").unwrap().clone(), lengths)
}

#[test]
fn a_file_grows_by_no_more_than_a_bounded_part_before_it_is_rewritten() {
    let (_directory, path) = file();
    let (position, lengths) = thousand(&path);
    let state = lengths[0];
    assert!(state < 70_000, "70 bytes an object: {state}");
    assert!(lengths.iter().all(|length| *length <= 3 * state), "{lengths:?}");
    assert!(
        lengths.windows(2).any(|pair| pair[0] < pair[1]),
        "it appends: {lengths:?}"
    );
    assert!(
        lengths.windows(2).any(|pair| pair[0] > pair[1]),
        "it rewrites: {lengths:?}"
    );
    assert_eq!(position.version.as_str(), "19");
    assert_eq!(position.inventory.len(), 1000);
    assert!(
        position
            .inventory
            .iter()
            .all(|(_, held)| held.version.as_str() == "19")
    );
}

#[test]
fn a_frame_that_a_crash_has_cut_off_is_left_out() {
    let (_directory, path) = file();
    let mut position = Position::open(&path).unwrap();
    position.reach("pods", &ResourceVersion::new("1"));
    position.save().unwrap();
    let whole = fs::read(&path).unwrap().len();
    position.reach("pods", &ResourceVersion::new("2"));
    position.save().unwrap();
    drop(position);
    let bytes = fs::read(&path).unwrap();
    for length in whole..bytes.len() {
        fs::write(&path, &bytes[..length]).unwrap();
        let mut position = Position::open(&path).unwrap();
        assert_eq!(position.get("pods").unwrap().version.as_str(), "1", "{length}");
        position.reach("pods", &ResourceVersion::new("3"));
        position.save().unwrap();
        drop(position);
        let again = Position::open(&path).unwrap();
        assert_eq!(again.get("pods").unwrap().version.as_str(), "3", "{length}");
    }
    // Some file systems leave zeros in place of the data.
    let mut zeros = bytes[..whole].to_vec();
    zeros.resize(bytes.len() + 100, 0);
    fs::write(&path, zeros).unwrap();
    assert_eq!(
        Position::open(&path)
            .unwrap()
            .get("pods")
            .unwrap()
            .version
            .as_str(),
        "1"
    );
}

#[test]
fn a_damaged_file_is_an_error_that_says_where() {
    let (_directory, path) = file();
    let mut position = Position::open(&path).unwrap();
    for version in 1..4_u64 {
        position.reach("pods", &version.into());
        position.save().unwrap();
    }
    drop(position);
    let mut bytes = fs::read(&path).unwrap();
    bytes[40] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let error = Position::open(&path).unwrap_err().to_string();
    assert!(error.contains("is damaged at byte 23; remove it"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), bytes, "it is left as it was");
}

#[test]
fn a_save_that_has_failed_is_made_good_by_the_next() {
    let (directory, path) = file();
    let mut position = Position::open(&path).unwrap();
    position.reach("pods", &ResourceVersion::new("1"));
    position.save().unwrap();
    // A rewrite that cannot create its file: the name is taken.
    fs::create_dir(directory.path().join("position.new")).unwrap();
    position.log.as_mut().unwrap().fail_next_write();
    position.reach("pods", &ResourceVersion::new("2"));
    assert!(position.save().is_err());
    fs::remove_dir(directory.path().join("position.new")).unwrap();
    position.reach("pods", &ResourceVersion::new("3"));
    position.save().unwrap();
    drop(position);
    assert_eq!(
        Position::open(&path)
            .unwrap()
            .get("pods")
            .unwrap()
            .version
            .as_str(),
        "3"
    );
}
