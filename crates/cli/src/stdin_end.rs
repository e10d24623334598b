//! The end of standard input: how a program notices that whoever started it is gone, however that came about.

use std::io::{Read as _, stdin};

use tokio::sync::oneshot;

/// Resolves when standard input has ended. What comes before that is passed over.
pub(crate) async fn ended() {
    let (said, heard) = oneshot::channel();
    // A thread of its own, which nobody waits for: a runtime does not end while one of its threads reads.
    std::thread::spawn(move || {
        let mut rest = [0; 4096];
        while stdin().lock().read(&mut rest).is_ok_and(|read| read > 0) {}
        let _ = said.send(());
    });
    let _ = heard.await;
}
