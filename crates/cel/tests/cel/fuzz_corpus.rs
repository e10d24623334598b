//! The check of the fuzz target over its committed corpus, on any compiler.

#[path = "../../../../fuzz/cel.rs"]
mod cel;

use std::fs;
use std::path::Path;

#[test]
fn expressions_hold_what_is_promised() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/cel");
    let files = fs::read_dir(corpus).expect("the corpus is there");
    let mut count = 0;
    for file in files {
        let data = fs::read(file.expect("a file").path()).expect("it can be read");
        (0..=data.len()).for_each(|length| cel::expression(&data[..length]));
        count += 1;
    }
    assert!(count > 0);
}
