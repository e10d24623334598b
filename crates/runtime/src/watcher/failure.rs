//! Failures of lists and watches, and the table of recoveries.
//!
//! A failure is the same however it arrives: a 410 may be the HTTP status of the answer, an `ERROR` event or a bare
//! `Status` line in the stream. The source turns all of them into [`Failure::Status`]; here they are classified by
//! their meaning and by the [`Stage`] they occur in.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use watchkeeper_meta::{ObjectKey, ResourceVersion, Status};

/// The reason a list or a watch failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    /// The server answered with a failure.
    #[error(transparent)]
    Status(Arc<Status>),
    /// No answer, or an incomplete one: refused, reset, timed out, TLS, DNS.
    #[error("connection to the server lost")]
    Connection(#[source] Arc<dyn StdError + Send + Sync>),
    /// The answer has an unexpected format.
    #[error("answer cannot be read")]
    Unreadable(#[source] Arc<dyn StdError + Send + Sync>),
    /// One object in the answer cannot be decoded; the others can.
    #[error("object {object} cannot be read")]
    Undecodable {
        /// The object, as far as it could be identified.
        object: Unread,
        /// The error.
        #[source]
        source: Arc<dyn StdError + Send + Sync>,
    },
    /// Nothing arrived although the server should have ended the watch.
    #[error("nothing heard for {0:?}: the connection is dead")]
    Idle(Duration),
    /// The watch ended at once without an event.
    #[error("watch ended after {0:?} without an event")]
    ShortWatch(Duration),
    /// The server sent the objects of a streaming list, but not the final bookmark.
    #[error("streaming list has no end: the server does not support it")]
    NoEndBookmark,
    /// The server is at an older state than one already seen.
    #[error("resource version went back from {from} to {to}")]
    WentBack {
        /// The version known before.
        from: ResourceVersion,
        /// The version sent now.
        to: ResourceVersion,
    },
}

/// An undecodable object, as far as it could be identified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// Its key, if that can be read.
    pub key: Option<ObjectKey>,
    /// Its version; unset if it cannot be read.
    pub version: ResourceVersion,
    /// The number of objects before it in the answer.
    pub position: usize,
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "{key}"),
            None => write!(f, "number {} of the answer", self.position),
        }
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Status(Arc::new(status))
    }
}

impl Failure {
    /// The delay the server asks for.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status(status) => status.retry_after(),
            _ => None,
        }
    }

    /// True if the version has expired.
    pub fn is_expired(&self) -> bool {
        matches!(self, Self::Status(status) if status.is_expired())
    }

    /// The undecodable object, if that is the failure.
    pub fn unread(&self) -> Option<&Unread> {
        match self {
            Self::Undecodable { object, .. } => Some(object),
            _ => None,
        }
    }

    /// True if the server says that the request is invalid.
    pub fn is_wrong_request(&self) -> bool {
        matches!(self, Self::Status(status) if is_wrong_request(status))
    }

    /// True if the server denies access: unauthorized or forbidden.
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Status(status) if status.is_forbidden() || status.is_unauthorized())
    }
}

/// The stage of the watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Requesting a list, or its first page.
    List,
    /// Requesting a further page.
    Page,
    /// Receiving the initial objects of a streaming list.
    StreamingList,
    /// Receiving changes.
    Watch,
}

/// The recovery from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The action.
    pub cure: Cure,
    /// True if the user is informed. Expected events in the life of a watch are not reported.
    pub reported: bool,
    /// True if the first such failure after progress has no delay.
    pub first_is_free: bool,
}

/// The action after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cure {
    /// Repeat the request, from the last version or page received.
    Resume,
    /// Repeat the request once; if that fails before anything is received, list again. Some data, such as the end of
    /// a damaged object, the server can never send.
    ResumeOnce,
    /// List again.
    Relist(ListFrom),
    /// Use a plain list instead of a streaming one from now on.
    Fallback,
    /// Stop: the request is invalid.
    Stop,
}

/// The required consistency of a new list, in ascending order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListFrom {
    /// As configured.
    #[default]
    Configured,
    /// Not older than the last version seen: served from the watch cache, and never back in time.
    NotOlder,
    /// The most recent state.
    MostRecent,
    /// The most recent state in one page, because pages expired before the last was read.
    MostRecentWhole,
}

/// The table of recoveries.
pub fn judge(stage: Stage, failure: &Failure) -> Verdict {
    use ListFrom::*;
    use Stage::*;
    match failure {
        Failure::Status(status) => judge_status(stage, status),
        Failure::Connection(_) => report(Cure::Resume),
        Failure::Idle(_) => report(Cure::Resume).free(),
        Failure::ShortWatch(_) => report(Cure::Resume),
        Failure::NoEndBookmark => report(Cure::Fallback).free(),
        Failure::WentBack { .. } => report(Cure::Relist(MostRecent)).free(),
        Failure::Unreadable(_) => match stage {
            List | Page => report(Cure::Resume),
            StreamingList => report(Cure::Fallback),
            Watch => report(Cure::Relist(NotOlder)),
        },
        // The changed or deleted object is unknown, so a list is needed. Delayed even the first time, because such an
        // object may change often.
        Failure::Undecodable { .. } => match stage {
            List | Page | StreamingList => report(Cure::Resume),
            Watch => report(Cure::Relist(NotOlder)),
        },
    }
}

