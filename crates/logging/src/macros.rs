//! The two features klog has and `tracing` lacks: numbered levels, and a message that ends the program.

/// Logs at a numbered level, as `klog.V(n).InfoS`: printed if the level is at most `-v`, or that of `--vmodule` for
/// this file.
///
/// Fields and message are written as for `tracing::info!`.
///
/// ```
/// # use watchkeeper_logging::vlog;
/// vlog!(2, kind = "Pod", "Add new object to store");
/// ```
#[macro_export]
macro_rules! vlog {
    ($level:expr, $($event:tt)+) => {{
        let v: i32 = $level;
        // tracing disables whole levels at no cost: 1 to 5 are its DEBUG, higher ones its TRACE.
        match v {
            i32::MIN..=0 => $crate::__tracing::info!(v, $($event)+),
            1..=5 => $crate::__tracing::debug!(v, $($event)+),
            _ => $crate::__tracing::trace!(v, $($event)+),
        }
    }};
}

/// Logs with severity F and ends the process with code 255, as `klog.Fatal` does. No destructor runs.
#[macro_export]
macro_rules! fatal {
    ($($event:tt)+) => {{
        $crate::__tracing::error!(fatal = true, $($event)+);
        ::std::process::exit(255)
    }};
}
