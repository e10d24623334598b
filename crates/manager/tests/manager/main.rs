//! Managers with a real server.

mod election;
mod lifecycle;
mod observation;
mod support;
mod webhooks;
