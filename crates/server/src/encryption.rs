//! Encryption at rest, as in kube-apiserver: AES-GCM with keys from a file, per resource.
//!
//! ```text
//! k8s:enc:aesgcm:v1:key1:‖ nonce (12) ‖ ciphertext ‖ tag (16)
//! ```
//!
//! The first provider of a resource's rule encrypts; all of them decrypt. The storage path is authenticated with the
//! value, so a value moved to another key is rejected. A value encrypted with an old key, or not at all, is stale:
//! the next write of the object encrypts it again, even a no-op write. The server's own keys are Secrets and follow
//! their rule.

mod configuration;

use std::collections::HashMap;

use aws_lc_rs::aead::{AES_128_GCM, AES_192_GCM, AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use bytes::Bytes;
use watchkeeper_kinds::{KindVersion, builtin};
use watchkeeper_storage::{ENCRYPTED, TransformError, Transformed, Transformer};

pub use configuration::EncryptionError;

use crate::identity;

/// The prefix of AES-GCM values, before the key's name.
const AES_GCM: &[u8] = b"k8s:enc:aesgcm:v1:";
const ROOT: &str = "/registry/";

/// The encrypted resources and their keys.
#[derive(Debug)]
pub(crate) struct Encryption {
    rules: Vec<ResourceProviders>,
    /// The rule of each built-in resource, by key prefix; `None` for those without one.
    builtin: HashMap<String, Option<usize>>,
    /// The rule of secrets.
    secrets: Option<usize>,
}

/// The providers of some resources.
#[derive(Debug)]
struct ResourceProviders {
    resources: Vec<Pattern>,
    providers: Vec<Provider>,
}

/// `secrets`, `pandas.bears.example`, `*.apps`, `*.` or `*.*`.
#[derive(Debug, PartialEq, Eq)]
enum Pattern {
    One { plural: String, group: String },
    Group(String),
    All,
}

impl Pattern {
    fn covers(&self, group: &str, plural: &str) -> bool {
        match self {
            Self::One {
                plural: one,
                group: of,
            } => one == plural && of == group,
            Self::Group(of) => of == group,
            Self::All => true,
        }
    }
}

/// A provider. An AES-GCM provider with several keys is several of these.
enum Provider {
    Identity,
    AesGcm {
        /// The prefix of its values.
        prefix: Vec<u8>,
        key: RandomizedNonceKey,
    },
}

impl std::fmt::Debug for Provider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Identity => f.write_str("Identity"),
            Self::AesGcm { prefix, .. } => write!(f, "AesGcm({})", String::from_utf8_lossy(prefix)),
        }
    }
}

impl Provider {
    /// A provider with a key of 16, 24 or 32 bytes.
    fn aes_gcm(name: &str, secret: &[u8]) -> Option<Self> {
        let algorithm = match secret.len() {
            16 => &AES_128_GCM,
            24 => &AES_192_GCM,
            32 => &AES_256_GCM,
            _ => return None,
        };
        Some(Self::AesGcm {
            prefix: [AES_GCM, name.as_bytes(), b":"].concat(),
            key: RandomizedNonceKey::new(algorithm, secret).ok()?,
        })
    }

    /// True if a value has the prefix of this provider.
    fn has_written(&self, stored: &[u8]) -> bool {
        match self {
            Self::Identity => !stored.starts_with(ENCRYPTED),
            Self::AesGcm { prefix, .. } => stored.starts_with(prefix),
        }
    }

    fn seal(&self, path: &str, value: &Bytes) -> Result<Bytes, TransformError> {
        let Self::AesGcm { prefix, key } = self else {
            return Ok(value.clone());
        };
        let mut sealed = value.to_vec();
        let nonce = key.seal_in_place_append_tag(Aad::from(path), &mut sealed);
        let nonce = nonce.map_err(|_| TransformError("the value could not be encrypted".to_owned()))?;
        Ok([&prefix[..], nonce.as_ref(), &sealed].concat().into())
    }

    fn open(&self, path: &str, stored: &Bytes) -> Result<Bytes, TransformError> {
        let Self::AesGcm { prefix, key } = self else {
            return Ok(stored.clone());
        };
        // Go's texts, as in kube-apiserver.
        let refused = || TransformError("cipher: message authentication failed".to_owned());
        let (nonce, sealed) = stored[prefix.len()..]
            .split_first_chunk::<NONCE_LEN>()
            .ok_or_else(|| TransformError("the stored data was shorter than the required size".to_owned()))?;
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = key.open_in_place(nonce, Aad::from(path), &mut sealed);
        opened
            .map(|value| Bytes::copy_from_slice(value))
            .map_err(|_| refused())
    }
}

/// Parses a configuration; the error describes the fault.
pub(crate) fn check_configuration(text: &[u8]) -> Result<(), String> {
    Encryption::parse(text).map(drop)
}

impl Encryption {
    fn new(rules: Vec<ResourceProviders>) -> Self {
        let rule_of = |group: &str, plural: &str| {
            let covers =
                |rule: &ResourceProviders| rule.resources.iter().any(|pattern| pattern.covers(group, plural));
            rules.iter().position(covers)
        };
        let mut builtin = HashMap::new();
        for version in KindVersion::all() {
            let resource = &version.resource;
            builtin
                .entry(version.prefix(""))
                .or_insert_with(|| rule_of(&resource.group, &resource.plural));
        }
        let secrets = rule_of("", builtin::SECRET.plural);
        Self {
            builtin,
            secrets,
            rules,
        }
    }

    /// The providers for a key; `None` if its value is stored as plain text.
    fn providers(&self, path: &str) -> Option<&[Provider]> {
        let rule = match identity::is_identity_key(path) {
            true => self.secrets,
            false => self.rule_at(path),
        };
        rule.map(|rule| &*self.rules[rule].providers)
    }

    fn rule_at(&self, path: &str) -> Option<usize> {
        let mut parts = path.strip_prefix(ROOT)?.split('/');
        let (first, second) = (parts.next()?, parts.next()?);
        // One segment, or two as in `services/specs`.
        let one = self.builtin.get(&format!("{ROOT}{first}/"));
        if let Some(rule) = one.or_else(|| self.builtin.get(&format!("{ROOT}{first}/{second}/"))) {
            return *rule;
        }
        // The group of a custom resource contains a dot; no other prefix does.
        let covers =
            |rule: &ResourceProviders| rule.resources.iter().any(|pattern| pattern.covers(first, second));
        self.rules.iter().position(covers).filter(|_| first.contains('.'))
    }
}

impl Transformer for Encryption {
    fn seal(&self, key: &str, value: &Bytes) -> Result<Bytes, TransformError> {
        match self.providers(key).and_then(<[_]>::first) {
            Some(provider) => provider.seal(key, value),
            None => Ok(value.clone()),
        }
    }

    fn open(&self, key: &str, stored: &Bytes) -> Result<Transformed, TransformError> {
        let refused = |why: &str| Err(TransformError(why.to_owned()));
        let Some(providers) = self.providers(key) else {
            if stored.starts_with(ENCRYPTED) {
                return refused("identity transformer tried to read encrypted data");
            }
            return Ok(Transformed {
                value: stored.clone(),
                is_stale: false,
            });
        };
        match providers.iter().position(|provider| provider.has_written(stored)) {
            Some(index) => Ok(Transformed {
                value: providers[index].open(key, stored)?,
                is_stale: index > 0,
            }),
            None if stored.starts_with(AES_GCM) => {
                refused("no matching key was found for the provided AES-GCM transformer")
            }
            None => refused("no matching prefix found"),
        }
    }
}
