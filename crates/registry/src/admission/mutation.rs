//! Mutating policies and webhooks: called in order, and again if their reinvocation policy asks for it.
//!
//! ```text
//! policies ─▶ webhook a: adds a container ─▶ webhook b: sets an image policy, reinvoked if needed ─▶ webhook c
//!             reinvoked policies, and b again: c changed the object after it
//! ```
//!
//! Their result is decoded like a request body: unknown fields are pruned and defaults are set. Before a
//! reinvocation, the mutating plugins run again. There are at most two rounds; nothing is called for the first time
//! in the second.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use watchkeeper_kinds::Part;
use watchkeeper_meta::Status;
use watchkeeper_patch::managed_fields::Managers;
use watchkeeper_wire::difference::Difference;

use super::policies::{Bound, Invocation};
use super::request::{Action, Asked};
use super::webhooks::Webhooks;
use crate::context::WriteContext;
use crate::metrics::Step;
use crate::object::Live;
use crate::subresources::scale::{scale_of, set_replicas};
use crate::write::{Draft, Guard, Write};
use crate::{Registry, metadata};

/// The policies and webhooks to reinvoke.
#[derive(Default)]
pub(super) struct Rounds {
    is_second: bool,
    pub(super) policies: Turn<Invocation>,
    /// Webhooks are identified by index.
    pub(super) webhooks: Turn<usize>,
}

/// The reinvocations of one round.
pub(super) struct Turn<K> {
    /// Called already, to be reinvoked after a later change.
    waiting: BTreeSet<K>,
    due: BTreeSet<K>,
}

impl<K> Default for Turn<K> {
    fn default() -> Self {
        Self {
            waiting: BTreeSet::new(),
            due: BTreeSet::new(),
        }
    }
}

impl<K: Ord> Turn<K> {
    pub(super) fn is_due(&self, asked: &K) -> bool {
        self.due.contains(asked)
    }

    pub(super) fn wait(&mut self, asked: K) {
        self.waiting.insert(asked);
    }

    /// Makes the waiting ones due.
    pub(super) fn call(&mut self) {
        self.due.append(&mut self.waiting);
    }
}

impl Rounds {
    pub(super) fn is_first(&self) -> bool {
        !self.is_second
    }

    pub(super) fn note_change(&mut self) {
        self.policies.call();
        self.webhooks.call();
    }
}

/// An object under mutation, and its managers.
pub(super) struct Mutated<'d> {
    pub(super) object: &'d mut Value,
    pub(super) managers: &'d mut Managers,
}

impl<'d> Mutated<'d> {
    fn of(draft: &'d mut Draft<'_>) -> Self {
        Self {
            object: &mut draft.object,
            managers: &mut draft.managers,
        }
    }

    /// Replaces the object with the result of a policy or webhook; returns true if it changed.
    pub(super) fn take_over(
        &mut self,
        action: &Action<'_>,
        mut patched: Value,
        now: &str,
    ) -> Result<bool, Status> {
        if let Some(given) = metadata::take_managed_fields(&mut patched)
            && given != self.managers.to_value()
        {
            *self.managers = std::mem::take(self.managers).replaced_by(&given);
        }
        let patched = match action.kind {
            Some(kind) => kind.read(patched)?,
            None => {
                let mut patched = action.definition.recanonicalized(patched)?;
                action
                    .definition
                    .default(&mut patched, &Difference::Everywhere, now)
                    .map_err(Status::request_entity_too_large)?;
                patched
            }
        };
        let is_changed = patched != *self.object;
        *self.object = patched;
        Ok(is_changed)
    }
}

/// All mutating policies and webhooks.
struct Mutators {
    policies: Arc<Vec<Bound>>,
    webhooks: Arc<Webhooks>,
}

