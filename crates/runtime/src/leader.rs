//! Leader election with a Lease: one of several processes works, and it stops before another one starts.
//!
//! The rules are client-go's: the lease is acquired if it is free or has not been renewed for its duration *as
//! observed here*, so clocks need not agree. One rule is stricter: the work is a future that is dropped if the lease
//! could not be renewed in time or is held by another, and the lease is released only after the work has ended.
//! Nothing runs without the lease. (A future is dropped at an await; work that blocks its thread cannot be stopped.)
//!
//! ```text
//!  renewed            renew deadline   lease duration
//!     ├─────────────────────┤ work is dropped    │ others may take it
//! ```

mod record;

use std::time::Duration;

use tokio::time::Instant;
use watchkeeper_client::{DynamicApi, Error, retry_on_conflict};
use watchkeeper_meta::Time;

use self::record::{Decision, LeaseRecord, Observed};

/// 15 s, as client-go.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// 10 s, as client-go.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// 2 s, as client-go.
pub const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// The renew deadline must be longer than this many retry periods, as in client-go.
const JITTER_FACTOR: f64 = 1.2;

/// The options of a candidate.
#[derive(Clone, Debug)]
pub struct LeaderOptions {
    /// The name of the lease.
    pub lease: String,
    /// The identity of this candidate, unique per process; for example host name and a random suffix.
    pub identity: String,
    /// The time others must wait before they acquire a lease that is not renewed. It is written into the lease in
    /// whole seconds, rounded up; the duration in another holder's lease applies to that lease.
    pub lease_duration: Duration,
    /// The time the leader tries to renew before it stops working.
    pub renew_deadline: Duration,
    /// The interval of renewals and attempts.
    pub retry_period: Duration,
}

impl LeaderOptions {
    /// With client-go's durations.
    pub fn new(lease: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            lease: lease.into(),
            identity: identity.into(),
            lease_duration: LEASE_DURATION,
            renew_deadline: RENEW_DEADLINE,
            retry_period: RETRY_PERIOD,
        }
    }
}

/// Durations that cannot keep two leaders apart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaderOptionsError {
    /// Others would acquire the lease while the work still runs.
    #[error("lease duration must be longer than the renew deadline")]
    LeaseTooShort,
    /// One failed renewal would end the work.
    #[error("renew deadline must be longer than 1.2 retry periods")]
    DeadlineTooShort,
    /// The identity is empty.
    #[error("identity must not be empty")]
    NoIdentity,
}

/// The result of leading.
#[derive(Debug, PartialEq, Eq)]
pub enum Led<T> {
    /// The work has ended; the lease was released.
    Finished(T),
    /// A shutdown was requested before it held the lease; the work was never started.
    Left,
    /// The lease could not be renewed in time, or another holds it; the work was dropped.
    Lost,
}

/// A candidate in a leader election.
#[derive(Debug)]
pub struct LeaderElector {
    leases: DynamicApi,
    options: LeaderOptions,
    observed: Option<Observed>,
}

impl LeaderElector {
    /// A candidate for a lease of this API and namespace.
    pub fn new(leases: DynamicApi, options: LeaderOptions) -> Result<Self, LeaderOptionsError> {
        if options.identity.is_empty() {
            return Err(LeaderOptionsError::NoIdentity);
        }
        if options.lease_duration <= options.renew_deadline {
            return Err(LeaderOptionsError::LeaseTooShort);
        }
        if options.renew_deadline <= options.retry_period.mul_f64(JITTER_FACTOR) {
            return Err(LeaderOptionsError::DeadlineTooShort);
        }
        Ok(Self {
            leases,
            options,
            observed: None,
        })
    }

    /// The current leader, as last observed.
    pub fn leader(&self) -> Option<&str> {
        self.observed
            .as_ref()
            .and_then(|observed| observed.record.holder())
    }

    /// Waits until it leads, then runs the work until it ends or the lease is lost.
    ///
    /// `shutdown` ends the wait. Work that has started is not dropped by it but ends by itself: it usually waits for
    /// the same signal, and keeps the lease until it has finished. Dropping this future drops the work; the lease
    /// then expires.
    pub async fn lead<T>(
        &mut self,
        work: impl AsyncFnOnce() -> T,
        shutdown: impl Future<Output = ()>,
    ) -> Led<T> {
        let Some(mut renewed) = self.acquire(shutdown).await else {
            return Led::Left;
        };
        let outcome = {
            let work = work();
            tokio::pin!(work);
            loop {
                let lost_at = renewed + self.options.renew_deadline;
                tokio::select! {
                    // The deadline goes first: work that is always ready must not outlive it.
                    biased;
                    () = tokio::time::sleep_until(lost_at) => break Led::Lost,
                    renewal = self.renew() => match renewal {
                        Some(at) => renewed = at,
                        None => break Led::Lost,
                    },
                    done = &mut work => break Led::Finished(done),
                }
            }
        };
        if matches!(outcome, Led::Finished(_)) {
            self.release().await;
        }
        outcome
    }

