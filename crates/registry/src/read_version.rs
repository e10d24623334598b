//! The semantics of `resourceVersion`: the revision that a read shows.

use std::time::Duration;

use watchkeeper_meta::{ListOptions, ResourceVersion, ResourceVersionMatch, Status};
use watchkeeper_storage::{Revision, Store};

use crate::continue_token::ContinueToken;

/// The time a read waits for a future version: 3 s, as in Kubernetes.
const PATIENCE: Duration = Duration::from_secs(3);

/// The revision a list shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListState {
    /// The latest.
    Latest,
    /// Any; the whole list, whatever the limit.
    Any,
    /// Any, not older than this.
    NotOlderThan(Revision),
    /// Exactly this.
    Exactly(Revision),
    /// That of the first page, continued after the previous page.
    Continued(ContinueToken),
}

impl ListState {
    /// The revision the options request.
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
            // With a limit and no match rule, a version has always meant exactly that version.
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

/// Parses a version; an unset one is zero.
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

/// Parses a decimal number, with Go's error texts.
pub(crate) fn parse_number(text: &str) -> Result<u64, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(number) if digits => Ok(number),
        _ if digits => Err(format!("strconv.ParseUint: parsing {text:?}: value out of range")),
        _ => Err(format!("strconv.ParseUint: parsing {text:?}: invalid syntax")),
    }
}

/// Waits until the store has reached a revision, up to [`PATIENCE`].
pub(crate) async fn reached(store: &Store, revision: Revision) -> Result<(), Status> {
    let too_large = || Status::too_large_resource_version(revision.get(), store.current_revision().get(), 1);
    if store.current_revision() >= revision {
        return Ok(());
    }
    let wait = async {
        // A shared store may have reached it without a change in this feed.
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
    fn version_semantics_match_the_kubernetes_documentation() {
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
