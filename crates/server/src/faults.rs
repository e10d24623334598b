//! Faults on demand, for tests of whoever talks to this server: refuse the next matching request, refuse
//! connections, cut, stall or slow open streams.
//!
//! Faults are planned on a server's handle and never come from the outside. Whatever waits, waits on tokio's
//! clock, so a test with paused time moves through it.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use watchkeeper_meta::Status;

use crate::Verb;
use crate::limits::MAX_PLANNED_FAULTS;
use crate::request_info::RequestInfo;

/// Which requests a fault is for. What is not set matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestMatch {
    /// What is to be done.
    pub verb: Option<Verb>,
    /// The API group; `Some("")` is core.
    pub group: Option<String>,
    /// The plural name.
    pub resource: Option<String>,
    /// The subresource; `Some("")` is the object itself.
    pub subresource: Option<String>,
    /// The namespace.
    pub namespace: Option<String>,
    /// The object.
    pub name: Option<String>,
}

/// How an open stream flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Events are sent as they come.
    Running,
    /// Each event is held back for this long first.
    Slow(Duration),
    /// Nothing is sent; events gather behind the stream as behind a slow client.
    Stalled,
    /// The stream ends as at its timeout: a complete body.
    Ended,
    /// The stream breaks off: an incomplete body, or a reset.
    Cut,
}

/// There are as many faults waiting for their request as can be.
#[derive(Debug, thiserror::Error)]
#[error("{MAX_PLANNED_FAULTS} faults are waiting for their request already")]
pub struct TooManyFaults;

/// The faults of one server.
#[derive(Debug, Default)]
pub struct Faults {
    planned: Mutex<Vec<Planned>>,
    streams: Mutex<Streams>,
    refusing: AtomicBool,
}

#[derive(Debug)]
struct Planned {
    request: RequestMatch,
    answer: Status,
    times: u32,
}

#[derive(Debug, Default)]
struct Streams {
    next_id: u64,
    open: HashMap<u64, (RequestInfo, watch::Sender<Flow>)>,
}

impl RequestMatch {
    /// Requests with this verb on this resource.
    pub fn new(verb: Verb, resource: impl Into<String>) -> Self {
        Self {
            verb: Some(verb),
            resource: Some(resource.into()),
            ..Self::default()
        }
    }

    /// Whether a request is meant.
    pub fn matches(&self, info: &RequestInfo) -> bool {
        let verb = self.verb.is_none_or(|verb| info.verb == verb.as_str());
        let wish = [
            &self.group,
            &self.resource,
            &self.subresource,
            &self.namespace,
            &self.name,
        ];
        match &info.resource {
            None => verb && wish.iter().all(|wish| wish.is_none()),
            Some(is) => {
                let is = [&is.group, &is.resource, &is.subresource, &is.namespace, &is.name];
                verb && wish
                    .iter()
                    .zip(is)
                    .all(|(wish, is)| wish.as_ref().is_none_or(|wish| wish == is))
            }
        }
    }
}

impl Faults {
    /// Answers the next `times` matching requests with a failure. Plans are used in the order they were made.
    pub fn answer_next(
        &self,
        request: RequestMatch,
        times: u32,
        answer: Status,
    ) -> Result<(), TooManyFaults> {
        let mut planned = lock(&self.planned);
        if planned.len() >= MAX_PLANNED_FAULTS {
            return Err(TooManyFaults);
        }
        planned.push(Planned {
            request,
            answer,
            times,
        });
        Ok(())
    }

    /// Forgets what is planned, lets connections in again and lets every stream run.
    pub fn clear(&self) {
        lock(&self.planned).clear();
        self.refuse_connections(false);
        self.set_flow(&RequestMatch::default(), Flow::Running);
    }

    /// Closes new connections as soon as they come in, or stops doing so. Open connections stay.
    pub fn refuse_connections(&self, refuse: bool) {
        self.refusing.store(refuse, Ordering::Relaxed);
    }

    /// Changes how the open streams of matching requests flow; answers how many there are.
    pub fn set_flow(&self, request: &RequestMatch, flow: Flow) -> usize {
        let streams = lock(&self.streams);
        let matching = streams.open.values().filter(|(info, _)| request.matches(info));
        let mut count = 0;
        for (_, sender) in matching {
            sender.send_replace(flow);
            count += 1;
        }
        count
    }

    /// How many streams of matching requests are open.
    pub fn open_streams(&self, request: &RequestMatch) -> usize {
        let streams = lock(&self.streams);
        streams
            .open
            .values()
            .filter(|(info, _)| request.matches(info))
            .count()
    }

    pub(crate) fn is_refusing_connections(&self) -> bool {
        self.refusing.load(Ordering::Relaxed)
    }

    /// The failure planned for a request, if any; it is used up.
    pub(crate) fn take_answer(&self, info: &RequestInfo) -> Option<Status> {
        let mut planned = lock(&self.planned);
        let index = planned.iter().position(|plan| plan.request.matches(info))?;
        let plan = &mut planned[index];
        let answer = plan.answer.clone();
        plan.times = plan.times.saturating_sub(1);
        if plan.times == 0 {
            planned.remove(index);
        }
        Some(answer)
    }

    /// Makes a new stream known; the number names it to [`Faults::close_stream`].
    pub(crate) fn open_stream(&self, info: RequestInfo) -> (u64, watch::Receiver<Flow>) {
        let mut streams = lock(&self.streams);
        let (sender, receiver) = watch::channel(Flow::Running);
        streams.next_id += 1;
        let id = streams.next_id;
        streams.open.insert(id, (info, sender));
        (id, receiver)
    }

    pub(crate) fn close_stream(&self, id: u64) {
        lock(&self.streams).open.remove(&id);
    }
}

/// A panic while the lock was held cannot leave these lists half-changed.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;

    #[test]
    fn a_planned_answer_is_used_up_by_matching_requests() {
        let faults = Faults::default();
        let busy = Status::too_many_requests("busy", 3);
        let pods = RequestMatch::new(Verb::List, "pods");
        faults.answer_next(pods, 2, busy.clone()).unwrap();
        let list = RequestInfo::read(&Method::GET, "/api/v1/pods", "");
        let get = RequestInfo::read(&Method::GET, "/api/v1/namespaces/d/pods/p", "");
        assert_eq!(faults.take_answer(&get), None);
        assert_eq!(faults.take_answer(&list), Some(busy.clone()));
        assert_eq!(faults.take_answer(&list), Some(busy));
        assert_eq!(faults.take_answer(&list), None);
    }

    #[test]
    fn streams_are_found_by_their_request() {
        let faults = Faults::default();
        let (id, flow) = faults.open_stream(RequestInfo::read(&Method::GET, "/api/v1/pods", "watch=1"));
        assert_eq!(
            faults.set_flow(&RequestMatch::new(Verb::Watch, "secrets"), Flow::Cut),
            0
        );
        assert_eq!(
            faults.set_flow(&RequestMatch::new(Verb::Watch, "pods"), Flow::Cut),
            1
        );
        assert_eq!(*flow.borrow(), Flow::Cut);
        faults.close_stream(id);
        assert_eq!(faults.open_streams(&RequestMatch::default()), 0);
    }
}
