//! An operator for websites, in one binary.
//!
//! ```text
//!   Website ──▶ ConfigMap    its pages
//!           ──▶ Deployment   the pods that serve them
//!           ──▶ Service      one address for the pods
//!           ──▶ its domain   claimed in the operator's namespace, released by a finalizer
//! ```

mod admission;
mod children;
mod domains;
mod reconcile;
mod website;

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use watchkeeper::prelude::*;

pub use website::{Website, WebsiteSpec, WebsiteStatus};

/// The field manager of the children, the lease, the source of Events and the webhook configurations.
const NAME: &str = "website-operator";

/// The longest retry interval of a website that is not ready: nothing signals that a domain becomes free.
pub const LOOK_AGAIN: Duration = Duration::from_secs(300);

/// The operator, ready to run. Its lease, certificate and domains are kept in the client's namespace.
pub fn operator(client: Client, webhooks: impl Into<Listen>) -> Manager {
    let factory = Factory::new(client.clone(), Default::default());
    let websites = factory.informer(Selection::of::<Website>());
    let mut manager = Manager::new(client);
    let recorder = manager.recorder(NAME);
    let controller = Controller::<Website>::of(&factory)
        .owns_selected(children::selection::<ConfigMap>())
        .owns_selected(children::selection::<Deployment>())
        .owns_selected(children::selection::<Service>())
        .reconcile(move |_, context| reconcile::reconcile(context, recorder.clone()));
    manager
        .leader(NAME)
        .webhooks(admission::webhooks(webhooks.into(), websites.store().clone()))
        .controller(controller)
}
