//! What the measuring programs share.

pub mod connector;
