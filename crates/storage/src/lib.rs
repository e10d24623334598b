//! A revisioned key-value store: one revision counter, compare-and-swap writes, history, and a gap-free feed.
