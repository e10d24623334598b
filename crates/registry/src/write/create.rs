//! Create: completes the body and stores it if the name is free.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use watchkeeper_kinds::{Part, names};
use watchkeeper_meta::{FieldErrors, Resource, Status};
use watchkeeper_patch::endpoint::Endpoint;
use watchkeeper_patch::managed_fields::{Managers, Writer, empty_object};
use watchkeeper_storage::{ReadAt, Revision, WriteError};
use watchkeeper_wire::difference::Difference;
use watchkeeper_wire::schema::{Schema, TypeId};

use super::draft::{Draft, Managed, Proposal};
use super::{Target, Write};
use crate::body::Body;
use crate::context::{WriteContext, not_stored, timestamp};
use crate::definition::Definition;
use crate::metadata::Repeated;
use crate::object::StoredObject;
use crate::{Registry, allocate, metadata};

impl Registry {
    /// Creates an object.
    pub fn create<'a>(
        &'a self,
        definition: &'a Arc<Definition>,
        namespace: &'a str,
        body: Body<'a>,
        context: &'a WriteContext,
    ) -> BoxFuture<'a, Result<StoredObject, Status>> {
        Box::pin(async move {
            let target = Target::new(definition, namespace, "", Part::Object);
            let mut write = Write::begin(self, target, context).await?;
            let object = body.read(&write.definition, context)?;
            let created = write.create(object).await?;
            write.end().await?;
            Ok(created)
        })
    }

    /// Records managed fields on an object that is returned but not stored, as on a stored object.
    pub fn record_unstored(&self, resource: &Resource, object: &mut Value, manager: &str) {
        let schema = Schema::builtin();
        let api_version = resource.group_version_kind().api_version();
        if let Some(root) = schema.kind(&api_version, &resource.kind) {
            let writer = Writer {
                manager,
                api_version: &api_version,
                subresource: "",
                time: Some(self.clock().now()),
            };
            let given = metadata::take_managed_fields(object);
            let given = given.map(|given| Managers::new().replaced_by(&given));
            managers_of_new(schema, root, object, given.unwrap_or_default(), &writer).write_to(object);
        }
    }

    /// The validation errors of an object in canonical form, if it were created.
    pub fn errors(&self, definition: &Definition, object: &Value) -> FieldErrors {
        let mut errors = metadata::errors(definition, object);
        errors.append(definition.errors(object));
        errors.append(self.policy_errors(definition, object));
        errors
    }
}

