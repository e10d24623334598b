//! Recorded requests and answers of a real v1.37 server, against this crate's requests, options and statuses.
//!
//! `goldens/wire` holds recorded exchanges, one case per file. Every recorded request that this crate can express is
//! read back into options and built again; every recorded failure is read, asked, and written again.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use watchkeeper_meta::{
    ApplyOptions, AttachOptions, CollectionRequests, CreateOptions, DeleteOptions, ExecOptions,
    FieldSelector, GetOptions, LabelSelector, ListOptions, LogOptions, ObjectRequests, PatchKind,
    PatchOptions, Payload, PortForwardOptions, QueryParams, RequestError, Resource, Scope, Status,
    UpdateOptions, WatchOptions, asks_to_watch,
};

/// One recorded exchange.
struct Exchange {
    /// `area/case step`, for messages.
    id: String,
    request: Value,
    response: Value,
    frames: Vec<Value>,
}

impl Exchange {
    fn path_and_query(&self) -> (&str, &str) {
        let path = self.request["path"].as_str().unwrap();
        path.split_once('?').unwrap_or((path, ""))
    }

    fn content_type(&self) -> &str {
        self.request["headers"]["Content-Type"]
            .as_str()
            .unwrap_or_default()
    }

    fn method(&self) -> &str {
        self.request["method"].as_str().unwrap()
    }
}

/// The cases that ask for what this crate can express.
const CASES: &[&str] = &[
    "apply/conflict-with-update-manager.json",
    "authz/forbidden-texts.json",
    "authz/unauthenticated.json",
    "compaction/exact-expired.json",
    "compaction/watch-expired-events.json",
    "create/already-exists.json",
    "create/content-negotiation.json",
    "create/dry-run.json",
    "delete/collection.json",
    "delete/options-forms.json",
    "list/field-selectors-others.json",
    "list/label-selector-errors.json",
    "list/label-selectors.json",
    "list/resource-version-errors.json",
    "server/raw-json-layout.json",
    "subresource/csr-approval.json",
    "subresource/log-and-exec-errors.json",
    "validation/labels-and-annotations.json",
    "watch/initial-events-errors.json",
    "watch/unset-and-zero.json",
];

fn exchanges() -> Vec<Exchange> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../goldens/wire");
    let read = |name: &&str| serde_json::from_slice(&fs::read(root.join(name)).unwrap()).unwrap();
    CASES
        .iter()
        .map(read)
        .flat_map(|recorded: Value| case(&recorded))
        .collect()
}

fn case(case: &Value) -> Vec<Exchange> {
    let parts = ["setup", "steps", "streams"]
        .into_iter()
        .flat_map(|part| case[part].as_array().into_iter().flatten());
    let recorded = parts.filter(|step| step["request"].is_object());
    recorded
        .map(|step| Exchange {
            id: format!("{}/{} {}", case["area"], case["name"], step["id"]).replace('"', ""),
            request: step["request"].clone(),
            response: step["response"].clone(),
            frames: step["frames"].as_array().cloned().unwrap_or_default(),
        })
        .collect()
}

/// The `Status` objects in an answer and in its stream.
fn statuses(exchange: &Exchange) -> Vec<&Value> {
    let body = Some(&exchange.response["body"]);
    let errors = exchange
        .frames
        .iter()
        .filter(|frame| frame["type"] == "ERROR")
        .map(|frame| &frame["object"]);
    body.into_iter()
        .chain(errors)
        .filter(|object| object["kind"] == "Status")
        .collect()
}

#[test]
fn recorded_statuses_are_written_as_they_were_read() {
    let mut seen = 0;
    for exchange in exchanges() {
        for recorded in statuses(&exchange) {
            let status: Status = serde_json::from_value(recorded.clone()).unwrap();
            assert_eq!(
                &serde_json::to_value(&status).unwrap(),
                recorded,
                "{}",
                exchange.id
            );
            seen += 1;
        }
    }
    assert!(seen > 150, "only {seen} recorded statuses");
}

#[test]
fn recorded_bytes_of_a_status_are_ours() {
    let layouts = exchanges();
    let layout = layouts
        .iter()
        .find(|exchange| exchange.id == "server/raw-json-layout status")
        .unwrap();
    let recorded = layout.response["body"]["text"].as_str().unwrap();
    let status: Status = serde_json::from_str(recorded).unwrap();
    assert_eq!(format!("{}\n", serde_json::to_string(&status).unwrap()), recorded);
}

