//! Panics of redb as errors.
//!
//! redb follows a page before it has checked it, and panics where a damaged one leads it astray. [`caught`] turns that into
//! an error. The panic hook would print a message and advise a backtrace of code that is not at fault, so the hook is
//! wrapped once: on a thread that is inside [`caught`] it stays quiet. All other panics are reported as before.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs a step that works on a file. A panic becomes its message.
pub(crate) fn caught<T>(step: impl FnOnce() -> T) -> Result<T, String> {
    static WRAP: Once = Once::new();
    WRAP.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !IS_QUIET.try_with(Cell::get).unwrap_or(false) {
                report(panic);
            }
        }));
    });
    let outer = IS_QUIET.replace(true);
    let result = catch_unwind(AssertUnwindSafe(step));
    IS_QUIET.set(outer);
    result.map_err(|panic| message(&*panic).to_owned())
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
