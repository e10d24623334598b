//! The progress of a long list: one line on a terminal, removed before other output.

use std::io::Write as _;
use std::time::{Duration, Instant};

use crate::output::Output;
use crate::session::Session;

/// A list that finishes sooner shows no bar.
pub(crate) const SHOW_AFTER: Duration = Duration::from_millis(500);

/// The width of the bar.
const BAR: u64 = 30;

/// Returns to the start of the line and erases it.
const WIPE: &str = "\r\x1b[K";

/// A progress bar that grows with pages.
pub(crate) struct Progress {
    screen: Output,
    /// `None` if there is no terminal.
    show_at: Option<Instant>,
    seen: u64,
    /// The total; servers do not state it with selectors.
    total: Option<u64>,
    shown: bool,
}

impl Progress {
    /// Starts now. Only on a terminal.
    pub(crate) fn new(session: &Session) -> Self {
        Self {
            screen: session.err.clone(),
            show_at: session.progress_after.map(|after| Instant::now() + after),
            seen: 0,
            total: None,
            shown: false,
        }
    }

    /// Counts a page: its objects, and the remaining ones if the server states them.
    pub(crate) fn note(&mut self, objects: usize, remaining: Option<u64>) {
        self.seen += objects as u64;
        self.total = remaining.map(|remaining| self.seen + remaining);
    }

    /// Shows the bar, once the list takes long.
    pub(crate) fn show(&mut self) {
        if self.show_at.is_some_and(|at| Instant::now() >= at) {
            self.shown = true;
            self.write(&format!("{WIPE}{}", line(self.seen, self.total)));
        }
    }

    /// Removes the bar before other output.
    pub(crate) fn hide(&mut self) {
        if std::mem::take(&mut self.shown) {
            self.write(WIPE);
        }
    }

    /// A closed terminal is ignored.
    fn write(&mut self, text: &str) {
        let _ = self
            .screen
            .write_all(text.as_bytes())
            .and_then(|()| self.screen.flush());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.hide();
    }
}

fn line(seen: u64, total: Option<u64>) -> String {
    let Some(total) = total.filter(|&total| total > 0) else {
        return format!("{seen} objects");
    };
    let full = seen.min(total) * BAR / total;
    let bar: String = (0..BAR).map(|at| if at < full { '#' } else { '.' }).collect();
    format!("[{bar}] {seen} of {total}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills() {
        assert_eq!(line(0, Some(10)), "[..............................] 0 of 10");
        assert_eq!(line(5, Some(10)), "[###############...............] 5 of 10");
        assert_eq!(line(10, Some(10)), "[##############################] 10 of 10");
        assert_eq!(line(7, None), "7 objects");
    }
}
