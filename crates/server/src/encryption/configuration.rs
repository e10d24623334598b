//! Reads an `EncryptionConfiguration` file, YAML or JSON; errors name the field.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::Value;
use watchkeeper_wire::yaml::{self, Mode};

use super::{Encryption, Pattern, Provider, ResourceProviders};

const API_VERSION: &str = "apiserver.config.k8s.io/v1";
const KIND: &str = "EncryptionConfiguration";

/// The reason an encryption configuration is rejected.
#[derive(Debug, thiserror::Error)]
pub enum EncryptionError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The file is invalid.
    #[error("{}: {why}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The field and its error. Never a key.
        why: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    api_version: String,
    kind: String,
    #[serde(default)]
    resources: Vec<Resources>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Resources {
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    providers: Vec<serde_json::Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    #[serde(default)]
    keys: Vec<Key>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Key {
    #[serde(default)]
    name: String,
    #[serde(default)]
    secret: String,
}

impl Encryption {
    /// Reads a configuration from a file.
    pub(crate) fn read(path: &Path) -> Result<Self, EncryptionError> {
        let text = std::fs::read(path).map_err(|source| EncryptionError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text).map_err(|why| EncryptionError::Invalid {
            path: path.to_owned(),
            why,
        })
    }

    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        // Its errors show no values, which could be keys.
        let document = yaml::first_document(text, Mode::Strict).map_err(|error| error.to_string())?;
        let document: Document = serde_json::from_value(document.value).map_err(|error| error.to_string())?;
        if (document.api_version.as_str(), document.kind.as_str()) != (API_VERSION, KIND) {
            return Err(format!("it must be a {KIND} of {API_VERSION}"));
        }
        if document.resources.is_empty() {
            return Err("resources: Required value: at least one resource is needed".to_owned());
        }
        let rules = document.resources.iter().enumerate();
        let rules = rules.map(|(index, resources)| rule(&format!("resources[{index}]"), resources));
        Ok(Self::new(rules.collect::<Result<_, _>>()?))
    }
}

fn rule(path: &str, resources: &Resources) -> Result<ResourceProviders, String> {
    if resources.resources.is_empty() {
        return Err(format!("{path}.resources: Required value"));
    }
    if resources.providers.is_empty() {
        return Err(format!("{path}.providers: Required value"));
    }
    let mut patterns: Vec<Pattern> = Vec::new();
    for (index, name) in resources.resources.iter().enumerate() {
        let refused = |why: &str| format!("{path}.resources[{index}]: Invalid value: {name:?}: {why}");
        let pattern = pattern(name).map_err(&refused)?;
        if patterns.iter().any(|other| overlap(other, &pattern)) {
            return Err(refused("it overlaps another resource of the same list"));
        }
        patterns.push(pattern);
    }
    let mut providers = Vec::new();
    for (index, named) in resources.providers.iter().enumerate() {
        provider(&format!("{path}.providers[{index}]"), named, &mut providers)?;
    }
    Ok(ResourceProviders {
        resources: patterns,
        providers,
    })
}

fn pattern(name: &str) -> Result<Pattern, &'static str> {
    if name.is_empty() || name.to_lowercase() != name {
        return Err("resource names are lower case, and not empty");
    }
    match name.split_once('.') {
        None if name.contains('*') => {
            Err("use '*.' for all resources of the core group, or '*.*' for all resources")
        }
        Some(("*", "*")) => Ok(Pattern::All),
        Some(("*", group)) if !group.contains('*') => Ok(Pattern::Group(group.to_owned())),
        Some(_) if name.contains('*') => Err("wildcards are '*.', '*.<group>' and '*.*'"),
        None => Ok(Pattern::One {
            plural: name.to_owned(),
            group: String::new(),
        }),
        Some((plural, group)) => Ok(Pattern::One {
            plural: plural.to_owned(),
            group: group.to_owned(),
        }),
    }
}

/// True if one of two patterns would hide the other.
fn overlap(one: &Pattern, other: &Pattern) -> bool {
    let group = |pattern: &Pattern| match pattern {
        Pattern::One { group, .. } | Pattern::Group(group) => Some(group.clone()),
        Pattern::All => None,
    };
    match (one, other) {
        (Pattern::All, _) | (_, Pattern::All) => true,
        (Pattern::One { .. }, Pattern::One { .. }) => one == other,
        _ => group(one) == group(other),
    }
}

