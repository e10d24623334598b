//! The terminal view: kinds on the left, objects or changes on the right, one object in full.
//! [`Screen`] is the state that keys change; [`draw`](Screen::draw) renders it and the board into a frame. Both are
//! pure functions. The owner of the terminal reads keys, calls [`Screen::key`], and redraws after changes.

mod draw;
mod screen;

pub use screen::{Ending, Screen};

use crate::feed::Live;
use crate::table::Tables;

/// The data of the screen.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// Kinds, objects and the log.
    pub live: &'a Live,
    /// Rows with the server's columns.
    pub tables: &'a Tables,
    /// The name of the cluster.
    pub title: &'a str,
}

#[cfg(test)]
mod tests;
