//! Managers with a real server.

mod election;
mod lifecycle;
mod observation;
mod sharded;
mod support;
mod webhooks;