#[test]
fn recorded_failures_answer_the_question_they_are_about() {
    type Question = fn(&Status) -> bool;
    let questions: [(&str, Question); 13] = [
        ("Unauthorized", Status::is_unauthorized),
        ("Forbidden", Status::is_forbidden),
        ("NotFound", Status::is_not_found),
        ("AlreadyExists", Status::is_already_exists),
        ("Conflict", Status::is_conflict),
        ("Expired", Status::is_expired),
        ("Invalid", Status::is_invalid),
        ("Timeout", Status::is_timeout),
        ("BadRequest", Status::is_bad_request),
        ("MethodNotAllowed", Status::is_method_not_allowed),
        ("NotAcceptable", Status::is_not_acceptable),
        ("UnsupportedMediaType", Status::is_unsupported_media_type),
        ("InternalError", Status::is_internal_error),
    ];
    let mut asked: BTreeMap<&str, usize> = BTreeMap::new();
    for exchange in exchanges() {
        for recorded in statuses(&exchange) {
            let status: Status = serde_json::from_value(recorded.clone()).unwrap();
            // A 500 without a reason is an internal error by its code.
            let reason = match recorded["reason"].as_str() {
                None if recorded["code"] == 500 => "InternalError",
                reason => reason.unwrap_or_default(),
            };
            for (about, question) in questions {
                assert_eq!(question(&status), about == reason, "{}: {about}", exchange.id);
            }
            if let Some((about, _)) = questions.iter().find(|(about, _)| *about == reason) {
                *asked.entry(about).or_default() += 1;
            }
            let too_large = status.message.contains("Too large resource version");
            assert_eq!(
                status.is_too_large_resource_version(),
                too_large,
                "{}",
                exchange.id
            );
            if exchange.frames.is_empty() {
                assert_eq!(
                    status.http_status(),
                    exchange.response["status"].as_u64().unwrap() as u16
                );
            }
        }
    }
    // Internal errors have other words in these recordings than the reason's own.
    assert!(asked.len() >= 12, "questions never asked: {asked:?}");
}

/// The target of a request, parsed from its path.
struct Target {
    resource: Resource,
    namespace: String,
    name: Option<String>,
    subresource: Option<String>,
}

/// `None` for paths that lead to no resource.
fn target(path: &str) -> Option<Target> {
    let segments: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    let (group, version, rest) = match segments.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return None,
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        rest => ("", rest),
    };
    let (plural, name, subresource) = match rest {
        [plural] => (*plural, None, None),
        [plural, name] => (*plural, Some(*name), None),
        [plural, name, subresource] => (*plural, Some(*name), Some(*subresource)),
        _ => return None,
    };
    if plural.is_empty() || plural == "watch" || name == Some("") {
        return None;
    }
    // A collection without a namespace may be either; an object tells its scope.
    let cluster = namespace.is_empty() && name.is_some();
    Some(Target {
        resource: Resource {
            group: group.to_owned().into(),
            version: version.to_owned().into(),
            kind: "Any".into(),
            plural: plural.to_owned().into(),
            scope: if cluster || plural == "namespaces" {
                Scope::Cluster
            } else {
                Scope::Namespaced
            },
        },
        namespace: namespace.to_owned(),
        name: name.map(str::to_owned),
        subresource: subresource.map(str::to_owned),
    })
}

type Built = Result<http::Request<Vec<u8>>, RequestError>;

/// Reads the recorded options and builds the request again; `None` where this crate has no such request.
fn rebuild(exchange: &Exchange) -> Option<Result<Built, Status>> {
    let (path, query) = exchange.path_and_query();
    let target = target(path)?;
    let collection = CollectionRequests::in_namespace(&target.resource, &target.namespace);
    let Some(name) = &target.name else {
        return rebuild_collection(exchange, collection, query);
    };
    let object = collection.object(name);
    match &target.subresource {
        None => rebuild_object(exchange, object, query),
        Some(subresource) => rebuild_subresource(exchange, object, subresource, name, query),
    }
}

