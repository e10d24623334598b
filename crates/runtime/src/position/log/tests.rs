//! Records round-trip, and no bytes make the reader panic.

use proptest::prelude::*;

use super::*;

impl Log {
    /// As after a partial write: the next save has to rewrite the file.
    pub(in crate::position) fn fail_next_write(&mut self) {
        self.must_rewrite = true;
    }
}

#[test]
fn versions_and_uids_are_numbers_only_where_they_read_back_the_same() {
    for text in [
        "",
        "0",
        "7",
        "007",
        "+7",
        "18446744073709551615",
        "18446744073709551616",
        "x",
    ] {
        assert_eq!(ResourceVersion::from(Version::from(text)).as_str(), text);
    }
    let uuid = "0e1a9f6c-0c3c-4b5e-9a5b-2f3e4d5c6b7a";
    assert!(matches!(Uid::from(uuid), Uid::Uuid(_)));
    for text in ["", "x", uuid, &uuid.to_uppercase(), &uuid.replace('-', "")] {
        assert_eq!(*Box::<str>::from(Uid::from(text)), *text);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic_and_what_is_read_is_written_the_same(
        bytes in prop::collection::vec(prop_oneof![0..8_u8, any::<u8>()], 0..100),
    ) {
        let mut file = MAGIC.to_vec();
        file.extend(&bytes);
        let mut first = Frame::default();
        let _ = read_frames(&file, |stream, record| first.push(stream, &record));
        let _ = read_records(&bytes, &mut |stream, record| first.push(stream, &record));
        let mut second = Frame::default();
        let read = read_records(&first.records, &mut |stream, record| second.push(stream, &record));
        prop_assert!(read.is_some());
        prop_assert_eq!(first.records, second.records);
    }
}

#[test]
fn a_copied_descriptor_does_not_keep_the_lock() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("position");
    let log = Log::open(path.clone(), |_, _| {}).unwrap();
    // As a child process that is being spawned has one.
    let _copy = log.file.try_clone().unwrap();
    drop(log);
    assert!(Log::open(path, |_, _| {}).is_ok());
}
