//! A live view of a cluster: the model behind the terminal view and the web page, and the page itself.
//!
//! ```text
//! Follow (one stream per kind) ▶ feed ▶ Board ┬▶ terminal: a full screen
//! Table watch (the open kind)  ▶ table ───────┴▶ web: one page, live by server-sent events
//! ```
//! - [`Board`] is plain data: kinds with their objects, counts, event rates and stream states, and a bounded log. It
//!   receives events and provides views; it uses neither sockets nor the clock.
//! - [`kept`] has the board's object states, packed.
//! - [`feed`] follows the kinds of a cluster into a board.
//! - [`recorded`] shows a recording on a board, as of any moment.
//! - [`table`] watches one kind as the server's Table, with the server's columns.
//! - [`tree`] arranges objects by their owners.
//! - [`terminal`] draws a full screen and handles keys; the program owns the terminal.
//! - [`web`] serves a page on loopback. The cluster's credentials stay in this process.
//!
//! Nothing here writes to the cluster, except a user on a page with [`web::PageOptions::allow_writes`].

pub mod board;
pub mod feed;
pub mod kept;
mod rate;
pub mod recorded;
pub mod table;
pub mod terminal;
pub mod tree;
pub mod web;

pub use board::Board;
