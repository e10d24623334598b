//! Fault injection, for tests of clients of this server.
//!
//! A [`Rule`] selects requests (user, verb, resource, object), which of them are affected (the nth, by probability
//! with a seed, how often), and the [`Action`]. In addition, open streams can be slowed or cut ([`Flow`]), and new
//! connections refused. Every injected fault is [recorded](Fired).
//!
//! ```
//! use watchkeeper_server::{Action, Cut, RequestMatch, Rule, Server, Verb};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::builder().start().await?;
//! let faults = server.faults();
//! // The next pod is stored, but its creator gets no answer.
//! let pods = RequestMatch::new(Verb::Create, "pods");
//! faults.inject(Rule::new(pods.clone(), Action::Cut(Cut::BeforeAnswer)))?;
//! // Until the rule is removed, Alice may not create pods.
//! let alice = RequestMatch { user: Some("alice".into()), ..pods };
//! let forbidden = faults.inject(Rule::always(alice, Action::Forbid))?;
//! faults.remove(forbidden);
//! assert_eq!(faults.fired(), []);
//! server.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! Faults are injected on a server's handle, or by an administrator over HTTP if the server was started for that. All
//! delays use tokio's clock, so a test with paused time moves through them.

mod plan;
mod record;
mod request_faults;
mod rule;
mod streams;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use watchkeeper_meta::Status;
use watchkeeper_registry::Clock;

pub use self::plan::RuleId;
pub use self::record::Fired;
pub(crate) use self::request_faults::RequestFaults;
pub use self::rule::{Action, Cut, RequestMatch, Rule, Stale};
pub use self::streams::Flow;
pub(crate) use self::streams::StreamFlow;

use self::plan::Plan;
use self::record::{About, Record};
use self::streams::Streams;
use crate::limits::MAX_PLANNED_FAULTS;
use crate::request_info::RequestInfo;

/// The client of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requester {
    /// The name of the user.
    pub user: String,
    /// The `User-Agent`.
    pub user_agent: String,
}

/// The limit on rules is reached.
#[derive(Debug, thiserror::Error)]
#[error("{MAX_PLANNED_FAULTS} fault rules are active already")]
pub struct TooManyFaults;

/// The faults of one server.
#[derive(Debug, Default)]
pub struct Faults {
    plan: Mutex<Plan>,
    /// True if any rule affects requests; otherwise requests skip the check.
    affects_requests: AtomicBool,
    /// True if any rule affects watch events.
    affects_events: AtomicBool,
    streams: Mutex<Streams>,
    refusing: AtomicBool,
    record: Mutex<Record>,
}

impl Faults {
    /// Adds a rule. It applies to requests and events from now on.
    pub fn inject(&self, rule: Rule) -> Result<RuleId, TooManyFaults> {
        self.plan(|plan| plan.add(rule))
    }

    /// Removes a rule; false if it was used up or removed before.
    pub fn remove(&self, rule: RuleId) -> bool {
        self.plan(|plan| plan.remove(rule))
    }

    /// The active rules.
    pub fn rules(&self) -> Vec<(RuleId, Rule)> {
        let plan = self.plan.lock();
        plan.rules().map(|(id, rule)| (id, rule.clone())).collect()
    }

    /// Answers the next `times` matching requests with a failure: a shorthand for [inject](Faults::inject).
    pub fn answer_next(
        &self,
        request: RequestMatch,
        times: u32,
        answer: Status,
    ) -> Result<(), TooManyFaults> {
        let rule = Rule {
            times: Some(u64::from(times)),
            ..Rule::new(request, Action::fail(answer))
        };
        self.inject(rule).map(drop)
    }

    /// Removes all rules, accepts connections and lets all streams run. The record is kept.
    pub fn clear(&self) {
        self.plan(Plan::clear);
        self.refuse_connections(false);
        self.set_flow(&RequestMatch::default(), Flow::Running);
    }

    /// The injected faults, oldest first: the last [`MAX_RECORDED_FAULTS`](crate::limits::MAX_RECORDED_FAULTS).
    pub fn fired(&self) -> Vec<Fired> {
        self.record.lock().all()
    }

    /// Clears the record.
    pub fn clear_fired(&self) {
        self.record.lock().clear();
    }

    /// Closes new connections at once, or stops doing so. Open connections stay.
    pub fn refuse_connections(&self, refuse: bool) {
        self.refusing.store(refuse, Ordering::Relaxed);
    }

    /// Sets the flow of the open streams of matching requests; returns their number. Streams opened later run, unless
    /// a rule with [`Action::Flow`] matches them.
    pub fn set_flow(&self, request: &RequestMatch, flow: Flow) -> usize {
        let streams = self.streams.lock();
        let mut count = 0;
        for stream in streams.matching(request) {
            if stream.set_flow(flow) && flow != Flow::Running {
                self.note(None, Action::Flow(flow), &stream.requester, &stream.info, "");
            }
            count += 1;
        }
        count
    }

