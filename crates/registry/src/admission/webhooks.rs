//! Webhooks: programs outside the server that see writes before they are stored, and may change or refuse them.
//!
//! ```text
//! configurations ─▶ configuration: what each wants, read once, and again when one of them has changed
//! write ─▶ matching, conditions: who wants to see it ─▶ review ─▶ service, transport ─▶ review: what they say
//! ```
//!
//! Those that change objects see a write early, one after the other; then whoever asked for it sees once more what
//! others have changed after him. Those that only refuse see it last, all at once, when it is in order otherwise. A
//! write waits for them without anything that other writes wait for ([`Writing::let_go`]).
//!
//! What the server writes to do its own work they do not see, nor each other's configurations. They do not see the writes
//! that are no objects either: bindings of pods, evictions, tokens; and of a scale they see the object that is scaled. A
//! cluster in which nobody has ever configured any pays for one load.

mod configuration;
mod mutation;
mod review;
mod service;
mod transport;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::join_all;
use serde_json::{Value, json};
use watchkeeper_meta::{DeleteOptions, Status};
use watchkeeper_patch::json_patch;
use watchkeeper_patch::managed_fields::Managers;

use self::configuration::{Destination, Webhook};
use self::review::{Verdict, options, refusal};
pub use self::transport::{WebhookCall, WebhookTransport};
use super::policies::{Input, all_hold};
use super::request::{Action, GROUP, Operation, Write};
use crate::custom::writing::Writing;
use crate::definition::Definition;
use crate::followed::Followed;
use crate::object::Live;
use crate::update::Part;
use crate::write::WriteContext;
use crate::{Registry, names};

/// The webhooks that are configured.
#[derive(Debug, Default)]
pub(crate) struct WebhookBook {
    /// Whether anybody may ever have configured one.
    is_in_use: AtomicBool,
    known: Followed<Webhooks>,
}

/// All webhooks: by the names of their configurations, and within these in order.
#[derive(Debug, Default)]
struct Webhooks {
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

/// An object, and who manages its fields: that is kept apart from it, and shown with it.
type State<'w> = (&'w Value, &'w Managers);

/// A write that webhooks may want to see.
#[derive(Clone, Copy)]
struct Asked<'w> {
    action: Action<'w>,
    /// As it will be, for those that only refuse.
    new: Option<State<'w>>,
    old: Option<State<'w>>,
    deletion: Option<&'w DeleteOptions>,
    context: &'w WriteContext,
}

impl WebhookBook {
    /// Notes that an object is created: it may be a configuration.
    pub(crate) fn notice(&self, definition: &Definition) {
        if definition.resource.group == GROUP {
            self.is_in_use.store(true, Ordering::Release);
        }
    }
}

impl Registry {
    /// Looks whether there are webhooks already. Who shares a store cannot know when others configure some.
    pub(crate) async fn notice_webhooks(&self) -> Result<(), Status> {
        let webhooks = self.webhooks().await?;
        let has_any = !webhooks.mutating.is_empty() || !webhooks.validating.is_empty();
        let is_in_use = &self.webhook_book().is_in_use;
        is_in_use.fetch_or(has_any || self.store().is_shared(), Ordering::AcqRel);
        Ok(())
    }

    /// Whether webhooks may want to see writes to this resource.
    pub(crate) fn may_call_webhooks(&self, definition: &Definition, context: &WriteContext) -> bool {
        self.webhook_book().is_in_use.load(Ordering::Acquire)
            && !context.by_server
            && definition.resource.group != GROUP
    }

    async fn webhooks(&self) -> Result<Arc<Webhooks>, Status> {
        let read = || async {
            let (mutating, changes) = self
                .followed_values(GROUP, "mutatingwebhookconfigurations")
                .await?;
            let (validating, more) = self
                .followed_values(GROUP, "validatingwebhookconfigurations")
                .await?;
            let webhooks = Webhooks {
                mutating: mutating.iter().flat_map(Webhook::all).collect(),
                validating: validating.iter().flat_map(Webhook::all).collect(),
            };
            Ok((webhooks, vec![changes, more]))
        };
        self.webhook_book().known.get(read).await
    }

    /// Shows a new object that is in order to the webhooks that may refuse it. Whether there were any.
    pub(crate) async fn ask_about_new(
        &self,
        writing: &mut Writing<'_>,
        definition: &Definition,
        new: (&Value, &Managers),
        context: &WriteContext,
    ) -> Result<bool, Status> {
        let asked = Asked {
            action: Action {
                definition,
                subresource: "",
                operation: Operation::Create,
            },
            new: Some(new),
            old: None,
            deletion: None,
            context,
        };
        self.ask_validating(writing, asked).await
    }

    /// Shows a changed object that is in order to the webhooks that may refuse it. Whether there were any.
    pub(crate) async fn ask_about_changed(
        &self,
        writing: &mut Writing<'_>,
        definition: &Definition,
        part: Part,
        live: &Live,
        new: (&Value, &Managers),
        context: &WriteContext,
    ) -> Result<bool, Status> {
        let asked = Asked {
            action: Action {
                definition,
                subresource: part.subresource(),
                operation: Operation::Update,
            },
            new: Some(new),
            old: Some((&live.value, &live.managers)),
            deletion: None,
            context,
        };
        self.ask_validating(writing, asked).await
    }

