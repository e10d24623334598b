//! The guarantees to typed readers.

use serde::{Deserialize, Serialize};
use watchkeeper_meta::Resource;

use super::*;
use crate::delta::Cause;
use crate::store::tests::object;
use crate::store::{self, Writer};
use crate::watcher::Event;

/// A kind whose label `app` is one of two words: `a/x@1#red` decodes, `a/x@1#other` does not.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Lamp {
    metadata: Metadata,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    resource_version: String,
    labels: Labels,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Labels {
    app: Colour,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Colour {
    Red,
    Blue,
}

impl ResourceType for Lamp {
    fn resource() -> Resource {
        Resource::namespaced("", "v1", "Pod", "pods")
    }
}

fn put(writer: &mut Writer, text: &str) -> Vec<Delta> {
    let mut deltas = Vec::new();
    writer.apply(0, Event::Modified(object(text)), &mut deltas);
    writer.publish();
    deltas
}

fn take(writer: &mut Writer, text: &str) -> Vec<Delta> {
    let mut deltas = Vec::new();
    writer.apply(0, Event::Deleted(object(text)), &mut deltas);
    writer.publish();
    deltas
}

fn shown(lamp: &Lamp) -> String {
    format!("{}@{}", lamp.metadata.name, lamp.metadata.resource_version)
}

fn lamps(lamps: Vec<Arc<Lamp>>) -> Vec<String> {
    lamps.iter().map(|lamp| shown(lamp)).collect()
}

#[test]
fn all_who_read_a_kind_share_one_struct_for_each_version() {
    let (store, mut writer) = store::new();
    put(&mut writer, "a/x@1#red");
    let (one, other) = (store.typed::<Lamp>(), store.typed::<Lamp>());
    let first = one.find("a", "x").unwrap();
    assert!(Arc::ptr_eq(&first, &other.list()[0]));
    put(&mut writer, "a/x@2#red");
    let second = other.get_by_key("a/x").unwrap().unwrap();
    assert_eq!((shown(&first), shown(&second)), ("x@1".into(), "x@2".into()));
    assert!(Arc::ptr_eq(&second, &one.find("a", "x").unwrap()));
    assert_eq!(one.decoded().kept(), 1);
}

#[test]
fn nothing_is_decoded_that_nobody_reads() {
    let (store, mut writer) = store::new();
    put(&mut writer, "a/x@1#red");
    put(&mut writer, "a/y@2#none");
    let typed = store.typed::<Lamp>();
    typed.find("a", "x").unwrap();
    assert_eq!((typed.decoded().kept(), typed.decoded().failures()), (1, 0));
}

#[test]
fn an_object_that_does_not_decode_is_left_out_and_reported_once() {
    let (store, mut writer) = store::new();
    for text in ["a/x@1#red", "a/y@2#none", "b/z@3#blue"] {
        put(&mut writer, text);
    }
    let typed = store.typed::<Lamp>();
    for _ in 0..3 {
        assert_eq!(lamps(typed.list()), ["x@1", "z@3"]);
        assert_eq!(typed.find("a", "y"), None);
    }
    assert_eq!(typed.decoded().failures(), 1);
    let [undecodable] = &typed.undecodable()[..] else {
        panic!("one is undecodable");
    };
    assert_eq!(undecodable.key, ObjectKey::new("a", "y"));
    assert!(
        undecodable.error.contains("unknown variant"),
        "{}",
        undecodable.error
    );
    assert_eq!(store.list().len(), 3, "as it is, it is there");
    put(&mut writer, "a/y@4#blue");
    assert_eq!(lamps(typed.in_namespace("a")), ["x@1", "y@4"]);
    assert!(typed.undecodable().is_empty());
}

#[test]
fn an_index_is_over_the_fields_of_structs() {
    let (store, mut writer) = store::new();
    put(&mut writer, "a/x@1#red");
    let typed = store.typed::<Lamp>();
    typed
        .add_index("colour", |lamp| vec![format!("{:?}", lamp.metadata.labels.app)])
        .unwrap();
    for text in ["a/y@2#blue", "a/z@3#none", "b/x@4#blue"] {
        put(&mut writer, text);
    }
    assert_eq!(lamps(typed.by_index("colour", "Blue").unwrap()), ["y@2", "x@4"]);
    put(&mut writer, "a/y@5#red");
    assert_eq!(lamps(typed.by_index("colour", "Red").unwrap()), ["x@1", "y@5"]);
    assert!(typed.by_index("size", "Red").is_err());
}

/// The changes a subscriber receives.
fn told(store: &Store<Lamp>, deltas: Vec<Delta>, last: &mut LastRead<Lamp>) -> Vec<String> {
    let told = deltas
        .into_iter()
        .filter_map(|delta| store.translate(delta, last));
    told.map(|delta| match delta {
        Delta::Added { object, .. } => format!("+{}", shown(&object)),
        Delta::Updated { old, new, .. } => format!("{}→{}", shown(&old), shown(&new)),
        Delta::Deleted {
            last, final_state, ..
        } => format!("-{} {final_state}", shown(&last)),
    })
    .collect()
}

#[test]
fn an_object_that_ceases_to_decode_stays_as_it_was_told() {
    let (store, mut writer) = store::new();
    let (typed, mut last) = (store.typed::<Lamp>(), LastRead::<Lamp>::new());
    let mut check = |deltas: Vec<Delta>, expected: &[&str]| {
        assert_eq!(told(&typed, deltas, &mut last), expected);
    };
    check(put(&mut writer, "a/x@1#red"), &["+x@1"]);
    check(put(&mut writer, "a/x@2#none"), &[]);
    check(put(&mut writer, "a/x@3#nobody"), &[]);
    check(put(&mut writer, "a/x@4#blue"), &["x@1→x@4"]);
    check(put(&mut writer, "a/x@5#none"), &[]);
    check(take(&mut writer, "a/x@6#none"), &["-x@4 false"]);
    check(put(&mut writer, "a/x@7#none"), &[]);
    check(put(&mut writer, "a/x@8#red"), &["+x@8"]);
    check(take(&mut writer, "a/x@9#red"), &["-x@9 true"]);
    check(put(&mut writer, "a/y@10#none"), &[]);
    check(take(&mut writer, "a/y@11#none"), &[]);
}

#[test]
fn objects_as_they_are_are_told_as_they_are() {
    let (store, _writer) = store::new();
    let delta = Delta::Added {
        object: object("a/x@1#none"),
        cause: Cause::Watch,
    };
    assert_eq!(store.translate(delta.clone(), &mut HashMap::new()), Some(delta));
}
