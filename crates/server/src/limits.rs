//! All limits of the HTTP side, each with its consequence.

use std::time::Duration;

/// The limit on request bodies; larger ones get 413. As in kube-apiserver.
pub const MAX_REQUEST_BODY_BYTES: usize = 3 * 1024 * 1024;

/// The limit on the unread rest of a request body that is still read to keep the connection usable; beyond it, the
/// connection is closed after the response. As in Go's HTTP server.
pub const MAX_DISCARDED_BYTES: usize = 256 * 1024;

/// The time limit for that; then the connection is closed after the response.
pub const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);

/// The limit on a request head; larger ones get 431 from the HTTP layer. Tokens of cloud providers have a few KiB.
pub const MAX_HEADER_BYTES: usize = 64 * 1024;

/// The limit on header lines; more get 431.
pub const MAX_HEADERS: usize = 128;

/// Together with [`MAX_WRITES_IN_FLIGHT`], the in-flight limit; further requests wait or get 429, by priority level.
/// As in kube-apiserver, which also adds the two.
pub const MAX_READS_IN_FLIGHT: usize = 400;

/// See [`MAX_READS_IN_FLIGHT`].
pub const MAX_WRITES_IN_FLIGHT: usize = 200;

/// The part of its time limit a request may wait in a queue: a quarter; then it gets 429. As in kube-apiserver.
pub const QUEUEING_PART: u32 = 4;

/// The longest and the default time limit of a request; then it gets 504. As in kube-apiserver.
pub const MAX_REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The idle timeout of HTTP/1.1 and HTTP/2 connections; then they are closed. As in kube-apiserver.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// The time limit for the head of an HTTP/1.1 request, from its first byte; then the connection is closed. As in
/// kube-apiserver.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(32);

/// The time a response may remain unwritten after its deadline; then its connection is closed.
pub const LATE_ANSWER_GRACE: Duration = Duration::from_secs(5);

/// The time limit of a TLS handshake; then the connection is closed.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The time a client may not accept available bytes; then the connection is closed.
pub const WRITE_STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The interval of pings to HTTP/2 peers on sockets.
pub const PING_INTERVAL: Duration = Duration::from_secs(30);

/// The time limit of a ping's answer; then the connection is closed.
pub const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// The limit on concurrent requests of an HTTP/2 connection; more wait in the client. Hundreds of watches fit on one
/// connection.
pub const MAX_CONCURRENT_STREAMS: u32 = 1000;

/// The limit on connections; more wait in the system's accept queue.
pub const MAX_CONNECTIONS: usize = 16_384;

/// The limit on waiting in-process connections; beyond it, clients wait.
pub const MAX_WAITING_CONNECTIONS: usize = 128;

/// The buffer of an in-process connection in each direction; when it is full, the writer waits.
pub const PIPE_BYTES: usize = 64 * 1024;

/// Larger responses are compressed if the client accepts gzip. As in kube-apiserver.
pub const GZIP_THRESHOLD_BYTES: usize = 128 * 1024;

/// Larger pieces of a compressed watch are compressed; smaller ones, single events, are stored in gzip's format: the
/// memory of an encoder would cost more than they do.
pub const GZIP_PIECE_THRESHOLD_BYTES: usize = 8 * 1024;

/// The limit on warnings in a response. Beyond it, each is cut to [`MAX_CHARACTERS_OF_MANY`], and those that still do
/// not fit are dropped. As in kube-apiserver.
pub const MAX_WARNING_BYTES: usize = 4 * 1024;

/// The length of each warning if there are too many.
pub const MAX_CHARACTERS_OF_MANY: usize = 256;

/// The time requests may continue at shutdown; then their connections are closed.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// The limit on fault rules; more are rejected with an error.
pub const MAX_PLANNED_FAULTS: usize = 1024;

/// The limit on recorded faults; beyond it, the oldest are dropped.
pub const MAX_RECORDED_FAULTS: usize = 10_000;

/// The limit on logged writes; beyond it, the oldest are dropped.
pub const MAX_LOGGED_WRITES: usize = 100_000;

/// The limit on snapshots in a server; more are rejected.
pub const MAX_KEPT_SNAPSHOTS: usize = 1_000;

/// The limit on a webhook's response; a larger one is an error. A patch is base64, and an object has at most 1.5 MiB.
pub const MAX_WEBHOOK_ANSWER_BYTES: usize = 4 * 1024 * 1024;

/// The limit on the quoted part of an invalid webhook response. As in client-go.
pub const MAX_QUOTED_WEBHOOK_BYTES: usize = 2048;

/// The limit on idle connections to one webhook; more are closed. As in client-go.
pub const MAX_WAITING_WEBHOOK_CONNECTIONS: usize = 25;

/// The idle timeout of webhook connections; then they are closed when the next call looks for one.
pub const WEBHOOK_IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// The limit on remembered webhooks; beyond it, all are dropped and their connections closed. As in kube-apiserver.
pub const MAX_WEBHOOKS: usize = 200;

/// The time limit for connecting to an aggregated API server; then the request gets 503. As in kube-aggregator.
pub const AGGREGATED_DIAL_TIMEOUT: Duration = Duration::from_secs(30);

/// The time limit of an availability check; then the server is unavailable. As in kube-aggregator.
pub const AGGREGATED_CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// The interval of availability checks. As in kube-aggregator.
pub const AGGREGATED_RECHECK: Duration = Duration::from_secs(30);

/// The pause after the first failed check; it doubles up to [`AGGREGATED_RECHECK`].
pub const MIN_AGGREGATED_RETRY: Duration = Duration::from_secs(1);

/// The limit on addresses checked per service; others are skipped. As in kube-aggregator.
pub const MAX_CHECKED_ADDRESSES: usize = 5;

/// The limit on idle connections to one aggregated API server; more are closed after their response.
pub const MAX_IDLE_AGGREGATED_CONNECTIONS: usize = 64;

/// The idle timeout of these connections; then they are closed when the next request looks for one.
pub const AGGREGATED_IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// The limit on discovery and OpenAPI documents of an aggregated API server; larger ones are ignored.
pub const MAX_AGGREGATED_DOCUMENT_BYTES: usize = 32 * 1024 * 1024;
