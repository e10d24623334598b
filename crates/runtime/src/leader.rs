//! Leader election over a Lease: of several processes one works, and it stops before another begins.
//!
//! The rules are client-go's: the lease is taken when it is free or has not been renewed for its duration *as seen
//! here*, so clocks need not agree. One thing is stronger: the work is a future that is dropped when the lease could
//! not be renewed in time or is seen to be another's, and the lease is given back only after the work has ended.
//! Nothing runs without the lease. Who waits for it leaves when asked to.
//! (A future is dropped where it awaits; work that blocks its thread cannot be stopped by anybody.)
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
/// The renew deadline must leave room for more than this many retries, as in client-go.
const JITTER_FACTOR: f64 = 1.2;

/// Who takes part in which election.
#[derive(Clone, Debug)]
pub struct LeaderOptions {
    /// The name of the lease.
    pub lease: String,
    /// Who this is: different for every process, for instance host name and a random part.
    pub identity: String,
    /// For how long others shall respect a lease of this one that is not renewed. It is written into the lease in
    /// whole seconds, rounded up; theirs is respected for as long as they have written.
    pub lease_duration: Duration,
    /// For how long the leader tries to renew before it stops working.
    pub renew_deadline: Duration,
    /// How often the lease is renewed, or asked for.
    pub retry_period: Duration,
}

impl LeaderOptions {
    /// client-go's times.
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

/// Times that cannot keep two leaders apart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaderOptionsError {
    /// Others would take the lease while the work still runs.
    #[error("lease duration must be longer than the renew deadline")]
    LeaseTooShort,
    /// One failed renewal would end the work.
    #[error("renew deadline must be longer than 1.2 retry periods")]
    DeadlineTooShort,
    /// There is nobody to be told apart.
    #[error("identity must not be empty")]
    NoIdentity,
}

/// How leading has ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Led<T> {
    /// The work has ended by itself; the lease was given back.
    Finished(T),
    /// It was asked to leave before it held the lease; the work was never begun.
    Left,
    /// The lease could not be renewed in time, or another has taken it; the work was dropped.
    Lost,
}

/// One who takes part.
#[derive(Debug)]
pub struct LeaderElector {
    leases: DynamicApi,
    options: LeaderOptions,
    observed: Option<Observed>,
}

impl LeaderElector {
    /// Takes part in an election over a lease of this API and namespace.
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

    /// Who leads, as far as was seen.
    pub fn leader(&self) -> Option<&str> {
        self.observed
            .as_ref()
            .and_then(|observed| observed.record.holder())
    }

    /// Waits until it leads, then works until the work ends or the lease is lost.
    ///
    /// `shutdown` ends the wait. Work that has begun is not dropped by it, but ends by itself: usually it waits for the
    /// same signal, and keeps the lease until what runs has finished. Dropping this drops the work; the lease then runs
    /// out by itself.
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

    /// Tries until the lease is held. Returns when it was asked for, which is before it was granted; `None` after a
    /// shutdown.
    async fn acquire(&mut self, shutdown: impl Future<Output = ()>) -> Option<Instant> {
        tokio::pin!(shutdown);
        loop {
            let asked = Instant::now();
            tokio::select! {
                biased;
                () = &mut shutdown => {
                    // The request that is dropped may have been granted.
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

    /// Waits for the next renewal and tries until it succeeds; the caller gives up. `None` if another has the lease.
    async fn renew(&mut self) -> Option<Instant> {
        loop {
            tokio::time::sleep(self.options.retry_period).await;
            let asked = Instant::now();
            if self.ask().await {
                return Some(asked);
            }
            if let Some(leader) = self.leader().filter(|leader| *leader != self.options.identity) {
                tracing::warn!(leader, lease = self.options.lease, "another holds the lease");
                return None;
            }
        }
    }

    /// [`Self::try_once`], with half the time there is: one request that hangs must not use up all of it.
    async fn ask(&mut self) -> bool {
        let limit = self.options.renew_deadline / 2;
        match tokio::time::timeout(limit, self.try_once()).await {
            Ok(Ok(held)) => return held,
            Ok(Err(error)) => tracing::warn!(%error, lease = self.options.lease, "cannot ask for the lease"),
            Err(_) => tracing::warn!(lease = self.options.lease, "no answer within {limit:?}"),
        }
        false
    }

    /// Looks at the lease and takes or renews it if that is possible. Whether it is held now.
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
            // Somebody else was quicker.
            Err(error) if error.is_conflict() || error.is_already_exists() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Gives the lease back so that others need not wait. Failing that, it runs out.
    async fn release(&mut self) {
        self.observed = None;
        let limit = self.options.renew_deadline;
        match tokio::time::timeout(limit, retry_on_conflict(|| self.try_release())).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, lease = self.options.lease, "the lease was not given back")
            }
            Err(_) => tracing::warn!(lease = self.options.lease, "no answer within {limit:?}"),
        }
    }

    /// Reads the lease anew: a renewal may have been on its way when the work ended.
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
