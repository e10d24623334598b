//! The typed client: the dynamic client with decoding into Rust structs.

mod identity;
mod list;
mod parts;
mod stream;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use watchkeeper_meta::{
    ApplyOptions, CreateOptions, DeleteOptions, GetOptions, Header, ListOptions, ObjectKey, PatchKind,
    PatchOptions, Payload, Resource, UpdateOptions, WatchOptions,
};
use watchkeeper_wire::schema::Schema;
use watchkeeper_wire::{Encoding, Object, json, protobuf};

use crate::call::Call;
use crate::client::Client;
use crate::dynamic::{DynamicApi, ObjectOrStatus, found};
use crate::error::{Error, ErrorKind};
use crate::pager::Pager;
use crate::watch::WatchStream;
pub use identity::{Identity, Owner};
pub use list::{List, ListIntoIter, ListIter};
pub use stream::TypedStream;

/// A struct that represents a kind: it has a resource, and (de)serializes as its JSON form.
///
/// With the feature `k8s-openapi` every kind of that crate implements it, with `kube` also those derived with
/// `kube::CustomResource`. Implement it for your own kinds with `#[derive(Resource)]` of `watchkeeper-custom`, which
/// also generates their schema, or by hand. A struct need not have `apiVersion` and `kind`: they are added when it is
/// written.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use watchkeeper_client::ResourceType;
/// use watchkeeper_meta::Resource;
///
/// #[derive(Serialize, Deserialize)]
/// struct Widget {
///     metadata: serde_json::Value,
///     spec: serde_json::Value,
/// }
///
/// impl ResourceType for Widget {
///     fn resource() -> Resource {
///         Resource::namespaced("acme.example", "v1", "Widget", "widgets")
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not known as a Kubernetes kind",
    label = "not a `ResourceType`",
    note = "kinds of k8s-openapi need the feature `k8s-openapi`, those of kube the feature `kube`",
    note = "a kind of your own is the struct that `#[derive(Resource)]` makes of its spec"
)]
pub trait ResourceType: DeserializeOwned + Serialize + Send + Sync + 'static {
    /// Group, version, kind, plural name and scope.
    fn resource() -> Resource;

    /// The identity of the object. By default the object is serialized and its metadata read from the JSON.
    fn identity(&self) -> Identity {
        Identity::written(self)
    }

    /// The object's namespace and name.
    fn key(&self) -> ObjectKey {
        self.identity().key()
    }

    /// The entry in `ownerReferences` that makes this object the controller of another, which is then deleted with
    /// it.
    ///
    /// ```
    /// # use serde_json::json;
    /// # use watchkeeper_client::ResourceType;
    /// # fn example<Website: ResourceType>(site: Website) {
    /// let page = json!({"metadata": {"name": "page", "ownerReferences": [site.owner_reference()]}});
    /// # }
    /// ```
    fn owner_reference(&self) -> Owner {
        Owner::controlling(Self::resource(), self.identity())
    }
}

/// The typed client of one kind.
pub struct Api<K> {
    objects: DynamicApi,
    bodies: Encoding,
    kind: PhantomData<fn() -> K>,
}

impl Client {
    /// The client of a Rust type, in all namespaces.
    ///
    /// ```no_run
    /// # use watchkeeper_client::{Client, ResourceType, Error};
    /// # async fn example<Pod: ResourceType>(client: Client) -> Result<(), Error> {
    /// for pod in &client.api::<Pod>().namespace("default").list().await? {
    ///     let pod: Pod = pod?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn api<K: ResourceType>(&self) -> Api<K> {
        Api {
            objects: self.dynamic(K::resource()),
            bodies: Encoding::Json,
            kind: PhantomData,
        }
    }

    /// The client of any resource, with undecoded objects.
    pub fn dynamic(&self, resource: Resource) -> DynamicApi {
        DynamicApi::new(self.clone(), resource)
    }

    /// The client of any resource that reads only metadata.
    pub fn metadata(&self, resource: Resource) -> DynamicApi {
        self.dynamic(resource).metadata_only()
    }
}

