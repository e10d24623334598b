//! Webhooks: programs outside the server that see writes before they are stored, and may change or refuse them.
//!
//! ```text
//! configurations ─▶ configuration: what each wants, read once, and again when one of them has changed
//! write ─▶ matching, conditions: who wants to see it ─▶ review ─▶ webhook_client ─▶ review: what they say
//! ```
//!
//! Those that change objects see a write early, one after the other ([`mutation`](super::mutation)). Those that only refuse see it last, all at once, when it is in order otherwise. A
//! write waits for them without anything that other writes wait for ([`Writing::let_go`]).
//!
//! What the server writes to do its own work they do not see, nor each other's configurations. A cluster in which nobody
//! has ever written a policy or a webhook pays for one load.

mod configuration;
mod mutation;
mod review;

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value, json};
use watchkeeper_kinds::builtin;
use watchkeeper_meta::{DeleteOptions, Status};
use watchkeeper_patch::json_patch;
use watchkeeper_patch::managed_fields::Managers;

use self::configuration::Webhook;
use self::review::{Verdict, options, refusal};

use super::policies::{Input, all_hold};
use super::request::{Action, AdmissionRequest, Asked, whole};
use crate::Registry;
use crate::context::WriteContext;
use crate::definition::Definition;
use crate::followed::Followed;
use crate::object::Live;
use crate::subresources::scale::scale_of;
use crate::write::{Draft, Guard, Write};
use watchkeeper_kinds::Part;
use watchkeeper_kinds::names;

/// The webhooks that are configured.
#[derive(Debug, Default)]
pub(crate) struct WebhookBook(Followed<Webhooks>);

/// All webhooks: by the names of their configurations, and within these in order.
#[derive(Debug, Default)]
pub(super) struct Webhooks {
    mutating: Vec<Webhook>,
    validating: Vec<Webhook>,
}

/// What webhooks are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Mutating,
    Validating,
}

/// What came of asking a webhook.
enum Consulted {
    /// It does not want to see this.
    NotAsked,
    /// It has nothing against it, or could not be asked and does not insist.
    Allowed,
    /// It wants this instead.
    Patched(Value),
}

impl Registry {
    /// Whether webhooks may want to see writes to this resource.
    pub(crate) fn may_call_webhooks(&self, definition: &Definition, context: &WriteContext) -> bool {
        self.may_have_judges() && !Action::create(definition).is_exempt(context)
    }

    pub(super) async fn webhooks(&self) -> Result<Arc<Webhooks>, Status> {
        let read = || async {
            let (mutating, changes) = self
                .followed_values(&builtin::MUTATING_WEBHOOK_CONFIGURATION)
                .await?;
            let (validating, more) = self
                .followed_values(&builtin::VALIDATING_WEBHOOK_CONFIGURATION)
                .await?;
            let webhooks = Webhooks {
                mutating: mutating.iter().flat_map(Webhook::all).collect(),
                validating: validating.iter().flat_map(Webhook::all).collect(),
            };
            Ok((webhooks, vec![changes, more]))
        };
        self.webhook_book().0.get(read).await
    }

    /// Shows what is posted to an object to the webhooks that may refuse it.
    pub(super) async fn ask_about_posted(
        &self,
        action: Action<'_>,
        object: &Value,
        context: &WriteContext,
    ) -> Result<(), Status> {
        let (mut guard, nobody) = (Guard::nothing(self), Managers::new());
        let asked = Asked {
            action,
            new: Some((object, &nobody)),
            old: None,
            deletion: None,
            context,
        };
        self.ask_validating(&mut guard, asked).await?;
        Ok(())
    }

