//! Typed, dynamic and metadata clients with a scripted server: their requests, and the results of answers.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::{Server, answer, unlimited};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use watchkeeper_client::{
    BodyError, Client, ClientOptions, Error, ListItem, ObjectOrStatus, ResourceType, retry_on_conflict,
};
use watchkeeper_meta::{CreateOptions, GetOptions, ListOptions, LogOptions, PatchKind, Resource};
use watchkeeper_wire::protobuf::{Envelope, encode_body};
use watchkeeper_wire::schema::Schema;
use watchkeeper_wire::{Object, ObjectOptions};

#[derive(Serialize, Deserialize, Debug, PartialEq)]
struct ConfigMap {
    metadata: Value,
    #[serde(default)]
    data: Value,
}

impl ResourceType for ConfigMap {
    fn resource() -> Resource {
        resource("", "ConfigMap", "configmaps")
    }
}

/// Any JSON.
#[derive(Debug, Serialize, Deserialize)]
struct Typed(Value);

impl ResourceType for Typed {
    fn resource() -> Resource {
        ConfigMap::resource()
    }
}

fn resource(group: &'static str, kind: &'static str, plural: &'static str) -> Resource {
    Resource::namespaced(group, "v1", kind, plural)
}

fn config_map(name: &str, version: u64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "ns", "resourceVersion": version.to_string()},
        "data": {"a": "b"},
    })
}

/// Like the real kind: all data are text.
#[derive(Debug, Serialize, Deserialize)]
struct Strict {
    metadata: Value,
    #[serde(default)]
    data: BTreeMap<String, String>,
}

impl ResourceType for Strict {
    fn resource() -> Resource {
        ConfigMap::resource()
    }
}

fn list(items: Vec<Value>, continue_token: &str) -> Value {
    json!({
        "kind": "ConfigMapList", "apiVersion": "v1",
        "metadata": {"resourceVersion": "9", "continue": continue_token}, "items": items,
    })
}

fn failure(code: u16, reason: &str, metadata: Value) -> crate::support::Answer {
    crate::support::json(
        code,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure",
            "message": reason, "reason": reason, "code": code,
        }),
    )
}

fn protobuf(value: &Value) -> crate::support::Answer {
    let body = encode_body(Schema::builtin(), value).unwrap();
    answer(
        200,
        &[("content-type", "application/vnd.kubernetes.protobuf")],
        body,
    )
}

fn client(server: &Server) -> Client {
    server.client(unlimited())
}

#[tokio::test]
async fn each_verb_sends_its_method_path_and_options() {
    let object = || crate::support::json(200, config_map("a", 1));
    let server = Server::new((0..8).map(|_| object()));
    let api = client(&server).api::<ConfigMap>().namespace("ns");
    let it = api.get("a").await.unwrap();
    api.create(&it).await.unwrap();
    api.update(&it).await.unwrap();
    api.status().update(&it).await.unwrap();
    api.patch("a", PatchKind::Merge, &json!({"data": {"c": "d"}}))
        .await
        .unwrap();
    api.apply(&it, "me").force().await.unwrap();
    api.delete("a").await.unwrap();
    let scale = api.objects().clone().subresource("scale");
    scale.get("a").await.unwrap();
    let path = "/api/v1/namespaces/ns/configmaps";
    assert_eq!(
        server.lines(),
        [
            format!("GET {path}/a"),
            format!("POST {path}"),
            format!("PUT {path}/a"),
            format!("PUT {path}/a/status"),
            format!("PATCH {path}/a"),
            format!("PATCH {path}/a?fieldManager=me&force=true"),
            format!("DELETE {path}/a"),
            format!("GET {path}/a/scale"),
        ]
    );
    let seen = server.seen();
    let content_types: Vec<_> = seen
        .iter()
        .filter_map(|seen| seen.headers.get("content-type")?.to_str().ok())
        .collect();
    assert_eq!(
        content_types,
        [
            "application/json",
            "application/json",
            "application/json",
            "application/merge-patch+json",
            "application/apply-patch+yaml",
            "application/json",
        ]
    );
    assert_eq!(
        serde_json::from_slice::<Value>(&seen[4].body).unwrap(),
        json!({"data": {"c": "d"}})
    );
}