fn rebuild_collection(
    exchange: &Exchange,
    collection: CollectionRequests<'_>,
    query: &str,
) -> Option<Result<Built, Status>> {
    Some(match exchange.method() {
        "GET" if asks_to_watch(query) => {
            WatchOptions::from_query(query).map(|options| collection.watch(&options))
        }
        "GET" => ListOptions::from_query(query).map(|options| collection.list(&options)),
        "POST" => {
            CreateOptions::from_query(query).map(|options| collection.create(Payload::json(vec![]), &options))
        }
        "DELETE" => ListOptions::from_query(query).and_then(|which| {
            delete_options(exchange, query).map(|options| collection.delete(&which, &options))
        }),
        _ => return None,
    })
}

fn rebuild_object(
    exchange: &Exchange,
    object: ObjectRequests<'_>,
    query: &str,
) -> Option<Result<Built, Status>> {
    let patch = |kind| PatchOptions::from_query(query).map(|options| object.patch(kind, vec![], &options));
    Some(match (exchange.method(), exchange.content_type()) {
        ("GET", _) => Ok(object.get(&GetOptions::from_query(query))),
        ("POST", _) => {
            CreateOptions::from_query(query).map(|options| object.create(Payload::json(vec![]), &options))
        }
        ("PUT", _) => {
            UpdateOptions::from_query(query).map(|options| object.update(Payload::json(vec![]), &options))
        }
        ("PATCH", "application/json-patch+json") => patch(PatchKind::Json),
        ("PATCH", "application/merge-patch+json") => patch(PatchKind::Merge),
        ("PATCH", "application/strategic-merge-patch+json") => patch(PatchKind::Strategic),
        ("PATCH", "application/apply-patch+yaml") => {
            ApplyOptions::from_query(query).map(|options| object.apply(vec![], &options))
        }
        ("DELETE", _) => delete_options(exchange, query).map(|options| object.delete(&options)),
        _ => return None,
    })
}

fn rebuild_subresource<'a>(
    exchange: &Exchange,
    object: ObjectRequests<'a>,
    subresource: &'a str,
    name: &str,
    query: &str,
) -> Option<Result<Built, Status>> {
    Some(match subresource {
        "log" => LogOptions::from_query(query, name).map(|options| object.log(&options)),
        "exec" => Ok(object.exec(&ExecOptions::from_query(query))),
        "attach" => Ok(object.attach(&AttachOptions::from_query(query))),
        "portforward" => PortForwardOptions::from_query(query).map(|options| object.port_forward(&options)),
        "proxy" => return None,
        subresource => return rebuild_object(exchange, object.subresource(subresource), query),
    })
}

/// The body counts; the query only where there is no body.
fn delete_options(exchange: &Exchange, query: &str) -> Result<DeleteOptions, Status> {
    match &exchange.request["body"] {
        Value::Null => DeleteOptions::from_query(query),
        body if body["text"].is_string() => Ok(DeleteOptions::default()),
        body => DeleteOptions::from_json(body),
    }
}

/// The parameters in one form: switches as `true` and `false`, selectors as they print, broken ones as sent.
fn parameters(query: &str) -> Vec<(String, String)> {
    let names = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split('=').next().unwrap());
    let params = QueryParams::parse(query);
    let mut all: Vec<(String, String)> = names
        .flat_map(|name| {
            params
                .all(name)
                .map(move |value| (name.to_owned(), one_form(name, value)))
        })
        .collect();
    all.sort();
    all.dedup();
    all
}

fn one_form(name: &str, value: &str) -> String {
    match name {
        "watch"
        | "allowWatchBookmarks"
        | "sendInitialEvents"
        | "force"
        | "stdin"
        | "stdout"
        | "stderr"
        | "tty"
        | "follow"
        | "previous"
        | "timestamps"
        | "orphanDependents" => (value != "false" && value != "0").to_string(),
        "labelSelector" => value.parse::<LabelSelector>().unwrap().to_string(),
        "fieldSelector" => value.parse::<FieldSelector>().unwrap().to_string(),
        _ => value.to_owned(),
    }
}

/// Parameters this crate does not send: printing, the server's deadline, and what another form has replaced.
fn is_expressible(method: &str, watching: bool, (name, value): &(String, String)) -> bool {
    match name.as_str() {
        "pretty" | "timeout" | "export" | "includeObject" => false,
        "allowWatchBookmarks" => watching,
        // Clients of this crate send the options of a deletion in the body.
        "dryRun" | "gracePeriodSeconds" | "propagationPolicy" | "orphanDependents" => method != "DELETE",
        // No limit is sent as no limit, no switch as no switch, no time as no time.
        "limit" | "timeoutSeconds" => value.parse::<i64>().is_ok_and(|number| number > 0),
        _ => value != "false" && !value.is_empty(),
    }
}