    /// Asks those that only refuse, all at once. Of several refusals the first in order counts.
    async fn ask_validating(&self, guard: &mut Guard<'_>, asked: Asked<'_>) -> Result<bool, Status> {
        let webhooks = self.webhooks().await?;
        let equivalents = self.equivalents(asked.action.definition);
        let about = about(&webhooks.validating, &asked.action, &equivalents);
        if about.is_empty() {
            return Ok(false);
        }
        let (new, old) = (asked.new.map(whole), asked.old.map(whole));
        let write = asked.write(new.as_ref(), old.as_ref());
        let home = self.home_of(&write).await?;
        guard.let_go();
        let consulted = about.iter().map(|(_, webhook, shown)| {
            let stage = Stage::Validating;
            self.consult(webhook, shown, stage, &write, home.as_ref(), asked.deletion)
        });
        for consulted in join_all(consulted).await {
            consulted?;
        }
        guard.take_again(asked.action.definition).await?;
        Ok(true)
    }

    /// What a webhook says to a write that its rules are about, in the version that they name.
    async fn consult(
        &self,
        webhook: &Webhook,
        shown: &Definition,
        stage: Stage,
        write: &AdmissionRequest<'_>,
        home: Option<&Value>,
        deletion: Option<&DeleteOptions>,
    ) -> Result<Consulted, Status> {
        if !webhook.matching.selects(write, home) {
            return Ok(Consulted::NotAsked);
        }
        let object = self.shown_in(&write.action, shown, write.object).await?;
        let old = self.shown_in(&write.action, shown, write.old).await?;
        let mut request = write.described(shown);
        request["options"] = options(&write.action, deletion, write.context);
        match self
            .wants(webhook, write, (object.as_ref(), old.as_ref()), &request)
            .await?
        {
            Ok(true) => {}
            Err(why) if webhook.fails_closed => {
                let resource = write.action.definition.group_resource();
                return Err(Status::forbidden(&resource, write.refused_name(), why));
            }
            Ok(false) | Err(_) => return Ok(Consulted::NotAsked),
        }
        if write.context.dry_run && !webhook.is_harmless {
            let name = &webhook.name;
            let why = format!("admission webhook {name:?} does not support dry run");
            return Err(Status::bad_request(why));
        }
        request["object"] = json!(object);
        request["oldObject"] = json!(old);
        let verdict = match self.call(webhook, stage, request).await? {
            Ok(verdict) => verdict,
            Err(why) => return failed(webhook, &why),
        };
        for warning in verdict.warnings {
            write.context.warnings.add(warning);
        }
        match (verdict.is_allowed, verdict.patch, object) {
            (false, ..) => Err(refusal(&webhook.name, verdict.status)),
            (true, None, _) => Ok(Consulted::Allowed),
            (true, Some(_), None) => Err(Status::internal_error(format_args!(
                "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
                webhook.name
            ))),
            (true, Some(patch), Some(mut patched)) => {
                json_patch::apply(&mut patched, &patch).map_err(Status::internal_error)?;
                let asked_for = write.action.definition;
                let back = match write.action.kind {
                    None => self.in_version(shown, asked_for, &patched).await?,
                    Some(_) => patched,
                };
                Ok(Consulted::Patched(back))
            }
        }
    }

    /// Whether the conditions of a webhook hold, or why that cannot be told.
    async fn wants(
        &self,
        webhook: &Webhook,
        write: &AdmissionRequest<'_>,
        (object, old): (Option<&Value>, Option<&Value>),
        request: &Value,
    ) -> Result<Result<bool, String>, Status> {
        if webhook.conditions.is_empty() {
            return Ok(Ok(true));
        }
        let input = Input {
            object,
            old,
            namespace: None,
            request,
            parameters: None,
            rights: &self.rights_of(write).await?,
        };
        Ok(all_hold(&webhook.conditions, &input))
    }

    /// Asks a webhook. What it cannot be asked for is said, and left to its failure policy.
    async fn call(
        &self,
        webhook: &Webhook,
        stage: Stage,
        mut request: Value,
    ) -> Result<Result<Verdict, String>, Status> {
        let Some(version) = webhook.version else {
            let why = "webhook does not accept known AdmissionReview versions (v1, v1beta1)";
            return Ok(Err(format!("could not create admission objects: {why}")));
        };
        let uid = names::uid();
        request["uid"] = json!(uid);
        let question = version.question(&request);
        Ok(
            match self.post_to(&webhook.client, webhook.timeout, question).await? {
                Ok(body) => version.answer(&uid, stage == Stage::Mutating, &body),
                Err(why) => Err(format!("failed to call webhook: {why}")),
            },
        )
    }

