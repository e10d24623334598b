//! Tests of several crates together, which none of them could have without depending on what stands above it.
