//! The operator on a real API server, with the manifests and the rights it is installed with.

mod faults;
mod life;
mod time;
mod webhooks;
mod world;