/// Selecting objects; see [`DynamicApi`].
impl<K: ResourceType> Api<K> {
    /// The objects of one namespace.
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        Self {
            objects: self.objects.namespace(namespace),
            ..self
        }
    }

    /// The objects of the configured namespace.
    pub fn default_namespace(self) -> Self {
        Self {
            objects: self.objects.default_namespace(),
            ..self
        }
    }

    /// The objects of all namespaces.
    pub fn all_namespaces(self) -> Self {
        Self {
            objects: self.objects.all_namespaces(),
            ..self
        }
    }

    /// Sets the time limit of each request but watches.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self {
            objects: self.objects.timeout(timeout),
            ..self
        }
    }

    /// JSON even if the server has protobuf.
    pub fn json_only(self) -> Self {
        Self {
            objects: self.objects.json_only(),
            ..self
        }
    }

    /// Sends built-in kinds in protobuf on create and update, for servers that support it.
    ///
    /// Answers come in protobuf by default, because the server states their encoding. Bodies are sent as JSON by
    /// default, as in client-go: a field unknown to the schema here, because the struct is of a newer Kubernetes,
    /// would silently be dropped in protobuf, but is sent in JSON.
    pub fn protobuf_bodies(self) -> Self {
        Self {
            bodies: Encoding::Protobuf,
            ..self
        }
    }

    /// The `status` subresource.
    pub fn status(&self) -> Self {
        Self {
            objects: self.objects.clone().subresource("status"),
            ..self.clone()
        }
    }

    /// The same objects undecoded: for lists and watches that decode few of them, and for other subresources.
    pub fn objects(&self) -> &DynamicApi {
        &self.objects
    }
}

/// Requests. Each is sent when it is awaited, with the options given by [`Call::with`], if any.
impl<K: ResourceType> Api<K> {
    /// Reads one object.
    pub fn get<'a>(&'a self, name: &'a str) -> Call<'a, GetOptions, K> {
        self.decoded(Method::GET, name.into(), self.objects.get(name))
    }

    /// Like [`get`](Self::get); `None` if there is no such object.
    pub fn find<'a>(&'a self, name: &'a str) -> Call<'a, GetOptions, Option<K>> {
        self.get(name).then(found)
    }