#[tokio::test]
async fn built_in_kinds_request_protobuf_and_decode_both_encodings() {
    let server = Server::new([
        protobuf(&config_map("a", 1)),
        crate::support::json(200, config_map("a", 1)),
    ]);
    let api = client(&server).api::<ConfigMap>().namespace("ns");
    let from_protobuf = api.get("a").await.unwrap();
    let from_json = api.get("a").await.unwrap();
    assert_eq!(from_protobuf.data, from_json.data);
    assert_eq!(
        server.seen()[0].headers["accept"],
        "application/vnd.kubernetes.protobuf,application/json"
    );
}

#[tokio::test]
async fn bodies_are_json_unless_protobuf_is_enabled() {
    let answers = (0..2).map(|_| protobuf(&config_map("a", 1)));
    let server = Server::new(answers);
    let api = client(&server).api::<ConfigMap>().namespace("ns");
    let map = ConfigMap {
        metadata: json!({"name": "a"}),
        data: json!({"colour": "blue"}),
    };
    let options = CreateOptions::default();
    api.create(&map).with(&options).await.unwrap();
    api.protobuf_bodies().create(&map).with(&options).await.unwrap();
    let seen = server.seen();
    assert_eq!(seen[0].headers["content-type"], "application/json");
    assert_eq!(serde_json::from_slice::<ConfigMap>(&seen[0].body).unwrap(), map);
    assert_eq!(
        seen[1].headers["content-type"],
        "application/vnd.kubernetes.protobuf"
    );
    let sent = Object::from_protobuf(&seen[1].body, &ObjectOptions::default()).unwrap();
    assert_eq!(sent.kind(), "ConfigMap");
    assert_eq!(sent.decode::<ConfigMap>().unwrap().data, map.data);
}

#[tokio::test]
async fn typed_writes_add_a_missing_type() {
    let answers = (0..3).map(|_| crate::support::json(200, config_map("a", 1)));
    let server = Server::new(answers);
    let api = client(&server).api::<ConfigMap>().namespace("ns");
    let map = ConfigMap {
        metadata: json!({"name": "a"}),
        data: json!({"colour": "blue"}),
    };
    api.create(&map).await.unwrap();
    api.update(&map).await.unwrap();
    api.apply(&map, "me").await.unwrap();
    for request in server.seen() {
        let sent: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(
            (&sent["apiVersion"], &sent["kind"]),
            (&json!("v1"), &json!("ConfigMap"))
        );
        assert_eq!(sent["data"], map.data);
    }
}

#[tokio::test]
async fn a_type_in_the_object_is_sent_unchanged() {
    let server = Server::new([crate::support::json(200, config_map("a", 1))]);
    let api = client(&server).api::<Typed>().namespace("ns");
    let stated = json!({"metadata": {"name": "a"}, "kind": "Other", "apiVersion": "v2"});
    api.create(&Typed(stated.clone())).await.unwrap();
    let sent: Value = serde_json::from_slice(&server.seen()[0].body).unwrap();
    assert_eq!(sent, stated);
}

#[tokio::test]
async fn custom_kinds_request_json() {
    let widget = json!({"apiVersion": "acme.example/v1", "kind": "Widget", "metadata": {"name": "a"}});
    let server = Server::new([crate::support::json(200, widget)]);
    let api = client(&server)
        .dynamic(resource("acme.example", "Widget", "widgets"))
        .namespace("ns");
    assert_eq!(api.get("a").await.unwrap().kind(), "Widget");
    assert_eq!(server.seen()[0].headers["accept"], "application/json");
    assert_eq!(
        server.lines(),
        ["GET /apis/acme.example/v1/namespaces/ns/widgets/a"]
    );
}

#[tokio::test]
async fn failures_in_protobuf_are_read() {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "configmaps \"a\" not found", "reason": "NotFound", "code": 404,
    });
    let body = encode_body(Schema::builtin(), &status).unwrap();
    let server = Server::new([answer(
        404,
        &[("content-type", "application/vnd.kubernetes.protobuf")],
        body,
    )]);
    let api = client(&server).api::<ConfigMap>().namespace("ns");
    let error = api.get("a").await.unwrap_err();
    assert_eq!(error.status().unwrap().message, "configmaps \"a\" not found");
    assert!(error.is_not_found());
}