    /// Tries until the lease is held. Returns the time of the successful request, before it was granted; `None` after
    /// a shutdown.
    async fn acquire(&mut self, shutdown: impl Future<Output = ()>) -> Option<Instant> {
        tokio::pin!(shutdown);
        loop {
            let asked = Instant::now();
            tokio::select! {
                biased;
                () = &mut shutdown => {
                    // The dropped request may have succeeded.
                    self.release().await;
                    return None;
                }
                held = self.ask() => if held {
                    return Some(asked);
                }
            }
            let pause = self.jittered(self.options.retry_period);
            tokio::select! {
                biased;
                () = &mut shutdown => return None,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Waits for the next renewal and retries until it succeeds; the caller has the deadline. `None` if another holds
    /// the lease.
    async fn renew(&mut self) -> Option<Instant> {
        loop {
            tokio::time::sleep(self.options.retry_period).await;
            let asked = Instant::now();
            if self.ask().await {
                return Some(asked);
            }
            if let Some(leader) = self.leader().filter(|leader| *leader != self.options.identity) {
                tracing::warn!(
                    leader,
                    lease = self.options.lease,
                    "another candidate holds the lease"
                );
                return None;
            }
        }
    }

    /// [`Self::try_once`], with half the available time: one hanging request must not use up all of it.
    async fn ask(&mut self) -> bool {
        let limit = self.options.renew_deadline / 2;
        match tokio::time::timeout(limit, self.try_once()).await {
            Ok(Ok(held)) => return held,
            Ok(Err(error)) => {
                tracing::warn!(%error, lease = self.options.lease, "cannot acquire or renew the lease")
            }
            Err(_) => tracing::warn!(lease = self.options.lease, "no answer within {limit:?}"),
        }
        false
    }

    /// Reads the lease and acquires or renews it if possible. Returns true if it is held now.
    async fn try_once(&mut self) -> Result<bool, Error> {
        let found = match self.leases.get(&self.options.lease).await {
            Ok(lease) => Some(LeaseRecord::read(&lease)),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        };
        self.observed = found.map(|record| Observed::next(self.observed.take(), record, Instant::now()));
        let decision = record::decide(
            self.observed.as_ref(),
            &self.options,
            Instant::now(),
            wall_clock(),
        );
        let written = match decision {
            Decision::Wait => return Ok(false),
            Decision::Create(lease) => self.leases.create(&lease).await,
            Decision::Update(lease) => self.leases.update(&self.options.lease, &lease).await,
        };
        match written {
            Ok(lease) => {
                let record = LeaseRecord::read(&lease);
                self.observed = Some(Observed::next(self.observed.take(), record, Instant::now()));
                Ok(true)
            }
            // Another candidate was faster.
            Err(error) if error.is_conflict() || error.is_already_exists() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Releases the lease so that others need not wait. If that fails, it expires.
    async fn release(&mut self) {
        self.observed = None;
        let limit = self.options.renew_deadline;
        match tokio::time::timeout(limit, retry_on_conflict(|| self.try_release())).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, lease = self.options.lease, "cannot release the lease")
            }
            Err(_) => tracing::warn!(lease = self.options.lease, "no answer within {limit:?}"),
        }
    }

    /// Reads the lease again: a renewal may have been in progress when the work ended.
    async fn try_release(&self) -> Result<(), Error> {
        let name = &self.options.lease;
        let record = match self.leases.get(name).await {
            Ok(lease) => LeaseRecord::read(&lease),
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error),
        };
        if record.holder() == Some(&self.options.identity) {
            let released = record.released(wall_clock());
            self.leases.update(name, &released).await?;
        }
        Ok(())
    }

    fn jittered(&self, period: Duration) -> Duration {
        period + period.mul_f64(JITTER_FACTOR * fastrand::f64())
    }
}

/// The time to write into the lease; only people read it.
fn wall_clock() -> Time {
    watchkeeper_clock::now().into()
}