    /// Lists all objects, or one page if `limit` is set. Objects are decoded while iterating.
    pub fn list(&self) -> Call<'_, ListOptions, List<K>> {
        self.objects.list_with_request().then(|listed| {
            let (list, asked) = listed?;
            Ok(List::new(list, asked))
        })
    }

    /// Like [`list`](Self::list), but each struct is available as soon as its bytes have arrived, and none is kept.
    ///
    /// ```no_run
    /// # use watchkeeper_client::{Client, Error, ResourceType};
    /// # async fn example<Pod: ResourceType>(client: Client) -> Result<(), Error> {
    /// let pods = client.api::<Pod>();
    /// let mut pods = pods.list_stream().await?;
    /// while let Some(pod) = pods.next().await {
    ///     let pod: Pod = pod?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_stream(&self) -> Call<'_, ListOptions, TypedStream<K>> {
        self.objects
            .list_stream()
            .then(|stream| Ok(TypedStream::new(stream?)))
    }

    /// Lists all objects in pages, as one stream; objects are decoded on demand. [`Pager::with`] takes options.
    pub fn pages(&self) -> Pager {
        self.objects.pages()
    }

    /// Watches the changes after the version in the options; without one, first the existing objects as added.
    /// Objects are decoded on demand.
    pub fn watch(&self) -> Call<'_, WatchOptions, WatchStream> {
        self.objects.watch()
    }

    /// Creates an object.
    pub fn create<'a>(&'a self, object: &K) -> Call<'a, CreateOptions, K> {
        let payload = self.encode(Method::POST, object);
        self.decoded(Method::POST, "".into(), self.objects.create_payload(payload))
    }

    /// Replaces an object; conflicts if it has changed since it was read.
    pub fn update<'a>(&'a self, object: &K) -> Call<'a, UpdateOptions, K> {
        let name = object.identity().name;
        let updated = self
            .objects
            .update_payload(name.clone().into(), self.encode(Method::PUT, object));
        self.decoded(Method::PUT, name.into(), updated)
    }

    /// Patches an object with a JSON value, or anything that serializes as one.
    pub fn patch<'a>(
        &'a self,
        name: &'a str,
        kind: PatchKind,
        patch: &impl Serialize,
    ) -> Call<'a, PatchOptions, K> {
        self.decoded(Method::PATCH, name.into(), self.objects.patch(name, kind, patch))
    }

    /// Applies `object` as this field manager (server-side apply), creating it if necessary. The manager owns all
    /// fields in it; fields of other managers stay.
    ///
    /// A struct states every required field. To apply fewer fields, use JSON with
    /// [`apply_configuration`](Self::apply_configuration).
    pub fn apply<'a>(&'a self, object: &K, manager: &'a str) -> Call<'a, ApplyOptions, K> {
        let name = object.identity().name;
        let payload = self.encode_json(Method::PATCH, object);
        let applied = self.objects.apply_payload(name.clone().into(), payload, manager);
        self.decoded(Method::PATCH, name.into(), applied)
    }

    /// Like [`apply`](Self::apply), from a configuration that states only some fields: a JSON value, or anything that
    /// serializes as one. It need not have `apiVersion`, `kind` and a name.
    ///
    /// ```no_run
    /// # use serde_json::json;
    /// # use watchkeeper_client::{Client, Error, ResourceType};
    /// # async fn example<Service: ResourceType>(client: Client) -> Result<(), Error> {
    /// let services = client.api::<Service>().namespace("default");
    /// let ports = json!({"spec": {"ports": [{"port": 80}]}});
    /// let service: Service = services.apply_configuration("web", &ports, "me").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn apply_configuration<'a>(
        &'a self,
        name: &'a str,
        configuration: &impl Serialize,
        manager: &'a str,
    ) -> Call<'a, ApplyOptions, K> {
        let payload = match named(configuration, name) {
            Ok(configuration) => self.encode_json(Method::PATCH, &configuration),
            Err(error) => self.payload(Method::PATCH, Err(error)),
        };
        let applied = self.objects.apply_payload(name.into(), payload, manager);
        self.decoded(Method::PATCH, name.into(), applied)
    }

    /// Deletes an object.
    pub fn delete<'a>(&'a self, name: &'a str) -> Call<'a, DeleteOptions, ObjectOrStatus<K>> {
        self.objects.delete(name).then(move |answer| {
            Ok(match answer? {
                ObjectOrStatus::Object(object) => {
                    ObjectOrStatus::Object(self.decode(Method::DELETE, name, &object)?)
                }
                ObjectOrStatus::Status(status) => ObjectOrStatus::Status(status),
            })
        })
    }

    /// Deletes all objects that `which` selects.
    pub fn delete_collection<'a>(&'a self, which: &'a ListOptions) -> Call<'a, DeleteOptions, ()> {
        self.objects
            .delete_collection(which)
            .then(|begun| begun.map(drop))
    }

    /// Decodes the answer. The name is that of the requested object; empty for a new one.
    fn decoded<'a, O: Clone + Default + 'a>(
        &'a self,
        method: Method,
        name: Cow<'a, str>,
        call: Call<'a, O, Object>,
    ) -> Call<'a, O, K> {
        call.then(move |answer| self.decode(method, &name, &answer?))
    }

    fn encode(&self, method: Method, object: &K) -> Result<Payload, Error> {
        let kind = self.objects.resource().group_version_kind();
        let schema = Schema::builtin();
        let json = self.encode_json(method.clone(), object)?;
        if self.bodies != Encoding::Protobuf || schema.kind(&kind.api_version(), &kind.kind).is_none() {
            return Ok(json);
        }
        // Through JSON: a second serializer would compile every kind again, also for programs that never use it.
        let value = serde_json::from_slice(&json.into_bytes());
        let bytes = value
            .map_err(|error| error.to_string())
            .and_then(|value| protobuf::encode_body(schema, &value).map_err(|error| error.to_string()));
        self.payload(method, bytes.map(Payload::protobuf))
    }

    fn encode_json(&self, method: Method, object: &impl Serialize) -> Result<Payload, Error> {
        let bytes = serde_json::to_vec(object);
        let bytes = bytes.and_then(|bytes| with_type(bytes, self.objects.resource()));
        self.payload(method, bytes.map(Payload::json))
    }

    fn payload(&self, method: Method, payload: Result<Payload, impl ToString>) -> Result<Payload, Error> {
        let plural = &*self.objects.resource().plural;
        payload.map_err(|error| Error::new(&method, plural, ErrorKind::Request(error.to_string())))
    }

    /// The name is that of the requested object; empty for a new one.
    fn decode(&self, method: Method, name: &str, object: &Object) -> Result<K, Error> {
        object.decode().map_err(|error| {
            let kind = ErrorKind::Decode(error.to_string());
            Error::new(&method, self.objects.url(name), kind)
        })
    }
}

