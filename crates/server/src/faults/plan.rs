//! The rules of a server and their progress: decides the faults of requests and events.
//!
//! Rules are evaluated in order. The actions of several rules add up (a delay, then a stale read), up to the first
//! that ends the request: of two answers for the same request, the second one applies to the next request.

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use super::rule::{Action, Rule, Unit};
use super::{Requester, TooManyFaults};
use crate::limits::MAX_PLANNED_FAULTS;
use crate::request_info::RequestInfo;

/// Identifies a rule of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RuleId(u64);

/// The active rules.
#[derive(Debug, Default)]
pub(super) struct Plan {
    rules: Vec<Planned>,
    last_id: u64,
}

#[derive(Debug)]
struct Planned {
    id: RuleId,
    rule: Rule,
    chance: Rng,
    /// The number of matching requests or events.
    seen: u64,
    fired: u64,
}

impl Planned {
    /// Counts a match; true if the fault is injected.
    fn fires(&mut self) -> bool {
        self.seen += 1;
        // The random sequence depends only on the seed, not on earlier results.
        let is_due = self.seen >= self.rule.nth && self.chance.f64() < self.rule.probability;
        self.fired += u64::from(is_due);
        is_due
    }

    fn is_spent(&self) -> bool {
        self.rule.times.is_some_and(|times| self.fired >= times)
    }
}

impl Plan {
    pub(super) fn add(&mut self, rule: Rule) -> Result<RuleId, TooManyFaults> {
        if self.rules.len() >= MAX_PLANNED_FAULTS {
            return Err(TooManyFaults);
        }
        self.last_id += 1;
        let id = RuleId(self.last_id);
        self.rules.push(Planned {
            id,
            chance: Rng::with_seed(rule.seed),
            rule,
            seen: 0,
            fired: 0,
        });
        self.forget_spent();
        Ok(id)
    }

