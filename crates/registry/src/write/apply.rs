//! Server-side apply: merges a manager's configuration into the live object.

use futures_util::future::BoxFuture;
use serde_json::Value;
use watchkeeper_kinds::Part;
use watchkeeper_meta::{FieldValidation, Status, StatusCause};
use watchkeeper_patch::apply::{Applier, ApplyError};
use watchkeeper_patch::endpoint::Endpoint;
use watchkeeper_patch::last_applied;
use watchkeeper_patch::managed_fields::{Managers, empty_object};
use watchkeeper_wire::canonical::{Body, read_body};
use watchkeeper_wire::yaml::{self, YamlError};

use super::draft::{Managed, Proposal};
use super::{Write, Written};
use crate::context::WriteContext;
use crate::definition::Definition;
use crate::metadata;
use crate::object::Live;

impl Write<'_> {
    /// Applies the body of a request.
    pub(super) fn apply_body<'a>(&'a mut self, body: &'a [u8]) -> BoxFuture<'a, Result<Written, Status>> {
        Box::pin(async move {
            let config = read_configuration(body)?;
            check_configuration(&self.definition, &config.value)?;
            self.apply(config, self.context.force).await
        })
    }

    /// Applies a configuration to the object, or to one part of it.
    pub(crate) async fn apply(&mut self, config: Configuration<'_>, force: bool) -> Result<Written, Status> {
        let Configuration {
            value: mut config,
            untidy,
        } = config;
        let stated = (self.context.manager == last_applied::INHERITOR).then(|| config.clone());
        metadata::match_namespace(&self.definition, &mut config, self.namespace)?;
        if metadata::text(&config, "name").is_empty() {
            metadata::of(&mut config).insert("name".to_owned(), self.name.into());
        }
        let (definition, ledger) = (self.definition.clone(), self.ledger.clone());
        let (registry, context) = (self.registry, self.context);
        let (name, part) = (self.name, self.part);
        let (schema, root) = (&*definition.schema, definition.type_id);
        let now = registry.clock().now();
        let writer = self.context.writer(&definition, part.subresource(), now);
        let endpoint = Endpoint {
            reset: definition.reset_fields(part),
            versions: match &ledger {
                Some(ledger) => Some(&**ledger),
                None => definition.versions(),
            },
        };
        let applier = Applier {
            schema,
            root,
            endpoint: &endpoint,
            writer: &writer,
            force,
        };
        let reader = self.reader();
        let propose = |live: &Live| -> Result<Proposal, Status> {
            let applied = applier.apply(&live.value, live.managers.clone(), &config);
            let mut applied = applied.map_err(|error| refused(&definition, name, error))?;
            untidy.map_or(Ok(()), |body| check_duplicate_keys(body, context))?;
            let difference = match &stated {
                None => Some(applied.difference),
                Some(stated) => {
                    last_applied::refresh(&mut applied.object, stated);
                    None
                }
            };
            Ok(Proposal {
                object: reader.read(applied.object, live, difference, None)?,
                managed: Managed::By(applied.managers),
            })
        };
        let missing = !self.is_there().await?;
        if missing && part == Part::Object {
            if !metadata::text(&config, "uid").is_empty() {
                return Err(uid_of_missing_object(
                    &definition,
                    name,
                    metadata::text(&config, "uid"),
                ));
            }
            let nothing = Live {
                value: empty_object(schema, root),
                managers: Managers::new(),
            };
            let proposal = propose(&nothing)?;
            if let Some(written) = Written::as_new(self.create_proposed(proposal).await)? {
                return Ok(written);
            }
        }
        Ok(Written {
            object: self.change(propose).await?,
            created: false,
        })
    }
}

/// The body of an apply.
pub(crate) struct Configuration<'b> {
    /// Its value; the last of duplicate keys counts.
    pub(crate) value: Value,
    /// The body, if it is not JSON or has duplicate keys, which is rare.
    pub(crate) untidy: Option<&'b [u8]>,
}

/// Decodes the body of an apply.
pub(crate) fn read_configuration(patch: &[u8]) -> Result<Configuration<'_>, Status> {
    // Most clients send JSON, which is valid YAML and much faster to decode.
    if let Ok(Body { value, duplicates }) = read_body(patch) {
        let untidy = (!duplicates.is_empty()).then_some(patch);
        return Ok(Configuration { value, untidy });
    }
    let document = yaml::first_document(patch, yaml::Mode::Lenient);
    let bad = |error: YamlError| Status::bad_request(format!("error decoding patch: {}", to_json(&error)));
    Ok(Configuration {
        value: document.map_err(bad)?.value,
        untidy: Some(patch),
    })
}

/// Rejects duplicate keys, or warns of them. Decodes the body again, which is rare ([`Configuration::untidy`]).
fn check_duplicate_keys(patch: &[u8], context: &WriteContext) -> Result<(), Status> {
    if context.field_validation == FieldValidation::Ignore {
        return Ok(());
    }
    let Err(error) = yaml::first_document(patch, yaml::Mode::Strict) else {
        return Ok(());
    };
    if context.field_validation == FieldValidation::Strict {
        let text = format!("error strict decoding patch: {}", to_json(&error));
        return Err(Status::bad_request(text));
    }
    let strict_errors = error.to_go_string();
    let (_, lines) = strict_errors.split_once('\n').unwrap_or(("", &strict_errors));
    lines.lines().for_each(|line| context.warnings.add(line.trim()));
    Ok(())
}

/// Kubernetes' text for a YAML error.
fn to_json(error: &YamlError) -> String {
    format!("error converting YAML to JSON: {}", error.to_go_string())
}

/// Rejects configurations that cannot be applied to the kind.
fn check_configuration(definition: &Definition, config: &Value) -> Result<(), Status> {
    let is_other = text_of(config, "kind") != definition.resource.kind
        || text_of(config, "apiVersion") != definition.api_version;
    if !config.is_object() || is_other {
        return Err(other_kind(config));
    }
    if config
        .pointer("/metadata/managedFields")
        .is_some_and(|fields| !fields.is_null())
    {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    Ok(())
}

/// The error for a configuration of another kind.
pub(crate) fn other_kind(config: &Value) -> Status {
    let version = text_of(config, "apiVersion");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let kind = text_of(config, "kind");
    Status::bad_request(format!("invalid object type: {group}/{version}, Kind={kind}"))
}

fn text_of<'v>(config: &'v Value, field: &str) -> &'v str {
    config.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The error for a configuration that cannot be applied.
fn refused(definition: &Definition, name: &str, error: ApplyError) -> Status {
    match error {
        ApplyError::Conflicts(conflicts) => {
            let count = conflicts.entries().len();
            let noun = if count == 1 { "conflict" } else { "conflicts" };
            let causes = conflicts.entries().iter().map(|conflict| StatusCause {
                reason: "FieldManagerConflict".into(),
                message: conflict.message(),
                field: conflict.field.clone(),
            });
            let text = format!("Apply failed with {count} {noun}: {conflicts}");
            Status::apply_conflict(text, causes.collect())
        }
        ApplyError::Configuration(error) => {
            let kind = definition.resource.group_version_kind();
            let text = format!("failed to create typed patch object (/{name}; {kind}): {error}");
            Status::unclassified(text)
        }
    }
}

fn uid_of_missing_object(definition: &Definition, name: &str, uid: &str) -> Status {
    let why =
        format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
    Status::conflict(&definition.group_resource(), name, why)
}
