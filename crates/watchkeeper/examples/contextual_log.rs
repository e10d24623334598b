//! Contextual logging: a name and values that are added to every message within a span.

use std::time::Instant;

use tracing::{info, info_span};
use watchkeeper_logging::{InitError, init, named};

fn main() -> Result<(), InitError> {
    init(&Default::default())?;
    let begun = Instant::now();
    let _foo = named("foo").entered();
    for i in 0..3 {
        let _values = info_span!("step", time = ?begun.elapsed()).entered();
        info!("{i}");
    }
    Ok(())
}