    /// Removes a rule; false if it does not exist.
    pub(super) fn remove(&mut self, id: RuleId) -> bool {
        let before = self.rules.len();
        self.rules.retain(|planned| planned.id != id);
        self.rules.len() < before
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    pub(super) fn rules(&self) -> impl Iterator<Item = (RuleId, &Rule)> {
        self.rules.iter().map(|planned| (planned.id, &planned.rule))
    }

    /// The faults of a request.
    pub(super) fn on_request(&mut self, requester: &Requester, info: &RequestInfo) -> Vec<(RuleId, Action)> {
        let mut happens = Vec::new();
        for planned in &mut self.rules {
            let rule = &planned.rule;
            if rule.action.unit() == Unit::Request && rule.request.matches(requester, info) && planned.fires()
            {
                happens.push((planned.id, planned.rule.action.clone()));
                if planned.rule.action.is_final() {
                    break;
                }
            }
        }
        self.forget_spent();
        happens
    }

    /// The fault of an event about an object, or of a bookmark.
    pub(super) fn on_event(
        &mut self,
        requester: &Requester,
        info: &RequestInfo,
        object: Option<(&str, &str)>,
    ) -> Option<(RuleId, Action)> {
        let firing = self.rules.iter_mut().find_map(|planned| {
            let rule = &planned.rule;
            let matches = match (rule.action.unit(), object) {
                (Unit::Event, Some(object)) => rule.request.matches_event(requester, info, object),
                (Unit::Bookmark, None) => rule.request.matches(requester, info),
                _ => false,
            };
            (matches && planned.fires()).then(|| (planned.id, planned.rule.action.clone()))
        });
        self.forget_spent();
        firing
    }

    /// True for each of requests and events that some rule affects.
    pub(super) fn concerns(&self) -> (bool, bool) {
        let any = |wanted: fn(Unit) -> bool| {
            let mut units = self.rules.iter().map(|planned| planned.rule.action.unit());
            units.any(wanted)
        };
        (
            any(|unit| unit == Unit::Request),
            any(|unit| unit != Unit::Request),
        )
    }

    fn forget_spent(&mut self) {
        self.rules.retain(|planned| !planned.is_spent());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Method;
    use watchkeeper_meta::Status;

    use super::*;
    use crate::faults::{Flow, RequestMatch, Stale};
    use crate::{RequestInfo, Verb};

    fn alice() -> Requester {
        Requester {
            user: "alice".to_owned(),
            user_agent: "operator/v1".to_owned(),
        }
    }

    fn get(name: &str) -> RequestInfo {
        RequestInfo::read(&Method::GET, &format!("/api/v1/namespaces/d/pods/{name}"), "")
    }

    fn pods() -> RequestMatch {
        RequestMatch::new(Verb::Get, "pods")
    }

    fn plan(rules: impl IntoIterator<Item = Rule>) -> Plan {
        let mut plan = Plan::default();
        for rule in rules {
            plan.add(rule).unwrap();
        }
        plan
    }

    /// The requests for a pod, out of so many, that the fault is injected into.
    fn fires_on(plan: &mut Plan, requests: usize) -> Vec<usize> {
        let happens = |_: &usize| !plan.on_request(&alice(), &get("p")).is_empty();
        (1..=requests).filter(happens).collect()
    }

    #[test]
    fn a_rule_fires_from_its_nth_request_on_and_as_often_as_configured() {
        let rule = |nth, times| Rule {
            nth,
            times,
            ..Rule::new(pods(), Action::Forbid)
        };
        assert_eq!(fires_on(&mut plan([rule(1, Some(1))]), 4), [1]);
        assert_eq!(fires_on(&mut plan([rule(3, Some(2))]), 6), [3, 4]);
        assert_eq!(fires_on(&mut plan([rule(2, None)]), 4), [2, 3, 4]);
        assert_eq!(fires_on(&mut plan([rule(1, Some(0))]), 2), [0; 0]);
    }

    #[test]
    fn probabilities_repeat_with_their_seed() {
        let rule = |seed| Rule {
            seed,
            probability: 0.5,
            ..Rule::always(pods(), Action::Forbid)
        };
        let with_seed = |seed| fires_on(&mut plan([rule(seed)]), 64);
        assert_eq!(with_seed(7), with_seed(7));
        assert_ne!(with_seed(7), with_seed(8));
        assert!((16..48).contains(&with_seed(7).len()));
    }

    #[test]
    fn rules_match_user_program_and_object() {
        let check = |request: RequestMatch, expected: bool| {
            let mut plan = plan([Rule::always(request.clone(), Action::Forbid)]);
            let happens = plan.on_request(&alice(), &get("p"));
            assert_eq!(!happens.is_empty(), expected, "{request:?}");
        };
        check(RequestMatch::default(), true);
        check(RequestMatch::user("alice"), true);
        check(RequestMatch::user("bob"), false);
        let agent = |agent: &str| RequestMatch {
            user_agent: Some(agent.to_owned()),
            ..pods()
        };
        check(agent("operator/"), true);
        check(agent("kubectl/"), false);
        let named = |namespace: &str, name: &str| RequestMatch {
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            ..pods()
        };
        check(named("d", "p"), true);
        check(named("d", "q"), false);
        check(named("e", "p"), false);
        check(RequestMatch::new(Verb::List, "pods"), false);
    }

    #[test]
    fn reads_of_any_version_are_matched() {
        let old = RequestMatch {
            any_version: Some(true),
            ..RequestMatch::default()
        };
        let mut plan = plan([Rule::always(old, Action::Stale(Stale::Behind(1)))]);
        let mut happens = |query: &str| {
            let list = RequestInfo::read(&Method::GET, "/api/v1/pods", query);
            !plan.on_request(&alice(), &list).is_empty()
        };
        assert!(happens("resourceVersion=0&limit=500"));
        assert!(!happens("limit=500"));
        assert!(!happens("resourceVersion=01"));
        assert!(!happens("resourceVersion=7"));
    }

    #[test]
    fn actions_add_up_until_one_ends_the_request() {
        let delay = Action::Delay(Duration::from_secs(1));
        let fail = |text: &str| Action::fail(Status::bad_request(text));
        let mut plan = plan([
            Rule::always(pods(), delay.clone()),
            Rule::new(pods(), fail("one")),
            Rule::new(pods(), fail("two")),
        ]);
        let mut next = || {
            let happens = plan.on_request(&alice(), &get("p"));
            happens.into_iter().map(|(_, action)| action).collect::<Vec<_>>()
        };
        assert_eq!(next(), [delay.clone(), fail("one")]);
        assert_eq!(next(), [delay.clone(), fail("two")]);
        assert_eq!(next(), [delay]);
    }

    #[test]
    fn events_are_matched_by_their_object_and_bookmarks_are_not_events() {
        let watch = RequestInfo::read(&Method::GET, "/api/v1/pods", "watch=1");
        let about_q = RequestMatch {
            namespace: Some("d".to_owned()),
            name: Some("q".to_owned()),
            ..RequestMatch::new(Verb::Watch, "pods")
        };
        let mut plan = plan([
            Rule::new(about_q, Action::Flow(Flow::Cut)),
            Rule::new(RequestMatch::default(), Action::WithholdBookmark),
        ]);
        assert_eq!(plan.concerns(), (false, true));
        let mut on = |object| plan.on_event(&alice(), &watch, object).map(|(_, action)| action);
        assert_eq!(on(Some(("d", "p"))), None);
        assert_eq!(on(Some(("e", "q"))), None);
        assert_eq!(on(Some(("d", "q"))), Some(Action::Flow(Flow::Cut)));
        assert_eq!(on(None), Some(Action::WithholdBookmark));
        assert_eq!(plan.concerns(), (false, false));
    }
}
