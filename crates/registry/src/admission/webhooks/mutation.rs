//! Mutating webhooks, called in order.

use watchkeeper_meta::Status;

use super::audit::MutatingCall;
use super::{Consulted, WebhookType, Webhooks, about};
use crate::Registry;
use crate::admission::mutation::{Mutated, Rounds};
use crate::admission::request::{Asked, whole};
use crate::context::timestamp;
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
            let consulted = self.consult(webhook, shown, WebhookType::Mutating, &write, home.as_ref(), None);
            let call = MutatingCall {
                context: asked.context,
                round: u8::from(!rounds.is_first()),
                place,
                webhook,
            };
            let is_mutated = match consulted.await {
                Ok(Consulted::NotAsked) => continue,
                Ok(Consulted::Allowed) => false,
                Ok(Consulted::FailedOpen) => {
                    call.audit_failed_open();
                    false
                }
                Ok(Consulted::Patched { object, patch }) => {
                    call.audit_patch(&patch);
                    let now = timestamp(self.clock().now());
                    state.take_over(&asked.action, object, &now)?
                }
                Err(refused) => {
                    call.audit_mutation(false);
                    return Err(refused);
                }
            };
            call.audit_mutation(is_mutated);
            if is_mutated {
                is_changed = true;
                rounds.note_change();
            }
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
            let stage = WebhookType::Mutating;
            self.consult(webhook, shown, stage, &write, home.as_ref(), asked.deletion)
                .await?;
        }
        guard.retake(asked.action.definition).await
    }
}