#[tokio::test]
async fn find_tells_absence_from_failure() {
    let server = Server::new([
        failure(404, "NotFound", json!({})),
        failure(403, "Forbidden", json!({})),
    ]);
    let api = client(&server).api::<ConfigMap>().namespace("ns");
    assert_eq!(api.find("a").await.unwrap(), None);
    assert!(api.find("a").await.unwrap_err().is_forbidden());
}

#[tokio::test]
async fn names_with_path_separators_are_rejected() {
    let server = Server::default();
    let api = client(&server).api::<ConfigMap>().namespace("ns");
    let error = api.get("../secrets/a").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "GET configmaps: invalid resource name \"../secrets/a\": [may not contain '/']"
    );
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn lists_decode_equally_in_both_encodings() {
    let whole = list(vec![config_map("a", 1), config_map("b", 2)], "");
    let server = Server::new([protobuf(&whole), crate::support::json(200, whole)]);
    let api = client(&server).api::<ConfigMap>().namespace("ns");
    for _ in 0..2 {
        let list = api.objects().list().await.unwrap();
        assert_eq!(list.head.resource_version.as_str(), "9");
        let keys: Vec<_> = list.items.iter().map(|object| object.key().to_string()).collect();
        assert_eq!(keys, ["ns/a", "ns/b"]);
        let typed: ConfigMap = list.items[1].decode().unwrap();
        assert_eq!(typed.data, json!({"a": "b"}));
    }
}

