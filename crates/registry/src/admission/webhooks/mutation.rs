//! Webhooks that change objects: one after the other, and again for those who want to see what others have changed.
//!
//! ```text
//! a: adds a container ─▶ b: sets an image policy, asked again if needed ─▶ c: adds another container
//!                        b again: c has changed the object since
//! ```
//!
//! What a webhook has made is read like the body of a request: what the kind does not know goes, and defaults come.
//! Before anybody is asked again, what the cluster gives to new objects is given to what was added. There are two rounds
//! at most, and in the second nobody is asked for the first time.

use std::collections::BTreeSet;

use serde_json::Value;
use watchkeeper_kinds::Part;
use watchkeeper_meta::Status;
use watchkeeper_patch::managed_fields::Managers;
use watchkeeper_wire::difference::Difference;

use super::{Asked, Consulted, Stage, Webhooks, about, whole};
use crate::admission::request::Action;
use crate::context::{WriteContext, timestamp};
use crate::object::Live;
use crate::subresources::scale::{scale_of, set_replicas};
use crate::write::{Draft, Guard, Write};
use crate::{Registry, metadata};

/// Who is asked again. Webhooks go by their places.
#[derive(Default)]
struct Rounds {
    is_second: bool,
    /// Asked already, and want to see what is changed after that.
    waiting: BTreeSet<usize>,
    due: BTreeSet<usize>,
}

impl Rounds {
    fn note_change(&mut self) {
        self.due.append(&mut self.waiting);
    }

    fn asks(&self, place: usize) -> bool {
        !self.is_second || self.due.contains(&place)
    }
}

impl Write<'_> {
    /// Lets webhooks change an object that is to be created.
    pub(crate) async fn mutate_new(&mut self, draft: &mut Draft<'_>) -> Result<(), Status> {
        let (registry, context) = (self.registry, self.context);
        let (definition, guard) = (&self.definition, &mut self.guard);
        let asked = Asked {
            action: Action::create(definition),
            new: None,
            old: None,
            deletion: None,
            context,
        };
        let webhooks = registry.webhooks().await?;
        let mut rounds = Rounds::default();
        let mut state = Mutated::of(draft);
        if registry
            .mutate_once(guard, asked, &webhooks, &mut state, &mut rounds)
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
                .mutate_once(guard, asked, &webhooks, &mut state, &mut rounds)
                .await?;
        }
        metadata::match_namespace(definition, state.object, self.namespace)
    }

    /// Lets webhooks change the new state of an object. Whether they have.
    pub(crate) async fn mutate_changed(
        &mut self,
        live: &Live,
        draft: &mut Draft<'_>,
    ) -> Result<bool, Status> {
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
    }
}

/// An object that webhooks may change, and who manages its fields.
struct Mutated<'d> {
    object: &'d mut Value,
    managers: &'d mut Managers,
}

impl<'d> Mutated<'d> {
    fn of(draft: &'d mut Draft<'_>) -> Self {
        Self {
            object: &mut draft.object,
            managers: &mut draft.managers,
        }
    }
}

impl Registry {
    /// Lets webhooks change what is posted to an object.
    pub(in crate::admission) async fn mutate_posted(
        &self,
        action: Action<'_>,
        object: &mut Value,
        context: &WriteContext,
    ) -> Result<(), Status> {
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
    }

    /// Both rounds, where nobody but webhooks changes anything between them.
    async fn mutate_twice(
        &self,
        guard: &mut Guard<'_>,
        asked: Asked<'_>,
        state: &mut Mutated<'_>,
    ) -> Result<bool, Status> {
        let (webhooks, mut rounds) = (self.webhooks().await?, Rounds::default());
        let is_changed = self
            .mutate_once(guard, asked, &webhooks, state, &mut rounds)
            .await?;
        if is_changed {
            rounds.is_second = true;
            self.mutate_once(guard, asked, &webhooks, state, &mut rounds)
                .await?;
        }
        Ok(is_changed)
    }

    /// One round. Whether the object is another.
    async fn mutate_once(
        &self,
        guard: &mut Guard<'_>,
        asked: Asked<'_>,
        webhooks: &Webhooks,
        state: &mut Mutated<'_>,
        rounds: &mut Rounds,
    ) -> Result<bool, Status> {
        let definition = asked.action.definition;
        let equivalents = self.equivalents(definition);
        let mut about = about(&webhooks.mutating, &asked.action, &equivalents);
        about.retain(|(place, ..)| rounds.asks(*place));
        if about.is_empty() {
            return Ok(false);
        }
        let (old, mut is_changed) = (asked.old.map(whole), false);
        guard.let_go();
        for (place, webhook, shown) in about {
            let current = whole((state.object, state.managers));
            let write = asked.write(Some(&current), old.as_ref());
            let home = self.home_of(&write).await?;
            let consulted = self.consult(webhook, shown, Stage::Mutating, &write, home.as_ref(), None);
            match consulted.await? {
                Consulted::NotAsked => continue,
                Consulted::Allowed => {}
                Consulted::Patched(patched) => {
                    let now = timestamp(self.clock().now());
                    if take_over(&asked.action, patched, state, &now)? {
                        is_changed = true;
                        rounds.note_change();
                    }
                }
            }
            if webhook.is_reinvoked {
                rounds.waiting.insert(place);
            }
        }
        guard.take_again(definition).await?;
        Ok(is_changed)
    }

    /// Asks those that could change an object whether it may go.
    pub(super) async fn ask_mutating_of_deletion(
        &self,
        guard: &mut Guard<'_>,
        asked: Asked<'_>,
    ) -> Result<(), Status> {
        let webhooks = self.webhooks().await?;
        let equivalents = self.equivalents(asked.action.definition);
        let about = about(&webhooks.mutating, &asked.action, &equivalents);
        if about.is_empty() {
            return Ok(());
        }
        let old = asked.old.map(whole);
        let write = asked.write(None, old.as_ref());
        let home = self.home_of(&write).await?;
        guard.let_go();
        for (_, webhook, shown) in about {
            let stage = Stage::Mutating;
            self.consult(webhook, shown, stage, &write, home.as_ref(), asked.deletion)
                .await?;
        }
        guard.take_again(asked.action.definition).await
    }
}

/// Takes what a webhook has made for the object. Whether it is another.
fn take_over(
    action: &Action<'_>,
    mut patched: Value,
    state: &mut Mutated<'_>,
    now: &str,
) -> Result<bool, Status> {
    if let Some(given) = metadata::take_managed_fields(&mut patched)
        && given != state.managers.to_value()
    {
        *state.managers = std::mem::take(state.managers).replaced_by(&given);
    }
    let patched = match action.kind {
        Some(kind) => kind.read(patched)?,
        None => {
            let mut patched = action.definition.recanonicalized(patched)?;
            action
                .definition
                .default(&mut patched, &Difference::Everywhere, now);
            patched
        }
    };
    let is_changed = patched != *state.object;
    *state.object = patched;
    Ok(is_changed)
}
