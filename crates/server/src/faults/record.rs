//! What has gone wrong on purpose, in the order it happened.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use watchkeeper_meta::Time;

use super::{Action, Requester, RuleId};
use crate::limits::MAX_RECORDED_FAULTS;
use crate::request_info::RequestInfo;

/// A fault that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fired {
    /// When, by the clock of the server.
    pub at: Time,
    /// The rule behind it; `None` if somebody changed how open streams flow.
    pub rule: Option<RuleId>,
    /// What happened.
    pub action: Action,
    /// Whose request it happened to.
    pub user: String,
    /// The program that asked.
    pub user_agent: String,
    /// What was to be done.
    pub verb: String,
    /// What to: the path of the request.
    pub path: String,
    /// The object of the event it happened to: `namespace/name`. Empty if it happened to the request as a whole.
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
    /// Notes a fault. The oldest is forgotten if there are too many.
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