#[tokio::test]
async fn an_undecodable_item_does_not_fail_a_list() {
    let items = json!([config_map("a", 1), {"metadata": {"name": 7}}, config_map("b", 2)]);
    let server = Server::new([crate::support::json(
        200,
        list(items.as_array().unwrap().clone(), ""),
    )]);
    let api = client(&server).api::<ConfigMap>();
    let list = api.objects().list().await.unwrap();
    assert_eq!(list.items.len(), 2);
    assert_eq!(list.undecodable[0].position, 1);
    assert_eq!(list.undecodable[0].bytes, r#"{"metadata":{"name":7}}"#);
}

#[tokio::test]
async fn a_typed_list_decodes_item_by_item() {
    let no_struct = json!({"metadata": {"name": "b", "namespace": "ns"}, "data": {"a": 1}, "spec": 7});
    let no_object = json!({"metadata": {"name": 7}, "data": 7});
    let items = vec![config_map("a", 1), no_object, no_struct, config_map("c", 3)];
    let body = list(items, "more");
    let server = Server::new((0..3).map(|_| crate::support::json(200, body.clone())));
    let api = client(&server).api::<Strict>().namespace("ns");
    let list = api.list().await.unwrap();
    assert_eq!((list.len(), list.is_empty()), (4, false));
    assert_eq!(list.head.continue_token, "more");
    assert_eq!(
        list.objects().len(),
        3,
        "an item that is not an object has no header"
    );
    let check = |items: Vec<Result<Strict, Error>>, first_error: &str| {
        let text = |item: Result<Strict, Error>| match item {
            Ok(map) => map.metadata["name"].to_string(),
            Err(error) => error.to_string(),
        };
        let asked = "GET http://localhost/api/v1/namespaces/ns/configmaps: the answer cannot be read";
        assert_eq!(
            items.into_iter().map(text).collect::<Vec<_>>(),
            [
                r#""a""#,
                &format!("{asked}: item 1: {first_error}"),
                &format!(
                    "{asked}: item 2: cannot decode v1 ConfigMap ns/b: invalid type: integer `1`, expected a \
                     string at line 1 column 14"
                ),
                r#""c""#,
            ]
        );
    };
    let no_header = "invalid JSON at byte 29: expected a string";
    check(list.iter().collect(), no_header);
    assert_eq!(list.iter().size_hint(), (4, Some(4)));
    check(list.into_iter().collect(), no_header);
    let list = api.list().await.unwrap();
    assert!(list.into_vec().unwrap_err().to_string().contains("item 1"));

    let mut stream = api.list_stream().await.unwrap();
    let mut items = Vec::new();
    while let Some(item) = stream.next().await {
        items.push(item);
    }
    // The header is not read here.
    check(
        items,
        "cannot decode v1 ConfigMap : invalid type: integer `7`, expected a map at line 1 column 9",
    );
    assert_eq!(stream.head().continue_token, "more");
}

#[tokio::test]
async fn a_decoding_error_names_the_request() {
    let mut map = config_map("a", 1);
    map["data"]["a"] = json!(1);
    let answers = (0..3).map(|_| crate::support::json(200, map.clone()));
    let server = Server::new(answers);
    let api = client(&server).api::<Strict>().namespace("ns");
    let check = |error: Error, asked: &str| {
        let wrong = "the answer cannot be read: cannot decode v1 ConfigMap ns/a: invalid type: integer `1`, \
                     expected a string at line 1 column 32";
        assert_eq!(error.to_string(), format!("{asked}: {wrong}"));
    };
    let maps = "http://localhost/api/v1/namespaces/ns/configmaps";
    let error = api.get("a").await.unwrap_err();
    check(error, &format!("GET {maps}/a"));
    let map = Strict {
        metadata: json!({"name": "a"}),
        data: BTreeMap::new(),
    };
    let error = api.create(&map).await.unwrap_err();
    check(error, &format!("POST {maps}"));
    let status = api.status();
    let error = status.update(&map).await.unwrap_err();
    check(error, &format!("PUT {maps}/a/status"));
}

/// A body that breaks off or ends too early.
struct Cut {
    content_type: &'static str,
    /// The connection resets; otherwise the server, or a proxy, ends the body regularly.
    is_broken: bool,
    rest: Bytes,
}

/// An answer cut at every byte, in JSON and in protobuf, in both ways.
fn cuts(whole: &Value) -> Vec<Cut> {
    let json = Bytes::from(whole.to_string());
    let protobuf = Bytes::from(encode_body(Schema::builtin(), whole).unwrap());
    let forms = [
        ("application/json", json),
        ("application/vnd.kubernetes.protobuf", protobuf),
    ];
    let mut cuts = Vec::new();
    for (content_type, body) in forms {
        for (is_broken, at) in [true, false]
            .into_iter()
            .flat_map(|is_broken| (0..body.len()).map(move |at| (is_broken, at)))
        {
            let rest = body.slice(..at);
            // Protobuf has no end mark: an envelope that ends after its content is complete.
            if is_broken || !Envelope::read(&rest).is_ok_and(|envelope| !envelope.raw.is_empty()) {
                cuts.push(Cut {
                    content_type,
                    is_broken,
                    rest,
                });
            }
        }
    }
    cuts
}

#[tokio::test]
async fn a_truncated_list_yields_its_complete_items_then_an_error() {
    for cut in cuts(&list(vec![config_map("a", 1), config_map("b", 2)], "")) {
        let (stream, sender) = crate::support::streamed(cut.content_type);
        let server = Server::new([stream]);
        let api = client(&server).api::<ConfigMap>();
        let mut stream = api.objects().list_stream().await.unwrap();
        sender.send(Ok(cut.rest.clone())).unwrap();
        if cut.is_broken {
            sender.send(Err(crate::support::Broken)).unwrap();
        }
        drop(sender);
        let mut names = Vec::new();
        let end = loop {
            match futures_util::StreamExt::next(&mut stream).await {
                Some(Ok(ListItem::Object(object))) => names.push(object.name().to_owned()),
                Some(Ok(ListItem::Undecodable(bad))) => panic!("{bad:?}"),
                Some(Err(error)) => break Some(error),
                None => break None,
            }
        };
        let place = format!("{} cut at {}", cut.content_type, cut.rest.len());
        let whole_names = ["a", "b"];
        assert_eq!(names, whole_names[..names.len()], "{place}");
        let error = end.unwrap_or_else(|| panic!("{place} was accepted as complete"));
        assert_eq!(error.is_connection_lost(), cut.is_broken, "{place}: {error}");
    }
}

#[tokio::test]
async fn a_truncated_object_is_an_error() {
    for cut in cuts(&config_map("a", 1)) {
        let (stream, sender) = crate::support::streamed(cut.content_type);
        let server = Server::new([stream]);
        let api = client(&server).api::<ConfigMap>().namespace("ns");
        let asking = tokio::spawn(async move { api.get("a").await });
        sender.send(Ok(cut.rest.clone())).unwrap();
        // The head of the answer is sent before the rest breaks.
        while server.seen().is_empty() {
            tokio::task::yield_now().await;
        }
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        if cut.is_broken {
            sender.send(Err(crate::support::Broken)).unwrap();
        }
        drop(sender);
        let error = asking.await.unwrap().unwrap_err();
        let place = format!("{} cut at {}", cut.content_type, cut.rest.len());
        assert_eq!(error.is_connection_lost(), cut.is_broken, "{place}: {error}");
        let asked = "GET http://localhost/api/v1/namespaces/ns/configmaps/a: ";
        assert!(error.to_string().starts_with(asked), "{error}");
    }
}

#[tokio::test]
async fn html_with_status_200_is_an_error_that_shows_it() {
    let server = Server::new([answer(
        200,
        &[("content-type", "text/html")],
        "<html>Sign in</html>",
    )]);
    let error = client(&server).api::<ConfigMap>().list().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "GET http://localhost/api/v1/configmaps: the answer is \"text/html\" beginning with \
         \"<html>Sign in</html>\"; is this a Kubernetes API server?"
    );
}

