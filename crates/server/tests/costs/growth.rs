//! Sends one request in three sizes and compares their costs.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use watchkeeper_server::{Handle, Server};

use crate::counting::{self, Memory};

/// The allowed factor of memory for four times the size: four, and slack for tables that double.
const MEMORY_SLACK: u64 = 6;

/// The same for CPU time: a linear part beside a constant one takes at most four times as much; a quadratic one takes
/// sixteen times.
const CPU_SLACK: u32 = 10;

/// Shorter CPU times are ignored as noise.
const SHORT: Duration = Duration::from_millis(4);

/// The number of repeated measurements if CPU time seems to grow too fast; the smallest counts.
const RETRIES: usize = 6;

/// A cost that grows in proportion grows twice as much from 2n to 4n as from n to 2n, one that grows with the square four
/// times as much.
const STEP_SLACK: u64 = 3;

/// Growth below this is not looked at: a table that doubles, a buffer that is taken anew.
const MIN_ALLOCATIONS: u64 = 300;
const MIN_BYTES: u64 = 256 << 10;

/// The answer to a body that is larger than bodies may be.
const TOO_LARGE: u16 = 413;

/// Eight times as much may take this many times as long.
const TIME_SLACK: u32 = 16;

/// The limit on responses.
const MAX_ANSWER_BYTES: usize = 6 << 20;

/// A request as data.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) content_type: &'static str,
    /// Additional headers.
    pub(crate) header: Option<(&'static str, String)>,
    pub(crate) body: String,
}

impl Call {
    pub(crate) fn new(method: Method, path: impl Into<String>, body: impl ToString) -> Self {
        Self {
            method,
            path: path.into(),
            content_type: "application/json",
            header: None,
            body: body.to_string(),
        }
    }

    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path, "")
    }

    pub(crate) fn post(path: impl Into<String>, body: impl ToString) -> Self {
        Self::new(Method::POST, path, body)
    }

    /// A dry-run create.
    pub(crate) fn try_post(path: &str, body: impl ToString) -> Self {
        Self::post(format!("{path}?dryRun=All"), body)
    }

    pub(crate) fn patch(path: impl Into<String>, content_type: &'static str, body: impl ToString) -> Self {
        Self {
            content_type,
            ..Self::new(Method::PATCH, path, body)
        }
    }

    pub(crate) fn by(self, user: &'static str) -> Self {
        Self {
            header: Some(("impersonate-user", user.to_owned())),
            ..self
        }
    }
}

/// The status and cost of a response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) status: u16,
    pub(crate) answer_bytes: usize,
    pub(crate) memory: Memory,
    pub(crate) cpu: Duration,
}

