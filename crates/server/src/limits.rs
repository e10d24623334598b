//! Every limit of the HTTP side in one place, each with what happens beyond it.

use std::time::Duration;

/// A larger request body is refused with 413; the figure is kube-apiserver's.
pub const MAX_REQUEST_BODY_BYTES: usize = 3 * 1024 * 1024;

/// How much of a body that nobody reads is read anyway, so that the connection stays usable; with more left, it is
/// closed after the answer. As Go's HTTP server.
pub const MAX_DISCARDED_BYTES: usize = 256 * 1024;

/// How long that may take; then the connection is closed after the answer.
pub const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);

/// A larger request head is refused with 431 by the HTTP layer. Tokens of cloud providers reach a few KiB.
pub const MAX_HEADER_BYTES: usize = 64 * 1024;

/// How many header lines a request may have; more is 431.
pub const MAX_HEADERS: usize = 128;

/// With [`MAX_WRITES_IN_FLIGHT`], the requests that are answered at once; more wait or get 429, by their priority levels.
/// As kube-apiserver, which adds the two up as well.
pub const MAX_READS_IN_FLIGHT: usize = 400;

/// See [`MAX_READS_IN_FLIGHT`].
pub const MAX_WRITES_IN_FLIGHT: usize = 200;

/// A request may wait for others that part of its time; then it gets 429. As kube-apiserver.
pub const QUEUEING_PART: u32 = 4;

/// The longest a request may take, and the time it gets when it asks for none; then it is 504. As kube-apiserver.
pub const MAX_REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a connection may wait between requests, on HTTP/1.1 and HTTP/2; then it is closed. As kube-apiserver.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// How long the head of an HTTP/1.1 request may take from its first byte; then the connection is closed. As kube-apiserver.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(32);

/// How long after its deadline an answer may still be unwritten; then its connection is closed.
pub const LATE_ANSWER_GRACE: Duration = Duration::from_secs(5);

/// How long a TLS handshake may take; then the connection is closed.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a client may refuse to take bytes that are ready for it; then the connection is closed.
pub const WRITE_STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// How often an HTTP/2 peer on a socket is asked whether it is still there.
pub const PING_INTERVAL: Duration = Duration::from_secs(30);

/// How long it may take to answer that; then the connection is closed.
pub const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// How many requests one HTTP/2 connection may have open; more wait in the client. A program with hundreds of
/// watches fits on one connection.
pub const MAX_CONCURRENT_STREAMS: u32 = 1000;

/// How many connections are served at once; more wait in the system's accept queue.
pub const MAX_CONNECTIONS: usize = 16_384;

/// How many connections may wait for the in-process listener; a client that finds it full waits.
pub const MAX_WAITING_CONNECTIONS: usize = 128;

/// The bytes an in-process connection holds in each direction before its writer waits.
pub const PIPE_BYTES: usize = 64 * 1024;

/// A larger answer is compressed if the client takes gzip. As kube-apiserver.
pub const GZIP_THRESHOLD_BYTES: usize = 128 * 1024;

/// The most bytes of warnings an answer carries. Beyond, each is cut to [`MAX_CHARACTERS_OF_MANY`], and those that then
/// still do not fit are left out. As kube-apiserver.
pub const MAX_WARNING_BYTES: usize = 4 * 1024;

/// What is left of each warning when there are too many.
pub const MAX_CHARACTERS_OF_MANY: usize = 256;

/// How long requests may still run when the server shuts down; then their connections are closed.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// How many faults can wait for their request; more are refused with an error.
pub const MAX_PLANNED_FAULTS: usize = 1024;

/// How many faults that have happened are remembered; with more, the oldest are forgotten.
pub const MAX_RECORDED_FAULTS: usize = 10_000;

/// How many writes a log of them holds; with more, the oldest are forgotten.
pub const MAX_LOGGED_WRITES: usize = 100_000;

/// How many snapshots a test may keep in a server; more are refused.
pub const MAX_KEPT_SNAPSHOTS: usize = 1_000;

/// A larger answer of a webhook counts as none. A patch is base64, and an object has at most 1.5 MiB.
pub const MAX_WEBHOOK_ANSWER_BYTES: usize = 4 * 1024 * 1024;

/// How much of a webhook's answer is quoted that is not one. As client-go.
pub const MAX_QUOTED_WEBHOOK_BYTES: usize = 2048;

/// How many connections to one webhook wait for further calls; more are closed. As client-go.
pub const MAX_WAITING_WEBHOOK_CONNECTIONS: usize = 25;

/// How long they wait; then they are closed when the next call looks for one.
pub const WEBHOOK_IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// How many webhooks are remembered; with one more, all are forgotten and their connections closed. As kube-apiserver.
pub const MAX_WEBHOOKS: usize = 200;

/// How long a connection to an aggregated API server may take to open; then the request is 503. As kube-aggregator.
pub const AGGREGATED_DIAL_TIMEOUT: Duration = Duration::from_secs(30);

/// How long an aggregated API server may take to answer when it is checked; then it is unavailable. As kube-aggregator.
pub const AGGREGATED_CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// How often an aggregated API server is checked. As kube-aggregator.
pub const AGGREGATED_RECHECK: Duration = Duration::from_secs(30);

/// The pause after a check has failed for the first time; it doubles up to [`AGGREGATED_RECHECK`].
pub const MIN_AGGREGATED_RETRY: Duration = Duration::from_secs(1);

/// How many addresses of a service are tried when it is checked; others are not asked. As kube-aggregator.
pub const MAX_CHECKED_ADDRESSES: usize = 5;

/// How many connections to one aggregated API server are kept for further requests; more close after their answer.
pub const MAX_IDLE_AGGREGATED_CONNECTIONS: usize = 64;

/// How long they are kept; then they are closed when the next request looks for one.
pub const AGGREGATED_IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// A larger discovery or OpenAPI document of an aggregated API server counts as none.
pub const MAX_AGGREGATED_DOCUMENT_BYTES: usize = 32 * 1024 * 1024;
