//! What the registry makes of reads, writes and watches, over a store in memory.

mod admission;
mod applies;
mod apply_properties;
mod custom;
mod evictions;
mod mutating_policies;
mod objects;
mod policies;
mod recorded_creates;
mod recorded_other_kinds;
mod recorded_subresources;
mod recorded_tables;
mod recorded_workloads;
mod recording;
mod refusals;
mod rules;
mod unrecorded;
mod webhooks;
mod workloads;
