//! What can go wrong on the way to a list or a watch, and the one table that says what to do about it.
//!
//! A failure is the same failure however it arrives: a 410 may be the HTTP status of the answer, an `ERROR` event
//! or a bare `Status` line in the stream. The source turns all of them into [`Failure::Status`]; here they are told
//! apart by what they mean and by the [`Stage`] they hit.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use watchkeeper_meta::{ObjectKey, ResourceVersion, Status};

/// Why a list or a watch did not go on.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    /// The server answered with a failure.
    #[error(transparent)]
    Status(Arc<Status>),
    /// No answer, or the end of one is missing: refused, reset, timed out, TLS, DNS.
    #[error("connection to the server lost")]
    Connection(#[source] Arc<dyn StdError + Send + Sync>),
    /// What came back is not what was asked for.
    #[error("answer cannot be read")]
    Unreadable(#[source] Arc<dyn StdError + Send + Sync>),
    /// One object in the answer cannot be read; the rest of the answer can.
    #[error("object {object} cannot be read")]
    Undecodable {
        /// Which one, as far as it could be told.
        object: Unread,
        /// What is wrong with it.
        #[source]
        source: Arc<dyn StdError + Send + Sync>,
    },
    /// Nothing came although the server should have ended the watch by now.
    #[error("nothing heard for {0:?}: the connection is dead")]
    Idle(Duration),
    /// The watch ended at once without a word.
    #[error("watch ended after {0:?} without an event")]
    ShortWatch(Duration),
    /// The server sent the objects of a streaming list, but not its end.
    #[error("streaming list has no end: the server does not support it")]
    NoEndBookmark,
    /// The server is now at an older state than the one already seen.
    #[error("resource version went back from {from} to {to}")]
    WentBack {
        /// The version known before.
        from: ResourceVersion,
        /// The version now sent.
        to: ResourceVersion,
    },
}

/// An object that cannot be read, as far as it can be told from others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// Its key, if at least that can be read.
    pub key: Option<ObjectKey>,
    /// Its version; unset if that cannot be read either.
    pub version: ResourceVersion,
    /// How many others came before it in the answer.
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
    /// How long the server asks to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status(status) => status.retry_after(),
            _ => None,
        }
    }

    /// Whether the version asked for is no longer kept.
    pub fn is_expired(&self) -> bool {
        matches!(self, Self::Status(status) if status.is_expired())
    }

    /// The object that cannot be read, if that is what went wrong.
    pub fn unread(&self) -> Option<&Unread> {
        match self {
            Self::Undecodable { object, .. } => Some(object),
            _ => None,
        }
    }

    /// Whether the server says that the request itself is wrong.
    pub fn is_wrong_request(&self) -> bool {
        matches!(self, Self::Status(status) if is_wrong_request(status))
    }

    /// Whether the server refuses: not allowed, or not known who asks.
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Status(status) if status.is_forbidden() || status.is_unauthorized())
    }
}

/// What the watcher was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Asking for a list, or for its first page.
    List,
    /// Asking for a further page.
    Page,
    /// Receiving the initial objects of a streaming list.
    StreamingList,
    /// Receiving changes.
    Watch,
}

/// How to go on after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What to do.
    pub cure: Cure,
    /// Whether the user is told. What happens in the normal life of a watch is not worth a message.
    pub reported: bool,
    /// Whether the first such failure after progress costs no delay.
    pub first_is_free: bool,
}

/// What to do after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cure {
    /// The same request again, from the last version or page received.
    Resume,
    /// The same request again; should that fail before anything is received, a new list. What the server cannot send,
    /// such as the end of a damaged object, it cannot send however often it is asked.
    ResumeOnce,
    /// A new list.
    Relist(ListFrom),
    /// A plain list instead of a streaming one, from now on.
    Fallback,
    /// Nothing will help: the request itself is wrong.
    Stop,
}

/// Which state a new list must show, the least first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListFrom {
    /// What the configuration asks for.
    #[default]
    Configured,
    /// Any state that is not older than the last one seen: served from memory, and never back in time.
    NotOlder,
    /// The most recent state.
    MostRecent,
    /// The most recent state in one answer, because pages expired before the last was read.
    MostRecentWhole,
}

/// The table.
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
        // Nobody knows which object has changed, or that it is gone: a list tells. It waits even the first time,
        // because an object like that may change often.
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
