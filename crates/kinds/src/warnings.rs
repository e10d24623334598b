//! Warnings of a write.

use parking_lot::Mutex;

/// The largest number of warnings of one write; further ones are dropped. The header of a response has room for
/// fewer.
pub(crate) const MAX_WARNINGS: usize = 256;

/// The warnings of a write, in order and without duplicates.
#[derive(Debug, Default)]
pub struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    /// Adds a warning, unless it is a duplicate or there are too many.
    pub fn add(&self, text: impl Into<String>) {
        let text = text.into();
        let mut warnings = self.0.lock();
        if warnings.len() < MAX_WARNINGS && !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    /// True if no further warning is accepted.
    pub(crate) fn is_full(&self) -> bool {
        self.0.lock().len() >= MAX_WARNINGS
    }

    /// All warnings so far.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}