/// The list of a custom kind may have any name; an object that is not a list is still detected.
#[tokio::test]
async fn a_list_of_a_custom_kind_may_have_any_name() {
    let widget = json!({"apiVersion": "acme.example/v1", "kind": "Widget", "metadata": {"name": "a"}});
    let list = |kind: &str, items: Value| {
        let list = json!({"apiVersion": "acme.example/v1", "kind": kind, "metadata": {}, "items": items});
        crate::support::json(200, list)
    };
    let server = Server::new([
        list("Widgets", json!([widget])),
        list("BagOfWidgetsList", json!([widget])),
        list("Widgets", json!(null)),
        crate::support::json(200, widget.clone()),
    ]);
    let api = client(&server).dynamic(resource("acme.example", "Widget", "widgets"));
    for count in [1, 1, 0] {
        let found = api.list().await.unwrap();
        assert_eq!(found.items.len(), count);
        assert!(found.items.iter().all(|object| object.kind() == "Widget"));
    }
    let error = api.list().await.unwrap_err();
    assert!(
        error.to_string().ends_with("it is a \"Widget\", not a list"),
        "{error}"
    );
}

#[tokio::test]
async fn an_answer_without_a_type_is_json() {
    let server = Server::new([
        answer(200, &[], list(vec![config_map("a", 1)], "").to_string()),
        answer(200, &[], config_map("a", 1).to_string()),
    ]);
    let api = client(&server).api::<ConfigMap>().namespace("ns");
    assert_eq!(api.list().await.unwrap().len(), 1);
    api.get("a").await.unwrap();
}

#[tokio::test]
async fn metadata_clients_request_partial_objects() {
    let partial = json!({
        "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "9"},
        "items": [{"metadata": {"name": "a", "namespace": "ns"}}],
    });
    // A server without metadata-only answers sends whole objects.
    let server = Server::new([
        crate::support::json(200, partial),
        crate::support::json(200, list(vec![config_map("a", 1)], "")),
    ]);
    let api = client(&server).metadata(ConfigMap::resource());
    let kinds = [("PartialObjectMetadata", "meta.k8s.io/v1"), ("ConfigMap", "v1")];
    for (kind, api_version) in kinds {
        let list = api.list().await.unwrap();
        assert_eq!(
            (list.items[0].kind(), &*list.items[0].api_version()),
            (kind, api_version)
        );
        assert_eq!(list.items[0].name(), "a");
    }
    assert_eq!(
        server.seen()[0].headers["accept"],
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
         application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
    );
}

/// The same, with the answer split at any byte.
#[tokio::test]
async fn whole_objects_instead_of_metadata_are_detected_in_any_chunking() {
    // Items of built-in lists do not state their type.
    let body =
        r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"a"}}]}"#;
    for cut in 1..body.len() {
        let (stream, sender) = crate::support::streamed("application/json");
        let server = Server::new([stream]);
        let api = client(&server).metadata(ConfigMap::resource());
        let (front, back) = body.split_at(cut);
        for part in [front, back] {
            sender.send(Ok(part.to_owned().into())).unwrap();
        }
        drop(sender);
        let list = api.list().await;
        let list = list.unwrap_or_else(|error| panic!("{front}|{back}: {error}"));
        let item = &list.items[0];
        assert_eq!((item.kind(), item.name()), ("ConfigMap", "a"), "{front}|{back}");
    }
}

