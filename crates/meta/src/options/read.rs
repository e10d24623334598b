//! Options of get, list and watch: which objects, and how recent.

use super::accept;
use super::query::{QueryParams, QueryWriter, go_duration};
use crate::field_error::{FieldError, FieldErrors, FieldPath};
use crate::{FieldSelector, LabelSelector, ResourceVersion, Status};

/// Options of a get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetOptions {
    /// Unset: the most recent state. `0`: any state the server has cached. Otherwise: a state not older than this.
    pub resource_version: ResourceVersion,
}

/// Options of a list, and of the list behind the deletion of a collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Select by labels.
    pub label_selector: LabelSelector,
    /// Select by fields.
    pub field_selector: FieldSelector,
    /// Unset: the most recent state. `0`: any state the server has cached. Otherwise: see `resource_version_match`.
    pub resource_version: ResourceVersion,
    /// The meaning of `resource_version`; only allowed with one.
    pub resource_version_match: Option<ResourceVersionMatch>,
    /// The largest number of objects in one page.
    pub limit: Option<u64>,
    /// The continue token of the previous page; empty for the first. Not with `resource_version`.
    pub continue_token: String,
    /// The server's deadline for the answer.
    pub timeout_seconds: Option<u64>,
    /// Select one shard, as [`ShardSelector`](crate::ShardSelector) writes it. A server without `ShardedListAndWatch`
    /// ignores it: a list whose `metadata.shardInfo` does not repeat the selector is whole.
    pub shard_selector: Option<String>,
}

/// Options of a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchOptions {
    /// Select by labels.
    pub label_selector: LabelSelector,
    /// Select by fields.
    pub field_selector: FieldSelector,
    /// Events after this version; unset or `0` starts with the existing objects.
    pub resource_version: ResourceVersion,
    /// True if the stream starts with an event per existing object and a bookmark after the last. If unset, the
    /// server decides by the version.
    pub send_initial_events: Option<bool>,
    /// True if the server may send bookmarks.
    pub allow_bookmarks: bool,
    /// The time after which the server ends the stream.
    pub timeout_seconds: Option<u64>,
    /// Select one shard, as in [`ListOptions`]; nothing in the stream tells whether the server did.
    pub shard_selector: Option<String>,
}

/// The meaning of `resource_version` in [`ListOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResourceVersionMatch {
    /// The state at exactly this version, or 410.
    Exact,
    /// Any state that is not older than this version.
    NotOlderThan,
}

/// True if the query asks for a watch: `watch` with any value but `false` and `0`.
pub fn asks_to_watch(query: &str) -> bool {
    QueryParams::parse(query).flag("watch")
}

impl GetOptions {
    /// As client-go sends it.
    pub fn to_query(&self) -> String {
        let mut query = QueryWriter::default();
        query.push_text("resourceVersion", self.resource_version.as_str());
        query.finish()
    }

    /// Reads a query. Only the version can be invalid, and the store checks that.
    pub fn from_query(query: &str) -> Self {
        let params = QueryParams::parse(query);
        Self {
            resource_version: ResourceVersion::new(params.text("resourceVersion")),
        }
    }
}

impl ListOptions {
    /// As client-go sends it.
    pub fn to_query(&self) -> String {
        let mut query = QueryWriter::default();
        query.push_text("continue", &self.continue_token);
        query.push_text("fieldSelector", &self.field_selector.to_string());
        query.push_text("labelSelector", &self.label_selector.to_string());
        query.push_some("limit", self.limit.filter(|limit| *limit > 0));
        query.push_text("resourceVersion", self.resource_version.as_str());
        query.push_some(
            "resourceVersionMatch",
            self.resource_version_match.map(ResourceVersionMatch::as_str),
        );
        query.push_some("shardSelector", self.shard_selector.as_deref());
        push_timeout(&mut query, self.timeout_seconds);
        query.finish()
    }

    /// Reads and checks a query.
    pub fn from_query(query: &str) -> Result<Self, Status> {
        let raw = Raw::read(&QueryParams::parse(query))?;
        let mut errors = raw.list_errors();
        if raw.send_initial_events.is_some() {
            let path = FieldPath::new("sendInitialEvents");
            errors.push(FieldError::forbidden(
                &path,
                "sendInitialEvents is forbidden for list",
            ));
        }
        let options = Self {
            resource_version_match: ResourceVersionMatch::parse(&raw.resource_version_match),
            label_selector: raw.label_selector,
            field_selector: raw.field_selector,
            resource_version: raw.resource_version,
            limit: raw.limit,
            continue_token: raw.continue_token,
            timeout_seconds: raw.timeout_seconds,
            shard_selector: raw.shard_selector,
        };
        accept("ListOptions", options, &errors)
    }
}

