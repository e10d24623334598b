//! What the writers of the latency benchmark write to, known to them and to the server that has it.

/// Its namespace.
pub const NAMESPACE: &str = "bench";

/// How many writers there are at once, and pods for them.
pub const WRITERS: usize = 16;

/// The name of what a writer writes to.
pub fn name(writer: usize) -> String {
    format!("latency-{writer}")
}
