//! The manager of an operator's process: controllers, leader election, probes, metrics, webhooks and shutdown.
//!
//! ```text
//!   signals ──▶ Manager ──▶ always:         sharded controllers, runnables, webhooks, /healthz, /readyz, /metrics
//!                  │
//!                  └──────▶ while leading:  controllers, runnables
//! ```
//!
//! ```no_run
//! # use watchkeeper_client::Client;
//! # use watchkeeper_runtime::controller::BoundController;
//! use watchkeeper_manager::{Manager, signals};
//!
//! # async fn example(client: Client, websites: BoundController) -> Result<(), Box<dyn std::error::Error>> {
//! Manager::new(client)
//!     .leader("website-operator")
//!     .metrics(([0, 0, 0, 0], 8080))
//!     .probes(([0, 0, 0, 0], 8081))
//!     .controller(websites)
//!     .run_until(signals())
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! Guarantees:
//! - A runnable that fails or panics ends the manager, and the error names it. One that ends without an error does not.
//! - Runnables that need leadership start when the lease is held. If the lease is lost they are dropped at once, and the
//!   manager ends with an error: a restarted process is a standby.
//! - The first signal starts an ordered shutdown with a deadline: nothing new is started, running work may finish,
//!   recorded events are written, the lease is released, and only then are webhooks, probes and metrics closed. The
//!   second signal ends it at once.
//! - A standby that is asked to stop ends without ever working.
//! - It is ready while all its informers are synced and not failing. A standby with warm caches is ready.

mod election;
mod error;
mod http_server;
mod listen;
mod manager;
mod probes;
mod run;
mod runnable;
mod signals;
pub mod webhook;

pub use error::ManagerError;
pub use listen::Listen;
pub use manager::{Manager, SHUTDOWN_DEADLINE};
pub use runnable::{Runnable, Stop};
pub use signals::{Signals, signals};
