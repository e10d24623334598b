//! Managers as a process has them, on a real server.

mod election;
mod lifecycle;
mod observation;
mod support;
mod webhooks;
