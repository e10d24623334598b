//! Who has which domain: a ConfigMap in the operator's namespace, from domains to websites.
//!
//! Each website applies its entry as a field manager of its own. An entry that another manager has is a conflict, so the
//! API server decides who was first. An entry that is no longer applied is gone, so a website that changes its domain
//! gives the old one back in the same write.

use k8s_openapi::api::core::v1::ConfigMap;
use watchkeeper::client::Error;
use watchkeeper::prelude::*;

use crate::Website;

/// False if the domain belongs to another website.
pub(crate) async fn claim(site: &Website, client: &Client) -> Result<bool, Error> {
    let entry = (site.spec.domain.clone(), site.key().to_string());
    match apply(site, client, Some(entry)).await {
        Err(error) if error.is_conflict() => Ok(false),
        applied => applied.map(|_| true),
    }
}

/// Gives back what the website has claimed.
pub(crate) async fn release(site: &Website, client: &Client) -> Result<Action, BoxError> {
    apply(site, client, None).await?;
    Ok(Action::Done)
}

async fn apply(site: &Website, client: &Client, entry: Option<(String, String)>) -> Result<ConfigMap, Error> {
    let mut domains = ConfigMap::default();
    domains.metadata.name = Some("domains".into());
    domains.data = entry.map(|entry| [entry].into());
    client
        .api()
        .default_namespace()
        .apply(&domains, &site.metadata.uid)
        .await
}
