//! The client of any resource, with undecoded objects. The typed and metadata clients are built on it.
//!
//! Requests return [`Object`]s: bytes with a header, decoded on demand. Built-in kinds are sent as protobuf if the
//! server offers it, all others as JSON; the encoding is read from each answer.

mod answer;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Method, Request};
use serde::Serialize;
use serde_json::Value;
use watchkeeper_meta::{
    ApplyOptions, CollectionRequests, CreateOptions, DeleteOptions, GetOptions, GroupVersionKind,
    ListOptions, LogOptions, ObjectRequests, PatchKind, PatchOptions, Payload, RequestError, Resource, Scope,
    Status, UpdateOptions, WatchOptions, accept,
};
use watchkeeper_wire::schema::{Schema, resources};
use watchkeeper_wire::{Object, ObjectOptions, WireError};

pub(crate) use answer::{Answer, Asked, encoding, read_status};

use crate::call::Call;
use crate::client::{Client, SendOptions};
use crate::error::{Error, ErrorKind};
use crate::list::{ListStream, ObjectList};
use crate::pager::Pager;
use crate::transport::Body;
use crate::watch::WatchStream;
use crate::write::{Write, WriteEffect, is_write};

/// The objects of one resource, in one namespace or in all.
///
/// ```no_run
/// # use watchkeeper_client::Client;
/// # use watchkeeper_meta::Resource;
/// # async fn example(client: Client) -> Result<(), Box<dyn std::error::Error>> {
/// let widgets = Resource::namespaced("acme.example", "v1", "Widget", "widgets");
/// let widget = client.dynamic(widgets).namespace("shop").get("a").await?;
/// println!("{} is at {}", widget.key(), widget.resource_version());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct DynamicApi {
    client: Client,
    resource: Arc<Resource>,
    namespace: String,
    subresource: Option<String>,
    form: Form,
    /// The parts of objects that lists and watches keep.
    kept: ObjectOptions,
    timeout: Option<Duration>,
}

/// The requested form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Objects, in protobuf if the server has it.
    Protobuf,
    /// Objects in JSON.
    Json,
    /// `metadata` only.
    Metadata,
}

/// The answer to a delete, or to a post to a subresource.
#[derive(Clone, Debug)]
pub enum ObjectOrStatus<T> {
    /// An object. After a delete, its last or current state: it may be gone, or wait for finalizers or its grace
    /// period.
    Object(T),
    /// The request was accepted; the server returned no object.
    Status(Status),
}

/// A type that can be a request body.
pub trait IntoPayload {
    /// The bytes and their content type.
    fn into_payload(self) -> Result<Payload, WireError>;
}

impl IntoPayload for Payload {
    fn into_payload(self) -> Result<Payload, WireError> {
        Ok(self)
    }
}

impl IntoPayload for &Value {
    fn into_payload(self) -> Result<Payload, WireError> {
        Ok(Payload::json(self.to_string().into_bytes()))
    }
}

impl IntoPayload for &Object {
    fn into_payload(self) -> Result<Payload, WireError> {
        Ok(Payload::json(self.to_json()?.into_owned()))
    }
}

/// True if a resource has a protobuf form. Most are in the table of resources, which is read in a quarter of the time
/// of the schema; a program may never need the schema.
fn is_builtin(resource: &Resource) -> bool {
    let kind = resource.group_version_kind();
    resources::by_kind(&kind.group, &kind.version, &kind.kind).is_some()
        || Schema::builtin().kind(&kind.api_version(), &kind.kind).is_some()
}

/// Selecting objects.
impl DynamicApi {
    pub(crate) fn new(client: Client, resource: Resource) -> Self {
        let form = match is_builtin(&resource) {
            true => Form::Protobuf,
            false => Form::Json,
        };
        Self {
            client,
            resource: Arc::new(resource),
            namespace: String::new(),
            subresource: None,
            form,
            kept: ObjectOptions::default(),
            timeout: None,
        }
    }

