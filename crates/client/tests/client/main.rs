//! The client with scripted servers, which misbehave on request.

mod api;
mod config;
mod discovery;
mod http2;
mod install;
mod pod_stream;
mod port_forward;
mod recordings;
mod requests;
mod support;
mod tls;
mod trace;
mod watch;
