//! A fault rule: the requests it matches, which of them, how often, and the action.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use watchkeeper_meta::Status;

use super::{Flow, Requester};
use crate::Verb;
use crate::request_info::RequestInfo;

/// Selects requests. Unset fields match everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RequestMatch {
    /// The name of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// A prefix of the `User-Agent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// The verb.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verb: Option<Verb>,
    /// The API group; `Some("")` is core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The plural name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The subresource; `Some("")` is the object itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subresource: Option<String>,
    /// The namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The object. For faults of watch events: the object of the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// True for reads of any version (`resourceVersion=0`). Real servers answer only such reads with stale data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub any_version: Option<bool>,
}

/// A fault and when it is injected.
///
/// ```
/// use watchkeeper_server::{Action, Cut, RequestMatch, Rule, Verb};
///
/// // The second pod to be created is stored, but its creator gets no answer.
/// let rule = Rule {
///     nth: 2,
///     ..Rule::new(RequestMatch::new(Verb::Create, "pods"), Action::Cut(Cut::BeforeAnswer))
/// };
/// # assert_eq!(serde_json::from_value::<Rule>(serde_json::to_value(&rule).unwrap()).unwrap(), rule);
/// ```
///
/// The same as JSON, where everything but the action is optional:
///
/// ```
/// # let text = r#"
/// {"request": {"verb": "create", "resource": "pods"}, "nth": 2, "times": 1, "action": {"cut": "beforeAnswer"}}
/// # "#;
/// # let rule: watchkeeper_server::Rule = serde_json::from_str(text).unwrap();
/// # assert_eq!((rule.nth, rule.probability), (2, 1.0));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// The affected requests.
    #[serde(default)]
    pub request: RequestMatch,
    /// The first of them that is affected, from 1.
    #[serde(default = "first")]
    pub nth: u64,
    /// The probability for each from there on: 1 is certain.
    #[serde(default = "certain")]
    pub probability: f64,
    /// The seed of the probability: equal seeds make equal choices.
    #[serde(default)]
    pub seed: u64,
    /// The number of times it is injected; `None`: until the rule is removed.
    #[serde(default)]
    pub times: Option<u64>,
    /// The action.
    pub action: Action,
}

/// The fault of a request, or of a watch event.
///
/// A rule counts the units of its action: requests, or the events or bookmarks of matching watches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// Answers with this status instead of handling the request. A 429 with `details.retryAfterSeconds` also sets the
    /// header.
    Fail(Box<Status>),
    /// Rejects the request as RBAC does for a user without permission. Permission returns when the rule is removed.
    Forbid,
    /// Handles the request after a delay, which counts against its timeout.
    #[serde(with = "go_duration")]
    Delay(Duration),
    /// Closes the connection, with everything else on it.
    Cut(Cut),
    /// Answers a get, a list or the initial events of a watch with old data. A watch then delivers the later events.
    Stale(Stale),
    /// Compacts all history before the request is handled: a watch from an older version gets 410, and so does the
    /// next page of an older list.
    Compact,
    /// No webhook can be called for the request; their failure policies apply.
    WebhooksDown,
    /// The store rejects writes of the request: it passes admission and validation, then fails as with a full etcd.
    ReadOnly,
    /// Sets the flow of a stream before an event is sent. That event is the first to be affected.
    Flow(Flow),
    /// Delays an event of a watch, and all following events.
    #[serde(with = "go_duration")]
    DelayEvent(Duration),
    /// Drops a bookmark of a watch, even the one that ends the initial events.
    WithholdBookmark,
}

/// The moment at which a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cut {
    /// Before the request is handled: it has no effect and no response.
    BeforeHandling,
    /// After the request was handled: a write is stored, but there is no response.
    BeforeAnswer,
    /// After the request was handled, with half of the response body.
    WithinAnswer,
    /// After the response, which is complete unless the connection could not take it all.
    AfterAnswer,
}

/// The age of a stale read. A compacted revision is replaced by the oldest available one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stale {
    /// At this revision.
    At(u64),
    /// This many revisions before the latest.
    Behind(u64),
}

/// The unit that a rule counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Request,
    Event,
    Bookmark,
}

fn first() -> u64 {
    1
}

fn certain() -> f64 {
    1.0
}

impl Rule {
    /// A fault injected once, into the next matching request.
    pub fn new(request: RequestMatch, action: Action) -> Self {
        Self {
            times: Some(1),
            ..Self::always(request, action)
        }
    }

    /// A fault injected into every matching request until the rule is removed.
    pub fn always(request: RequestMatch, action: Action) -> Self {
        Self {
            request,
            nth: first(),
            probability: certain(),
            seed: 0,
            times: None,
            action,
        }
    }
}

impl Action {
    /// Answers with this status.
    pub fn fail(status: Status) -> Self {
        Self::Fail(Box::new(status))
    }

    pub(super) fn unit(&self) -> Unit {
        match self {
            Self::Flow(_) | Self::DelayEvent(_) => Unit::Event,
            Self::WithholdBookmark => Unit::Bookmark,
            _ => Unit::Request,
        }
    }

    /// True if the effect of later rules could not be observed.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Fail(_) | Self::Forbid | Self::Cut(_))
    }
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

    /// All requests of a user.
    pub fn user(name: impl Into<String>) -> Self {
        Self {
            user: Some(name.into()),
            ..Self::default()
        }
    }

    pub(super) fn matches(&self, requester: &Requester, info: &RequestInfo) -> bool {
        self.matches_requester(requester) && self.matches_info(info)
    }

    /// True if the event's watch matches, and its object is the named one.
    pub(super) fn matches_event(
        &self,
        requester: &Requester,
        info: &RequestInfo,
        object: (&str, &str),
    ) -> bool {
        let (namespace, name) = object;
        let watch = Self {
            namespace: None,
            name: None,
            ..self.clone()
        };
        let is = |wish: &Option<String>, is: &str| wish.as_ref().is_none_or(|wish| wish == is);
        is(&self.namespace, namespace) && is(&self.name, name) && watch.matches(requester, info)
    }

    fn matches_requester(&self, requester: &Requester) -> bool {
        let user = self.user.as_ref();
        let agent = self.user_agent.as_ref();
        user.is_none_or(|user| *user == requester.user)
            && agent.is_none_or(|agent| requester.user_agent.starts_with(agent.as_str()))
    }

    fn matches_info(&self, info: &RequestInfo) -> bool {
        let verb = self.verb.is_none_or(|verb| info.verb == verb.as_str())
            && self.any_version.is_none_or(|any| info.any_version == any);
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

/// Durations as Kubernetes writes them: `"1m30s"`.
pub(super) mod go_duration {
    use std::time::Duration;

    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
    use watchkeeper_wire::values;

    pub(in crate::faults) fn serialize<S: Serializer>(
        duration: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        values::Duration::from(*duration).serialize(serializer)
    }

    pub(in crate::faults) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        let span = values::Duration::deserialize(deserializer)?;
        span.to_std()
            .ok_or_else(|| D::Error::custom("the duration is negative"))
    }
}