    /// The objects of one namespace. Ignored for cluster-scoped resources.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        if self.resource.scope == Scope::Namespaced {
            self.namespace = namespace.into();
        }
        self
    }

    /// The objects of the configured namespace.
    pub fn default_namespace(self) -> Self {
        let namespace = self.client.default_namespace().to_owned();
        self.namespace(namespace)
    }

    /// The objects of all namespaces.
    pub fn all_namespaces(mut self) -> Self {
        self.namespace.clear();
        self
    }

    /// False if the server was found, in the last ten minutes, not to support streaming lists of this resource.
    pub fn has_streaming_lists(&self) -> bool {
        let learnt = self.client.learnt();
        learnt.has_streaming_lists(&self.resource.group_resource())
    }

    /// Records for ten minutes, for all users of the client, that the server does not support streaming lists of this
    /// resource.
    pub fn note_no_streaming_lists(&self) {
        let learnt = self.client.learnt();
        learnt.note_no_streaming_lists(self.resource.group_resource());
    }

    /// A subresource: `status`, `scale`, `eviction`, `binding`, `token` …
    pub fn subresource(mut self, subresource: impl Into<String>) -> Self {
        self.subresource = Some(subresource.into());
        self
    }

    /// Only `metadata`: kind `PartialObjectMetadata`.
    pub fn metadata_only(mut self) -> Self {
        self.form = Form::Metadata;
        self
    }

    /// JSON even if the server has protobuf.
    pub fn json_only(mut self) -> Self {
        if self.form == Form::Protobuf {
            self.form = Form::Json;
        }
        self
    }

    /// Keeps `metadata.managedFields` in lists and watches. By default they are dropped: they are more than half of
    /// the bytes and rarely read. Answers with one object always have them.
    pub fn keep_managed_fields(mut self) -> Self {
        self.kept.keep_managed_fields = true;
        self
    }

    /// Sets the time limit of each request but watches, including retries and the whole answer.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The resource.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// The namespace; empty for all.
    pub fn namespace_name(&self) -> &str {
        &self.namespace
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.client
    }
}

/// Requests. Each is sent when it is awaited, with the options given by [`Call::with`], if any.
impl DynamicApi {
    /// Reads one object.
    pub fn get<'a>(&'a self, name: &'a str) -> Call<'a, GetOptions, Object> {
        Call::new(move |options| {
            let request = self.object(name).accepting(self.accept()).get(options);
            self.send(self.build(Method::GET, request))
        })
    }

    /// Like [`get`](Self::get); `None` if there is no such object.
    pub fn find<'a>(&'a self, name: &'a str) -> Call<'a, GetOptions, Option<Object>> {
        self.get(name).then(found)
    }

