//! Creating an object: everything from the body to the store, in order.

use std::sync::Arc;

use serde_json::{Value, json};
use watchkeeper_kinds::{Generation, Part, builtin};
use watchkeeper_meta::{FieldErrors, Resource, Status};
use watchkeeper_patch::endpoint::Endpoint;
use watchkeeper_patch::managed_fields::{Managers, Writer, empty_object};
use watchkeeper_storage::{Revision, WriteError};
use watchkeeper_wire::canonical::canonicalize_changed;
use watchkeeper_wire::difference::Difference;
use watchkeeper_wire::schema::{Schema, TypeId};

use crate::body::Body;
use crate::custom::writing::Writing;
use crate::definition::Definition;
use crate::metadata::Repeated;
use crate::object::StoredObject;
use crate::write::{WriteContext, accept, not_stored, timestamp};
use crate::{Registry, allocate, metadata, names};

impl Registry {
    /// Creates an object.
    pub async fn create(
        &self,
        definition: &Arc<Definition>,
        namespace: &str,
        body: Body<'_>,
        context: &WriteContext,
    ) -> Result<StoredObject, Status> {
        let (definition, mut writing) = self.begin_write(definition).await?;
        let object = body.read(&definition, context)?;
        let created = self
            .create_object(&mut writing, &definition, namespace, object, context)
            .await?;
        writing.end().await?;
        Ok(created)
    }

    /// Creates an object that has been read.
    pub(crate) async fn create_object(
        &self,
        writing: &mut Writing<'_>,
        definition: &Arc<Definition>,
        namespace: &str,
        mut object: Value,
        context: &WriteContext,
    ) -> Result<StoredObject, Status> {
        metadata::match_namespace(definition, &mut object, namespace)?;
        metadata::drop_system_fields(&mut object);
        metadata::drop_repeated_owners(&mut object, Repeated::InRequest, &context.warnings);
        let now = timestamp(self.clock().now());
        definition.default(&mut object, &Difference::Everywhere, &now);
        let given = metadata::take_managed_fields(&mut object);
        let managers = self.record_create(definition, &mut object, given.as_ref(), context);
        self.store_new(writing, definition, namespace, object, managers, context)
            .await
    }

