use serde_json::json;
use watchkeeper_meta::ResourceVersion;
use watchkeeper_runtime::follow::{Gone, Restart};
use watchkeeper_wire::ObjectOptions;

use super::*;

fn pods() -> Resource {
    Resource::namespaced("", "v1", "Pod", "pods")
}

fn pod(name: &str, version: u32) -> Object {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "shop", "name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
            "managedFields": [
                {"manager": "kubelet", "operation": "Update", "time": "2026-01-01T00:00:02Z"},
                {"manager": "kubectl", "operation": "Update", "time": "2026-01-01T00:00:01Z"},
            ],
        },
    });
    Object::from_json(
        pod.to_string().as_bytes(),
        &ObjectOptions {
            keep_managed_fields: true,
        },
    )
    .unwrap()
}

fn gone(name: &str) -> FollowEvent {
    FollowEvent::Deleted(Gone {
        key: ObjectKey::new("shop", name),
        uid: "u".into(),
        version: ResourceVersion::new("9"),
        last: None,
    })
}

fn board() -> (Board, usize) {
    let mut board = Board::default();
    let kind = board.add("pods".into(), pods());
    board.note(kind, &FollowEvent::Added(pod("old", 1)), Timestamp::UNIX_EPOCH);
    board.note(
        kind,
        &FollowEvent::Synced(ResourceVersion::new("1")),
        Timestamp::UNIX_EPOCH,
    );
    (board, kind)
}

fn told(board: &Board) -> Vec<String> {
    let line = |entry: &Arc<Entry>| match &entry.what {
        Happening::Change(change) => {
            format!("{} {} by {:?}", change.event, change.key, change.who.as_deref())
        }
        Happening::Restarted { reason } => format!("restarted: {reason}"),
        Happening::Failed { reason } => format!("failed: {reason}"),
    };
    board.unseen(0, usize::MAX).entries.iter().map(line).collect()
}

#[test]
fn the_first_list_is_state_and_what_follows_is_logged() {
    let (mut board, kind) = board();
    assert_eq!(told(&board), [""; 0]);
    assert_eq!(board.kinds()[kind].count(), 1);
    board.note(kind, &FollowEvent::Added(pod("new", 2)), Timestamp::UNIX_EPOCH);
    board.note(kind, &gone("old"), Timestamp::UNIX_EPOCH);
    assert_eq!(
        told(&board),
        [
            "ADDED shop/new by Some(\"kubelet (Update)\")",
            "DELETED shop/old by None"
        ]
    );
    assert_eq!(board.kinds()[kind].count(), 1);
    assert_eq!(board.kinds()[kind].rate(Timestamp::UNIX_EPOCH), 0.2);
}

#[test]
fn what_a_restart_finds_is_logged() {
    let (mut board, kind) = board();
    let restart = Restart {
        from: None,
        to: None,
        reason: "too old".to_owned(),
        knows_deletes: true,
    };
    board.note(kind, &FollowEvent::Restarted(restart), Timestamp::UNIX_EPOCH);
    assert_eq!(board.kinds()[kind].state, StreamState::Syncing);
    board.note(kind, &gone("old"), Timestamp::UNIX_EPOCH);
    board.note(
        kind,
        &FollowEvent::Synced(ResourceVersion::new("9")),
        Timestamp::UNIX_EPOCH,
    );
    assert_eq!(board.kinds()[kind].state, StreamState::Live);
    assert_eq!(told(&board), ["restarted: too old", "DELETED shop/old by None"]);
}

#[test]
fn a_failure_is_logged_once_and_ends_with_the_next_event() {
    let (mut board, kind) = board();
    board.fail(kind, "refused", Timestamp::UNIX_EPOCH);
    board.fail(kind, "refused", Timestamp::UNIX_EPOCH);
    assert_eq!(told(&board), ["failed: refused"]);
    board.note(kind, &FollowEvent::Modified(pod("old", 3)), Timestamp::UNIX_EPOCH);
    assert_eq!(board.kinds()[kind].state, StreamState::Live);
}

#[test]
fn kept_states_have_no_managed_fields() {
    let (board, kind) = board();
    let object = board.kinds()[kind]
        .object(&ObjectKey::new("shop", "old"))
        .unwrap();
    assert_eq!(readable(&object)["metadata"]["managedFields"], Value::Null);
}

#[test]
fn objects_of_a_kind_and_their_versions_share_memory() {
    let (mut board, kind) = board();
    let pod = |name: usize, version: usize| {
        let env: Vec<Value> = (0..40)
            .map(|at| json!({"name": format!("SETTING_{at}"), "value": "x".repeat(at)}))
            .collect();
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "shop", "name": format!("web-{name}"), "uid": format!("uid-{name}"),
                "resourceVersion": version.to_string()},
            "spec": {"containers": [{"name": "main", "env": env}]},
            "status": {"restarts": version},
        });
        Object::from_json(pod.to_string().as_bytes(), &ObjectOptions::default()).unwrap()
    };
    for name in 0..300 {
        board.note(kind, &FollowEvent::Added(pod(name, 1)), Timestamp::UNIX_EPOCH);
    }
    for version in 2..4 {
        for name in 0..300 {
            board.note(
                kind,
                &FollowEvent::Modified(pod(name, version)),
                Timestamp::UNIX_EPOCH,
            );
        }
    }
    let kept = || board.kinds()[kind].objects().map(|(_, kept)| kept);
    let (own, unpacked) = (
        kept().map(Kept::own_size).sum::<usize>(),
        kept().map(Kept::unpacked_size).sum::<usize>(),
    );
    assert!(own < unpacked / 10, "{own} bytes for {unpacked}");
    let last = board.history("pods", &ObjectKey::new("shop", "web-7"));
    let Happening::Change(change) = &last.last().unwrap().what else {
        panic!("a change")
    };
    let fields: Vec<String> = change
        .update()
        .changes
        .iter()
        .map(|field| field.path.to_string())
        .collect();
    assert_eq!(fields, ["status.restarts"]);
    assert_eq!(change.new.as_ref().and_then(Kept::object), Some(pod(7, 3)));
}

#[test]
fn a_reader_that_is_late_is_told_what_it_missed() {
    let (mut board, kind) = board();
    for version in 2..MAX_ENTRIES as u32 + 12 {
        board.note(
            kind,
            &FollowEvent::Modified(pod("old", version)),
            Timestamp::UNIX_EPOCH,
        );
    }
    let all = board.unseen(0, usize::MAX);
    assert_eq!((all.entries.len(), all.missed), (MAX_ENTRIES, 10));
    let some = board.unseen(board.next_sequence() - 5, 3);
    assert_eq!((some.entries.len(), some.missed), (3, 2));
    let none = board.unseen(board.next_sequence(), 3);
    assert_eq!((none.entries.len(), none.missed), (0, 0));
    assert_eq!(
        board.history("pods", &ObjectKey::new("shop", "old")).len(),
        MAX_ENTRIES
    );
}

#[test]
fn the_log_is_bounded_by_bytes() {
    let (mut board, kind) = board();
    let big = |version: u32| {
        let object = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "shop", "name": "big", "uid": "u", "resourceVersion": version.to_string(),
                "annotations": {"a": "x".repeat(1 << 20)}},
        });
        Object::from_json(object.to_string().as_bytes(), &ObjectOptions::default()).unwrap()
    };
    for version in 2..24 {
        board.note(kind, &FollowEvent::Modified(big(version)), Timestamp::UNIX_EPOCH);
    }
    let kept = board.unseen(0, usize::MAX).entries.len();
    assert!((10..=17).contains(&kept), "{kept} entries");
}
