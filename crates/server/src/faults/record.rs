//! The record of injected faults, in order.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use watchkeeper_meta::Time;

use super::{Action, Requester, RuleId};
use crate::limits::MAX_RECORDED_FAULTS;
use crate::request_info::RequestInfo;

/// An injected fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fired {
    /// The time, by the server's clock.
    pub at: Time,
    /// The rule; `None` if the flow of open streams was set.
    pub rule: Option<RuleId>,
    /// The action.
    pub action: Action,
    /// The user of the request.
    pub user: String,
    /// The `User-Agent` of the request.
    pub user_agent: String,
    /// The verb of the request.
    pub verb: String,
    /// The path of the request.
    pub path: String,
    /// The object of the affected event: `namespace/name`. Empty if the request as a whole was affected.
    pub object: String,
}

/// The latest faults.
#[derive(Debug, Default)]
pub(super) struct Record {
    fired: VecDeque<Fired>,
}

/// A request, for the record.
#[derive(Clone, Copy)]
pub(super) struct About<'a> {
    pub requester: &'a Requester,
    pub info: &'a RequestInfo,
    pub object: &'a str,
}

impl Record {
    /// Records a fault. Beyond the limit, the oldest is dropped.
    pub(super) fn note(&mut self, at: Time, rule: Option<RuleId>, action: Action, about: About<'_>) {
        if self.fired.len() >= MAX_RECORDED_FAULTS {
            self.fired.pop_front();
        }
        self.fired.push_back(Fired {
            at,
            rule,
            action,
            user: about.requester.user.clone(),
            user_agent: about.requester.user_agent.clone(),
            verb: about.info.verb.clone(),
            path: about.info.path.clone(),
            object: about.object.to_owned(),
        });
    }

    pub(super) fn all(&self) -> Vec<Fired> {
        self.fired.iter().cloned().collect()
    }

    pub(super) fn clear(&mut self) {
        self.fired.clear();
    }
}
