use serde_json::json;
use watchkeeper_meta::Resource;
use watchkeeper_runtime::follow::FollowEvent;
use watchkeeper_wire::{Object, ObjectOptions};

use super::*;

fn board(objects: &[(&str, &str, &str, &[&str])]) -> Board {
    let mut board = Board::default();
    for kind in ["Deployment", "Pod", "ReplicaSet"] {
        let resource = Resource::namespaced("", "v1", kind, kind.to_lowercase());
        let number = board.add(kind.to_lowercase().into(), resource);
        for (_, namespace, name, owners) in objects.iter().filter(|(known, ..)| *known == kind) {
            let owner = |uid: &&str| json!({"apiVersion": "v1", "kind": "X", "name": "x", "uid": uid, "controller": true});
            let object = json!({
                "apiVersion": "v1", "kind": kind,
                "metadata": {
                    "namespace": namespace, "name": name, "uid": name, "resourceVersion": "1",
                    "ownerReferences": owners.iter().map(owner).collect::<Vec<_>>(),
                },
            });
            let object = Object::from_json(object.to_string().as_bytes(), &ObjectOptions::default()).unwrap();
            board.note(number, &FollowEvent::Added(object), jiff::Timestamp::UNIX_EPOCH);
        }
    }
    board
}

fn drawn(forest: &Forest) -> String {
    fn draw(node: &Node, depth: usize, text: &mut String) {
        text.push_str(&format!("{}{} {}\n", "  ".repeat(depth), node.kind, node.name));
        node.children
            .iter()
            .for_each(|child| draw(child, depth + 1, text));
    }
    let mut text = String::new();
    forest.roots.iter().for_each(|root| draw(root, 0, &mut text));
    text
}

#[test]
fn children_are_below_their_controllers() {
    let board = board(&[
        ("Pod", "a", "web-1-y", &["web-1"]),
        ("Pod", "a", "web-1-x", &["web-1"]),
        ("ReplicaSet", "a", "web-1", &["web"]),
        ("Deployment", "a", "web", &[]),
        ("Pod", "a", "alone", &[]),
        ("Pod", "a", "orphan", &["not-here"]),
    ]);
    let forest = owners(&board, None);
    assert_eq!(
        drawn(&forest),
        "Deployment web\n  ReplicaSet web-1\n    Pod web-1-x\n    Pod web-1-y\n"
    );
    assert_eq!(forest.left_out, 0);
    assert_eq!(owners(&board, Some("b")), Forest::default());
}

#[test]
fn cyclic_ownership_ends() {
    let board = board(&[("Pod", "a", "one", &["two"]), ("Pod", "a", "two", &["one"])]);
    assert_eq!(owners(&board, None).roots, []);
}

#[test]
fn a_large_forest_counts_what_is_left_out() {
    let names: Vec<String> = (0..MAX_NODES + 5)
        .map(|number| format!("pod-{number:05}"))
        .collect();
    let mut objects: Vec<(&str, &str, &str, &[&str])> = vec![("Deployment", "a", "web", &[])];
    objects.extend(names.iter().map(|name| ("Pod", "a", name.as_str(), &["web"][..])));
    assert_eq!(owners(&board(&objects), None).left_out, 6);
}