impl Write<'_> {
    /// Runs mutating policies and webhooks on a new object.
    pub(crate) fn mutate_new<'a, 'd>(
        &'a mut self,
        draft: &'a mut Draft<'d>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let (registry, context) = (self.registry, self.context);
            let (definition, guard) = (&self.definition, &mut self.guard);
            let asked = Asked {
                action: Action::create(definition),
                new: None,
                old: None,
                deletion: None,
                context,
            };
            let mutators = registry.mutators().await?;
            let mut rounds = Rounds::default();
            let mut state = Mutated::of(draft);
            if registry
                .mutate_once(guard, asked, &mutators, &mut state, &mut rounds)
                .await?
            {
                let before = state.object.clone();
                registry
                    .admit_create(definition, self.namespace, state.object, context)
                    .await?;
                if *state.object != before {
                    rounds.note_change();
                }
                rounds.is_second = true;
                registry
                    .mutate_once(guard, asked, &mutators, &mut state, &mut rounds)
                    .await?;
            }
            metadata::match_namespace(definition, state.object, self.namespace)
        })
    }

    /// Runs mutating policies and webhooks on a changed object; returns true if they changed it.
    pub(crate) fn mutate_changed<'a, 'd>(
        &'a mut self,
        live: &'a Live,
        draft: &'a mut Draft<'d>,
    ) -> BoxFuture<'a, Result<bool, Status>> {
        Box::pin(async move {
            let (registry, definition) = (self.registry, &self.definition);
            let asked = Asked {
                action: Action::update(definition, self.part),
                new: None,
                old: Some((&live.value, &live.managers)),
                deletion: None,
                context: self.context,
            };
            if self.part != Part::Scale {
                let mut state = Mutated::of(draft);
                return registry.mutate_twice(&mut self.guard, asked, &mut state).await;
            }
            let mut nobody = Managers::new();
            let old = scale_of(definition, &live.value)?;
            let asked = Asked {
                old: Some((&old, &Managers::new())),
                ..asked
            };
            let mut scale = scale_of(definition, &draft.object)?;
            let mut state = Mutated {
                object: &mut scale,
                managers: &mut nobody,
            };
            let is_changed = registry.mutate_twice(&mut self.guard, asked, &mut state).await?;
            if is_changed {
                set_replicas(definition, &mut draft.object, scale["spec"]["replicas"].clone());
            }
            Ok(is_changed)
        })
    }
}

impl Registry {
    /// Runs mutating policies and webhooks on an object posted to a subresource.
    pub(super) fn mutate_posted<'a>(
        &'a self,
        action: Action<'a>,
        object: &'a mut Value,
        context: &'a WriteContext,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let asked = Asked {
                action,
                new: None,
                old: None,
                deletion: None,
                context,
            };
            let (mut guard, mut nobody) = (Guard::nothing(self), Managers::new());
            let mut state = Mutated {
                object,
                managers: &mut nobody,
            };
            self.mutate_twice(&mut guard, asked, &mut state).await?;
            Ok(())
        })
    }

    async fn mutators(&self) -> Result<Mutators, Status> {
        Ok(Mutators {
            policies: self.mutating_policies().await?,
            webhooks: self.webhooks().await?,
        })
    }

    /// Runs both rounds without plugins in between.
    async fn mutate_twice(
        &self,
        guard: &mut Guard<'_>,
        asked: Asked<'_>,
        state: &mut Mutated<'_>,
    ) -> Result<bool, Status> {
        let (mutators, mut rounds) = (self.mutators().await?, Rounds::default());
        let is_changed = self
            .mutate_once(guard, asked, &mutators, state, &mut rounds)
            .await?;
        if is_changed {
            rounds.is_second = true;
            self.mutate_once(guard, asked, &mutators, state, &mut rounds)
                .await?;
        }
        Ok(is_changed)
    }

    /// Runs one round: policies, then webhooks. Returns true if the object changed.
    fn mutate_once<'a, 'g, 'm>(
        &'a self,
        guard: &'a mut Guard<'g>,
        asked: Asked<'a>,
        mutators: &'a Mutators,
        state: &'a mut Mutated<'m>,
        rounds: &'a mut Rounds,
    ) -> BoxFuture<'a, Result<bool, Status>> {
        Box::pin(async move {
            let operation = asked.action.operation.name();
            let mut laps = self.durations().laps(Step::Admit, operation);
            let mut is_changed = false;
            if !mutators.policies.is_empty() {
                // Boxed: few writes match a mutating policy.
                let mutated = self
                    .mutate_by_policies(asked, &mutators.policies, state, rounds)
                    .await;
                is_changed = laps.plugin("MutatingAdmissionPolicy", mutated)?;
            }
            let mutated = self
                .mutate_by_webhooks(guard, asked, &mutators.webhooks, state, rounds)
                .await;
            Ok(laps.plugin("MutatingAdmissionWebhook", mutated)? || is_changed)
        })
    }
}
