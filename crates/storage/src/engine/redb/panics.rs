//! Turns panics of redb into errors.
//!
//! redb follows a page before it verifies it, and panics on some damaged ones. [`caught`] turns that into an error. The
//! panic hook would print a message and a misleading backtrace hint, so it is wrapped once: on a thread that is inside
//! [`caught`] it stays quiet. All other panics are reported as before.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs a step on a file. If it panics, returns the panic message as the error.
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
