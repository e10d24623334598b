//! What one request meets on purpose: the actions that fire for it, put together and lived through.
//!
//! ```text
//! delay ▶ cut before handling ▶ fail or forbid ▶ compact ▶ the handler, under its scope ▶ cut before the answer
//! ```
//!
//! Cuts within and after the answer come when there is one: see `filter`.

use std::time::Duration;

use watchkeeper_meta::Status;
use watchkeeper_registry::{Registry, User};
use watchkeeper_storage::{Revision, Scope};

use super::rule::{Action, Cut, Stale};
use crate::authorize::denied;
use crate::request_info::RequestInfo;

/// Nothing, unless a rule has fired.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    /// Before anything else.
    pub delay: Duration,
    /// Instead of handling the request.
    refusal: Option<Refusal>,
    pub compacts: bool,
    stale: Option<Stale>,
    read_only: bool,
    pub webhooks_down: bool,
    pub cut: Option<Cut>,
}

/// How a request is refused.
#[derive(Debug)]
enum Refusal {
    With(Box<Status>),
    /// In the words of RBAC.
    Forbidden,
}

impl Trouble {
    /// All of this together; `None` if it is nothing.
    pub(super) fn of(actions: impl ExactSizeIterator<Item = Action>) -> Option<Box<Self>> {
        if actions.len() == 0 {
            return None;
        }
        let mut trouble = Box::<Self>::default();
        actions.for_each(|action| trouble.add(action));
        Some(trouble)
    }

    fn add(&mut self, action: Action) {
        match action {
            Action::Fail(status) => self.refusal = Some(Refusal::With(status)),
            Action::Forbid => self.refusal = Some(Refusal::Forbidden),
            Action::Delay(delay) => self.delay = self.delay.saturating_add(delay),
            Action::Cut(cut) => self.cut = Some(cut),
            Action::Stale(stale) => self.stale = Some(stale),
            Action::Compact => self.compacts = true,
            Action::WebhooksDown => self.webhooks_down = true,
            Action::ReadOnly => self.read_only = true,
            // Of events, not of requests.
            Action::Flow(_) | Action::DelayEvent(_) | Action::WithholdBookmark => {}
        }
    }

    /// Refuses the request if that is planned.
    pub(crate) fn refuse(&self, user: &User, info: &RequestInfo) -> Result<(), Status> {
        match &self.refusal {
            None => Ok(()),
            Some(Refusal::With(status)) => Err((**status).clone()),
            Some(Refusal::Forbidden) => Err(denied(user, info, "")),
        }
    }

    /// The terms on which the handler uses the store. A write never looks at the past: it would only conflict.
    pub(crate) fn scope(&self, registry: &Registry, info: &RequestInfo) -> Scope {
        let stale = self.stale.filter(|_| !info.is_mutating());
        Scope {
            read_only: self.read_only,
            read_at: stale.map(|stale| past(registry, stale)),
        }
    }
}

/// The revision that a stale read shows.
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
