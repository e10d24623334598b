//! Resources as OpenAPI paths and operations.

use serde_json::{Map, Value, json};
use watchkeeper_meta::{GroupVersion, PatchKind, Scope};
use watchkeeper_registry::{JSON, PROTOBUF, YAML};

use super::schemas::Definitions;
use crate::Verb;
use crate::catalog::{ApiVersion, ServedResource};

/// The media types of objects.
const MEDIA_TYPES: [&str; 3] = [JSON, YAML, PROTOBUF];

/// The media types of custom objects.
const CUSTOM_MEDIA_TYPES: [&str; 2] = [JSON, YAML];

/// The media types of patches.
const PATCHES: [&str; 4] = [
    PatchKind::Apply.content_type(),
    PatchKind::Json.content_type(),
    PatchKind::Merge.content_type(),
    PatchKind::Strategic.content_type(),
];

/// Those of custom kinds. kubectl selects its apply strategy from this.
const CUSTOM_PATCHES: [&str; 3] = [PATCHES[0], PATCHES[1], PATCHES[2]];

/// The parameters of lists.
const LIST_PARAMETERS: [(&str, &str); 10] = [
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];

/// The parameters of writes.
const WRITE_PARAMETERS: [(&str, &str); 3] = [
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
];

/// All paths below `/api/v1` or `/apis/group/version`.
pub(super) fn of_version(
    definitions: &mut Definitions<'_>,
    root: &str,
    group: &str,
    version: &ApiVersion,
) -> Map<String, Value> {
    let mut paths = Map::new();
    let list = definitions.reference("meta/v1.APIResourceList");
    paths.insert(format!("{root}/"), json!({ "get": plain_get(root, list) }));
    add_resources(&mut paths, definitions, root, group, version, true);
    paths
}

/// Like [`of_version`], for a document of only custom kinds: without the discovery endpoint and the deprecated watch
/// paths.
pub(super) fn of_custom_version(
    definitions: &mut Definitions<'_>,
    root: &str,
    group: &str,
    version: &ApiVersion,
) -> Map<String, Value> {
    let mut paths = Map::new();
    add_resources(&mut paths, definitions, root, group, version, false);
    paths
}

fn add_resources(
    paths: &mut Map<String, Value>,
    definitions: &mut Definitions<'_>,
    root: &str,
    group: &str,
    version: &ApiVersion,
    has_watch_paths: bool,
) {
    let place = GroupVersion::new(group.to_owned(), version.name.clone());
    for resource in &version.resources {
        let mut maker = Maker {
            definitions,
            root,
            place: &place,
            resource,
            has_watch_paths,
        };
        maker.add_to(paths);
    }
}

/// An operation that reads a document without parameters.
pub(super) fn plain_get(path: &str, answer: Option<Value>) -> Value {
    let id: String = path
        .split('/')
        .filter(|part| !part.is_empty())
        .map(capitalized)
        .collect();
    json!({
        "operationId": format!("get{id}"),
        "responses": responses(&MEDIA_TYPES, answer.unwrap_or_else(|| json!({ "type": "object" }))),
    })
}

/// Version 2 has no request bodies and content types: they become parameters and plain schemas.
pub(super) fn as_v2(paths: Map<String, Value>) -> Map<String, Value> {
    paths
        .into_iter()
        .map(|(path, item)| (path, path_as_v2(item)))
        .collect()
}

fn path_as_v2(item: Value) -> Value {
    let Value::Object(operations) = item else {
        return item;
    };
    let operations = operations.into_iter().map(|(method, operation)| match operation {
        Value::Object(operation) => (method, operation_as_v2(operation)),
        parameters => (method, parameters_as_v2(parameters)),
    });
    Value::Object(operations.collect())
}

fn operation_as_v2(mut operation: Map<String, Value>) -> Value {
    let mut parameters = match parameters_as_v2(operation.remove("parameters").unwrap_or_default()) {
        Value::Array(parameters) => parameters,
        _ => Vec::new(),
    };
    if let Some(body) = operation.remove("requestBody") {
        let schema = first_schema(&body["content"]);
        operation.insert("consumes".to_owned(), media_types(&body["content"]));
        parameters.push(json!({ "name": "body", "in": "body", "required": true, "schema": schema }));
    }
    let answers = &operation["responses"]["200"]["content"];
    let (schema, produces) = (first_schema(answers), media_types(answers));
    operation.insert("parameters".to_owned(), Value::Array(parameters));
    operation.insert("produces".to_owned(), produces);
    operation.insert(
        "responses".to_owned(),
        json!({ "200": { "description": "OK", "schema": schema } }),
    );
    Value::Object(operation)
}