/// Adds `metadata.name` if a configuration does not state it.
fn named(configuration: &impl Serialize, name: &str) -> Result<Value, serde_json::Error> {
    let mut value = serde_json::to_value(configuration)?;
    let metadata = value.as_object_mut().map(|members| {
        let metadata = members.entry("metadata");
        metadata.or_insert_with(|| Value::Object(Map::new()))
    });
    // Anything but an object is left for the server to refuse.
    if let Some(metadata) = metadata.and_then(Value::as_object_mut) {
        metadata.entry("name").or_insert_with(|| name.into());
    }
    Ok(value)
}

/// Adds `apiVersion` and `kind`, which servers require, if an object does not state them.
///
/// An object that states both is unchanged; the kinds of `k8s-openapi` do.
fn with_type(object: Vec<u8>, resource: &Resource) -> Result<Vec<u8>, serde_json::Error> {
    let states_type = |header: Header<'_>| !header.api_version.is_empty() && !header.kind.is_empty();
    if json::header(&object).is_ok_and(states_type) {
        return Ok(object);
    }
    let mut members: Map<String, Value> = serde_json::from_slice(&object)?;
    let kind = resource.group_version_kind();
    for (member, text) in [
        ("apiVersion", kind.api_version()),
        ("kind", kind.kind.into_owned()),
    ] {
        let is_stated = members
            .get(member)
            .and_then(Value::as_str)
            .is_some_and(|stated| !stated.is_empty());
        if !is_stated {
            members.insert(member.to_owned(), text.into());
        }
    }
    serde_json::to_vec(&members)
}

impl<K> Clone for Api<K> {
    fn clone(&self) -> Self {
        Self {
            objects: self.objects.clone(),
            bodies: self.bodies,
            kind: PhantomData,
        }
    }
}

impl<K> fmt::Debug for Api<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.objects.fmt(f)
    }
}

/// The kinds of `k8s-openapi`, and of other crates that use its traits. With the feature `kube` they are covered by
/// kube's.
#[cfg(all(feature = "k8s-openapi", not(feature = "kube")))]
mod k8s_openapi_types {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use k8s_openapi::{Metadata, Resource as Described};
    use watchkeeper_meta::Resource;

    use super::{Identity, ResourceType};
    use crate::known_scope::KnownScope;

    impl<K> ResourceType for K
    where
        K: Described + Metadata<Ty = ObjectMeta>,
        K: serde::de::DeserializeOwned + serde::Serialize + Send + Sync + 'static,
        K::Scope: KnownScope,
    {
        fn resource() -> Resource {
            Resource {
                group: K::GROUP.into(),
                version: K::VERSION.into(),
                kind: K::KIND.into(),
                plural: K::URL_PATH_SEGMENT.into(),
                scope: <K::Scope as KnownScope>::SCOPE,
            }
        }

        fn identity(&self) -> Identity {
            Identity::from(self.metadata())
        }
    }
}
