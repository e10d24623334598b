//! The end of standard input: how a program notices that its parent process is gone.

use std::io::{Read as _, stdin};

use tokio::sync::oneshot;

/// Completes when standard input is closed. Input before that is ignored.
pub(crate) async fn ended() {
    let (said, heard) = oneshot::channel();
    // A detached thread: a runtime does not shut down while one of its own threads reads.
    std::thread::spawn(move || {
        let mut rest = [0; 4096];
        while stdin().lock().read(&mut rest).is_ok_and(|read| read > 0) {}
        let _ = said.send(());
    });
    let _ = heard.await;
}