    /// Lists all objects, or one page if `limit` is set.
    pub fn list(&self) -> Call<'_, ListOptions, ObjectList> {
        Call::new(move |options| {
            let opened = self.open_list(options);
            Box::pin(async move { opened.await?.collect().await })
        })
    }

    /// Like [`list`](Self::list), but each object is available as soon as it has arrived.
    pub fn list_stream(&self) -> Call<'_, ListOptions, ListStream> {
        Call::new(move |options| self.open_list(options))
    }

    /// Lists all objects in pages, as one stream. [`Pager::with`] takes options.
    pub fn pages(&self) -> Pager {
        Pager::new(self.clone())
    }

    /// Watches the changes after the version in the options; without one, first the existing objects as added.
    pub fn watch(&self) -> Call<'_, WatchOptions, WatchStream> {
        Call::new(move |options| {
            let request = self.collection().accepting(self.accept()).watch(options);
            let request = self.build(Method::GET, request);
            Box::pin(async move {
                let answer = self.open(request?, true).await?;
                Ok(WatchStream::from_answer(answer, self.kind(), self.kept))
            })
        })
    }

    /// Like [`watch`](Self::watch), over a WebSocket on its own connection: for proxies that buffer streams.
    pub fn watch_websocket(&self) -> Call<'_, WatchOptions, WatchStream> {
        Call::new(move |options| {
            let request = self.build(Method::GET, self.collection().watch(options));
            Box::pin(async move {
                WatchStream::over_websocket(&self.client, request?, self.kind(), self.kept).await
            })
        })
    }

    /// Like [`list`](Self::list), with the request, for later errors.
    pub(crate) fn list_with_request(&self) -> Call<'_, ListOptions, (ObjectList, Asked)> {
        Call::new(move |options| {
            let opened = self.open_list(options);
            Box::pin(async move {
                let stream = opened.await?;
                let asked = stream.asked().clone();
                Ok((stream.collect().await?, asked))
            })
        })
    }

    /// Creates an object.
    pub fn create(&self, object: impl IntoPayload) -> Call<'_, CreateOptions, Object> {
        self.create_payload(self.payload(Method::POST, object))
    }

    pub(crate) fn create_payload(&self, payload: Result<Payload, Error>) -> Call<'_, CreateOptions, Object> {
        Call::new(move |options| {
            let request = payload.and_then(|payload| {
                let request = self.collection().accepting(self.accept());
                self.build(Method::POST, request.create(payload, options))
            });
            self.send(request)
        })
    }

    /// Posts to a subresource of an object, for instance to bind a pod.
    pub fn post<'a>(
        &'a self,
        name: &'a str,
        body: impl IntoPayload,
    ) -> Call<'a, CreateOptions, ObjectOrStatus<Object>> {
        let payload = self.payload(Method::POST, body);
        Call::new(move |options| {
            // The answer is of the subresource's kind, or a Status; in JSON it states which.
            let request = payload
                .and_then(|payload| self.build(Method::POST, self.object(name).create(payload, options)));
            self.send_for_either(request)
        })
    }

    /// Replaces an object; conflicts if it has changed since it was read.
    pub fn update<'a>(&'a self, name: &'a str, object: impl IntoPayload) -> Call<'a, UpdateOptions, Object> {
        self.update_payload(name.into(), self.payload(Method::PUT, object))
    }

    pub(crate) fn update_payload<'a>(
        &'a self,
        name: Cow<'a, str>,
        payload: Result<Payload, Error>,
    ) -> Call<'a, UpdateOptions, Object> {
        Call::new(move |options| {
            let request = payload.and_then(|payload| {
                let request = self.object(&name).accepting(self.accept());
                self.build(Method::PUT, request.update(payload, options))
            });
            self.send(request)
        })
    }

    /// Patches an object with a JSON value, or anything that serializes as one.
    pub fn patch<'a>(
        &'a self,
        name: &'a str,
        kind: PatchKind,
        patch: &impl Serialize,
    ) -> Call<'a, PatchOptions, Object> {
        let patch = serde_json::to_vec(patch);
        let patch = patch.map_err(|error| self.bad_request(&Method::PATCH, &error));
        Call::new(move |options| {
            let request = patch.and_then(|patch| {
                let request = self.object(name).accepting(self.accept());
                self.build(Method::PATCH, request.patch(kind, patch, options))
            });
            self.send(request)
        })
    }

    /// Applies `configuration` as this field manager (server-side apply). A manager named in the options takes
    /// precedence.
    pub fn apply<'a>(
        &'a self,
        name: &'a str,
        configuration: impl IntoPayload,
        manager: &'a str,
    ) -> Call<'a, ApplyOptions, Object> {
        self.apply_payload(name.into(), self.payload(Method::PATCH, configuration), manager)
    }

    pub(crate) fn apply_payload<'a>(
        &'a self,
        name: Cow<'a, str>,
        payload: Result<Payload, Error>,
        manager: &'a str,
    ) -> Call<'a, ApplyOptions, Object> {
        Call::new(move |options: &ApplyOptions| {
            let mut options = options.clone();
            if options.field_manager.is_empty() {
                options.field_manager = manager.to_owned();
            }
            let request = payload.and_then(|payload| {
                let request = self.object(&name).accepting(self.accept());
                self.build(Method::PATCH, request.apply(payload.into_bytes(), &options))
            });
            self.send(request)
        })
    }

    /// Deletes an object.
    pub fn delete<'a>(&'a self, name: &'a str) -> Call<'a, DeleteOptions, ObjectOrStatus<Object>> {
        Call::new(move |options| {
            let request = self.object(name).accepting(self.accept()).delete(options);
            self.send_for_either(self.build(Method::DELETE, request))
        })
    }

    /// Deletes all objects that `which` selects; returns those being deleted.
    pub fn delete_collection<'a>(&'a self, which: &'a ListOptions) -> Call<'a, DeleteOptions, ObjectList> {
        Call::new(move |options| {
            let request = self.collection().accepting(self.accept_list());
            let request = self.build(Method::DELETE, request.delete(which, options));
            Box::pin(async move {
                let request = request?;
                let noted = self.noted(&request);
                let answer = self.open(request, false).await?;
                let deleted = ListStream::new(answer, self.kind(), self.kept).collect().await?;
                if let (Some(_), Some(observer)) = (noted, self.client.write_observer()) {
                    let write = |object| Write::of(&self.resource, object, WriteEffect::Deleted);
                    deleted.items.iter().for_each(|object| observer(&write(object)));
                }
                Ok(deleted)
            })
        })
    }

    /// The log of a pod's container, as a stream.
    pub fn log<'a>(&'a self, name: &'a str) -> Call<'a, LogOptions, Body> {
        Call::new(move |options: &LogOptions| {
            let request = self.build(Method::GET, self.object(name).log(options));
            let options = SendOptions {
                watch: options.follow,
                timeout: self.timeout.filter(|_| !options.follow),
                ..SendOptions::default()
            };
            Box::pin(async move { Ok(self.client.send(request?, &options).await?.into_body()) })
        })
    }

    /// Boxed, so that callers compile only the short functions above.
    pub(crate) fn send(
        &self,
        request: Result<Request<Bytes>, Error>,
    ) -> BoxFuture<'_, Result<Object, Error>> {
        Box::pin(async move {
            let request = request?;
            let noted = self.noted(&request);
            let object = self.open(request, false).await?.object().await?;
            if let Some(method) = noted {
                self.note(&method, &ObjectOrStatus::Object(object.clone()));
            }
            Ok(object)
        })
    }

    pub(crate) fn send_for_either(
        &self,
        request: Result<Request<Bytes>, Error>,
    ) -> BoxFuture<'_, Result<ObjectOrStatus<Object>, Error>> {
        Box::pin(async move {
            let request = request?;
            let noted = self.noted(&request);
            let answer = self.open(request, false).await?.object_or_status().await?;
            if let Some(method) = noted {
                self.note(&method, &answer);
            }
            Ok(answer)
        })
    }

    /// The method of a request whose answer is reported to the client's observer of writes.
    fn noted(&self, request: &Request<Bytes>) -> Option<Method> {
        let observed = self.client.write_observer().is_some() && is_write(request);
        observed.then(|| request.method().clone())
    }

    fn note(&self, method: &Method, answer: &ObjectOrStatus<Object>) {
        let write = match answer {
            ObjectOrStatus::Object(object) => Write::acknowledged(&self.resource, method, object),
            ObjectOrStatus::Status(status) => Some(status)
                .filter(|_| *method == Method::DELETE)
                .and_then(|status| Write::deleted(&self.resource, &self.namespace, status)),
        };
        if let (Some(observer), Some(write)) = (self.client.write_observer(), write) {
            observer(&write);
        }
    }

    fn open_list(&self, options: &ListOptions) -> BoxFuture<'_, Result<ListStream, Error>> {
        let request = self.collection().accepting(self.accept_list()).list(options);
        let request = self.build(Method::GET, request);
        Box::pin(async move {
            let answer = self.open(request?, false).await?;
            Ok(ListStream::new(answer, self.kind(), self.kept))
        })
    }

    async fn open(&self, request: Request<Bytes>, watch: bool) -> Result<Answer, Error> {
        let options = SendOptions {
            timeout: self.timeout.filter(|_| !watch),
            watch,
            ..SendOptions::default()
        };
        Answer::open(&self.client, request, &options).await
    }

    pub(crate) fn collection(&self) -> CollectionRequests<'_> {
        CollectionRequests::in_namespace(&self.resource, &self.namespace)
    }

    pub(crate) fn object<'a>(&'a self, name: &'a str) -> ObjectRequests<'a> {
        let object = self.collection().object(name);
        match &self.subresource {
            Some(subresource) => object.subresource(subresource),
            None => object,
        }
    }

    /// The URL of an object, or of the collection if the name is empty, for errors.
    pub(crate) fn url(&self, name: &str) -> String {
        let request = match name {
            "" => self.collection().list(&ListOptions::default()),
            _ => self.object(name).get(&GetOptions::default()),
        };
        match request {
            Ok(request) => self.client.url(&request.uri().to_string()),
            Err(_) => self.resource.plural.to_string(),
        }
    }

    /// The kind of the objects.
    fn kind(&self) -> Arc<GroupVersionKind> {
        Arc::new(match self.form {
            Form::Metadata => GroupVersionKind::new("meta.k8s.io", "v1", "PartialObjectMetadata"),
            _ => self.resource.group_version_kind(),
        })
    }

    /// The `Accept` header of a single object.
    fn accept(&self) -> &'static str {
        match self.form {
            Form::Protobuf => accept::PROTOBUF,
            Form::Json => accept::JSON,
            Form::Metadata => accept::METADATA,
        }
    }

    /// The `Accept` header of a list.
    fn accept_list(&self) -> &'static str {
        match self.form {
            Form::Metadata => accept::METADATA_LIST,
            _ => self.accept(),
        }
    }

    fn payload(&self, method: Method, body: impl IntoPayload) -> Result<Payload, Error> {
        body.into_payload()
            .map_err(|error| self.bad_request(&method, &error))
    }

    pub(crate) fn build(
        &self,
        method: Method,
        request: Result<Request<Vec<u8>>, RequestError>,
    ) -> Result<Request<Bytes>, Error> {
        match request {
            Ok(request) => Ok(request.map(Bytes::from)),
            Err(error) => Err(self.bad_request(&method, &error)),
        }
    }

    /// A request that will be upgraded.
    pub(crate) fn connect_request(
        &self,
        request: Result<Request<Vec<u8>>, RequestError>,
    ) -> Result<Request<Bytes>, Error> {
        self.build(Method::GET, request)
    }

    /// A request that could not be built has no URL; the error names the resource.
    fn bad_request(&self, method: &Method, error: &dyn std::fmt::Display) -> Error {
        Error::new(
            method,
            self.resource.plural.to_string(),
            ErrorKind::Request(error.to_string()),
        )
    }
}

/// Turns "not found" into `None`.
pub(crate) fn found<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
