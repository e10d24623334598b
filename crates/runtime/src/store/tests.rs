//! The guarantees of the store: the delta rules by name, and random histories against a plain map.

use std::collections::BTreeMap;

use proptest::prelude::*;
use watchkeeper_wire::ObjectOptions;

use super::*;

/// `ns/name@version`, with uid and label `app` taken from a `#word` at the end, if there is one.
pub(crate) fn object(text: &str) -> Object {
    let (text, word) = text.split_once('#').unwrap_or((text, "x"));
    let (key, version) = text.split_once('@').expect("a version");
    let key = ObjectKey::parse(key).expect("a key");
    let json = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": key.namespace(),
            "name": key.name(),
            "resourceVersion": version,
            "uid": word,
            "labels": {"app": word},
        }
    });
    Object::from_json(json.to_string().as_bytes(), &ObjectOptions::default()).expect("an object")
}

pub(crate) fn show(object: &Object) -> String {
    format!("{}@{}", object.key(), object.resource_version())
}

pub(crate) fn show_delta(delta: &Delta) -> String {
    match delta {
        Delta::Added { object, cause } => format!("+{} {cause:?}", show(object)),
        Delta::Updated { old, new, cause } => format!("{}→{} {cause:?}", show(old), show(new)),
        Delta::Deleted {
            last,
            final_state,
            cause,
            ..
        } => {
            let known = if *final_state { "" } else { "?" };
            format!("-{}{known} {cause:?}", show(last))
        }
    }
}

/// Applies a line of events and publishes. `=` lists, `!` completes the list, `+` applies, `-` deletes, `~` is
/// progress, `?` is undecodable.
fn feed(writer: &mut Writer, part: usize, line: &str) -> Vec<String> {
    let mut deltas = Vec::new();
    for word in line.split_whitespace() {
        let (sign, rest) = word.split_at(1);
        let version = || ResourceVersion::new(rest);
        let event = match sign {
            "?" => {
                let key = (!rest.is_empty()).then(|| ObjectKey::parse(rest).expect("a key"));
                writer.unread(part, key);
                continue;
            }
            "=" if rest.is_empty() => Event::Init,
            "=" => Event::InitApply(object(rest)),
            "!" => Event::InitDone(version()),
            "+" => Event::Modified(object(rest)),
            "-" => Event::Deleted(object(rest)),
            _ => Event::Progress(version()),
        };
        writer.apply(part, event, &mut deltas);
    }
    writer.publish();
    deltas.iter().map(show_delta).collect()
}

fn listed(line: &str) -> (Store, Writer) {
    let (store, mut writer) = new();
    feed(&mut writer, 0, line);
    (store, writer)
}

fn keys<'a>(objects: impl Iterator<Item = &'a Object>) -> Vec<String> {
    objects.map(show).collect()
}

#[test]
fn the_first_list_is_added_as_initial_and_shows_all_at_once() {
    let (store, mut writer) = new();
    assert!(feed(&mut writer, 0, "= =b/y@2 =a/x@1").is_empty());
    assert!(
        store.snapshot().is_empty(),
        "nothing shows before the end of the list"
    );
    assert_eq!(feed(&mut writer, 0, "!5"), ["+a/x@1 Initial", "+b/y@2 Initial"]);
    let snapshot = store.snapshot();
    assert_eq!(keys(snapshot.iter()), ["a/x@1", "b/y@2"]);
    assert_eq!((snapshot.version().as_str(), snapshot.is_synced()), ("5", true));
}

#[test]
fn an_index_that_is_added_while_the_first_list_comes_in_covers_it() {
    let (store, mut writer) = new();
    let by_namespace = |object: &Object| vec![object.namespace().to_owned()];
    store.add_index("before", by_namespace).unwrap();
    feed(&mut writer, 0, "= =a/x@1 =b/y@2");
    store.add_index("meanwhile", by_namespace).unwrap();
    feed(&mut writer, 0, "=b/z@3 !5");
    let snapshot = store.snapshot();
    for index in ["before", "meanwhile"] {
        assert_eq!(keys(snapshot.by_index(index, "b").unwrap()), ["b/y@2", "b/z@3"]);
    }
}

