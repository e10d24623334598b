//! Ownership of domains: a ConfigMap for each in the operator's namespace, which owner references cannot cross.
//!
//! A website applies the ConfigMap of its domain with its own field manager. If another one owns it, that is a
//! conflict: the API server decides who was first, without a lock.

use k8s_openapi::api::core::v1::ConfigMap;
use watchkeeper::client::Error;
use watchkeeper::meta::ListOptions;
use watchkeeper::prelude::*;

use crate::Website;

/// The owner of a domain, by uid.
const WEBSITE: &str = "example.com/website";

/// Returns false if the domain belongs to another website.
pub(crate) async fn claim(site: &Website, client: &Client) -> Result<bool, Error> {
    let (mut domain, uid) = (ConfigMap::default(), &site.metadata.uid);
    domain.metadata.name = Some(format!("domain-{}", site.spec.domain));
    domain.metadata.labels = Some([(WEBSITE.into(), uid.clone())].into());
    domain.data = Some([("website".into(), site.key().to_string())].into());
    match client.api().default_namespace().apply(&domain, uid).await {
        Err(error) if error.is_conflict() => Ok(false),
        applied => applied.map(|_| true),
    }
}

/// Releases the website's domain.
pub(crate) async fn release(site: &Website, client: &Client) -> Result<Action, BoxError> {
    let claimed = ListOptions {
        label_selector: format!("{WEBSITE}={}", site.metadata.uid).parse()?,
        ..Default::default()
    };
    let domains = client.api::<ConfigMap>().default_namespace();
    domains.delete_collection(&claimed).await?;
    Ok(Action::Done)
}