fn judge_status(stage: Stage, status: &Status) -> Verdict {
    use ListFrom::*;
    use Stage::*;
    if status.is_expired() {
        return match stage {
            List | StreamingList => quiet(Cure::Relist(MostRecent)),
            Page => quiet(Cure::Relist(MostRecentWhole)),
            Watch => quiet(Cure::Relist(NotOlder)),
        };
    }
    if status.is_too_large_resource_version() {
        return report(Cure::Relist(MostRecent)).free();
    }
    if status.is_too_many_requests() || status.is_service_unavailable() {
        return report(Cure::Resume);
    }
    if status.is_forbidden() || status.is_unauthorized() {
        return report(Cure::Resume);
    }
    if status.is_not_found() {
        return match stage {
            List | StreamingList => report(Cure::Resume),
            Page | Watch => report(Cure::Relist(MostRecent)),
        };
    }
    let refused_as_wrong = is_wrong_request(status);
    match stage {
        StreamingList => report(Cure::Fallback).free(),
        List if refused_as_wrong => report(Cure::Stop),
        Page if refused_as_wrong => report(Cure::Relist(MostRecentWhole)),
        Watch if status.is_method_not_allowed() => report(Cure::Stop),
        Watch if refused_as_wrong => report(Cure::Relist(MostRecent)),
        List | Page => report(Cure::Resume),
        Watch => report(Cure::ResumeOnce),
    }
}

fn is_wrong_request(status: &Status) -> bool {
    status.is_bad_request() || status.is_invalid() || status.is_method_not_allowed()
}

const fn report(cure: Cure) -> Verdict {
    Verdict {
        cure,
        reported: true,
        first_is_free: false,
    }
}

const fn quiet(cure: Cure) -> Verdict {
    Verdict {
        cure,
        reported: false,
        first_is_free: true,
    }
}

impl Verdict {
    const fn free(self) -> Self {
        Self {
            first_is_free: true,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use expect_test::expect;
    use watchkeeper_meta::{GroupResource, StatusReason};

    use super::*;

    fn other(text: &str) -> Arc<dyn StdError + Send + Sync> {
        Arc::from(Box::<dyn StdError + Send + Sync>::from(text))
    }

    fn failures() -> Vec<(&'static str, Failure)> {
        let pods = GroupResource::new("", "pods");
        let status = |status: Status| Failure::from(status);
        vec![
            ("410 Expired", status(Status::watch_expired())),
            ("410 Gone", status(Status::gone("gone"))),
            (
                "504 too large",
                status(Status::too_large_resource_version(9, 1, 1)),
            ),
            ("429", status(Status::too_many_requests("slow down", 1))),
            ("401", status(Status::unauthorized())),
            ("403", status(Status::forbidden(&pods, "", "no"))),
            ("404", status(Status::path_not_found())),
            ("400", status(Status::bad_request("bad selector"))),
            ("405", status(Status::method_not_supported(&pods, "watch"))),
            (
                "422",
                status(Status::failure(422, StatusReason::INVALID, "forbidden field")),
            ),
            ("500", status(Status::internal_error("boom"))),
            ("503", status(Status::service_unavailable("starting"))),
            ("connection", Failure::Connection(other("reset"))),
            ("unreadable", Failure::Unreadable(other("not JSON"))),
            (
                "undecodable",
                Failure::Undecodable {
                    object: Unread::default(),
                    source: other("no name"),
                },
            ),
            ("idle", Failure::Idle(Duration::from_secs(1))),
            ("no end", Failure::NoEndBookmark),
        ]
    }

    /// `?` marks what is not reported, `+` what is delayed even the first time.
    fn cell(verdict: Verdict) -> String {
        let cure = match verdict.cure {
            Cure::Relist(from) => format!("list {from:?}"),
            cure => format!("{cure:?}").to_lowercase(),
        };
        let quiet = if verdict.reported { "" } else { "?" };
        let delayed = if verdict.first_is_free { "" } else { "+" };
        format!("{cure}{quiet}{delayed}")
    }

    #[test]
    fn the_table() {
        let mut table = String::new();
        for (name, failure) in failures() {
            write!(table, "{name:<14}").unwrap();
            for stage in [Stage::List, Stage::Page, Stage::StreamingList, Stage::Watch] {
                write!(table, "| {:<22}", cell(judge(stage, &failure))).unwrap();
            }
            table.push('\n');
        }
        expect![[r#"
            410 Expired   | list MostRecent?      | list MostRecentWhole? | list MostRecent?      | list NotOlder?        
            410 Gone      | list MostRecent?      | list MostRecentWhole? | list MostRecent?      | list NotOlder?        
            504 too large | list MostRecent       | list MostRecent       | list MostRecent       | list MostRecent       
            429           | resume+               | resume+               | resume+               | resume+               
            401           | resume+               | resume+               | resume+               | resume+               
            403           | resume+               | resume+               | resume+               | resume+               
            404           | resume+               | list MostRecent+      | resume+               | list MostRecent+      
            400           | stop+                 | list MostRecentWhole+ | fallback              | list MostRecent+      
            405           | stop+                 | list MostRecentWhole+ | fallback              | stop+                 
            422           | stop+                 | list MostRecentWhole+ | fallback              | list MostRecent+      
            500           | resume+               | resume+               | fallback              | resumeonce+           
            503           | resume+               | resume+               | resume+               | resume+               
            connection    | resume+               | resume+               | resume+               | resume+               
            unreadable    | resume+               | resume+               | fallback+             | list NotOlder+        
            undecodable   | resume+               | resume+               | resume+               | list NotOlder+        
            idle          | resume                | resume                | resume                | resume                
            no end        | fallback              | fallback              | fallback              | fallback              
        "#]].assert_eq(&table);
    }
}