#[test]
fn an_object_of_the_first_list_that_cannot_be_read_is_left_out() {
    let (_, mut writer) = new();
    assert_eq!(
        feed(&mut writer, 0, "= =b/y@2 ?a/odd =a/x@1 ? !5"),
        ["+a/x@1 Initial", "+b/y@2 Initial"]
    );
}

#[test]
fn a_store_that_is_filled_during_its_first_list_is_compared_with_it() {
    let (store, mut writer) = new();
    assert_eq!(
        feed(&mut writer, 0, "= =a/x@1 +a/y@3 !5"),
        ["+a/y@3 Watch", "-a/y@3? Relist", "+a/x@1 Relist"]
    );
    assert_eq!(keys(store.snapshot().iter()), ["a/x@1"]);
}

#[test]
fn an_update_of_an_unknown_object_is_an_add_and_an_add_of_a_known_one_an_update() {
    let (_, mut writer) = listed("= =a/x@1 !5");
    assert_eq!(
        feed(&mut writer, 0, "+a/new@6 +a/x@7"),
        ["+a/new@6 Watch", "a/x@1→a/x@7 Watch"]
    );
}

#[test]
fn the_same_version_again_tells_nothing() {
    let (_, mut writer) = listed("= =a/x@1 !5");
    assert!(feed(&mut writer, 0, "+a/x@1").is_empty());
}

#[test]
fn a_delete_carries_the_final_state_and_an_unknown_one_tells_nothing() {
    let (store, mut writer) = listed("= =a/x@1 !5");
    assert_eq!(feed(&mut writer, 0, "-a/x@6 -a/other@7"), ["-a/x@6 Watch"]);
    assert_eq!(store.snapshot().version().as_str(), "7");
}

#[test]
fn a_relist_tells_only_what_has_changed_and_presumes_deletes() {
    let (store, mut writer) = listed("= =a/gone@1 =a/same@2 =b/other@3 !5");
    let before = store.get_by_key("a/same").unwrap().unwrap();
    let told = feed(&mut writer, 0, "= =a/new@8 =a/same@2 =b/other@9 !9");
    assert_eq!(
        told,
        [
            "-a/gone@1? Relist",
            "+a/new@8 Relist",
            "b/other@3→b/other@9 Relist"
        ]
    );
    let after = store.get_by_key("a/same").unwrap().unwrap();
    assert!(
        after.is_shared_with(&before),
        "an unchanged object keeps its memory"
    );
}

#[test]
fn a_relist_without_changes_tells_nothing_and_moves_the_version() {
    let (store, mut writer) = listed("= =a/x@1 !5");
    let before = store.snapshot().memory_size();
    assert!(feed(&mut writer, 0, "= =a/x@1 !9").is_empty());
    assert_eq!(
        (
            store.snapshot().version().as_str(),
            store.snapshot().memory_size()
        ),
        ("9", before)
    );
}

#[test]
fn an_object_that_cannot_be_read_is_not_gone() {
    let (store, mut writer) = listed("= =a/gone@1 =a/odd@2 !5");
    assert_eq!(feed(&mut writer, 0, "= ?a/odd !9"), ["-a/gone@1? Relist"]);
    assert_eq!(keys(store.snapshot().iter()), ["a/odd@2"], "its last known state");
    assert_eq!(
        feed(&mut writer, 0, "= =a/odd@7 ?a/odd !9"),
        ["a/odd@2→a/odd@7 Relist"],
        "what was read of it in the same list counts"
    );
    assert_eq!(
        feed(&mut writer, 0, "= =a/odd@7 -a/odd@8 ?a/odd !9"),
        ["-a/odd@7? Relist"],
        "the one that was known is gone, and what has come is not known"
    );
}

