//! The commands, run in this process or as the program itself.

mod apply_and_delete;
mod check;
mod check_server;
mod completion;
mod custom_kinds;
mod demo;
mod describing;
mod envtest;
mod etcd;
mod explain;
mod get;
mod interruptions;
mod like_kubectl;
mod live_past;
mod long_lists;
mod manners;
mod operations;
mod pages;
#[cfg(unix)]
mod process;
mod recordings;
mod recordings_on_disk;
mod rollouts;
mod support;
mod targets;
mod terminal;
mod up;
mod verbs;
mod watch;
mod watch_time;
