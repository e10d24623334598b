//! V-levels: a message is printed if its level is at most that of `-v`. The level can be changed at run time.

use clap::Parser as _;
use watchkeeper_logging::{InitError, Options, init, vlog};

fn main() -> Result<(), InitError> {
    let verbosity = init(&Options::parse())?;
    for level in -3..6 {
        vlog!(level, Level = %level, "klog");
    }

    // A fixed level.
    let log = |number: i32| vlog!(1, Number = %number, "klog");
    (0..2).for_each(log);

    // Overrides the command line.
    verbosity.set_v(4);
    for level in 3..6 {
        vlog!(level, Level = %level, "from now on");
    }
    Ok(())
}