fn parameters_as_v2(parameters: Value) -> Value {
    let Value::Array(parameters) = parameters else {
        return parameters;
    };
    let parameters = parameters.into_iter().map(|mut parameter| {
        let kind = parameter["schema"]["type"].clone();
        if let Value::Object(members) = &mut parameter {
            members.remove("schema");
            members.insert("type".to_owned(), kind);
            members.insert("uniqueItems".to_owned(), json!(true));
        }
        parameter
    });
    parameters.collect()
}

fn media_types(content: &Value) -> Value {
    let types = content.as_object().into_iter().flat_map(Map::keys);
    types.map(|name| Value::from(&**name)).collect()
}

fn first_schema(content: &Value) -> Value {
    let types = content.as_object().and_then(|types| types.values().next());
    types.map(|content| content["schema"].clone()).unwrap_or_default()
}

/// Generates the paths of one resource.
struct Maker<'a, 'd, 's> {
    definitions: &'d mut Definitions<'s>,
    root: &'a str,
    place: &'a GroupVersion,
    resource: &'a ServedResource,
    /// False for documents of custom kinds.
    has_watch_paths: bool,
}

impl Maker<'_, '_, '_> {
    fn add_to(&mut self, paths: &mut Map<String, Value>) {
        let plural = &self.resource.resource.plural;
        let namespaced = self.resource.resource.scope == Scope::Namespaced;
        let scope = if namespaced { "namespaces/{namespace}/" } else { "" };
        let root = self.root;

        let all = format!("{root}/{scope}{plural}");
        let one = format!("{all}/{{name}}");
        self.add(
            paths,
            &all,
            &[
                ("get", Verb::List),
                ("post", Verb::Create),
                ("delete", Verb::DeleteCollection),
            ],
        );
        self.add(
            paths,
            &one,
            &[
                ("get", Verb::Get),
                ("put", Verb::Update),
                ("patch", Verb::Patch),
                ("delete", Verb::Delete),
            ],
        );
        if namespaced {
            self.add(paths, &format!("{root}/{plural}"), &[("get", Verb::List)]);
        }
        if self.has_watch_paths {
            self.add_watches(paths, scope);
        }
        for index in 0..self.resource.subresources.len() {
            self.add_subresource(paths, &one, index);
        }
    }

    /// The deprecated watch paths, for all, for a namespace and for one object.
    fn add_watches(&mut self, paths: &mut Map<String, Value>, scope: &str) {
        let plural = &self.resource.resource.plural;
        let root = self.root;
        let mut watched = vec![format!("{root}/watch/{scope}{plural}")];
        if !scope.is_empty() {
            watched.push(format!("{root}/watch/{plural}"));
        }
        if self.resource.allows(Verb::Get) {
            watched.push(format!("{root}/watch/{scope}{plural}/{{name}}"));
        }
        for path in watched {
            self.add(paths, &path, &[("get", Verb::Watch)]);
        }
    }

    /// One path with the operations the resource supports; omitted if there are none.
    fn add(&mut self, paths: &mut Map<String, Value>, path: &str, methods: &[(&str, Verb)]) {
        let mut item = Map::new();
        for (method, verb) in methods {
            if self.resource.allows(*verb) {
                item.insert((*method).to_owned(), self.operation(*verb));
            }
        }
        if !item.is_empty() {
            item.insert("parameters".to_owned(), path_parameters(path));
            paths.insert(path.to_owned(), Value::Object(item));
        }
    }

    fn operation(&mut self, verb: Verb) -> Value {
        let (api_version, kind) = (self.place.to_string(), self.resource.resource.kind.clone());
        let object = self.object();
        let answer = match (verb, self.resource.custom_definition()) {
            (Verb::List, Some(custom)) => Some(self.definitions.custom_list(&self.resource.resource, custom)),
            (Verb::List, None) => self.definitions.kind(&api_version, &format!("{kind}List")),
            (verb, _) => self.answer(verb, &object),
        };
        let body = match verb {
            Verb::Delete | Verb::DeleteCollection => self.definitions.reference("meta/v1.DeleteOptions"),
            Verb::Patch => self.definitions.reference("meta/v1.Patch"),
            Verb::Create | Verb::Update => object,
            _ => None,
        };
        self.assemble(verb, &kind, self.place, body, answer)
    }

    /// The kind's own schema.
    fn object(&mut self) -> Option<Value> {
        let resource = &self.resource.resource;
        match self.resource.custom_definition() {
            Some(custom) => Some(self.definitions.custom(resource, custom)),
            None => self.definitions.kind(&self.place.to_string(), &resource.kind),
        }
    }

    fn answer(&mut self, verb: Verb, object: &Option<Value>) -> Option<Value> {
        match verb {
            Verb::Watch => self.definitions.reference("meta/v1.WatchEvent"),
            Verb::Delete | Verb::DeleteCollection => self.definitions.reference("meta/v1.Status"),
            _ => object.clone(),
        }
    }

    fn add_subresource(&mut self, paths: &mut Map<String, Value>, one: &str, index: usize) {
        let subresource = &self.resource.subresources[index];
        let place = subresource.group_version.as_ref().unwrap_or(self.place);
        let object = match subresource.group_version {
            Some(_) => self.definitions.kind(&place.to_string(), &subresource.kind),
            None if self.resource.is_custom() => self.object(),
            None => self.definitions.kind(&place.to_string(), &subresource.kind),
        };
        let mut item = Map::new();
        for verb in subresource.verbs.iter().filter_map(|word| Verb::parse(word)) {
            let (method, body) = match verb {
                Verb::Get => ("get", None),
                Verb::Create => ("post", object.clone()),
                Verb::Update => ("put", object.clone()),
                Verb::Patch => ("patch", self.definitions.reference("meta/v1.Patch")),
                _ => ("delete", None),
            };
            let operation = self.assemble(verb, &subresource.kind, place, body, object.clone());
            item.insert(method.to_owned(), operation);
        }
        let path = format!("{one}/{}", subresource.name);
        item.insert("parameters".to_owned(), path_parameters(&path));
        paths.insert(path, Value::Object(item));
    }

    fn assemble(
        &self,
        verb: Verb,
        kind: &str,
        place: &GroupVersion,
        body: Option<Value>,
        answer: Option<Value>,
    ) -> Value {
        let mut operation = json!({
            "tags": [tag(self.place)],
            "responses": responses(self.media_types(), answer.unwrap_or_else(|| json!({ "type": "string" }))),
            "x-kubernetes-action": action(verb),
            "x-kubernetes-group-version-kind": { "group": place.group, "version": place.version, "kind": kind },
        });
        let parameters = query_parameters(verb);
        if !parameters.is_empty() {
            operation["parameters"] = json!(parameters);
        }
        if let Some(body) = body {
            operation["requestBody"] = match verb {
                Verb::Patch if self.resource.is_custom() => content(&CUSTOM_PATCHES, body),
                Verb::Patch => content(&PATCHES, body),
                _ => content(&["*/*"], body),
            };
        }
        operation
    }

    /// The media types of the objects.
    fn media_types(&self) -> &'static [&'static str] {
        match self.resource.is_custom() {
            true => &CUSTOM_MEDIA_TYPES,
            false => &MEDIA_TYPES,
        }
    }
}