    /// Lays the fields of an object that is answered and not kept to its writer, as is done for those that are.
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
            managers_of_new(schema, root, object, given.as_ref(), &writer).write_to(object);
        }
    }

    /// Lays the new object's fields to its writer, as far as they are kept.
    fn record_create(
        &self,
        definition: &Definition,
        object: &mut Value,
        given: Option<&Value>,
        context: &WriteContext,
    ) -> Managers {
        let writer = context.writer(definition, "", self.clock().now());
        let unmanaged = definition.unmanaged_fields();
        let set_aside = unmanaged
            .iter()
            .filter_map(|name| object.as_object_mut()?.remove_entry(*name));
        let set_aside: Vec<(String, Value)> = set_aside.collect();
        let managers = managers_of_new(&definition.schema, definition.type_id, object, given, &writer);
        if let Some(fields) = object.as_object_mut() {
            fields.extend(set_aside);
        }
        managers
    }

    /// Admits, completes, checks and stores a new object whose managers are known.
    pub(crate) async fn store_new(
        &self,
        writing: &mut Writing<'_>,
        definition: &Arc<Definition>,
        namespace: &str,
        mut object: Value,
        mut managers: Managers,
        context: &WriteContext,
    ) -> Result<StoredObject, Status> {
        self.check_kind_stays(definition, &object)?;
        self.admit_create(definition, namespace, &mut object, context)
            .await?;
        if self.may_call_webhooks(definition, context) {
            // In a box, as below: no other write makes room for it.
            let mutated = self.mutate_new(
                writing,
                definition,
                namespace,
                &mut object,
                &mut managers,
                context,
            );
            Box::pin(mutated).await?;
        }
        if definition.is(&builtin::SERVICE) {
            writing.begin_allocation(definition).await;
            self.allocate_service(definition, &mut object, None).await?;
        }
        let prefix = metadata::begin(&mut object, &timestamp(self.clock().now()));
        if definition.kind.generation != Generation::None && !definition.kind.generation_begins_with_change {
            metadata::of(&mut object).insert("generation".to_owned(), json!(1));
        }
        definition.prepare_for_create(&mut object);
        if let Some(conversion) = definition.conversion {
            conversion.keep(Part::Object, &mut object, &Value::Null);
        }
        object = recanonicalized(definition, object)?;
        let mut faults = self.faults(definition, &object);
        faults.append(metadata::manager_faults(&managers));
        accept(definition, &object, &faults)?;
        self.check_right_to_create(definition, &object, context).await?;
        self.judge_new(writing, definition, namespace, (&object, &managers), context)
            .await?;
        self.charge(definition, None, &object, context).await?;
        definition.warn(&object, None, &context.warnings);
        if !context.dry_run && stated_version(&object).is_some() {
            let text = "resourceVersion should not be set on objects to be created";
            return Err(Status::unclassified(text));
        }
        for _ in 0..names::MAX_TRIES {
            let attempt = self.try_create(definition, namespace, &object, &managers, context);
            let created = allocate::store(&mut writing.allocating, attempt, Status::is_timeout).await?;
            match (created, &prefix) {
                (Created::Stored(stored), _) => return Ok(stored),
                (Created::Taken, Some(prefix)) => {
                    metadata::of(&mut object).insert("name".to_owned(), json!(names::generate(prefix)));
                    // Whoever judges it sees the name that it gets. In a box: hardly any name is taken.
                    let state = (&object, &managers);
                    Box::pin(self.judge_new(writing, definition, namespace, state, context)).await?;
                }
                (Created::Taken, None) => break,
            }
        }
        let name = metadata::text(&object, "name");
        if prefix.is_some() {
            return Err(Status::generate_name_conflict(
                &definition.group_resource(),
                name,
                1,
            ));
        }
        Err(self.taken(definition, namespace, name).await?)
    }

    /// Lets everybody judge a new object that is in order. If that took others' time, what was true before is looked at
    /// again.
    async fn judge_new(
        &self,
        writing: &mut Writing<'_>,
        definition: &Arc<Definition>,
        namespace: &str,
        (object, managers): (&Value, &Managers),
        context: &WriteContext,
    ) -> Result<(), Status> {
        self.admit_created(definition, namespace, object, context).await?;
        if self.may_call_webhooks(definition, context) {
            let asked = self.ask_about_new(writing, definition, (object, managers), context);
            if Box::pin(asked).await? {
                self.confirm_allocation(writing, definition, object, None).await?;
            }
        }
        if writing.has_let_go() && definition.is_namespaced() {
            self.check_namespace(definition, namespace, metadata::text(object, "name"))
                .await?;
        }
        Ok(())
    }

    /// What is wrong with an object in the form in which the server prints it, were it created.
    pub fn faults(&self, definition: &Definition, object: &Value) -> FieldErrors {
        let mut faults = metadata::faults(definition, object);
        faults.append(definition.faults(object));
        faults.append(self.policy_faults(definition, object));
        faults
    }

    async fn try_create(
        &self,
        definition: &Definition,
        namespace: &str,
        object: &Value,
        managers: &Managers,
        context: &WriteContext,
    ) -> Result<Created, Status> {
        let key = definition.key(namespace, metadata::text(object, "name"));
        let bytes = StoredObject::encode(definition, object, managers)?;
        if context.dry_run {
            let found = self
                .store()
                .get(&key, None)
                .await
                .map_err(Status::internal_error)?;
            return Ok(match found {
                Some(_) => Created::Taken,
                None => Created::Stored(StoredObject {
                    bytes,
                    revision: stated_version(object),
                }),
            });
        }
        match self
            .store()
            .create(&key, bytes.clone(), definition.kind.ttl)
            .await
        {
            Ok(revision) => Ok(Created::Stored(StoredObject {
                bytes,
                revision: Some(revision),
            })),
            Err(WriteError::Conflict { .. }) => Ok(Created::Taken),
            Err(error) => Err(not_stored(error)),
        }
    }

    /// What a client hears whose name is taken.
    async fn taken(&self, definition: &Definition, namespace: &str, name: &str) -> Result<Status, Status> {
        let resource = definition.group_resource();
        let found = self.find(definition, namespace, name).await?;
        let deleting = match found {
            Some(found) => found.header(definition)?.deletion_timestamp.is_some(),
            None => false,
        };
        Ok(if deleting {
            Status::being_deleted(&resource, name)
        } else {
            Status::already_exists(&resource, name)
        })
    }
}

/// The version a client gives to a new object. The store refuses it, as in Kubernetes; a dry run, which does not ask the
/// store, shows it.
fn stated_version(object: &Value) -> Option<Revision> {
    let number = metadata::text(object, "resourceVersion").parse().ok();
    number.filter(|number| *number > 0).map(Revision::new)
}

/// Who has set the fields of a new object: its writer, besides those whom the client has given.
fn managers_of_new(
    schema: &Schema,
    root: TypeId,
    object: &Value,
    given: Option<&Value>,
    writer: &Writer<'_>,
) -> Managers {
    let empty = empty_object(schema, root);
    let mut managers = Managers::new();
    if let Some(given) = given {
        managers = managers.replaced_by(given);
    }
    let states = (&empty, object, &Difference::between(&empty, object));
    managers.record_update(schema, root, states, &Endpoint::default(), writer);
    managers
}

enum Created {
    Stored(StoredObject),
    Taken,
}

/// The object in the server's own form again, after hooks have worked on it.
pub(crate) fn recanonicalized(definition: &Definition, object: Value) -> Result<Value, Status> {
    recanonicalized_changed(definition, object, &Difference::Everywhere)
}

/// As [`recanonicalized`], for an object that differs in this from one in that form.
pub(crate) fn recanonicalized_changed(
    definition: &Definition,
    object: Value,
    difference: &Difference,
) -> Result<Value, Status> {
    let read = canonicalize_changed(&definition.schema, definition.type_id, object, difference)
        .map_err(Status::internal_error)?;
    let mut value = read.value;
    value["apiVersion"] = definition.api_version.as_str().into();
    value["kind"] = definition.resource.kind.as_ref().into();
    Ok(value)
}
