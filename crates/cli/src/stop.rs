//! The wish to end, from Ctrl-C or from whoever ends processes.

/// Hears the wish from when it was made on: whoever tells users that they may now end the program has one before.
pub(crate) struct Stop {
    #[cfg(unix)]
    signals: Option<[tokio::signal::unix::Signal; 2]>,
}

impl Stop {
    pub(crate) fn listen() -> Self {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let interrupt = signal(SignalKind::interrupt());
            let terminate = signal(SignalKind::terminate());
            let signals = interrupt.ok().zip(terminate.ok()).map(<[_; 2]>::from);
            Self { signals }
        }
        #[cfg(not(unix))]
        Self {}
    }

    /// Returns once somebody wants the program to end, and each time they say so again.
    pub(crate) async fn requested(&mut self) {
        #[cfg(unix)]
        if let Some([interrupt, terminate]) = &mut self.signals {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
        // Without a way to hear the wish there is nothing to wait for but the end of the process.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Returns once somebody wants the program to end.
pub(crate) async fn requested() {
    Stop::listen().requested().await;
}