    /// Shows an object that is to go to all webhooks that want to see that.
    pub(crate) async fn ask_about_deletion(
        &self,
        writing: &mut Writing<'_>,
        definition: &Definition,
        live: &Live,
        deletion: &DeleteOptions,
        context: &WriteContext,
    ) -> Result<(), Status> {
        let asked = Asked {
            action: Action {
                definition,
                subresource: "",
                operation: Operation::Delete,
            },
            new: None,
            old: Some((&live.value, &live.managers)),
            deletion: Some(deletion),
            context,
        };
        self.ask_mutating_of_deletion(writing, asked).await?;
        self.ask_validating(writing, asked).await?;
        Ok(())
    }

    /// Asks those that only refuse, all at once. Of several refusals the first in order counts.
    async fn ask_validating(&self, writing: &mut Writing<'_>, asked: Asked<'_>) -> Result<bool, Status> {
        let webhooks = self.webhooks().await?;
        let equivalents = self.equivalents(asked.action.definition);
        let about = about(&webhooks.validating, &asked.action, &equivalents);
        if about.is_empty() {
            return Ok(false);
        }
        let (new, old) = (asked.new.map(whole), asked.old.map(whole));
        let write = asked.write(new.as_ref(), old.as_ref());
        writing.let_go();
        let consulted = about.iter().map(|(_, webhook, shown)| {
            self.consult(webhook, shown, Stage::Validating, &write, asked.deletion)
        });
        for consulted in join_all(consulted).await {
            consulted?;
        }
        writing.take_again(asked.action.definition).await?;
        Ok(true)
    }

    /// What a webhook says to a write that its rules are about, in the version that they name.
    async fn consult(
        &self,
        webhook: &Webhook,
        shown: &Definition,
        stage: Stage,
        write: &Write<'_>,
        deletion: Option<&DeleteOptions>,
    ) -> Result<Consulted, Status> {
        let home = self.home_of(write).await?;
        if !webhook.matching.selects(write, home.as_ref()) {
            return Ok(Consulted::NotAsked);
        }
        let object = converted(write.action.definition, shown, write.object)?;
        let old = converted(write.action.definition, shown, write.old)?;
        let mut request = write.described(shown);
        request["options"] = options(&write.action, deletion, write.context);
        let input = Input {
            object: object.as_ref(),
            old: old.as_ref(),
            namespace: None,
            request: &request,
            parameters: None,
        };
        match all_hold(&webhook.conditions, &input) {
            Ok(true) => {}
            Err(why) if webhook.fails_closed => {
                let resource = write.action.definition.group_resource();
                return Err(Status::forbidden(&resource, write.name(), why));
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
                let back = converted(shown, write.action.definition, Some(&patched))?;
                Ok(Consulted::Patched(back.unwrap_or_default()))
            }
        }
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
        let Some(transport) = self.webhook_transport() else {
            return Ok(Err(
                "failed to call webhook: there is no way to webhooks".to_owned()
            ));
        };
        let url = webhook.destination.url(webhook.timeout);
        let address = match &webhook.destination {
            Destination::Url(_) => None,
            Destination::Service {
                namespace,
                name,
                port,
                ..
            } => match self.service_address(namespace, name, *port).await? {
                Ok(address) => Some(address),
                Err(why) => return Ok(Err(format!("failed to call webhook: Post {url:?}: {why}"))),
            },
        };
        let uid = names::uid();
        request["uid"] = json!(uid);
        let call = WebhookCall {
            url: &url,
            address: address.as_deref(),
            authorities: webhook.authorities.as_deref(),
            timeout: webhook.timeout,
            body: version.question(&request),
        };
        Ok(match transport.post(call).await {
            Ok(body) => version.answer(&uid, stage == Stage::Mutating, &body),
            Err(error) => Err(format!("failed to call webhook: {error}")),
        })
    }

    /// The same resource in other versions; hardly any has some.
    fn equivalents(&self, definition: &Definition) -> Vec<Arc<Definition>> {
        match definition.versions() {
            Some(_) => self.definitions_beside(definition),
            None => Vec::new(),
        }
    }
}

impl<'w> Asked<'w> {
    fn write<'s>(&self, new: Option<&'s Value>, old: Option<&'s Value>) -> Write<'s>
    where
        'w: 's,
    {
        Write {
            action: self.action,
            object: new,
            old,
            context: self.context,
        }
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

/// An object with all it has.
fn whole((value, managers): State<'_>) -> Value {
    let mut whole = value.clone();
    managers.write_to(&mut whole);
    whole
}

/// An object of one version in another.
fn converted(from: &Definition, to: &Definition, object: Option<&Value>) -> Result<Option<Value>, Status> {
    let Some(object) = object else {
        return Ok(None);
    };
    if from.api_version == to.api_version {
        return Ok(Some(object.clone()));
    }
    let versions = from.versions();
    let converted = versions.and_then(|versions| versions.convert(object, &to.api_version));
    let unknown = || Status::internal_error(format_args!("unable to convert to {}", to.api_version));
    converted.map(|(_, value)| Some(value)).ok_or_else(unknown)
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
