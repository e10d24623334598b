//! Reads, writes and watches of a registry over an in-memory store.

mod admission;
mod applies;
mod apply_properties;
mod custom;
mod evictions;
mod mutating_policies;
mod objects;
mod operating_systems;
mod pod_certificates;
mod pod_security;
mod policies;
mod recorded_creates;
mod recorded_other_kinds;
mod recorded_subresources;
mod recorded_tables;
mod recorded_workloads;
mod recording;
mod refusals;
mod rules;
mod shards;
mod unrecorded;
mod unrecorded_writes;
mod volumes;
mod webhooks;
mod workloads;
