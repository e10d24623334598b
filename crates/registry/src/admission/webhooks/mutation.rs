//! Mutating webhooks, called in order.

use serde::Serialize;
use watchkeeper_meta::Status;

use super::configuration::Webhook;
use super::{Consulted, Stage, Webhooks, about};
use crate::Registry;
use crate::admission::mutation::{Mutated, Rounds};
use crate::admission::request::{Asked, whole};
use crate::context::{WriteContext, timestamp};
use crate::write::Guard;

impl Registry {
    /// Calls mutating webhooks; returns true if the object changed.
    pub(in crate::admission) async fn mutate_by_webhooks(
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
        about.retain(|(place, ..)| rounds.is_first() || rounds.webhooks.is_due(place));
        if about.is_empty() {
            return Ok(false);
        }
        let (old, mut is_changed) = (asked.old.map(whole), false);
        guard.release_locks();
        for (place, webhook, shown) in about {
            let current = whole((state.object, state.managers));
            let write = asked.write(Some(&current), old.as_ref());
            let home = self.namespace_of(&write).await?;
            let consulted = self.consult(webhook, shown, Stage::Mutating, &write, home.as_ref(), None);
            let is_mutated = match consulted.await? {
                Consulted::NotAsked => continue,
                Consulted::Allowed => false,
                Consulted::Patched(patched) => {
                    let now = timestamp(self.clock().now());
                    state.take_over(&asked.action, patched, &now)?
                }
            };
            if is_mutated {
                is_changed = true;
                rounds.note_change();
            }
            audit_mutation(asked.context, (rounds.is_first(), place), webhook, is_mutated);
            if webhook.is_reinvoked {
                rounds.webhooks.wait(place);
            }
        }
        guard.retake(definition).await?;
        Ok(is_changed)
    }

    /// Calls mutating webhooks for a deletion, which they can only deny.
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
        let home = self.namespace_of(&write).await?;
        guard.release_locks();
        for (_, webhook, shown) in about {
            let stage = Stage::Mutating;
            self.consult(webhook, shown, stage, &write, home.as_ref(), asked.deletion)
                .await?;
        }
        guard.retake(asked.action.definition).await
    }
}

/// A call of a webhook that may change an object, as the audit event shows it.
#[derive(Serialize)]
struct MutationNote<'a> {
    configuration: &'a str,
    webhook: &'a str,
    mutated: bool,
}

/// Tells the audit event that a webhook was asked, in which round and place, and whether it changed the object.
fn audit_mutation(
    context: &WriteContext,
    (is_first_round, place): (bool, usize),
    webhook: &Webhook,
    mutated: bool,
) {
    let note = MutationNote {
        configuration: &webhook.configuration,
        webhook: &webhook.name,
        mutated,
    };
    let round = u8::from(!is_first_round);
    context.annotate(
        || format!("mutation.webhook.admission.k8s.io/round_{round}_index_{place}"),
        || serde_json::to_string(&note).unwrap_or_default(),
    );
}
