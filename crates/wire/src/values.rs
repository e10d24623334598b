//! The scalars of Kubernetes that are more than JSON's: quantities, percentages, durations, times and
//! schedules.
//!
//! Each reads the text a manifest holds, prints the text the API server would answer with, and fails with the
//! message the API server would fail with. All of them (de)serialize as Kubernetes' JSON has them.

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
