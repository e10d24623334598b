//! Which state of the store a read is about: the rules of `resourceVersion`, in one place.

use std::time::Duration;

use watchkeeper_meta::{ListOptions, ResourceVersion, ResourceVersionMatch, Status};
use watchkeeper_storage::{Revision, Store};

use crate::continue_token::ContinueToken;

/// 3 s, as Kubernetes: how long a read waits for a version that has not happened yet.
const PATIENCE: Duration = Duration::from_secs(3);

/// Which state a list shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListState {
    /// The most recent.
    Latest,
    /// Any; the whole list, whatever the limit.
    Any,
    /// Any that is not older than this.
    NotOlderThan(Revision),
    /// Exactly this.
    Exactly(Revision),
    /// That of the first page, after the page before.
    Continued(ContinueToken),
}

impl ListState {
    /// What the options ask for.
    pub(crate) fn of(options: &ListOptions) -> Result<Self, Status> {
        let version = &options.resource_version;
        if !options.continue_token.is_empty() {
            let token = ContinueToken::decode(&options.continue_token)
                .map_err(|error| Status::bad_request(format!("invalid continue token: {error}")))?;
            if !version.is_unset() && !version.is_any() {
                let text = "specifying resource version is not allowed when using continue";
                return Err(Status::bad_request(text));
            }
            return Ok(Self::Continued(token));
        }
        if version.is_unset() {
            return Ok(Self::Latest);
        }
        let revision = parse(version)
            .map_err(|text| Status::bad_request(format!("invalid resource version: {text}")))?;
        Ok(match options.resource_version_match {
            _ if version.is_any() || revision == Revision::ZERO => Self::Any,
            Some(ResourceVersionMatch::Exact) => Self::Exactly(revision),
            // With a limit and nothing else said, a version has always meant exactly that version.
            None if options.limit.is_some_and(|limit| limit > 0) => Self::Exactly(revision),
            _ => Self::NotOlderThan(revision),
        })
    }

    /// The revision to wait for before reading.
    pub(crate) fn awaited(&self) -> Option<Revision> {
        match self {
            Self::NotOlderThan(revision) | Self::Exactly(revision) => Some(*revision),
            _ => None,
        }
    }
}

/// The revision a version names; an unset one is zero.
pub(crate) fn parse(version: &ResourceVersion) -> Result<Revision, String> {
    if version.is_unset() {
        return Ok(Revision::ZERO);
    }
    parse_number(version.as_str())
        .map(Revision::new)
        .map_err(|problem| {
            let text = version.as_str();
            format!("resourceVersion: Invalid value: {text:?}: {problem}")
        })
}

/// A decimal number, with Go's words for what is not one.
pub(crate) fn parse_number(text: &str) -> Result<u64, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(number) if digits => Ok(number),
        _ if digits => Err(format!("strconv.ParseUint: parsing {text:?}: value out of range")),
        _ => Err(format!("strconv.ParseUint: parsing {text:?}: invalid syntax")),
    }
}

/// Waits until the store has reached a revision, for a while.
pub(crate) async fn reached(store: &Store, revision: Revision) -> Result<(), Status> {
    let too_large = || Status::too_large_resource_version(revision.get(), store.current_revision().get(), 1);
    if store.current_revision() >= revision {
        return Ok(());
    }
    let wait = async {
        // A store that others write to as well may have got there without a change to tell of.
        store.refresh().await?;
        let mut feed = store.watch("", store.current_revision())?;
        while feed.position() < revision {
            feed.next().await?;
        }
        Ok::<(), watchkeeper_storage::ReadError>(())
    };
    match tokio::time::timeout(PATIENCE, wait).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Status::internal_error(error)),
        Err(_) => Err(too_large()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(version: &str, version_match: Option<ResourceVersionMatch>, limit: u64) -> String {
        let options = ListOptions {
            resource_version: ResourceVersion::new(version),
            resource_version_match: version_match,
            limit: Some(limit),
            ..Default::default()
        };
        match ListState::of(&options) {
            Ok(state) => format!("{state:?}"),
            Err(status) => status.message,
        }
    }

    #[test]
    fn versions_mean_what_kubernetes_documents() {
        use ResourceVersionMatch::{Exact, NotOlderThan};
        assert_eq!(state("", None, 5), "Latest");
        assert_eq!(state("0", None, 5), "Any");
        assert_eq!(state("0", Some(NotOlderThan), 5), "Any");
        assert_eq!(state("7", None, 0), "NotOlderThan(Revision(7))");
        assert_eq!(state("7", None, 5), "Exactly(Revision(7))");
        assert_eq!(state("7", Some(NotOlderThan), 5), "NotOlderThan(Revision(7))");
        assert_eq!(state("7", Some(Exact), 0), "Exactly(Revision(7))");
        assert_eq!(
            state("abc", None, 0),
            "invalid resource version: resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \
             \"abc\": invalid syntax"
        );
    }
}
