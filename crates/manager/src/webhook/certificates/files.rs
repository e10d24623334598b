//! Certificates in files that are replaced externally.

use std::path::{Path, PathBuf};

use super::{Material, WebhookError};

#[derive(Clone, Debug)]
pub(super) struct Files {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
    pub(super) authority: Option<PathBuf>,
}

impl Files {
    /// A few kilobytes: reading them costs less than opening a connection.
    pub(super) async fn read(&self) -> Result<Material, WebhookError> {
        let bundle = match &self.authority {
            Some(path) => Some(read(path).await?),
            None => None,
        };
        Ok(Material {
            certificate: read(&self.certificate).await?,
            key: read(&self.key).await?,
            bundle,
        })
    }
}

async fn read(path: &Path) -> Result<String, WebhookError> {
    tokio::fs::read_to_string(path)
        .await
        .map_err(|source| WebhookError::Read {
            path: path.to_owned(),
            source,
        })
}
