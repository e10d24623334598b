//! A fault as it is written down: which requests, which of them, how often, and what happens to them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use watchkeeper_meta::Status;

use super::{Flow, Requester};
use crate::Verb;
use crate::request_info::RequestInfo;

/// Which requests a fault is for. What is not set matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RequestMatch {
    /// The name of the user who asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// What the `User-Agent` of the program that asks begins with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// What is to be done.
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
    /// The object. A fault of a watch's events takes those about this object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether any version will do (`resourceVersion=0`). Real servers answer only such reads from the past.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub any_version: Option<bool>,
}

/// A fault and when it happens.
///
/// ```
/// use watchkeeper_server::{Action, Cut, RequestMatch, Rule, Verb};
///
/// // The second pod that anybody creates is stored, and its creator never hears of it.
/// let rule = Rule {
///     nth: 2,
///     ..Rule::new(RequestMatch::new(Verb::Create, "pods"), Action::Cut(Cut::BeforeAnswer))
/// };
/// # assert_eq!(serde_json::from_value::<Rule>(serde_json::to_value(&rule).unwrap()).unwrap(), rule);
/// ```
///
/// The same as JSON, where everything but the action may be left out:
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
    /// Which requests are meant.
    #[serde(default)]
    pub request: RequestMatch,
    /// The first of them that the fault may happen to, from 1.
    #[serde(default = "first")]
    pub nth: u64,
    /// How likely it happens to each from there on: 1 is certain.
    #[serde(default = "certain")]
    pub probability: f64,
    /// Where the chances come from: the same seed makes the same choices.
    #[serde(default)]
    pub seed: u64,
    /// How often it happens; `None` for as long as the rule is there.
    #[serde(default)]
    pub times: Option<u64>,
    /// What happens.
    pub action: Action,
}

/// What happens to a request, or to an event of a watch.
///
/// A rule counts what its action is about: requests, the events of the watches that match, or their bookmarks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// Answers with this status instead of handling the request. A 429 with `details.retryAfterSeconds` carries the
    /// header as well.
    Fail(Box<Status>),
    /// Refuses the request as RBAC does for a user without the right to it. The right is back when the rule is gone.
    Forbid,
    /// Handles the request after a pause, which counts against its timeout.
    #[serde(with = "go_duration")]
    Delay(Duration),
    /// Breaks the connection, with everything else that is on it.
    Cut(Cut),
    /// Answers a get, a list or the objects a watch begins with from the past. A watch then tells what came after.
    Stale(Stale),
    /// Forgets all history before the request is handled: a watch from an older version is told 410, and so is the next
    /// page of an older list.
    Compact,
    /// No webhook can be reached on behalf of the request; their failure policies decide.
    WebhooksDown,
    /// The store takes no writes of the request: it passes admission and validation, then fails as with a full etcd.
    ReadOnly,
    /// Before an event of a watch is sent, its stream begins to flow otherwise. The event is the first to be affected.
    Flow(Flow),
    /// An event of a watch, and all that come behind it, are sent later.
    #[serde(with = "go_duration")]
    DelayEvent(Duration),
    /// A bookmark of a watch is not sent, be it the one that ends the initial events.
    WithholdBookmark,
}

/// When a connection breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cut {
    /// Before the request is handled: nothing happens, and nothing is answered.
    BeforeHandling,
    /// After the request was handled: a write is stored, and nothing is answered.
    BeforeAnswer,
    /// After the request was handled, with half of the answer's body.
    WithinAnswer,
    /// After the answer, which is complete unless the connection had no room for it.
    AfterAnswer,
}

/// How old a read is. What has been compacted is not read; the oldest revision there is takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stale {
    /// At this revision.
    At(u64),
    /// So many revisions before the newest.
    Behind(u64),
}

/// What the rule of an action counts.
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
    /// A fault that happens once, to the next request that matches.
    pub fn new(request: RequestMatch, action: Action) -> Self {
        Self {
            times: Some(1),
            ..Self::always(request, action)
        }
    }

    /// A fault that happens to every request that matches, until the rule is removed.
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

    /// Whether nothing that other rules want would be noticed any more.
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

    /// Requests of the user of this name, whatever they want.
    pub fn user(name: impl Into<String>) -> Self {
        Self {
            user: Some(name.into()),
            ..Self::default()
        }
    }

    pub(super) fn matches(&self, requester: &Requester, info: &RequestInfo) -> bool {
        self.matches_requester(requester) && self.matches_info(info)
    }

    /// Whether an event is meant: its watch must match, and the object must be the one that is named.
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

/// Spans of time as Kubernetes writes them: `"1m30s"`.
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
