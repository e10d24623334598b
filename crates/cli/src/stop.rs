//! Stop signals: Ctrl-C and SIGTERM.

/// Listens for signals from its creation on. It is created before the program announces that it can be stopped.
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

    /// Completes with each signal.
    pub(crate) async fn requested(&mut self) {
        #[cfg(unix)]
        if let Some([interrupt, terminate]) = &mut self.signals {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
        // If signals cannot be received, there is nothing to wait for.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Completes with the first signal.
pub(crate) async fn requested() {
    Stop::listen().requested().await;
}
