//! Kubernetes' scalars beyond JSON's: quantities, percentages, durations, times and schedules.
//!
//! Each parses the text of a manifest, prints the text of the API server's answer, and fails with the API server's
//! message. All of them (de)serialize as in Kubernetes' JSON.

mod cron_schedule;
mod duration;
mod int_or_string;
mod quantity;
mod time;

pub use cron_schedule::{CronSchedule, ParseScheduleError};
pub use duration::{Duration, ParseDurationError};
pub use int_or_string::{IntOrString, Round, ScaleError};
pub(crate) use quantity::is_plain_quantity;
pub use quantity::{ParseQuantityError, Quantity, QuantityFormat};
pub use time::{MicroTime, ReadTimeError, Timestamp, read_micro_time, read_time};
