//! Cross-crate tests. They live here so that no library depends on a crate above it.
