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
const MIN_BYTES: u64 = 64 << 10;

/// The factors of the sizes at which memory is looked at again.
const LARGER: [usize; 3] = [1, 4, 16];

/// The answer to a body that is larger than bodies may be.
const TOO_LARGE: u16 = 413;

/// Eight times as much may take this many times as long.
const TIME_SLACK: u32 = 16;

/// Less time counts as this much: it is mostly what any request takes.
const MIN_TIME: Duration = Duration::from_millis(2);

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

    /// Like [`Cluster::grows_in_proportion`], for many small requests: subtracts what a request costs without what grows,
    /// and leaves CPU time to [`Cluster::takes_linear_time`]. Returns true if memory grows in proportion.
    pub(crate) async fn uses_linear_memory(
        &mut self,
        name: &str,
        n: usize,
        call: impl Fn(usize) -> Call,
    ) -> bool {
        let checked = check_memory(n, async |n| self.cost_unless_refused(name, &call(n)).await).await;
        self.note(name, checked)
    }

    /// Checks that eight times the size takes about eight times as long.
    pub(crate) async fn takes_linear_time(&mut self, name: &str, n: usize, call: impl Fn(usize) -> Call) {
        let checked = check_time(n, async |n| self.cost_unless_refused(name, &call(n)).await).await;
        self.note(name, checked);
    }

    fn note(&mut self, name: &str, checked: Result<(), String>) -> bool {
        let failure = checked.err().map(|why| format!("{name}: {why}"));
        let is_linear = failure.is_none();
        self.failures.extend(failure);
        is_linear
    }

    /// The cost of a request; `None` if its body was larger than bodies may be.
    async fn cost_unless_refused(&mut self, name: &str, call: &Call) -> Option<Cost> {
        let (cost, answer) = self.send(call).await;
        assert!(!is_panic(&answer), "{name}");
        (cost.status != TOO_LARGE).then_some(cost)
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

/// Checks that memory grows in proportion from n to 4n.
///
/// Growth that seems too quick is looked at again at larger sizes. It may have been on its way to a limit, such as that of
/// errors in one answer, or have crossed a border: a body of 64 KiB and more comes in several pieces, which are joined, and
/// each of its bytes costs twice as much from there on. What is not linear shows at all sizes.
async fn check_memory(n: usize, mut cost: impl AsyncFnMut(usize) -> Option<Cost>) -> Result<(), String> {
    let mut checked = Ok(());
    for n in LARGER.map(|times| times * n) {
        let mut costs = Vec::new();
        for size in [n, 2 * n, 4 * n] {
            // Whatever is larger costs no more than being refused.
            let Some(cost) = cost(size).await else {
                return checked;
            };
            costs.push(cost);
        }
        match steps_too_large(&costs)[..] {
            [] => return Ok(()),
            ref parts => checked = Err(format!("{} from {n} on: {costs:?}", parts.join(", "))),
        }
    }
    checked
}

/// Checks that CPU time grows in proportion from n to 8n.
async fn check_time(n: usize, mut cost: impl AsyncFnMut(usize) -> Option<Cost>) -> Result<(), String> {
    let (mut small, mut large) = (Duration::MAX, Duration::MAX);
    for _ in 0..RETRIES {
        let Some(measured) = cost(8 * n).await else {
            return Ok(());
        };
        large = large.min(measured.cpu);
        // Nearly always: then the smaller one need not be sent.
        if large <= TIME_SLACK * MIN_TIME {
            return Ok(());
        }
        small = small.min(cost(n).await.map_or(Duration::ZERO, |cost| cost.cpu));
        let allowed = TIME_SLACK * small.max(MIN_TIME);
        if large <= allowed {
            return Ok(());
        }
        // No disturbance takes that long.
        if large > 4 * allowed {
            break;
        }
    }
    Err(format!(
        "CPU time of {n}: {small:?}, eight times as many: {large:?}"
    ))
}

/// True if the answer reports a panic of its handler.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The cost of work on so many parts.
    fn cost_of(work: impl FnOnce()) -> Cost {
        let before = thread_time();
        counting::start();
        work();
        Cost {
            status: 200,
            answer_bytes: 0,
            memory: counting::counted(),
            cpu: thread_time() - before,
        }
    }

    async fn memory_of(work: fn(usize)) -> Result<(), String> {
        check_memory(64, async |n| Some(cost_of(|| work(n)))).await
    }

    /// The fixed cost of each part.
    fn read(n: usize) -> Vec<String> {
        (0..n).map(|index| format!("part {index}")).collect()
    }

    fn each_with_all_before(n: usize) {
        let parts = read(n);
        let earlier = |at: usize| parts[..at].to_vec();
        (0..n).map(earlier).for_each(drop);
    }

    /// An error for each part that shows all of them, as one string.
    fn all_in_each_error(n: usize) {
        let parts = read(n);
        (0..n).map(|_| parts.join(", ")).for_each(drop);
    }

    fn search_each(n: usize) {
        let parts = read(n);
        let is_new = |(at, part): (usize, &String)| !parts[..at].contains(part);
        assert!(parts.iter().enumerate().all(is_new));
    }

    /// Above 200 parts, each takes a buffer.
    fn with_a_border(n: usize) {
        let buffers = if n > 200 { n } else { 0 };
        (0..buffers).map(|_| vec![0_u8; 4_096]).for_each(drop);
    }

    #[tokio::test]
    async fn linear_growth_passes() {
        memory_of(|n| drop(read(n))).await.unwrap();
        memory_of(with_a_border).await.unwrap();
        let timed = check_time(2_000, async |n| Some(cost_of(|| drop(read(n))))).await;
        timed.unwrap();
    }

    #[tokio::test]
    async fn quadratic_growth_is_found() {
        let failure = memory_of(each_with_all_before).await.unwrap_err();
        assert!(failure.starts_with("allocations, bytes"), "{failure}");
        let failure = memory_of(all_in_each_error).await.unwrap_err();
        assert!(failure.starts_with("bytes"), "{failure}");
        // Nothing is allocated: only time shows it.
        memory_of(search_each).await.unwrap();
        let timed = check_time(500, async |n| Some(cost_of(|| search_each(n)))).await;
        timed.unwrap_err();
    }

    /// Errors that each show all parts, up to the limit of errors.
    #[tokio::test]
    async fn growth_up_to_a_limit_passes() {
        memory_of(|n| (0..n).for_each(|at| drop(read(at.min(250)))))
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn what_is_refused_when_larger_must_be_linear_below() {
        let accepted = |n: usize| (n <= 256).then(|| cost_of(|| each_with_all_before(n)));
        check_memory(64, async |n| accepted(n)).await.unwrap_err();
    }
}
