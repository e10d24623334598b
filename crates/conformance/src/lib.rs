//! Checks whether an API server, or a proxy in front of one, keeps the guarantees of Kubernetes' list and watch.
//!
//! ```text
//! a client and a namespace ▶ seeded writes (the truth) + what lists and watches showed ▶ promises ▶ report
//! ```
//! The kit writes its own ConfigMaps (or objects of [another kind](Options::kind)), reads them back through lists and
//! watches, and compares the result with what it wrote. It needs permission to get, list, watch, create, update and delete
//! them in one namespace. It touches no other objects, deletes its own even when it is stopped, and every check ends within
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
//! - [`Check`]: the guarantees, by name.
//! - [`promises`]: those of a watch as pure functions over recorded histories, for histories from anywhere.
//! - [`Report`]: the outcome of each check, and what was seen instead.
//!
//! Kubernetes makes no guarantee about time, and none is checked; patience is only where the kit stops waiting.
//! Versions are compared as numbers, which Kubernetes allows since v1.35 and all its servers have always used.

mod check;
mod checks;
mod custom_kind;
mod objects;
pub mod promises;
mod report;
mod watcher;

pub use check::{Check, UnknownCheck};
pub use checks::{Options, run};
pub use custom_kind::CustomKind;
pub use report::{Finding, Outcome, Report};