#[tokio::test]
async fn a_list_with_invalid_json_ends_with_its_first_error() {
    let body = r#"{"kind":"ConfigMapList","apiVersion":"v1","items":[{"metadata":{"name":"a"}} oops {}]}"#;
    let server = Server::new(
        (0..2).map(|_| crate::support::answer(200, &[("content-type", "application/json")], body)),
    );
    let api = client(&server).api::<ConfigMap>();
    let mut structs = api.list_stream().await.unwrap();
    assert_eq!(structs.next().await.unwrap().unwrap().metadata["name"], "a");
    let error = structs.next().await.unwrap().unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("invalid JSON at byte 77: expected a comma or the end of the items"),
        "{error}"
    );
    assert!(structs.next().await.is_none(), "and nothing more");

    let objects = api.objects().list_stream().await.unwrap();
    let items: Vec<_> = futures_util::StreamExt::collect(objects).await;
    assert_eq!(items.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false]);
}

#[tokio::test]
async fn deletions_answer_with_an_object_or_a_status() {
    let done = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": {"name": "a"}});
    let server = Server::new([
        crate::support::json(200, config_map("a", 1)),
        crate::support::json(200, done),
    ]);
    let api = client(&server).api::<ConfigMap>().namespace("ns");
    let first = api.delete("a").await.unwrap();
    assert!(matches!(first, ObjectOrStatus::Object(object) if object.metadata["name"] == "a"));
    let second = api.delete("a").await.unwrap();
    assert!(matches!(second, ObjectOrStatus::Status(status) if status.is_success()));
}

#[tokio::test]
async fn a_pager_turns_pages() {
    let server = Server::new([
        crate::support::json(200, list(vec![config_map("a", 1)], "t1")),
        crate::support::json(200, list(vec![config_map("b", 2)], "")),
    ]);
    let options = ListOptions {
        resource_version: watchkeeper_meta::ResourceVersion::any(),
        ..Default::default()
    };
    let list = client(&server)
        .api::<ConfigMap>()
        .pages()
        .with(&options)
        .page_size(1)
        .collect()
        .await
        .unwrap();
    assert_eq!(list.items.len(), 2);
    assert_eq!(
        server.lines(),
        [
            "GET /api/v1/configmaps?limit=1&resourceVersion=0",
            "GET /api/v1/configmaps?continue=t1&limit=1"
        ]
    );
}

#[tokio::test]
async fn an_expired_token_continues_after_the_last_object() {
    let server = Server::new([
        crate::support::json(200, list(vec![config_map("a", 1)], "t1")),
        failure(410, "Expired", json!({"continue": "t2"})),
        crate::support::json(200, list(vec![config_map("c", 3)], "")),
    ]);
    let mut pager = client(&server).api::<ConfigMap>().pages().page_size(1);
    let mut names = Vec::new();
    while let Some(Ok(ListItem::Object(object))) = pager.next().await {
        names.push(object.name().to_owned());
    }
    assert_eq!(
        (names, pager.is_consistent()),
        (vec!["a".to_owned(), "c".to_owned()], false)
    );
}

