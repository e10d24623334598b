//! The operator on a real API server, with its own manifests and RBAC rules.

mod faults;
mod life;
mod time;
mod webhooks;
mod world;