#[test]
fn nothing_is_presumed_gone_beside_an_object_without_a_name() {
    let (store, mut writer) = listed("= =a/x@1 =a/y@2 !5");
    assert_eq!(feed(&mut writer, 0, "= =a/new@8 ? !9"), ["+a/new@8 Relist"]);
    assert_eq!(keys(store.snapshot().iter()), ["a/new@8", "a/x@1", "a/y@2"]);
    assert_eq!(
        feed(&mut writer, 0, "= =a/new@8 =a/y@2 !10"),
        ["-a/x@1? Relist"],
        "the next list tells"
    );
}

#[test]
fn a_list_that_starts_anew_forgets_its_first_half() {
    let (_, mut writer) = listed("= =a/x@1 !5");
    assert_eq!(feed(&mut writer, 0, "= =a/half@6 = =a/x@1 !7"), [""; 0]);
}

#[test]
fn an_object_that_goes_or_changes_while_it_is_listed_counts_as_it_was_last() {
    let (store, mut writer) = new();
    let told = feed(
        &mut writer,
        0,
        "= =a/x@1 =a/y@2 =a/x@3 -a/y@4 =a/z@5 -a/z@6 =a/z@7 !8",
    );
    assert_eq!(told, ["+a/x@3 Initial", "+a/z@7 Initial"]);
    assert_eq!(keys(store.snapshot().iter()), ["a/x@3", "a/z@7"]);
}

#[test]
fn a_recreated_object_can_be_seen_as_delete_and_add() {
    let (_, mut writer) = listed("= =a/x@1#first !5");
    let mut deltas = Vec::new();
    writer.apply(0, Event::Modified(object("a/x@6#second")), &mut deltas);
    let delta = deltas.remove(0);
    assert!(delta.is_recreated());
    let (first, second) = delta.split_recreated();
    assert_eq!(show_delta(&first), "-a/x@1? Watch");
    assert_eq!(second.as_ref().map(show_delta).as_deref(), Some("+a/x@6 Watch"));
}

#[test]
fn bookmarks_move_the_version_only() {
    let (store, mut writer) = listed("= =a/x@1 !5");
    assert!(feed(&mut writer, 0, "~9").is_empty());
    assert_eq!(store.snapshot().version().as_str(), "9");
}

#[test]
fn namespaces_lie_side_by_side() {
    let (store, _) = listed("= =a/x@1 =a/y@2 =a-b/z@3 =b/w@4 !5");
    let snapshot = store.snapshot();
    assert_eq!(keys(snapshot.in_namespace("a")), ["a/x@1", "a/y@2"]);
    assert_eq!(keys(snapshot.in_namespace("a-b")), ["a-b/z@3"]);
    assert!(keys(snapshot.in_namespace("none")).is_empty());
}

