//! The manager of an operator's process: controllers, leader election, probes, metrics, webhooks and shutdown.
//!
//! ```text
//!   signals ──▶ Manager ──▶ always:         sharded controllers, runnables, webhooks, /healthz, /readyz, /metrics
//!                  │
//!                  └──────▶ while leading:  controllers, runnables
//! ```
//!
//! ```
//! # use std::time::Duration;
//! # use watchkeeper_client::Client;
//! # use watchkeeper_meta::Resource;
//! # use watchkeeper_runtime::controller::{Action, BoundController, DynamicController, Reconciler, Request};
//! # use watchkeeper_runtime::factory::{Factory, Selection};
//! use watchkeeper_manager::{Manager, signals};
//!
//! async fn operate(client: Client, websites: BoundController) -> Result<(), Box<dyn std::error::Error>> {
//!     Manager::new(client)
//!         .leader("website-operator") // works while it holds this lease
//!         .metrics(([127, 0, 0, 1], 0)) // in a pod: ([0, 0, 0, 0], 8080)
//!         .probes(([127, 0, 0, 1], 0))
//!         .controller(websites)
//!         .run_until(signals()) // SIGTERM and Ctrl-C
//!         .await?;
//!     Ok(())
//! }
//! # struct Nothing(tokio::sync::mpsc::UnboundedSender<String>);
//! # impl Reconciler for Nothing {
//! #     type Error = std::io::Error;
//! #     async fn reconcile(&self, request: Request) -> Result<Action, Self::Error> {
//! #         let _ = self.0.send(request.key.name().to_owned());
//! #         Ok(Action::Done)
//! #     }
//! # }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! # let cluster = watchkeeper_testing::TestCluster::start().await.unwrap();
//! # let client = cluster.client().clone();
//! # let (told, mut reconciled) = tokio::sync::mpsc::unbounded_channel();
//! # let namespaces = Selection::all(Resource::cluster("", "v1", "Namespace", "namespaces"));
//! # let informer = Factory::new(client.clone(), Default::default()).informer(namespaces);
//! # let controller = DynamicController::new("websites", informer, Default::default()).reconcile(Nothing(told));
//! # tokio::select! {
//! #     ended = operate(client, controller) => panic!("it has ended: {ended:?}"),
//! #     name = reconciled.recv() => assert!(name.is_some()),
//! # }
//! # cluster.stop().await;
//! # }
//! ```
//!
//! Guarantees:
//! - Webhooks, probes and metrics are served, and CA bundles are written, before the first runnable starts.
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
pub use signals::{Signals, signals, when};
