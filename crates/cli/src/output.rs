//! The output of a command: a shared stream, buffered until it is flushed.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// A stream of text. Clones write to the same stream.
#[derive(Clone)]
pub struct Output(Arc<Mutex<Box<dyn Write + Send>>>);

impl Output {
    /// Writes to any writer.
    pub fn new(writer: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Box::new(writer))))
    }

    /// Keeps the text; the second value gives access to it.
    pub fn kept() -> (Self, Arc<Mutex<Vec<u8>>>) {
        let kept = Arc::new(Mutex::new(Vec::new()));
        (Self::new(Kept(kept.clone())), kept)
    }

    /// Writes a line and flushes it. For people: a closed stream is ignored.
    pub fn line(&mut self, text: impl AsRef<str>) {
        let _ = writeln!(self, "{}", text.as_ref().trim_end()).and_then(|()| self.flush());
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        lock(&self.0).write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        lock(&self.0).flush()
    }
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Output")
    }
}

struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// After a panic, the text written so far is kept.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
