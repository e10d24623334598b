//! What keeps a program in step with a cluster: work queues, watchers, stores, informers and controllers.
//!
//! The hard parts are plain data that change by plain method calls, with time as an argument; thin async shells
//! around them own locks, timers and streams. The hearts are tested against oracles, the shells against a server.

pub mod api_source;
pub mod controller;
pub mod delta;
pub mod factory;
pub mod finalizer;
pub mod follow;
pub mod informer;
pub mod leader;
pub mod metrics;
pub mod position;
pub mod queue;
pub mod recorder;
pub mod reflector;
pub mod retry_watcher;
pub mod store;
pub mod wait;
pub mod watcher;
pub mod workqueue;
