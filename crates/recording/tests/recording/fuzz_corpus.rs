//! Runs the check of the fuzz target over its corpus, on any compiler.

use std::fs;
use std::path::Path;

#[path = "../../../../fuzz/recording.rs"]
mod recording;

#[test]
fn the_corpus_is_read_or_refused() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/recording");
    let mut count = 0;
    for file in fs::read_dir(corpus).expect("the corpus is there") {
        recording::check(&fs::read(file.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= 4, "{count} files");
}
