//! Reconciles a website and reports its status.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use serde_json::Value;
use watchkeeper::client::Error;
use watchkeeper::prelude::*;

use crate::{LOOK_AGAIN, NAME, Website, children, domains};

/// Protects a website with a finalizer until its domain is released. Its children are garbage collected.
pub(crate) async fn reconcile(context: Context<Website>, recorder: Recorder) -> Result<Action, BoxError> {
    let step = context.finalizer("example.com/domain", async |phase| match phase {
        Phase::Apply(site) => {
            let (is_ready, note) = publish(&site, &context).await?;
            report(&site, is_ready, note, &context, &recorder).await
        }
        Phase::Cleanup(site) => domains::release(&site, context.client()).await,
    });
    Ok(step.await?)
}

/// Applies the children of the website. The server writes nothing if they are up to date.
async fn publish(site: &Website, context: &Context<Website>) -> Result<(bool, Note), Error> {
    let domain = &site.spec.domain;
    if !domains::claim(site, context.client()).await? {
        let why = format!("{domain} belongs to another website");
        return Ok((false, Note::warning("DomainTaken", why)));
    }
    apply::<ConfigMap>(children::pages(site), context).await?;
    apply::<Service>(children::service(site), context).await?;
    let pods = apply::<Deployment>(children::pods(site), context).await?;
    let available = pods.status.and_then(|status| status.available_replicas);
    Ok(match available >= Some(site.spec.replicas) {
        true => (true, Note::normal("Serving", format!("{domain} is served"))),
        false => (
            false,
            Note::normal("Starting", format!("{domain} waits for its pods")),
        ),
    })
}

async fn apply<C: ResourceType>(child: Value, context: &Context<Website>) -> Result<C, Error> {
    let (children, name) = (context.api(), context.key().name());
    children.apply_configuration(name, &child, NAME).force().await
}

/// Sets the condition `Ready` and records an Event, if anything has changed.
async fn report(
    site: &Website,
    is_ready: bool,
    note: Note,
    context: &Context<Website>,
    recorder: &Recorder,
) -> Result<Action, BoxError> {
    let mut site = site.clone();
    let ready = Condition::new("Ready", is_ready, &*note.reason).message(&*note.message);
    let ready = ready.observed(site.metadata.generation);
    if set_condition(&mut site.status.get_or_insert_default().conditions, ready) {
        context.api().status().update(&site).await?;
        recorder.record(context.object(), note);
    }
    Ok(match is_ready {
        true => Action::Done,
        false => Action::After(LOOK_AGAIN),
    })
}
