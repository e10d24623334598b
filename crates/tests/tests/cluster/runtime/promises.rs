//! Checks that every test named in the list of guarantees exists.

use std::path::Path;

const PROMISES: &str = include_str!("promises.md");

#[test]
fn every_test_named_in_the_list_exists() {
    let mut sources = String::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in ["../runtime/src", "tests/cluster/runtime"] {
        read(&root.join(folder), &mut sources);
    }
    let names = PROMISES
        .lines()
        .filter(|line| line.starts_with('|'))
        .flat_map(|line| {
            line.rsplit('|')
                .nth(1)
                .unwrap_or_default()
                .split('`')
                .skip(1)
                .step_by(2)
        });
    let missing: Vec<&str> = names
        .filter(|name| !name.contains('/') && !sources.contains(&format!("fn {name}(")))
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}

fn read(folder: &Path, sources: &mut String) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            read(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push_str(&std::fs::read_to_string(&path).expect("a file"));
        }
    }
}