/// Adds the providers of an entry: one for each AES-GCM key.
fn provider(
    path: &str,
    named: &serde_json::Map<String, Value>,
    providers: &mut Vec<Provider>,
) -> Result<(), String> {
    let mut names = named.iter();
    let (Some((name, value)), None) = (names.next(), names.next()) else {
        return Err(format!(
            "{path}: Invalid value: exactly one provider must be named"
        ));
    };
    match name.as_str() {
        "identity" => providers.push(Provider::Identity),
        "aesgcm" => aes_gcm(&format!("{path}.aesgcm"), value, providers)?,
        "aescbc" | "secretbox" | "kms" => {
            return Err(format!(
                "{path}.{name}: Unsupported value: this server has aesgcm and identity"
            ));
        }
        _ => {
            return Err(format!(
                "{path}: Unsupported value: {name:?}: supported values: \"aesgcm\", \"identity\""
            ));
        }
    }
    Ok(())
}

fn aes_gcm(path: &str, value: &Value, providers: &mut Vec<Provider>) -> Result<(), String> {
    let Keys { keys } = serde_json::from_value(value.clone())
        .map_err(|_| format!("{path}: Invalid value: must have keys, each with a name and a secret"))?;
    if keys.is_empty() {
        return Err(format!("{path}.keys: Required value"));
    }
    let mut names = HashSet::new();
    for (index, key) in keys.iter().enumerate() {
        let path = format!("{path}.keys[{index}]");
        if key.name.is_empty() || key.name.contains(':') {
            return Err(format!(
                "{path}.name: Invalid value: must be a name without colons"
            ));
        }
        if !names.insert(&key.name) {
            return Err(format!("{path}.name: Duplicate value: {:?}", key.name));
        }
        let secret = BASE64_STANDARD.decode(&key.secret).map_err(|_| {
            format!("{path}.secret: Invalid value: \"REDACTED\": secret must be base64 encoded")
        })?;
        providers.push(Provider::aes_gcm(&key.name, &secret).ok_or_else(|| {
            let length = secret.len();
            format!(
                "{path}.secret: Invalid value: \"REDACTED\": secret is not of the expected length, got {length}, \
                 expected one of [16 24 32]"
            )
        })?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use watchkeeper_storage::Transformer as _;

    use super::*;

    const SECRET: &str = "/registry/secrets/default/a";

    fn key(name: &str, letter: char) -> String {
        let secret = BASE64_STANDARD.encode(letter.to_string().repeat(32));
        format!("{{name: {name}, secret: {secret}}}")
    }

    fn configuration(resources: &str, providers: &str) -> Result<Encryption, String> {
        let text = format!(
            "{{apiVersion: {API_VERSION}, kind: {KIND}, resources: [{{resources: [{resources}], providers: [{providers}]}}]}}"
        );
        Encryption::parse(text.as_bytes())
    }

    #[test]
    fn resources_are_covered_by_their_own_patterns() {
        let check = |resources: &str, path: &str, expected: bool| {
            let providers = format!("{{aesgcm: {{keys: [{}]}}}}", key("a", 'a'));
            let encryption = configuration(resources, &providers).unwrap();
            let stored = encryption.seal(path, &"value".into()).unwrap();
            let is_encrypted = stored.starts_with(b"k8s:enc:aesgcm:v1:a:");
            assert_eq!(is_encrypted, expected, "{resources} of {path}");
            assert_eq!(encryption.open(path, &stored).unwrap().value, "value");
        };
        check("secrets", SECRET, true);
        check("secrets", "/registry/configmaps/default/a", false);
        check("secrets", "/registry/watchkeeper/identity/v1/admin-token", true);
        check("secrets", "/registry/watchkeeper/service-account-key", true);
        check("secrets", "/registry/watchkeeper/claims/x", false);
        check("services", "/registry/services/specs/default/a", true);
        check("services", "/registry/services/endpoints/default/a", false);
        check("deployments.apps", "/registry/deployments/default/a", true);
        check("'*.apps'", "/registry/deployments/default/a", true);
        check("'*.apps'", SECRET, false);
        check("'*.'", SECRET, true);
        check("'*.'", "/registry/deployments/default/a", false);
        check("'*.*'", "/registry/deployments/default/a", true);
        check(
            "pandas.bears.example",
            "/registry/bears.example/pandas/default/a",
            true,
        );
        check(
            "'*.bears.example'",
            "/registry/bears.example/pandas/default/a",
            true,
        );
        check("'*.*'", "/registry/bears.example/pandas/default/a", true);
        check(
            "pandas.bears.example",
            "/registry/bears.example/polars/default/a",
            false,
        );
    }

    #[test]
    fn the_first_key_writes_and_all_read() {
        let with = |keys: &[String]| {
            let providers = format!("{{aesgcm: {{keys: [{}]}}}}, {{identity: {{}}}}", keys.join(", "));
            configuration("secrets", &providers).unwrap()
        };
        let (old, new) = (key("old", 'a'), key("new", 'b'));
        let before = with(std::slice::from_ref(&old));
        let stored = before.seal(SECRET, &"value".into()).unwrap();
        assert_ne!(
            stored,
            before.seal(SECRET, &"value".into()).unwrap(),
            "nonces are random"
        );
        let read = |encryption: &Encryption, path: &str, stored: &Bytes| {
            let read = encryption.open(path, stored);
            read.map(|read| (read.value, read.is_stale))
                .map_err(|error| error.0)
        };
        assert_eq!(read(&before, SECRET, &stored), Ok(("value".into(), false)));
        let during = with(&[new.clone(), old]);
        assert_eq!(read(&during, SECRET, &stored), Ok(("value".into(), true)));
        assert_eq!(read(&during, SECRET, &"value".into()), Ok(("value".into(), true)));
        let stored_anew = during.seal(SECRET, &"value".into()).unwrap();
        let after = with(&[new]);
        assert_eq!(read(&after, SECRET, &stored_anew), Ok(("value".into(), false)));

        let refused =
            |encryption: &Encryption, path: &str, stored: &Bytes| read(encryption, path, stored).unwrap_err();
        assert_eq!(
            refused(&after, SECRET, &stored),
            "no matching key was found for the provided AES-GCM transformer"
        );
        let failed = "cipher: message authentication failed";
        assert_eq!(
            refused(&before, "/registry/secrets/default/b", &stored),
            failed,
            "it is bound to its key"
        );
        for index in 0..stored.len() {
            let mut bad = stored.to_vec();
            bad[index] ^= 1;
            let result = read(&before, SECRET, &bad.into());
            // A damaged prefix makes it a value that is not encrypted.
            assert!(result.is_err() || index < 8, "byte {index}");
        }
        let short = stored.slice(..b"k8s:enc:aesgcm:v1:old:".len() + 5);
        assert_eq!(
            refused(&before, SECRET, &short),
            "the stored data was shorter than the required size"
        );
    }

    #[test]
    fn invalid_configurations_are_rejected_by_field() {
        let check = |resources: &str, providers: &str, expected: &str| {
            let error = configuration(resources, providers).unwrap_err();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("c2VjcmV0"), "{error}");
        };
        let good = format!("{{aesgcm: {{keys: [{}]}}}}", key("a", 'a'));
        check("", &good, "resources[0].resources: Required value");
        check("secrets", "", "resources[0].providers: Required value");
        check("'*'", &good, "use '*.' for all resources of the core group");
        check(
            "secrets, '*.'",
            &good,
            "resources[0].resources[1]: Invalid value: \"*.\": it overlaps",
        );
        check("secrets, secrets", &good, "it overlaps");
        check("Secrets", &good, "lower case");
        check(
            "secrets",
            "{aescbc: {keys: []}}",
            "providers[0].aescbc: Unsupported value",
        );
        check(
            "secrets",
            "{secretbox: {keys: []}}",
            "providers[0].secretbox: Unsupported value",
        );
        check("secrets", "{rot13: {}}", "Unsupported value: \"rot13\"");
        check(
            "secrets",
            "{identity: {}, aesgcm: {keys: []}}",
            "exactly one provider",
        );
        check(
            "secrets",
            "{aesgcm: {keys: []}}",
            "providers[0].aesgcm.keys: Required value",
        );
        let short = "{aesgcm: {keys: [{name: a, secret: c2VjcmV0}]}}";
        check(
            "secrets",
            short,
            "keys[0].secret: Invalid value: \"REDACTED\": secret is not of the expected length, got 6",
        );
        let text = "{aesgcm: {keys: [{name: a, secret: '!c2VjcmV0'}]}}";
        check("secrets", text, "must be base64 encoded");
        let twice = format!("{{aesgcm: {{keys: [{}, {}]}}}}", key("a", 'a'), key("a", 'b'));
        check("secrets", &twice, "keys[1].name: Duplicate value: \"a\"");
        assert!(Encryption::parse(b"{apiVersion: v1, kind: Secret}").is_err());
    }
}
