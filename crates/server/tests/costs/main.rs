//! The cost of a request grows at most in proportion to its parts.
//!
//! Each case grows one part of a request (the owners of an object, the rules of a role, the operations of a patch) to
//! n, 2n and 4n. Four times the part may cost four times as much, with some slack, but not sixteen times. Memory is
//! counted by an allocator of this test program, so the numbers are the same on every machine. Work that does not
//! allocate shows only in CPU time, whose bound is wider.

mod counting;
mod custom;
mod documents;
mod every_field;
mod growth;
mod kinds;
mod metadata;
mod patches;
mod pods;
mod rbac;
mod selectors;
