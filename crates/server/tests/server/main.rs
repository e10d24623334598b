//! The server from the outside.

mod aggregation;
mod audit;
mod authorization;
mod client;
mod components;
mod crash;
mod custom_kinds;
mod encryption;
#[cfg(feature = "etcd")]
#[path = "../../../storage/tests/support/etcd.rs"]
mod etcd_process;
mod expressions;
mod fairness;
mod faults;
mod first_second;
mod found_outside;
mod fuzz_corpus;
mod hostile;
mod http;
mod identity_files;
mod lines;
mod metrics;
mod objects;
mod observer;
mod shards;
mod simulation;
mod slow_clients;
mod tables;
mod watches;
mod webhooks;