    /// The number of open streams of matching requests.
    pub fn open_streams(&self, request: &RequestMatch) -> usize {
        self.streams.lock().matching(request).count()
    }

    /// The requests of open streams.
    pub(crate) fn stream_infos(&self) -> Vec<RequestInfo> {
        let (streams, all) = (self.streams.lock(), RequestMatch::default());
        let open = streams.matching(&all);
        open.map(|stream| stream.info.clone()).collect()
    }

    pub(crate) fn is_refusing_connections(&self) -> bool {
        self.refusing.load(Ordering::Relaxed)
    }

    /// The faults of a request; uses up their rules.
    pub(crate) fn on_request(
        &self,
        requester: impl FnOnce() -> Requester,
        info: &RequestInfo,
    ) -> Option<Box<RequestFaults>> {
        // Requests that control faults are exempt.
        if !self.affects_requests.load(Ordering::Relaxed) || info.is_about_testing() {
            return None;
        }
        let requester = requester();
        let happens = self.plan(|plan| plan.on_request(&requester, info));
        for (rule, action) in &happens {
            self.note(Some(*rule), action.clone(), &requester, info, "");
        }
        RequestFaults::of(happens.into_iter().map(|(_, action)| action))
    }

    /// True if watch events must be checked one by one.
    pub(crate) fn may_affect_events(&self) -> bool {
        self.affects_events.load(Ordering::Relaxed)
    }

    /// The fault of an event about an object, or of a bookmark.
    pub(crate) fn on_event(&self, stream: u64, object: Option<(&str, &str)>) -> Option<Action> {
        let streams = self.streams.lock();
        let stream = streams.get(stream)?;
        let (requester, info) = (&stream.requester, &stream.info);
        let (rule, action) = self.plan(|plan| plan.on_event(requester, info, object))?;
        let object = object.map(|(namespace, name)| format!("{namespace}/{name}"));
        let object = object.unwrap_or_default();
        self.note(Some(rule), action.clone(), requester, info, &object);
        if let Action::Flow(flow) = action {
            stream.set_flow(flow);
        }
        Some(action)
    }

    /// Registers a new stream; the number identifies it in [`Faults::close_stream`].
    pub(crate) fn open_stream(&self, requester: Requester, info: RequestInfo) -> (u64, Arc<StreamFlow>) {
        self.streams.lock().open(requester, info)
    }

    /// Ends all streams cleanly, and those that are opened later: the server drains.
    pub(crate) fn end_streams(&self) {
        self.streams.lock().drain();
    }

    pub(crate) fn close_stream(&self, id: u64) {
        self.streams.lock().close(id);
    }

    /// Uses the plan, and updates the flags that let others skip it.
    fn plan<T>(&self, using: impl FnOnce(&mut Plan) -> T) -> T {
        let mut plan = self.plan.lock();
        let used = using(&mut plan);
        let (requests, events) = plan.concerns();
        self.affects_requests.store(requests, Ordering::Relaxed);
        self.affects_events.store(events, Ordering::Relaxed);
        used
    }

    fn note(
        &self,
        rule: Option<RuleId>,
        action: Action,
        requester: &Requester,
        info: &RequestInfo,
        object: &str,
    ) {
        let about = About {
            requester,
            info,
            object,
        };
        self.record.lock().note(Clock.now(), rule, action, about);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verb;
    use http::Method;

    #[test]
    fn streams_are_matched_by_their_request() {
        let faults = Faults::default();
        let info = RequestInfo::read(&Method::GET, "/api/v1/pods", "watch=1");
        let (id, flow) = faults.open_stream(Requester::default(), info);
        assert_eq!(
            faults.set_flow(&RequestMatch::new(Verb::Watch, "secrets"), Flow::Cut),
            0
        );
        assert_eq!(
            faults.set_flow(&RequestMatch::new(Verb::Watch, "pods"), Flow::Cut),
            1
        );
        assert_eq!(flow.now(), Flow::Cut);
        faults.close_stream(id);
        assert_eq!(faults.open_streams(&RequestMatch::default()), 0);
    }

    #[test]
    fn every_fault_is_recorded() {
        let faults = Faults::default();
        let pods = RequestMatch::new(Verb::List, "pods");
        let rule = faults.inject(Rule::new(pods, Action::Forbid)).unwrap();
        let list = RequestInfo::read(&Method::GET, "/api/v1/pods", "");
        let alice = || Requester {
            user: "alice".to_owned(),
            user_agent: "operator".to_owned(),
        };
        faults.on_request(alice, &list);
        faults.on_request(alice, &list);
        let fired = faults.fired();
        assert_eq!(fired.len(), 1);
        assert_eq!(
            (fired[0].rule, &*fired[0].user, &*fired[0].verb, &*fired[0].path),
            (Some(rule), "alice", "list", "/api/v1/pods")
        );
        assert!(!faults.remove(rule), "it is used up");
    }
}
