//! Admission webhooks: external programs that change or reject writes.
//!
//! ```text
//! configurations ─▶ configuration: read once, and again when one of them changes
//! write ─▶ matching, matchConditions ─▶ review: request ─▶ webhook_client ─▶ review: response
//! ```
//!
//! Mutating webhooks are called early, in order ([`mutation`](super::mutation)). Validating webhooks are called last,
//! all at once, when the object is valid. During calls a write holds no lock that other writes need
//! ([`Guard::release_locks`]).
//!
//! The server's own writes and the webhook configurations are exempt. A cluster in which no policy or webhook was
//! ever written pays one atomic load.

mod audit;
mod configuration;
mod mutation;
mod review;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::Instant;
use watchkeeper_kinds::builtin;
use watchkeeper_meta::{DeleteOptions, Status};
use watchkeeper_patch::json_patch;
use watchkeeper_patch::managed_fields::Managers;
use watchkeeper_storage::Feed;

use self::configuration::Webhook;
use self::review::{Verdict, refusal};

use super::policies::{Input, all_hold};
use super::request::{Action, AdmissionRequest, Asked, whole};
use crate::Registry;
use crate::context::WriteContext;
use crate::definition::Definition;
use crate::followed::Followed;
use crate::metrics::{self, Step};
use crate::object::Live;
use crate::subresources::scale::scale_of;
use crate::write::{Draft, Guard, Write};
use watchkeeper_kinds::Part;
use watchkeeper_kinds::names;

/// The configured webhooks.
#[derive(Debug, Default)]
pub(crate) struct WebhookCache(Followed<Webhooks>);

/// All webhooks, ordered by configuration name, then by their order in it.
#[derive(Debug, Default)]
pub(super) struct Webhooks {
    mutating: Vec<Webhook>,
    validating: Vec<Webhook>,
}

/// The type of a webhook.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WebhookType {
    Mutating,
    Validating,
}

impl WebhookType {
    fn timed(self, operation: &'static str) -> metrics::Stage {
        let step = match self {
            Self::Mutating => Step::Admit,
            Self::Validating => Step::Validate,
        };
        metrics::Stage { step, operation }
    }
}

/// The result of calling a webhook.
enum Consulted {
    /// It does not match.
    NotAsked,
    /// It allows the write.
    Allowed,
    /// It failed, and its failure policy is `Ignore`.
    FailedOpen,
    /// It changed the object by this patch.
    Patched { object: Value, patch: Value },
}

impl Registry {
    /// True if webhooks may match writes to this resource.
    pub(crate) fn may_call_webhooks(&self, definition: &Definition, context: &WriteContext) -> bool {
        self.may_have_admission_configuration() && !Action::create(definition).is_exempt(context)
    }

    pub(super) async fn webhooks(&self) -> Result<Arc<Webhooks>, Status> {
        self.webhook_cache().0.get(|| self.read_webhooks()).await
    }