    /// What is written in the version that a webhook wants to see.
    async fn shown_in(
        &self,
        action: &Action<'_>,
        shown: &Definition,
        object: Option<&Value>,
    ) -> Result<Option<Value>, Status> {
        match (object, action.kind) {
            (Some(object), None) => self.in_version(action.definition, shown, object).await.map(Some),
            (object, _) => Ok(object.cloned()),
        }
    }

    /// An object of one version in another.
    async fn in_version(&self, from: &Definition, to: &Definition, object: &Value) -> Result<Value, Status> {
        if from.api_version == to.api_version {
            return Ok(object.clone());
        }
        let unknown = || Status::internal_error(format_args!("unable to convert to {}", to.api_version));
        if from.converter.is_some() {
            let converted = self.convert(from, vec![object.clone()], &to.api_version).await?;
            return converted.into_iter().next().ok_or_else(unknown);
        }
        let versions = from.versions();
        let converted = versions.and_then(|versions| versions.convert(object, &to.api_version));
        converted.map(|(_, value)| value).ok_or_else(unknown)
    }

    /// The same resource in other versions; hardly any has some.
    fn equivalents(&self, definition: &Definition) -> Vec<Arc<Definition>> {
        match definition.versions() {
            Some(_) => self.catalog().beside(definition),
            None => Vec::new(),
        }
    }
}

impl Write<'_> {
    /// Shows an object that is valid to the webhooks that may refuse it. Whether there were any.
    pub(crate) async fn call_validating_webhooks(&mut self, draft: &Draft<'_>) -> Result<bool, Status> {
        let definition = &self.definition;
        let asked = Asked {
            action: match draft.live {
                None => Action::create(definition),
                Some(_) => Action::update(definition, self.part),
            },
            new: Some((&draft.object, &draft.managers)),
            old: draft.live.map(|live| (&live.value, &live.managers)),
            deletion: None,
            context: self.context,
        };
        let (Part::Scale, Some(live)) = (self.part, draft.live) else {
            return self.registry.ask_validating(&mut self.guard, asked).await;
        };
        let (nobody, new) = (Managers::new(), scale_of(definition, &draft.object)?);
        let old = scale_of(definition, &live.value)?;
        let asked = Asked {
            new: Some((&new, &nobody)),
            old: Some((&old, &nobody)),
            ..asked
        };
        self.registry.ask_validating(&mut self.guard, asked).await
    }

    /// Shows an object that is to go to all webhooks that want to see that.
    pub(crate) async fn call_webhooks_of_deletion(
        &mut self,
        live: &Live,
        deletion: &DeleteOptions,
    ) -> Result<(), Status> {
        let asked = Asked {
            action: Action::delete(&self.definition),
            new: None,
            old: Some((&live.value, &live.managers)),
            deletion: Some(deletion),
            context: self.context,
        };
        let (registry, guard) = (self.registry, &mut self.guard);
        registry.ask_mutating_of_deletion(guard, asked).await?;
        registry.ask_validating(guard, asked).await?;
        Ok(())
    }
}

/// The webhooks whose rules are about what is done, each with its place and the version that it wants to see.
fn about<'w>(
    webhooks: &'w [Webhook],
    action: &Action<'w>,
    equivalents: &'w [Arc<Definition>],
) -> Vec<(usize, &'w Webhook, &'w Definition)> {
    let webhooks = webhooks.iter().enumerate();
    let about = webhooks.filter_map(|(place, webhook)| {
        let shown = webhook.version_shown(action, equivalents)?;
        Some((place, webhook, shown))
    });
    about.collect()
}

/// What follows if a webhook cannot be asked.
fn failed(webhook: &Webhook, why: &str) -> Result<Consulted, Status> {
    let why = format!("failed calling webhook {:?}: {why}", webhook.name);
    if webhook.fails_closed {
        return Err(Status::internal_error(why));
    }
    tracing::warn!("{why}; the write goes on without it");
    Ok(Consulted::Allowed)
}
