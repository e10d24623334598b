//! An operator's process: what runs in it, who may work, how others see it, and how it ends.
//!
//! ```text
//!   signals ──▶ Manager ──▶ always:         runnables, webhooks, /healthz, /readyz, /metrics
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
//! Promises:
//! - A runnable that fails or panics ends the manager, and the error names it. One that ends well does not.
//! - What runs while leading begins when the lease is held. If the lease is lost it is dropped at once, and the manager
//!   ends with an error: whoever starts the process again starts a standby.
//! - The first signal begins an ordered shutdown with a deadline: nothing new is begun, what runs may finish, recorded
//!   events are written, the lease is given back, and only then do webhooks, probes and metrics close. The second
//!   signal ends it at once.
//! - A standby that is asked to stop leaves.
//! - It is ready while every informer it was told of is synced and not failing. A standby with warm caches is ready.

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