#[test]
fn recorded_requests_can_be_built_again() {
    let mut built_again = 0;
    for exchange in exchanges() {
        let Some(Ok(built)) = rebuild(&exchange) else {
            continue;
        };
        // Creating across namespaces is refused before it is sent; the server refuses it, too.
        let Ok(built) = built else {
            assert!(
                exchange.response["status"].as_u64() >= Some(400),
                "{}",
                exchange.id
            );
            continue;
        };
        let (path, query) = exchange.path_and_query();
        assert_eq!(built.uri().path(), path, "{}", exchange.id);
        let streams = path.ends_with("/exec") || path.ends_with("/attach") || path.ends_with("/portforward");
        if !streams {
            assert_eq!(built.method().as_str(), exchange.method(), "{}", exchange.id);
        }
        let sent = parameters(built.uri().query().unwrap_or_default());
        let mut recorded = parameters(query);
        let watching = asks_to_watch(query);
        recorded.retain(|parameter| is_expressible(exchange.method(), watching, parameter));
        for parameter in &recorded {
            assert!(
                sent.contains(parameter),
                "{}: {parameter:?} not in {sent:?}",
                exchange.id
            );
        }
        for parameter in &sent {
            // What servers assume where a watch does not say, and the deadline client-go sends beside the time.
            let assumed = matches!(
                parameter.0.as_str(),
                "resourceVersionMatch" | "sendInitialEvents" | "timeout"
            );
            assert!(
                assumed || recorded.contains(parameter),
                "{}: {parameter:?} added",
                exchange.id
            );
        }
        built_again += 1;
    }
    assert!(built_again > 200, "only {built_again} requests");
}

#[test]
fn recorded_nonsense_is_refused_as_it_was() {
    let mut refused = 0;
    for exchange in exchanges() {
        let recorded = &exchange.response["body"];
        let judged = [Some(400), Some(422)].contains(&exchange.response["status"].as_u64());
        match rebuild(&exchange) {
            Some(Err(status)) if judged => {
                assert_eq!(
                    &serde_json::to_value(&status).unwrap(),
                    recorded,
                    "{}",
                    exchange.id
                );
                refused += 1;
            }
            // Refused for another reason before the options were checked.
            Some(Err(_)) => assert!(
                exchange.response["status"].as_u64() >= Some(400),
                "{}",
                exchange.id
            ),
            Some(Ok(_)) => {
                let kind = recorded["details"]["kind"].as_str().unwrap_or_default();
                assert!(!kind.ends_with("Options"), "{} was accepted", exchange.id);
            }
            None => {}
        }
    }
    assert!(refused > 30, "only {refused} refusals");
}

#[test]
fn recorded_selections_are_ours() {
    let exchanges: Vec<Exchange> = exchanges()
        .into_iter()
        .filter(|exchange| exchange.id.starts_with("list/label-selectors "))
        .collect();
    let created: Vec<&Value> = exchanges
        .iter()
        .filter(|exchange| {
            exchange.method() == "POST"
                && exchange.request["path"]
                    .as_str()
                    .unwrap()
                    .ends_with("/configmaps")
        })
        .map(|exchange| &exchange.response["body"]["metadata"])
        .collect();
    let mut selections = 0;
    for exchange in exchanges.iter().filter(|exchange| exchange.method() == "GET") {
        let options = ListOptions::from_query(exchange.path_and_query().1).unwrap();
        let name = |metadata: &Value| metadata["name"].as_str().unwrap().to_owned();
        let ours: Vec<String> = created
            .iter()
            .filter(|metadata| options.label_selector.matches(&metadata["labels"]))
            .map(|metadata| name(metadata))
            .collect();
        // An empty list of metadata alone is null.
        let items = exchange.response["body"]["items"]
            .as_array()
            .into_iter()
            .flatten();
        let recorded: Vec<String> = items.map(|item| name(&item["metadata"])).collect();
        assert_eq!(ours, recorded, "{}", exchange.id);
        selections += 1;
    }
    assert!(
        created.len() > 3 && selections > 10,
        "{} objects, {selections} selections",
        created.len()
    );
}
