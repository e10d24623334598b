//! The checks of the fuzz targets over their committed corpus, on any compiler.

#[path = "../../../../fuzz/checks.rs"]
mod checks;

use std::fs;
use std::path::Path;

fn run(target: &str, check: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let mut inputs = 0;
    for entry in fs::read_dir(&corpus).unwrap() {
        let path = entry.unwrap().path();
        let data = fs::read(&path).unwrap();
        // Every prefix, too: streams break off anywhere.
        (0..=data.len()).for_each(|length| check(&data[..length]));
        inputs += 1;
    }
    assert!(inputs > 0, "no inputs in {}", corpus.display());
}

#[test]
fn json_lists_hold() {
    run("json_list", checks::json_list);
}

#[test]
fn protobuf_lists_hold() {
    run("protobuf_list", checks::protobuf_list);
}

#[test]
fn protobuf_messages_hold() {
    run("protobuf_message", checks::protobuf_message);
}

#[test]
fn json_bodies_hold() {
    run("json_body", checks::json_body);
}

#[test]
fn custom_schemas_hold() {
    run("custom_schema", checks::custom_schema);
}

#[test]
fn watch_streams_hold() {
    run("watch", checks::watch);
}

#[test]
fn yaml_holds() {
    run("yaml", checks::yaml);
}

#[test]
fn selectors_hold() {
    run("selectors", checks::selectors);
}