/// A server and its only client, on one thread.
pub(crate) struct Cluster {
    server: Handle,
    sender: http1::SendRequest<Full<Bytes>>,
    /// The cases that grew too fast. Reported at the end of the test, so that one run finds all.
    failures: Vec<String>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(
                self.failures.is_empty(),
                "grows too quickly: {}",
                self.failures.join("\n")
            );
        }
    }
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        let server = Server::builder().in_memory().start().await.unwrap();
        let sender = connect(&server).await;
        let failures = Vec::new();
        Self {
            server,
            sender,
            failures,
        }
    }

    /// Sends a request; returns its cost and its response.
    pub(crate) async fn send(&mut self, call: &Call) -> (Cost, Bytes) {
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(&call.path)
            .header("host", "localhost")
            .header("content-type", call.content_type)
            .header(
                "authorization",
                format!("Bearer {}", self.server.admin_token().reveal()),
            );
        if let Some((name, value)) = &call.header {
            request = request.header(*name, value);
        }
        let request = request.body(Full::new(Bytes::from(call.body.clone()))).unwrap();
        // Closed after a body that was not read to its end.
        if self.sender.ready().await.is_err() {
            self.sender = connect(&self.server).await;
        }
        let before = thread_time();
        counting::start();
        let answer = self.sender.send_request(request).await.unwrap();
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let cost = Cost {
            status,
            answer_bytes: body.len(),
            memory: counting::counted(),
            cpu: thread_time() - before,
        };
        (cost, body)
    }

    /// Sends a request that must succeed.
    pub(crate) async fn prepare(&mut self, call: &Call) -> Bytes {
        let (cost, body) = self.send(call).await;
        let text = String::from_utf8_lossy(&body);
        assert!(cost.status < 300, "{} {}: {:.2000}", call.method, call.path, text);
        body
    }

    /// Checks that four times the size costs about four times as much.
    pub(crate) async fn grows_in_proportion(&mut self, name: &str, n: usize, call: impl Fn(usize) -> Call) {
        self.grows_after(name, n, |size| (Vec::new(), call(size))).await;
    }

    /// Like [`Cluster::grows_in_proportion`], after requests that must succeed.
    pub(crate) async fn grows_after(
        &mut self,
        name: &str,
        n: usize,
        calls: impl Fn(usize) -> (Vec<Call>, Call),
    ) {
        let mut costs = Vec::new();
        for size in [n, 2 * n, 4 * n] {
            let (before, call) = calls(size);
            for call in before {
                self.prepare(&call).await;
            }
            costs.push(self.cost(&call).await);
        }
        let [small, middle, large] = costs[..] else {
            unreachable!("three sizes");
        };
        let told = format!(
            "{name}\n  {n}: {small:?}\n  {}: {middle:?}\n  {}: {large:?}",
            2 * n,
            4 * n
        );
        let grows = |part: fn(&Cost) -> u64| part(&large) > MEMORY_SLACK * part(&small);
        let mut too_much = vec![
            ("allocations", grows(|cost| cost.memory.allocations)),
            ("bytes", grows(|cost| cost.memory.bytes)),
            ("peak", grows(|cost| cost.memory.peak as u64)),
            ("answer", large.answer_bytes > MAX_ANSWER_BYTES),
        ];
        too_much.retain(|(_, is_too_much)| *is_too_much);
        // Not repeated if memory already failed: it may take minutes.
        if too_much.is_empty()
            && large.cpu > CPU_SLACK * small.cpu.max(SHORT)
            && self.still_grows_on_cpu(n, &calls).await
        {
            too_much.push(("CPU", true));
        }
        let failures = too_much.iter().map(|(what, _)| format!("{what} of {told}"));
        self.failures.extend(failures);
    }

    /// As [`Cluster::grows_in_proportion`], for many small requests: what a request costs without what grows is subtracted,
    /// and time is not looked at. What seems to grow too quickly is looked at again in larger sizes: it may only have been
    /// on its way to a limit, such as that of errors in one answer.
    pub(crate) async fn grows_linearly(&mut self, name: &str, n: usize, call: impl Fn(usize) -> Call) {
        let mut failure = String::new();
        for n in [n, 4 * n] {
            let mut costs = Vec::new();
            for size in [n, 2 * n, 4 * n] {
                let (cost, answer) = self.send(&call(size)).await;
                // Whatever is larger costs no more than being refused.
                if cost.status == TOO_LARGE {
                    return;
                }
                assert!(!is_panic(&answer), "{name}");
                costs.push(cost);
            }
            match steps_too_large(&costs)[..] {
                [] => return,
                ref parts => failure = format!("{} of {n} {name}\n  {costs:?}", parts.join(", ")),
            }
        }
        self.failures.push(failure);
    }

    /// Holds a request to its promise that eight times as much takes about eight times as long.
    pub(crate) async fn takes_linear_time(&mut self, name: &str, n: usize, call: impl Fn(usize) -> Call) {
        let (small, large) = (call(n), call(8 * n));
        let (mut least_small, mut least_large) = (Duration::MAX, Duration::MAX);
        for _ in 0..RETRIES {
            least_small = least_small.min(self.send(&small).await.0.cpu);
            least_large = least_large.min(self.send(&large).await.0.cpu);
            let allowed = TIME_SLACK * least_small.max(SHORT / 2);
            if least_large <= allowed {
                return;
            }
            // No disturbance takes that long.
            if least_large > 4 * allowed {
                break;
            }
        }
        let failure = format!("time of {name}: {least_small:?}, eight times as much {least_large:?}");
        self.failures.push(failure);
    }

    /// Measures CPU time again: other load on the machine may have disturbed it.
    async fn still_grows_on_cpu(&mut self, n: usize, calls: impl Fn(usize) -> (Vec<Call>, Call)) -> bool {
        let (small, large) = (calls(n).1, calls(4 * n).1);
        let (mut least_small, mut least_large) = (Duration::MAX, Duration::MAX);
        for _ in 0..RETRIES {
            least_small = least_small.min(self.send(&small).await.0.cpu);
            least_large = least_large.min(self.send(&large).await.0.cpu);
        }
        least_large > CPU_SLACK * least_small.max(SHORT)
    }

    async fn cost(&mut self, call: &Call) -> Cost {
        let (cost, body) = self.send(call).await;
        let text = String::from_utf8_lossy(&body);
        assert!(cost.status < 500, "{} {}: {:.2000}", call.method, call.path, text);
        cost
    }
}

async fn connect(server: &Handle) -> http1::SendRequest<Full<Bytes>> {
    let connection = server.connector().connect().await.unwrap();
    // Each warning is a separate header.
    let mut http = http1::Builder::new();
    http.max_headers(1_000);
    let (sender, connection) = http.handshake(TokioIo::new(connection)).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// Whether an answer says that its handler has panicked.
fn is_panic(answer: &[u8]) -> bool {
    const SAID: &[u8] = b"handler panicked";
    let answer = &answer[..answer.len().min(1_000)];
    answer.windows(SAID.len()).any(|window| window == SAID)
}

/// The parts of a cost that grow faster from the second request to the third than in proportion.
fn steps_too_large(costs: &[Cost]) -> Vec<&'static str> {
    let [small, middle, large] = costs else {
        unreachable!("three sizes");
    };
    let grows = |part: fn(&Cost) -> u64, least: u64| {
        let (first, second) = (
            part(middle).saturating_sub(part(small)),
            part(large).saturating_sub(part(middle)),
        );
        second > STEP_SLACK * first + least
    };
    let parts = [
        (
            "allocations",
            grows(|cost| cost.memory.allocations, MIN_ALLOCATIONS),
        ),
        ("bytes", grows(|cost| cost.memory.bytes, MIN_BYTES)),
        ("peak", grows(|cost| cost.memory.peak as u64, MIN_BYTES)),
        ("answer", large.answer_bytes > MAX_ANSWER_BYTES),
    ];
    let too_large = parts.into_iter().filter(|(_, is_too_large)| *is_too_large);
    too_large.map(|(part, _)| part).collect()
}

/// The CPU time of this thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Builds an item from its number.
pub(crate) type Item = fn(usize) -> Value;

/// A list whose items are built from their numbers.
pub(crate) fn list(n: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..n).map(item).collect()
}

/// A map whose entries are built from their numbers.
pub(crate) fn map(n: usize, entry: impl Fn(usize) -> (String, Value)) -> Value {
    Value::Object((0..n).map(entry).collect())
}
