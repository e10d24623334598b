//! The objects that the latency benchmark writes, shared by its writers and the server.

/// Their namespace.
pub const NAMESPACE: &str = "bench";

/// The number of concurrent writers, each with its own pod.
pub const WRITERS: usize = 16;

/// The name of a writer's object.
pub fn name(writer: usize) -> String {
    format!("latency-{writer}")
}
