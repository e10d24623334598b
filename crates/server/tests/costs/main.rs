//! What a request costs, as its parts grow: never more than in proportion.
//!
//! Each case grows one part of a request (the owners of an object, the rules of a role, the operations of a patch) to
//! n, 2n and 4n. The server may take four times as much for four times the part, with some slack, and not sixteen
//! times. Memory is counted by an allocator of this test program, so the figures are the same on every machine. Work
//! that allocates nothing is seen only in the time of the CPU, whose bound is wider.

mod counting;
mod custom;
mod documents;
mod growth;
mod kinds;
mod metadata;
mod patches;
mod pods;
mod rights;
mod selectors;