    fn read_webhooks(&self) -> BoxFuture<'_, Result<(Webhooks, Vec<Feed>), Status>> {
        Box::pin(async move {
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
        })
    }

    /// Calls validating webhooks for an object posted to a subresource.
    pub(super) fn ask_about_posted<'a>(
        &'a self,
        action: Action<'a>,
        object: &'a Value,
        context: &'a WriteContext,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
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
        })
    }

    /// Calls validating webhooks concurrently. Of several denials, the first in order counts.
    fn ask_validating<'a, 'd>(
        &'a self,
        guard: &'a mut Guard<'d>,
        asked: Asked<'a>,
    ) -> BoxFuture<'a, Result<bool, Status>> {
        Box::pin(async move {
            let webhooks = self.webhooks().await?;
            let equivalents = self.equivalents(asked.action.definition);
            let about = about(&webhooks.validating, &asked.action, &equivalents);
            if about.is_empty() {
                return Ok(false);
            }
            let (new, old) = (asked.new.map(whole), asked.old.map(whole));
            let write = asked.write(new.as_ref(), old.as_ref());
            let home = self.namespace_of(&write).await?;
            guard.release_locks();
            let consulted = about.iter().map(|(_, webhook, shown)| {
                let stage = WebhookType::Validating;
                self.consult(webhook, shown, stage, &write, home.as_ref(), asked.deletion)
            });
            let operation = asked.action.operation.name();
            let mut laps = self.durations().laps(Step::Validate, operation);
            let consulted = join_all(consulted).await;
            let results = about.iter().map(|(_, webhook, _)| *webhook).zip(&consulted);
            audit::failed_open(asked.context, results);
            let denied = consulted.into_iter().find_map(Result::err);
            laps.plugin("ValidatingAdmissionWebhook", denied.map_or(Ok(()), Err))?;
            guard.retake(asked.action.definition).await?;
            Ok(true)
        })
    }

    /// Calls a webhook whose rules match a write, with the version they name.
    fn consult<'a>(
        &'a self,
        webhook: &'a Webhook,
        shown: &'a Definition,
        stage: WebhookType,
        write: &'a AdmissionRequest<'a>,
        home: Option<&'a Value>,
        deletion: Option<&'a DeleteOptions>,
    ) -> BoxFuture<'a, Result<Consulted, Status>> {
        Box::pin(async move {
            if !webhook.matching.selects(write, home) {
                return Ok(Consulted::NotAsked);
            }
            let object = self.shown_in(&write.action, shown, write.object).await?;
            let old = self.shown_in(&write.action, shown, write.old).await?;
            let mut request = write.described(shown);
            request["options"] = write.options(deletion);
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
            if write.context.dry_run && !webhook.supports_dry_run {
                let name = &webhook.name;
                let why = format!("admission webhook {name:?} does not support dry run");
                return Err(Status::bad_request(why));
            }
            request["object"] = json!(object);
            request["oldObject"] = json!(old);
            let began = Instant::now();
            let called = self.call(webhook, stage, request).await?;
            let is_rejected = called.as_ref().map_or(webhook.fails_closed, |it| !it.is_allowed);
            let timed = stage.timed(write.action.operation.name());
            self.durations().webhook(&webhook.name, timed, began, is_rejected);
            let verdict = match called {
                Ok(verdict) => verdict,
                Err(why) => return failed(webhook, &why),
            };
            for warning in verdict.warnings {
                write.context.warnings.add(warning);
            }
            for (key, value) in verdict.audit_annotations {
                write
                    .context
                    .annotate(|| format!("{}/{key}", webhook.name), || value);
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
                    Ok(Consulted::Patched { object: back, patch })
                }
            }
        })
    }

    /// True if the `matchConditions` of a webhook hold; an error if they cannot be evaluated.
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
            authorizer: &self.authorizer_for(write).await?,
        };
        Ok(all_hold(&webhook.conditions, &input))
    }

    /// Calls a webhook. The inner error is left to its failure policy.
    async fn call(
        &self,
        webhook: &Webhook,
        stage: WebhookType,
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
                Ok(body) => version.answer(&uid, stage == WebhookType::Mutating, &body),
                Err(why) => Err(format!("failed to call webhook: {why}")),
            },
        )
    }

    /// The request in the version that a webhook expects.
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

    /// Converts an object between versions.
    fn in_version<'a>(
        &'a self,
        from: &'a Definition,
        to: &'a Definition,
        object: &'a Value,
    ) -> BoxFuture<'a, Result<Value, Status>> {
        Box::pin(async move {
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
        })
    }

    /// The other versions of a resource; few have any.
    fn equivalents(&self, definition: &Definition) -> Vec<Arc<Definition>> {
        match definition.versions() {
            Some(_) => self.catalog().beside(definition),
            None => Vec::new(),
        }
    }
}

impl Write<'_> {
    /// Calls validating webhooks for a valid object; returns true if any matched.
    pub(crate) fn call_validating_webhooks<'a>(
        &'a mut self,
        draft: &'a Draft<'a>,
    ) -> BoxFuture<'a, Result<bool, Status>> {
        Box::pin(async move {
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
        })
    }

    /// Calls all webhooks that match a deletion.
    pub(crate) fn call_webhooks_of_deletion<'a>(
        &'a mut self,
        live: &'a Live,
        deletion: &'a DeleteOptions,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
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
        })
    }
}

/// The webhooks whose rules match, each with its index and the version it expects.
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

/// Applies the failure policy.
fn failed(webhook: &Webhook, why: &str) -> Result<Consulted, Status> {
    let why = format!("failed calling webhook {:?}: {why}", webhook.name);
    if webhook.fails_closed {
        return Err(Status::internal_error(why));
    }
    tracing::warn!("{why}; the write goes on without it");
    Ok(Consulted::FailedOpen)
}
