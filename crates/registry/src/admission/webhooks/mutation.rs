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
use std::sync::Arc;

use serde_json::Value;
use watchkeeper_kinds::Part;
use watchkeeper_meta::Status;
use watchkeeper_patch::managed_fields::Managers;
use watchkeeper_wire::difference::Difference;

use super::{Asked, Consulted, Stage, Webhooks, about, whole};
use crate::admission::request::Action;
use crate::create::recanonicalized;
use crate::custom::writing::Writing;
use crate::definition::Definition;
use crate::object::Live;
use crate::subresources::scale::{scale_of, set_replicas};
use crate::write::{WriteContext, timestamp};
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

impl Registry {
    /// Lets webhooks change an object that is to be created.
    pub(crate) async fn mutate_new(
        &self,
        writing: &mut Writing<'_>,
        definition: &Arc<Definition>,
        namespace: &str,
        object: &mut Value,
        managers: &mut Managers,
        context: &WriteContext,
    ) -> Result<(), Status> {
        let asked = Asked {
            action: Action::create(definition),
            new: None,
            old: None,
            deletion: None,
            context,
        };
        let (webhooks, mut rounds) = (self.webhooks().await?, Rounds::default());
        if self
            .mutate_once(writing, asked, &webhooks, object, managers, &mut rounds)
            .await?
        {
            let before = object.clone();
            self.admit_create(definition, namespace, object, context).await?;
            if *object != before {
                rounds.note_change();
            }
            rounds.is_second = true;
            self.mutate_once(writing, asked, &webhooks, object, managers, &mut rounds)
                .await?;
        }
        metadata::match_namespace(definition, object, namespace)
    }

    /// Lets webhooks change the new state of an object. Whether they have.
    #[expect(clippy::too_many_arguments, reason = "the parts of one write")]
    pub(crate) async fn mutate_changed(
        &self,
        writing: &mut Writing<'_>,
        definition: &Definition,
        part: Part,
        live: &Live,
        object: &mut Value,
        managers: &mut Managers,
        context: &WriteContext,
    ) -> Result<bool, Status> {
        let asked = Asked {
            action: Action::update(definition, part),
            new: None,
            old: Some((&live.value, &live.managers)),
            deletion: None,
            context,
        };
        if part != Part::Scale {
            return self.mutate_twice(writing, asked, object, managers).await;
        }
        let mut nobody = Managers::new();
        let old = scale_of(definition, &live.value)?;
        let asked = Asked {
            old: Some((&old, &Managers::new())),
            ..asked
        };
        let mut scale = scale_of(definition, object)?;
        let is_changed = self.mutate_twice(writing, asked, &mut scale, &mut nobody).await?;
        if is_changed {
            set_replicas(definition, object, scale["spec"]["replicas"].clone());
        }
        Ok(is_changed)
    }

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
        let (mut writing, mut nobody) = (Writing::plain(self), Managers::new());
        self.mutate_twice(&mut writing, asked, object, &mut nobody)
            .await?;
        Ok(())
    }

    /// Both rounds, where nobody but webhooks changes anything between them.
    async fn mutate_twice(
        &self,
        writing: &mut Writing<'_>,
        asked: Asked<'_>,
        object: &mut Value,
        managers: &mut Managers,
    ) -> Result<bool, Status> {
        let (webhooks, mut rounds) = (self.webhooks().await?, Rounds::default());
        let is_changed = self
            .mutate_once(writing, asked, &webhooks, object, managers, &mut rounds)
            .await?;
        if is_changed {
            rounds.is_second = true;
            self.mutate_once(writing, asked, &webhooks, object, managers, &mut rounds)
                .await?;
        }
        Ok(is_changed)
    }

    /// One round. Whether the object is another.
    async fn mutate_once(
        &self,
        writing: &mut Writing<'_>,
        asked: Asked<'_>,
        webhooks: &Webhooks,
        object: &mut Value,
        managers: &mut Managers,
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
        writing.let_go();
        for (place, webhook, shown) in about {
            let current = whole((object, managers));
            let write = asked.write(Some(&current), old.as_ref());
            let home = self.home_of(&write).await?;
            let consulted = self.consult(webhook, shown, Stage::Mutating, &write, home.as_ref(), None);
            match consulted.await? {
                Consulted::NotAsked => continue,
                Consulted::Allowed => {}
                Consulted::Patched(patched) => {
                    let now = timestamp(self.clock().now());
                    if take_over(&asked.action, patched, object, managers, &now)? {
                        is_changed = true;
                        rounds.note_change();
                    }
                }
            }
            if webhook.is_reinvoked {
                rounds.waiting.insert(place);
            }
        }
        writing.take_again(definition).await?;
        Ok(is_changed)
    }

    /// Asks those that could change an object whether it may go.
    pub(super) async fn ask_mutating_of_deletion(
        &self,
        writing: &mut Writing<'_>,
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
        writing.let_go();
        for (_, webhook, shown) in about {
            let stage = Stage::Mutating;
            self.consult(webhook, shown, stage, &write, home.as_ref(), asked.deletion)
                .await?;
        }
        writing.take_again(asked.action.definition).await
    }
}

/// Takes what a webhook has made for the object. Whether it is another.
fn take_over(
    action: &Action<'_>,
    mut patched: Value,
    object: &mut Value,
    managers: &mut Managers,
    now: &str,
) -> Result<bool, Status> {
    if let Some(given) = metadata::take_managed_fields(&mut patched)
        && given != managers.to_value()
    {
        *managers = std::mem::take(managers).replaced_by(&given);
    }
    let patched = match action.kind {
        Some(kind) => kind.read(patched)?,
        None => {
            let mut patched = recanonicalized(action.definition, patched)?;
            action
                .definition
                .default(&mut patched, &Difference::Everywhere, now);
            patched
        }
    };
    let is_changed = patched != *object;
    *object = patched;
    Ok(is_changed)
}
