//! What a writer should hear besides the answer.

use parking_lot::Mutex;

/// The most warnings of one write; further ones are not heard. The head of an answer has room for fewer.
const MAX_WARNINGS: usize = 256;

/// What a writer should hear besides the answer, in order and once each.
#[derive(Debug, Default)]
pub struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    /// Adds a warning, unless it is there already or there are too many.
    pub fn add(&self, text: impl Into<String>) {
        let text = text.into();
        let mut warnings = self.0.lock();
        if warnings.len() < MAX_WARNINGS && !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    /// All warnings so far.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}