impl WatchOptions {
    /// As client-go sends it. `send_initial_events` implies `resourceVersionMatch=NotOlderThan`.
    pub fn to_query(&self) -> String {
        let mut query = QueryWriter::default();
        query.push_flag("allowWatchBookmarks", self.allow_bookmarks);
        query.push_text("fieldSelector", &self.field_selector.to_string());
        query.push_text("labelSelector", &self.label_selector.to_string());
        query.push_text("resourceVersion", self.resource_version.as_str());
        let version_match = self
            .send_initial_events
            .map(|_| ResourceVersionMatch::NotOlderThan.as_str());
        query.push_some("resourceVersionMatch", version_match);
        query.push_some("sendInitialEvents", self.send_initial_events);
        query.push_some("shardSelector", self.shard_selector.as_deref());
        push_timeout(&mut query, self.timeout_seconds);
        query.push("watch", "true");
        query.finish()
    }

    /// Reads and checks a query. A watch without a version, or from `0`, starts with initial events.
    pub fn from_query(query: &str) -> Result<Self, Status> {
        let mut raw = Raw::read(&QueryParams::parse(query))?;
        raw.default_initial_events();
        let errors = raw.watch_errors();
        let options = Self {
            label_selector: raw.label_selector,
            field_selector: raw.field_selector,
            resource_version: raw.resource_version,
            send_initial_events: raw.send_initial_events,
            allow_bookmarks: raw.allow_bookmarks,
            timeout_seconds: raw.timeout_seconds,
            shard_selector: raw.shard_selector,
        };
        accept("ListOptions", options, &errors)
    }
}

impl ResourceVersionMatch {
    /// The text on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "Exact",
            Self::NotOlderThan => "NotOlderThan",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        match word {
            "Exact" => Some(Self::Exact),
            "NotOlderThan" => Some(Self::NotOlderThan),
            _ => None,
        }
    }
}

/// The parameters that list and watch share, decoded but not yet checked against each other.
struct Raw {
    label_selector: LabelSelector,
    field_selector: FieldSelector,
    resource_version: ResourceVersion,
    resource_version_match: String,
    limit: Option<u64>,
    continue_token: String,
    timeout_seconds: Option<u64>,
    send_initial_events: Option<bool>,
    allow_bookmarks: bool,
    shard_selector: Option<String>,
}

impl Raw {
    /// Numbers are checked before selectors, as in a Go server.
    fn read(params: &QueryParams<'_>) -> Result<Self, Status> {
        let timeout_seconds = params.number("timeoutSeconds")?;
        let limit = params.number("limit")?;
        Ok(Self {
            label_selector: params.text("labelSelector").parse()?,
            field_selector: params.text("fieldSelector").parse()?,
            resource_version: ResourceVersion::new(params.text("resourceVersion")),
            resource_version_match: params.text("resourceVersionMatch").to_owned(),
            // A limit below one means no limit.
            limit: limit
                .and_then(|limit| u64::try_from(limit).ok())
                .filter(|limit| *limit > 0),
            continue_token: params.text("continue").to_owned(),
            // Zero leaves the timeout to the server; a negative one ends the request at once.
            timeout_seconds: timeout_seconds
                .filter(|seconds| *seconds != 0)
                .map(|seconds| u64::try_from(seconds).unwrap_or(0)),
            send_initial_events: params.optional_flag("sendInitialEvents"),
            allow_bookmarks: params.flag("allowWatchBookmarks"),
            shard_selector: Some(params.text("shardSelector").to_owned()).filter(|text| !text.is_empty()),
        })
    }

    fn default_initial_events(&mut self) {
        let from_anywhere = self.resource_version.is_unset() || self.resource_version.is_any();
        if from_anywhere && self.resource_version_match.is_empty() && self.send_initial_events.is_none() {
            self.send_initial_events = Some(true);
            self.resource_version_match = ResourceVersionMatch::NotOlderThan.as_str().to_owned();
        }
    }