#[test]
fn keys_are_read_as_they_print_and_bad_ones_are_errors() {
    let (store, _) = listed("= =a/x@1 =cluster@2 !5");
    assert!(store.get_by_key("a/x").unwrap().is_some());
    assert!(store.get_by_key("cluster").unwrap().is_some());
    assert!(store.get_by_key("a/none").unwrap().is_none());
    let error = store.get_by_key("a/b/c").unwrap_err();
    assert_eq!(error.to_string(), r#"unexpected key format: "a/b/c""#);
}

#[test]
fn label_selectors_find_objects() {
    let (store, _) = listed("= =a/x@1#web =a/y@2#db =b/z@3#web !5");
    let snapshot = store.snapshot();
    let find = |selector: &str| keys(snapshot.select(&selector.parse().unwrap()));
    assert_eq!(find("app=web"), ["a/x@1", "b/z@3"]);
    assert_eq!(find("app!=web"), ["a/y@2"]);
    assert_eq!(find("app in (db,none)"), ["a/y@2"]);
}

#[test]
fn a_transform_sees_each_object_once() {
    let (store, mut writer) = new();
    let calls = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = calls.clone();
    writer.set_transform(Arc::new(move |object| {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        object
    }));
    feed(&mut writer, 0, "= =a/x@1 =a/y@2 !5");
    feed(&mut writer, 0, "= =a/x@1 =a/y@6 !7 +a/x@8");
    assert_eq!(
        calls.load(std::sync::atomic::Ordering::Relaxed),
        4,
        "x@1 y@2 y@6 x@8"
    );
    assert_eq!(store.snapshot().len(), 2);
}

#[test]
fn a_deleted_object_is_told_as_it_was_kept() {
    let (_, mut writer) = new();
    writer.set_transform(Arc::new(|seen| {
        object(&format!("{}@{}#kept", seen.key(), seen.resource_version()))
    }));
    let mut deltas = Vec::new();
    feed(&mut writer, 0, "= =a/x@1 !5");
    writer.apply(0, Event::Deleted(object("a/x@6")), &mut deltas);
    let told: Vec<_> = deltas.iter().map(|delta| delta.object().uid()).collect();
    assert_eq!(told, ["kept"]);
}

#[test]
fn an_event_without_a_version_moves_nothing() {
    let (store, mut writer) = listed("= =a/x@1 !5");
    for event in ["+a/y@", "-a/y@", "~"] {
        feed(&mut writer, 0, event);
        let snapshot = store.snapshot();
        assert_eq!(
            (snapshot.is_synced(), snapshot.version().as_str()),
            (true, "5"),
            "{event}"
        );
    }
}

#[test]
fn a_namespace_without_a_name_is_all_of_them() {
    let (_, mut writer) = for_namespaces(&[String::new()]);
    feed(&mut writer, 0, "= =a/x@1 =b/y@2 !5");
    assert_eq!(feed(&mut writer, 0, "= =a/x@1 !7"), ["-b/y@2? Relist"]);
}

#[test]
fn changes_between_two_snapshots_are_told_coalesced() {
    let (store, mut writer) = listed("= =a/x@1 =a/y@2 =a/z@3 !5");
    let before = store.snapshot();
    feed(
        &mut writer,
        0,
        "+a/x@6 +a/x@7 -a/y@8 +a/new@9 +a/brief@10 -a/brief@11",
    );
    let changes = store.snapshot().changes_since(&before, Cause::Watch);
    let told: Vec<_> = changes.iter().map(show_delta).collect();
    assert_eq!(told, ["+a/new@9 Watch", "a/x@1→a/x@7 Watch", "-a/y@2? Watch"]);
}

fn by_app(object: &Object) -> Vec<String> {
    object
        .label("app")
        .map(|app| app.into_owned())
        .into_iter()
        .collect()
}

#[test]
fn every_store_is_indexed_by_namespace() {
    let (store, mut writer) = listed("= =a/x@1 =a/y@2 =b/z@3 !3");
    let check = |expected: &[(&str, &[&str])]| {
        let snapshot = store.snapshot();
        let values: Vec<&str> = snapshot.index_values(NAMESPACE_INDEX).unwrap().collect();
        assert_eq!(values, expected.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        for (namespace, objects) in expected {
            let found = snapshot.by_index(NAMESPACE_INDEX, namespace).unwrap();
            assert_eq!(keys(found), *objects);
        }
    };
    check(&[("a", &["a/x@1", "a/y@2"]), ("b", &["b/z@3"])]);
    feed(&mut writer, 0, "-b/z@4 +c/w@5");
    check(&[("a", &["a/x@1", "a/y@2"]), ("c", &["c/w@5"])]);
    assert_eq!(
        store.snapshot().index_names().collect::<Vec<_>>(),
        [NAMESPACE_INDEX]
    );
    assert!(store.add_index(NAMESPACE_INDEX, by_app).is_err(), "it is taken");
}

#[test]
fn an_object_leads_to_those_that_share_a_value_with_it() {
    let (store, _writer) = listed("= =a/x@1 =a/y@2 =b/x@3 =b/z@4 !4");
    let letters = |object: &Object| vec![object.namespace().to_owned(), object.name().to_owned()];
    store.add_index("letters", letters).unwrap();
    let snapshot = store.snapshot();
    let check = |index: &str, like: &str, expected: &[&str]| {
        let like = object(like);
        assert_eq!(keys(snapshot.index(index, &like).unwrap().into_iter()), expected);
    };
    check("letters", "a/x@9", &["a/x@1", "a/y@2", "b/x@3"]);
    check("letters", "c/z@9", &["b/z@4"]);
    check("letters", "c/c@9", &[]);
    check(NAMESPACE_INDEX, "b/none@9", &["b/x@3", "b/z@4"]);
    assert!(snapshot.index("none", &object("a/x@1")).is_err());
}

#[test]
fn an_index_added_later_follows_every_change() {
    let (store, mut writer) = listed("= =a/x@1#web =a/y@2#db !5");
    store.add_index("app", by_app).unwrap();
    let web = |store: &Store| keys(store.snapshot().by_index("app", "web").unwrap());
    assert_eq!(web(&store), ["a/x@1"]);
    feed(&mut writer, 0, "+a/y@6#web +b/z@7#db");
    assert_eq!(web(&store), ["a/x@1", "a/y@6"]);
    feed(&mut writer, 0, "-a/x@8#web");
    assert_eq!(web(&store), ["a/y@6"]);
    let snapshot = store.snapshot();
    assert_eq!(
        snapshot.index_values("app").unwrap().collect::<Vec<_>>(),
        ["db", "web"]
    );
    assert_eq!(
        store.add_index("app", by_app).unwrap_err().to_string(),
        r#"index "app" exists already"#
    );
    let error = snapshot.by_index("none", "x").err().unwrap();
    assert_eq!(error.to_string(), r#"index "none" does not exist"#);
}

#[test]
fn a_snapshot_stays_as_it_was() {
    let (store, mut writer) = listed("= =a/x@1 !5");
    let before = store.snapshot();
    feed(&mut writer, 0, "+a/x@6 +a/y@7");
    assert_eq!(keys(before.iter()), ["a/x@1"]);
    assert_eq!(keys(store.snapshot().iter()), ["a/x@6", "a/y@7"]);
}

#[test]
fn what_was_shown_before_is_freed_by_the_writer_and_not_by_who_has_looked() {
    let (store, mut writer) = listed("= =a/x@1 !5");
    let looked_at = Arc::downgrade(&store.snapshot());
    feed(&mut writer, 0, "+a/x@6");
    assert!(looked_at.upgrade().is_some(), "somebody may be looking still");
    feed(&mut writer, 0, "+a/x@7");
    assert!(looked_at.upgrade().is_none(), "and no more than one is kept");
}

#[tokio::test]
async fn nobody_waits_on_a_store_that_is_no_longer_fed() {
    let (store, writer) = listed("= =a/x@1 !5");
    let later = ResourceVersion::new("6");
    let waits = store.wait_for(&later, Duration::MAX);
    let (waited, ()) = tokio::join!(waits, async { drop(writer) });
    assert!(waited.is_err_and(|error| error.ended));
    assert_eq!(
        store
            .wait_for(&later, Duration::MAX)
            .await
            .err()
            .map(|error| error.ended),
        Some(true),
        "nor later"
    );
    assert!(store.synced().await.is_ok(), "what has come stays");
}

#[test]
fn several_namespaces_sync_together_and_relist_apart() {
    let (store, mut writer) = for_namespaces(&["a".into(), "b".into()]);
    feed(&mut writer, 0, "= =a/x@1 !5");
    assert!(!store.snapshot().is_synced());
    feed(&mut writer, 1, "= =b/y@2 !7");
    let snapshot = store.snapshot();
    assert_eq!(
        (snapshot.is_synced(), snapshot.version().as_str()),
        (true, "5"),
        "the older of both"
    );
    assert_eq!(
        feed(&mut writer, 0, "= !9"),
        ["-a/x@1? Relist"],
        "the other namespace is left alone"
    );
    assert_eq!(store.snapshot().version().as_str(), "7");
}

#[tokio::test(start_paused = true)]
async fn readers_can_wait_for_their_own_writes() {
    let (store, mut writer) = listed("= =a/x@1 !5");
    let wait = |version: &'static str| {
        let store = store.clone();
        tokio::spawn(async move {
            store
                .wait_for(&ResourceVersion::new(version), Duration::MAX)
                .await
                .unwrap()
                .version()
                .to_string()
        })
    };
    let (past, next, far) = (wait("4"), wait("6"), wait("100"));
    assert_eq!(past.await.unwrap(), "5");
    feed(&mut writer, 0, "+a/x@9");
    assert_eq!(next.await.unwrap(), "9");
    assert!(!far.is_finished());
    feed(&mut writer, 0, "~100");
    assert_eq!(far.await.unwrap(), "100");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_ever_for_a_write_that_is_not_told() {
    let (store, writer) = listed("= =a/x@1 !5");
    let within = Duration::from_secs(10);
    let begin = tokio::time::Instant::now();
    let elsewhere = ResourceVersion::new("6");
    let error = store.wait_for(&elsewhere, within).await.unwrap_err();
    assert_eq!(begin.elapsed(), within);
    assert_eq!(error.to_string(), r#"the store is at version "5", not at "6""#);
    drop(writer);
    let error = store.wait_for(&elsewhere, Duration::MAX).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"the store is at version "5", not at "6", and no longer fed"#
    );
}

#[derive(Clone, Debug)]
enum Step {
    Apply(u8, u8),
    Delete(u8),
    Relist(Vec<(u8, bool)>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..40_u8, 0..3_u8).prop_map(|(key, app)| Step::Apply(key, app)),
        3 => (0..40_u8).prop_map(Step::Delete),
        1 => prop::collection::vec((0..40_u8, any::<bool>()), 0..40).prop_map(Step::Relist),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    /// The store equals the server, the index equals a search, and replaying the deltas gives the same state.
    #[test]
    fn store_index_and_deltas_agree(steps in steps()) {
        let (store, mut writer) = new();
        store.add_index("app", by_app).unwrap();
        let name = |key: u8| format!("n{}/k{key}", key % 3);
        let mut server: BTreeMap<String, Object> = BTreeMap::new();
        let mut replayed: BTreeMap<String, Object> = BTreeMap::new();
        let mut version = 0;
        for step in steps {
            version += 1;
            let mut events = Vec::new();
            match step {
                Step::Apply(key, app) => {
                    let object = object(&format!("{}@{version}#app{app}", name(key)));
                    server.insert(name(key), object.clone());
                    events.push(Event::Modified(object));
                }
                Step::Delete(key) => {
                    if server.remove(&name(key)).is_some() {
                        events.push(Event::Deleted(object(&format!("{}@{version}#x", name(key)))));
                    }
                }
                // A gap: some keys were rewritten, the rest kept, those not named deleted.
                Step::Relist(keys) => {
                    let old = std::mem::take(&mut server);
                    for (key, rewritten) in keys {
                        let fresh = || object(&format!("{}@{version}#gap", name(key)));
                        let kept = old.get(&name(key)).filter(|_| !rewritten).cloned();
                        server.insert(name(key), kept.unwrap_or_else(fresh));
                    }
                    events.push(Event::Init);
                    events.extend(server.values().cloned().map(Event::InitApply));
                    events.push(Event::InitDone(ResourceVersion::new(version.to_string())));
                }
            }
            let mut deltas = Vec::new();
            events.into_iter().for_each(|event| writer.apply(0, event, &mut deltas));
            writer.publish();
            for delta in deltas {
                let key = delta.key().to_string();
                match delta {
                    Delta::Added { object, .. } => prop_assert!(replayed.insert(key, object).is_none()),
                    Delta::Updated { old, new, .. } => prop_assert_eq!(replayed.insert(key, new), Some(old)),
                    Delta::Deleted { .. } => prop_assert!(replayed.remove(&key).is_some()),
                }
            }
            let snapshot = store.snapshot();
            prop_assert!(snapshot.iter().eq(server.values()));
            prop_assert_eq!(&replayed, &server);
            let bytes: usize = server.values().map(Object::memory_size).sum();
            prop_assert_eq!(snapshot.object_bytes, bytes);
            for app in ["app0", "app1", "app2", "gap"] {
                let expected = server.values().filter(|object| object.label("app").as_deref() == Some(app));
                prop_assert!(snapshot.by_index("app", app).unwrap().eq(expected));
            }
        }
    }
}