fn responses(media_types: &[&str], schema: Value) -> Value {
    let mut ok = content(media_types, schema);
    ok["description"] = json!("OK");
    json!({ "200": ok, "401": { "description": "Unauthorized" } })
}

fn content(media_types: &[&str], schema: Value) -> Value {
    let types: Map<String, Value> = media_types
        .iter()
        .map(|media_type| ((*media_type).to_owned(), json!({ "schema": schema })))
        .collect();
    json!({ "content": types })
}

fn query_parameters(verb: Verb) -> Vec<Value> {
    let query = |(name, kind): &(&str, &str)| json!({ "name": name, "in": "query", "schema": { "type": kind, "uniqueItems": true } });
    let mut parameters: Vec<Value> = match verb {
        Verb::List | Verb::Watch | Verb::DeleteCollection => LIST_PARAMETERS.iter().map(query).collect(),
        Verb::Create | Verb::Update | Verb::Patch => WRITE_PARAMETERS.iter().map(query).collect(),
        _ => Vec::new(),
    };
    if verb == Verb::Patch {
        parameters.push(query(&("force", "boolean")));
    }
    parameters
}

/// The parameters in braces, and the common one.
fn path_parameters(path: &str) -> Value {
    let mut parameters = Vec::new();
    for name in ["name", "namespace"] {
        if path.contains(&format!("{{{name}}}")) {
            parameters.push(json!({
                "name": name, "in": "path", "required": true, "schema": { "type": "string", "uniqueItems": true },
            }));
        }
    }
    parameters.push(
        json!({ "name": "pretty", "in": "query", "schema": { "type": "string", "uniqueItems": true } }),
    );
    json!(parameters)
}

fn action(verb: Verb) -> &'static str {
    match verb {
        Verb::Create => "post",
        Verb::Update => "put",
        Verb::Watch => "watchlist",
        other => other.as_str(),
    }
}

/// `apps_v1`, `core_v1`.
fn tag(place: &GroupVersion) -> String {
    let group = match &*place.group {
        "" => "core",
        group => group.split('.').next().unwrap_or(group),
    };
    format!("{group}_{}", place.version)
}

fn capitalized(part: &str) -> String {
    let mut chars = part.chars();
    let first = chars.next().map(|char| char.to_ascii_uppercase());
    first
        .into_iter()
        .chain(chars)
        .filter(|char| char.is_ascii_alphanumeric())
        .collect()
}
