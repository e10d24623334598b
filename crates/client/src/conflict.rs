//! Retries read-modify-write cycles on conflict.

use std::time::Duration;

use crate::error::Error;

/// The number of attempts, as in client-go.
const ATTEMPTS: usize = 5;

/// The pause between two attempts, extended by up to a tenth so that two writers fall out of step.
const PAUSE: Duration = Duration::from_millis(10);

/// Runs `attempt` until it does not conflict, at most five times. Each attempt must read the object again.
///
/// ```no_run
/// # use watchkeeper_client::{retry_on_conflict, DynamicApi, Error};
/// # use watchkeeper_meta::{GetOptions, UpdateOptions};
/// # async fn example(api: DynamicApi) -> Result<(), Box<dyn std::error::Error>> {
/// retry_on_conflict(|| async {
///     let object = api.get("web").await?;
///     // … change it …
///     api.update("web", &object).await
/// })
/// .await?;
/// # Ok(())
/// # }
/// ```
pub async fn retry_on_conflict<T, F>(mut attempt: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    for _ in 1..ATTEMPTS {
        match attempt().await {
            Err(error) if error.is_conflict() => {
                tokio::time::sleep(PAUSE.mul_f64(1.0 + fastrand::f64() / 10.0)).await;
            }
            result => return result,
        }
    }
    attempt().await
}
