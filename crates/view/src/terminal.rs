//! The terminal view: kinds on the left, objects or changes on the right, one object in full.
//!
//! [`Screen`] is what keys change; [`draw`](Screen::draw) puts it and the board into a frame. Both are plain functions of
//! their arguments. Whoever owns the terminal reads keys, calls [`Screen::key`], and draws when something has changed.

mod draw;
mod screen;

pub use screen::{Ending, Screen};

use crate::feed::Live;
use crate::table::Tables;

/// What the screen shows.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// Kinds, objects and the log.
    pub live: &'a Live,
    /// Rows with the server's columns.
    pub tables: &'a Tables,
    /// Which cluster this is.
    pub title: &'a str,
}

#[cfg(test)]
mod tests;