#[tokio::test]
async fn a_collected_list_is_of_one_state() {
    let page = |names: &[&str], token: &str| {
        crate::support::json(
            200,
            list(names.iter().map(|name| config_map(name, 1)).collect(), token),
        )
    };
    let whole = || page(&["b", "c"], "");
    // It does not matter whether the server offers a replacement token.
    for offer in [json!({"continue": "t2"}), json!({})] {
        let server = Server::new([page(&["a"], "t1"), failure(410, "Expired", offer), whole()]);
        let begin = ListOptions {
            resource_version: watchkeeper_meta::ResourceVersion::any(),
            ..Default::default()
        };
        let pager = client(&server)
            .api::<ConfigMap>()
            .pages()
            .with(&begin)
            .page_size(1);
        let list = pager.collect().await.unwrap();
        let names: Vec<_> = list.items.iter().map(|object| object.name()).collect();
        assert_eq!(names, ["b", "c"]);
        assert_eq!(
            server.lines(),
            [
                "GET /api/v1/configmaps?limit=1&resourceVersion=0",
                "GET /api/v1/configmaps?continue=t1&limit=1",
                "GET /api/v1/configmaps?resourceVersion=0",
            ],
            "everything in one page, at the requested version"
        );
    }
    // A start with an expired token also lists everything.
    let server = Server::new([failure(410, "Expired", json!({})), whole()]);
    let begin = ListOptions {
        continue_token: "old".to_owned(),
        ..Default::default()
    };
    let pager = client(&server).api::<ConfigMap>().pages().with(&begin);
    assert_eq!(pager.collect().await.unwrap().items.len(), 2);
    assert_eq!(server.lines()[1], "GET /api/v1/configmaps");
    // A first page that has expired is an error: a retry would not help.
    let server = Server::new([failure(410, "Expired", json!({}))]);
    let pager = client(&server).api::<ConfigMap>().pages();
    assert!(pager.collect().await.unwrap_err().is_expired());
    assert_eq!(server.lines().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn conflicts_are_retried_five_times() {
    let conflict = || failure(409, "Conflict", json!({}));
    let server = Server::new([
        conflict(),
        conflict(),
        crate::support::json(200, config_map("a", 1)),
    ]);
    let api = client(&server).api::<ConfigMap>().namespace("ns");
    retry_on_conflict(|| async { api.get("a").await }).await.unwrap();

    let server = Server::new((0..9).map(|_| conflict()));
    let api = client(&server).api::<ConfigMap>().namespace("ns");
    // On its own task: the future must be `Send`.
    let task = async move { retry_on_conflict(|| async { api.get("a").await }).await };
    let result = tokio::spawn(task).await.unwrap();
    assert!(result.unwrap_err().is_conflict());
    assert_eq!(server.seen().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_request_uses_its_own_timeout() {
    let (silent, _keep) = crate::support::streamed("application/json");
    let server = Server::new([silent]);
    let api = client(&server).api::<ConfigMap>().timeout(Duration::from_secs(7));
    let begun = tokio::time::Instant::now();
    assert!(api.list().await.unwrap_err().is_deadline());
    assert_eq!(begun.elapsed().as_secs(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_followed_log_has_no_timeout() {
    let (stream, lines) = crate::support::streamed("text/plain");
    let (short, no_lines) = crate::support::streamed("text/plain");
    let server = Server::new([stream, short]);
    let options = ClientOptions {
        timeout: Some(Duration::from_secs(5)),
        ..unlimited()
    };
    let pods = server.client(options).dynamic(resource("", "Pod", "pods"));
    let pods = pods.namespace("ns");
    let follow = LogOptions {
        follow: true,
        container: "main".to_owned(),
        ..Default::default()
    };
    let mut log = pods.log("web").with(&follow).await.unwrap();
    for line in ["one\n", "two\n"] {
        tokio::time::advance(Duration::from_secs(60)).await;
        lines.send(Ok(line.into())).unwrap();
        assert_eq!(
            log.chunk().await.unwrap().unwrap(),
            line,
            "each chunk as soon as it arrives"
        );
    }
    drop(lines);
    assert!(log.chunk().await.is_none());

    let mut log = pods.log("web").await.unwrap();
    let error = log.chunk().await.unwrap().unwrap_err();
    assert!(matches!(error, BodyError::Deadline), "{error}");
    drop(no_lines);
    assert_eq!(
        server.lines(),
        [
            "GET /api/v1/namespaces/ns/pods/web/log?container=main&follow=true",
            "GET /api/v1/namespaces/ns/pods/web/log?timeout=5s",
        ]
    );
}

#[tokio::test]
async fn a_request_is_sent_when_it_is_awaited() {
    let answer = || crate::support::json(200, config_map("a", 1));
    let server = Server::new([answer(), answer()]);
    let api = client(&server).api::<ConfigMap>().namespace("ns");
    drop(api.delete("a"));
    assert!(server.lines().is_empty());
    let any = GetOptions {
        resource_version: watchkeeper_meta::ResourceVersion::any(),
    };
    let (first, second) = tokio::join!(api.get("a"), api.get("a").with(&any));
    assert!(first.is_ok() && second.is_ok());
    let mut lines = server.lines();
    lines.sort();
    assert_eq!(
        lines,
        [
            "GET /api/v1/namespaces/ns/configmaps/a",
            "GET /api/v1/namespaces/ns/configmaps/a?resourceVersion=0",
        ]
    );
}
