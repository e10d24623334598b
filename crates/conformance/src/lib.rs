//! Judges whether an API server, or a proxy in front of one, keeps the promises of Kubernetes' list and watch.
//!
//! ```text
//! a client and a namespace ▶ seeded writes (the truth) + what lists and watches showed ▶ promises ▶ report
//! ```
//! The kit writes ConfigMaps of its own, reads them back through lists and watches, and compares what it was shown with
//! what it wrote. It needs the rights to get, list, watch, create, update and delete ConfigMaps in one namespace. It
//! touches no object that it has not created, deletes those it has, even when it is stopped, and every check ends within
//! [`Options::limit`].
//!
//! ```
//! use watchkeeper_conformance::{Options, run};
//! # use watchkeeper_client::Client;
//! # async fn example(client: Client) {
//! let never = std::future::pending();
//! let report = run(&client, "default", &Options::default(), never, |finding| println!("{finding}")).await;
//! assert!(report.passed());
//! # }
//! ```
//!
//! - [`Check`]: the promises, by name.
//! - [`promises`]: those of a watch as pure functions over recorded histories, for histories from anywhere.
//! - [`Report`]: what came of each check, and what was seen instead.
//!
//! A promise about time is not made by Kubernetes and not judged here; patience is only where the kit stops waiting.
//! Versions are compared as numbers, which Kubernetes allows since v1.35 and every server of it has always had.

mod check;
mod checks;
mod objects;
pub mod promises;
mod report;
mod watcher;

pub use check::{Check, UnknownCheck};
pub use checks::{Options, run};
pub use report::{Finding, Outcome, Report};