impl Write<'_> {
    /// Creates a decoded object.
    pub(crate) async fn create(&mut self, mut object: Value) -> Result<StoredObject, Status> {
        metadata::match_namespace(&self.definition, &mut object, self.namespace)?;
        metadata::drop_system_fields(&mut object);
        metadata::drop_repeated_owners(&mut object, Repeated::InRequest, &self.context.warnings);
        let now = timestamp(self.registry.clock().now());
        self.definition
            .default(&mut object, &Difference::Everywhere, &now)
            .map_err(Status::request_entity_too_large)?;
        let proposal = Proposal {
            object,
            managed: Managed::ByChange,
        };
        self.create_proposed(proposal).await
    }

    /// Creates an object of the server itself, without validation: the server may listen on a loopback address, which
    /// clients may not put into Endpoints.
    pub(crate) async fn create_unchecked(&mut self, mut object: Value) -> Result<(), Status> {
        metadata::match_namespace(&self.definition, &mut object, self.namespace)?;
        let now = timestamp(self.registry.clock().now());
        self.definition
            .default(&mut object, &Difference::Everywhere, &now)
            .map_err(Status::request_entity_too_large)?;
        let managed = Managed::ByChange;
        let mut draft = self.draft(None, Proposal { object, managed });
        self.record_managers_in_versions(&mut draft).await?;
        self.prepare(&mut draft);
        self.canonicalize(&mut draft)?;
        // If it exists, another server that shares the store created it.
        self.store_new(&draft).await.map(drop)
    }

    /// Completes and stores a new object.
    pub(super) fn create_proposed<'a>(
        &'a mut self,
        proposal: Proposal,
    ) -> BoxFuture<'a, Result<StoredObject, Status>> {
        Box::pin(async move {
            let mut draft = self.complete(None, proposal).await?;
            if !self.context.dry_run && stated_version(&draft.object).is_some() {
                let text = "resourceVersion should not be set on objects to be created";
                return Err(Status::unclassified(text));
            }
            for _ in 0..names::MAX_TRIES {
                match self.store_new(&draft).await? {
                    Created::Stored(stored) => {
                        self.follow(None, Some(&draft.object)).await;
                        return self.served(&stored).await;
                    }
                    Created::Taken => {}
                }
                let Some(prefix) = &draft.name_prefix else { break };
                metadata::of(&mut draft.object).insert("name".to_owned(), json!(names::generate(prefix)));
                // Policies and webhooks see the final name. Boxed: a generated name is rarely taken.
                self.admit_valid(&draft).await?;
            }
            let name = metadata::text(&draft.object, "name");
            if draft.name_prefix.is_some() {
                return Err(Status::generate_name_conflict(
                    &self.definition.group_resource(),
                    name,
                    1,
                ));
            }
            Err(self.taken(name).await?)
        })
    }

    async fn store_new(&mut self, draft: &Draft<'_>) -> Result<Created, Status> {
        let (registry, context) = (self.registry, self.context);
        let bytes = self.encoded(&draft.object, &draft.managers).await?;
        let (definition, object) = (&self.definition, &draft.object);
        let key = definition.key(self.namespace, metadata::text(object, "name"));
        let attempt = async {
            if context.dry_run {
                let found = registry.store().get(&key, None).await;
                return Ok(match found.map_err(Status::internal_error)? {
                    Some(_) => Created::Taken,
                    None => Created::Stored(StoredObject {
                        bytes,
                        revision: stated_version(object),
                    }),
                });
            }
            let create = registry.store().create(&key, bytes.clone(), definition.kind.ttl);
            match registry.durations().store("create", definition, create).await {
                Ok(revision) => Ok(Created::Stored(StoredObject {
                    bytes,
                    revision: Some(revision),
                })),
                Err(WriteError::Conflict { .. }) => Ok(Created::Taken),
                Err(error) => Err(not_stored(error)),
            }
        };
        allocate::store(&mut self.guard.allocating, attempt, Status::is_timeout).await
    }

    /// The error for a taken name.
    fn taken<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Status, Status>> {
        Box::pin(async move {
            let (definition, resource) = (&self.definition, self.definition.group_resource());
            let found = self
                .registry
                .find_stored(definition, self.namespace, name, ReadAt::Latest)
                .await?;
            let deleting = match found {
                Some(found) => found.header(definition)?.deletion_timestamp.is_some(),
                None => false,
            };
            Ok(match deleting {
                true => Status::being_deleted(&resource, name),
                false => Status::already_exists(&resource, name),
            })
        })
    }
}

/// The version a client sets on a new object. The store rejects it, as in Kubernetes; a dry run, which does not reach
/// the store, returns it.
fn stated_version(object: &Value) -> Option<Revision> {
    let number = metadata::text(object, "resourceVersion").parse().ok();
    number.filter(|number| *number > 0).map(Revision::new)
}

/// The managers of a new object: its writer, and those in the request.
pub(super) fn managers_of_new(
    schema: &Schema,
    root: TypeId,
    object: &Value,
    mut managers: Managers,
    writer: &Writer<'_>,
) -> Managers {
    let empty = empty_object(schema, root);
    let states = (&empty, object, &Difference::between(&empty, object));
    managers.record_update(schema, root, states, &Endpoint::default(), writer);
    managers
}

enum Created {
    Stored(StoredObject),
    Taken,
}
