//! Both encodings against recordings, against each other, and on random objects.

mod canonical_goldens;
mod codec_goldens;
mod fuzz_corpus;
mod random_objects;
mod recorded_streams;
