//! Certificates that are made here and kept in a Secret, shared by all replicas.
//!
//! Every replica checks them. The one that finds a new one is needed makes it; if two do so at once, the
//! resourceVersion of the Secret decides, and the other one takes the stored certificate.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use watchkeeper_client::{Client, DynamicApi, Error};
use watchkeeper_meta::Resource;

use super::issue::{self, Kept, Renewal};
use super::{Material, WebhookError};
use crate::webhook::clock::Clock;

/// The annotation with the names of the certificate, to detect a change.
const NAMES: &str = "watchkeeper/certificate-names";

/// The number of write conflicts between replicas before it is an error.
const MAX_ATTEMPTS: u32 = 5;

pub(super) struct SelfMade {
    secrets: DynamicApi,
    secret: String,
    names: Vec<String>,
    clock: Clock,
}

impl SelfMade {
    pub(super) fn new(client: &Client, secret: String, names: Vec<String>) -> Self {
        let secrets = Resource::namespaced("", "v1", "Secret", "secrets");
        Self {
            secrets: client.dynamic(secrets).default_namespace(),
            secret,
            names,
            clock: Clock::new(),
        }
    }

    /// The stored material, replaced if it is time.
    pub(super) async fn obtain(&self) -> Result<Material, WebhookError> {
        let unusable = |source: Error| WebhookError::Secret {
            name: self.secret.clone(),
            source: Box::new(source),
        };
        let mut attempts = 1;
        loop {
            let found = self.find().await.map_err(unusable)?;
            let kept = found.as_ref().and_then(read);
            let new = match issue::renewed(kept, &self.names, self.clock.now())? {
                Renewal::None(kept) => return Ok(kept.into()),
                Renewal::New(new) => new,
            };
            match self.write(found, &new).await {
                Ok(()) => return Ok(new.into()),
                // Another replica was faster: use its certificate.
                Err(error) if is_lost_race(&error) && attempts < MAX_ATTEMPTS => attempts += 1,
                Err(error) => return Err(unusable(error)),
            }
        }
    }

    async fn find(&self) -> Result<Option<Value>, Error> {
        match self.secrets.get(&self.secret).await {
            Ok(secret) => Ok(secret.to_value().ok()),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn write(&self, found: Option<Value>, kept: &Kept) -> Result<(), Error> {
        let is_new = found.is_none();
        let mut secret = found.unwrap_or_else(|| {
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": self.secret}, "type": "Opaque"})
        });
        secret["metadata"]["annotations"][NAMES] = json!(kept.names);
        for (member, text) in [
            ("ca.crt", &kept.bundle),
            ("ca.key", &kept.authority_key),
            ("tls.crt", &kept.certificate),
            ("tls.key", &kept.key),
        ] {
            secret["data"][member] = json!(STANDARD.encode(text));
        }
        let written = match is_new {
            true => self.secrets.create(&secret).await,
            false => self.secrets.update(&self.secret, &secret).await,
        };
        written.map(drop)
    }
}

fn is_lost_race(error: &Error) -> bool {
    error.is_conflict() || error.is_already_exists()
}

/// The material of a Secret; `None` if it is incomplete.
fn read(secret: &Value) -> Option<Kept> {
    let text = |member: &str| {
        let encoded = secret["data"][member].as_str()?;
        String::from_utf8(STANDARD.decode(encoded).ok()?).ok()
    };
    let names = secret["metadata"]["annotations"][NAMES].as_str();
    Some(Kept {
        bundle: text("ca.crt")?,
        authority_key: text("ca.key")?,
        certificate: text("tls.crt")?,
        key: text("tls.key")?,
        names: names.unwrap_or_default().to_owned(),
    })
}

impl From<Kept> for Material {
    fn from(kept: Kept) -> Self {
        Self {
            certificate: kept.certificate,
            key: kept.key,
            bundle: Some(kept.bundle),
        }
    }
}
