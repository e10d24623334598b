//! A live view of a cluster: the model behind the terminal view and the web page, and the page itself.
//!
//! ```text
//! Follow (one stream per kind) ▶ feed ▶ Board ┬▶ terminal: a full screen
//! Table watch (the open kind)  ▶ table ───────┴▶ web: one page, live by server-sent events
//! ```
//!
//! - [`Board`] is plain data: kinds with their objects, counts, event rates and stream states, and a bounded log of what
//!   happened. It is fed with events and asked for views; it knows neither sockets nor the clock.
//! - [`feed`] follows the kinds of a cluster into a board.
//! - [`recorded`] shows a recording on a board, as of any moment.
//! - [`table`] watches one kind as the server's Table, so that columns are the server's own.
//! - [`tree`] arranges objects by their owners.
//! - [`terminal`] draws a full screen and understands keys; the program owns the terminal itself.
//! - [`web`] serves a page on loopback. The cluster's credentials stay in this process.
//!
//! Nothing here writes to the cluster, except what a person does on a page that was started for it
//! ([`web::PageOptions::allow_writes`]).

pub mod age;
pub mod board;
pub mod feed;
mod rate;
pub mod recorded;
pub mod table;
pub mod terminal;
pub mod tree;
pub mod web;

pub use board::Board;
