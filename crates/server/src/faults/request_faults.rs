//! The faults of one request: combines the actions of the rules that fired, and applies them.
//!
//! ```text
//! delay ▶ cut before handling ▶ fail or forbid ▶ compact ▶ the handler, under its scope ▶ cut before the response
//! ```
//!
//! Cuts within and after the response are applied in `filter`.

use std::time::Duration;

use watchkeeper_meta::Status;
use watchkeeper_registry::{Registry, User};
use watchkeeper_storage::{Revision, Scope};

use super::rule::{Action, Cut, Stale};
use crate::authorize::denied;
use crate::request_info::RequestInfo;

/// Empty unless a rule has fired.
#[derive(Debug, Default)]
pub(crate) struct RequestFaults {
    /// Before anything else.
    pub delay: Duration,
    /// Instead of handling the request.
    refusal: Option<Rejection>,
    pub compacts: bool,
    stale: Option<Stale>,
    read_only: bool,
    pub webhooks_down: bool,
    pub cut: Option<Cut>,
}

/// The kind of rejection.
#[derive(Debug)]
enum Rejection {
    With(Box<Status>),
    /// With RBAC's text.
    Forbidden,
}

impl RequestFaults {
    /// Combines actions; `None` if there are none.
    pub(super) fn of(actions: impl ExactSizeIterator<Item = Action>) -> Option<Box<Self>> {
        if actions.len() == 0 {
            return None;
        }
        let mut faults = Box::<Self>::default();
        actions.for_each(|action| faults.add(action));
        Some(faults)
    }

    fn add(&mut self, action: Action) {
        match action {
            Action::Fail(status) => self.refusal = Some(Rejection::With(status)),
            Action::Forbid => self.refusal = Some(Rejection::Forbidden),
            Action::Delay(delay) => self.delay = self.delay.saturating_add(delay),
            Action::Cut(cut) => self.cut = Some(cut),
            Action::Stale(stale) => self.stale = Some(stale),
            Action::Compact => self.compacts = true,
            Action::WebhooksDown => self.webhooks_down = true,
            Action::ReadOnly => self.read_only = true,
            // These affect events, not requests.
            Action::Flow(_) | Action::DelayEvent(_) | Action::WithholdBookmark => {}
        }
    }

    /// Rejects the request if a rule says so.
    pub(crate) fn refuse(&self, user: &User, info: &RequestInfo) -> Result<(), Status> {
        match &self.refusal {
            None => Ok(()),
            Some(Rejection::With(status)) => Err((**status).clone()),
            Some(Rejection::Forbidden) => Err(denied(user, info, "")),
        }
    }

    /// The handler's view of the store. A write never reads old data: it would only conflict.
    pub(crate) fn scope(&self, registry: &Registry, info: &RequestInfo) -> Scope {
        let stale = self.stale.filter(|_| !info.is_mutating());
        Scope {
            read_only: self.read_only,
            read_at: stale.map(|stale| past(registry, stale)),
        }
    }
}

/// The revision of a stale read.
fn past(registry: &Registry, stale: Stale) -> Revision {
    let store = registry.store();
    let newest = store.current_revision();
    let wanted = match stale {
        Stale::At(revision) => Revision::new(revision),
        Stale::Behind(count) => Revision::new(newest.get().saturating_sub(count)),
    };
    wanted
        .max(store.compacted_revision())
        .max(Revision::FIRST)
        .min(newest)
}