    fn list_errors(&self) -> FieldErrors {
        let mut errors = FieldErrors::new();
        if self.resource_version_match.is_empty() {
            return errors;
        }
        if self.resource_version.is_unset() {
            errors.push(match_forbidden(
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        if !self.continue_token.is_empty() {
            errors.push(match_forbidden(
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
        match ResourceVersionMatch::parse(&self.resource_version_match) {
            None => errors.push(self.match_not_supported(&["Exact", "NotOlderThan", ""])),
            Some(ResourceVersionMatch::Exact) if self.resource_version.is_any() => errors.push(
                match_forbidden(r#"resourceVersionMatch "exact" is forbidden for resourceVersion "0""#),
            ),
            Some(_) => {}
        }
        errors
    }

    fn watch_errors(&self) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let not_older = self.resource_version_match == ResourceVersionMatch::NotOlderThan.as_str();
        if self.send_initial_events.is_some() && !not_older {
            errors.push(match_forbidden(
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
        if self.resource_version_match.is_empty() {
            return errors;
        }
        if self.send_initial_events.is_none() {
            errors.push(match_forbidden(
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
        }
        if !not_older {
            errors.push(self.match_not_supported(&["NotOlderThan"]));
        }
        if !self.continue_token.is_empty() {
            errors.push(match_forbidden(
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
        errors
    }

    fn match_not_supported(&self, supported: &[&str]) -> FieldError {
        let path = FieldPath::new("resourceVersionMatch");
        FieldError::not_supported(&path, self.resource_version_match.as_str(), supported)
    }
}

fn match_forbidden(why: &str) -> FieldError {
    FieldError::forbidden(&FieldPath::new("resourceVersionMatch"), why)
}

/// client-go sends the timeout twice: as the request's deadline and as the verb's option.
fn push_timeout(query: &mut QueryWriter, seconds: Option<u64>) {
    query.push_some("timeout", seconds.map(go_duration));
    query.push_some("timeoutSeconds", seconds);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ListOptions;

    #[test]
    fn queries_are_those_of_client_go() {
        let list = ListOptions {
            label_selector: "app=web,tier in (a,b)".parse().unwrap(),
            field_selector: FieldSelector::name("x"),
            limit: Some(500),
            continue_token: "abc=".into(),
            ..Default::default()
        };
        assert_eq!(
            list.to_query(),
            "continue=abc%3D&fieldSelector=metadata.name%3Dx&labelSelector=app%3Dweb%2Ctier+in+%28a%2Cb%29&limit=500"
        );
        let watch = WatchOptions {
            resource_version: ResourceVersion::new("12"),
            send_initial_events: Some(true),
            allow_bookmarks: true,
            timeout_seconds: Some(475),
            ..Default::default()
        };
        assert_eq!(
            watch.to_query(),
            "allowWatchBookmarks=true&resourceVersion=12&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeout=7m55s&timeoutSeconds=475&watch=true"
        );
        assert_eq!(ListOptions::default().to_query(), "");
        assert_eq!(
            GetOptions {
                resource_version: ResourceVersion::any()
            }
            .to_query(),
            "resourceVersion=0"
        );
    }

    #[test]
    fn what_is_sent_reads_back() {
        let list = ListOptions {
            label_selector: "a!=b".parse().unwrap(),
            resource_version: ResourceVersion::new("7"),
            resource_version_match: Some(ResourceVersionMatch::Exact),
            limit: Some(3),
            timeout_seconds: Some(9),
            ..Default::default()
        };
        assert_eq!(ListOptions::from_query(&list.to_query()).unwrap(), list);
        let watch = WatchOptions {
            resource_version: ResourceVersion::new("7"),
            allow_bookmarks: true,
            ..Default::default()
        };
        assert_eq!(WatchOptions::from_query(&watch.to_query()).unwrap(), watch);
        assert!(asks_to_watch("watch=maybe") && !asks_to_watch("watch=0") && !asks_to_watch(""));
    }

    #[test]
    fn a_watch_from_nowhere_begins_with_what_exists() {
        for (query, initial) in [
            ("watch=1", Some(true)),
            ("resourceVersion=0", Some(true)),
            ("resourceVersion=5", None),
        ] {
            assert_eq!(
                WatchOptions::from_query(query).unwrap().send_initial_events,
                initial,
                "{query}"
            );
        }
    }

    fn check(answer: Result<impl std::fmt::Debug, Status>, code: i32, message: &str) {
        let status = answer.unwrap_err();
        let prefix = if code == 422 {
            "ListOptions.meta.k8s.io \"\" is invalid: "
        } else {
            ""
        };
        assert_eq!(
            (status.code, status.message),
            (code, format!("{prefix}{message}"))
        );
    }

    #[test]
    fn lists_are_refused_in_kubernetes_words() {
        for (query, message) in [
            (
                "resourceVersionMatch=Exact",
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
            ),
            (
                "resourceVersionMatch=Nope&resourceVersion=1",
                r#"resourceVersionMatch: Unsupported value: "Nope": supported values: "Exact", "NotOlderThan", """#,
            ),
            (
                "resourceVersionMatch=Exact&resourceVersion=0",
                r#"resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0""#,
            ),
            (
                "resourceVersionMatch=NotOlderThan&resourceVersion=1&continue=x&limit=1",
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided",
            ),
            (
                "sendInitialEvents=true",
                "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
            ),
        ] {
            check(ListOptions::from_query(query), 422, message);
        }
        check(
            ListOptions::from_query("limit=abc"),
            400,
            r#"strconv.ParseInt: parsing "abc": invalid syntax"#,
        );
        check(
            ListOptions::from_query("labelSelector=%3D"),
            400,
            "found '=', expected: !, identifier, or 'end of string'",
        );
        check(
            ListOptions::from_query("fieldSelector=a"),
            400,
            "invalid selector: 'a'; can't understand 'a'",
        );
    }

    #[test]
    fn watches_are_refused_in_kubernetes_words() {
        let requires = "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        let unless = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        let supported = |value: &str| {
            format!(r#"resourceVersionMatch: Unsupported value: "{value}": supported values: "NotOlderThan""#)
        };
        for (query, message) in [
            ("sendInitialEvents=true", requires.to_owned()),
            ("sendInitialEvents=false", requires.to_owned()),
            ("sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1", format!("[{requires}, {}]", supported("Exact"))),
            ("resourceVersionMatch=NotOlderThan&resourceVersion=1", unless.to_owned()),
            ("resourceVersionMatch=Nope&resourceVersion=1", format!("[{unless}, {}]", supported("Nope"))),
            ("continue=x", "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided".to_owned()),
        ] {
            check(WatchOptions::from_query(query), 422, &message);
        }
    }
}
