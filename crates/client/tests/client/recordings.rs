//! Answers and streams recorded from a real API server: each decodes to what was recorded.
//!
//! The recordings of the `meta` crate are always available; the full set is used too if it lies beside the project.

use std::path::{Path, PathBuf};

use crate::support::{Answer, Server, unlimited};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request};
use serde_json::{Value, json};
use watchkeeper_client::{DynamicApi, SendOptions, WatchEvent};
use watchkeeper_meta::Resource;
use watchkeeper_wire::Object;
use watchkeeper_wire::protobuf::Envelope;

fn recordings() -> Vec<(PathBuf, Value)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens/wire");
    let areas = std::fs::read_dir(root)
        .unwrap()
        .flatten()
        .filter(|entry| entry.path().is_dir());
    let files = areas.flat_map(|area| std::fs::read_dir(area.path()).unwrap().flatten());
    files
        .map(|file| {
            let path = file.path();
            let value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            (path, value)
        })
        .collect()
}

/// The bytes of a recorded body; `None` if they were not recorded.
fn bytes(body: &Value) -> Option<Bytes> {
    if let Some(text) = body["base64"].as_str() {
        return Some(STANDARD.decode(text).unwrap().into());
    }
    match body["text"].as_str() {
        Some(text) => Some(text.to_owned().into()),
        None => (!body.is_null()).then(|| body.to_string().into()),
    }
}

fn recorded_answer(response: &Value) -> Option<Answer> {
    let mut headers = Vec::new();
    for (name, value) in response["headers"].as_object()? {
        if let (name @ ("Content-Type" | "Retry-After" | "Warning"), Some(value)) =
            (name.as_str(), value.as_str())
        {
            let name = ["content-type", "retry-after", "warning"]
                .into_iter()
                .find(|known| name.eq_ignore_ascii_case(known));
            headers.push((name?, value.to_owned()));
        }
    }
    let status = u16::try_from(response["status"].as_u64()?).ok()?;
    Some(Answer::Whole(
        status,
        headers,
        bytes(&response["body"]).unwrap_or_default(),
    ))
}

/// A resource of the kind in the answer; only the kind matters here.
fn api(server: &Server, api_version: &str, kind: &str) -> DynamicApi {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = Resource::cluster(
        group.to_owned(),
        version.to_owned(),
        kind.trim_end_matches("List").to_owned(),
        "things",
    );
    server.client(unlimited()).dynamic(resource).keep_managed_fields()
}

/// `apiVersion` and `kind` as the body states them, in either encoding.
fn type_of(body: &Value) -> Option<(String, String)> {
    let bytes = bytes(body)?;
    if body["base64"].is_string() {
        let envelope = Envelope::read(&bytes).ok()?;
        return Some((envelope.api_version.to_owned(), envelope.kind.to_owned()));
    }
    Some((
        body["apiVersion"].as_str()?.to_owned(),
        body["kind"].as_str()?.to_owned(),
    ))
}

/// True if a body is an object or a list of objects, not a document about the server.
fn is_objects(kind: &str, body: &Value) -> bool {
    let document = ["Status", "Table", "Scale"].contains(&kind) || kind.starts_with("API");
    !document && (body["base64"].is_string() || body["metadata"].is_object())
}

fn same(object: &Object, recorded: &Value, list: &Value, context: &str) {
    let mut recorded = recorded.clone();
    if recorded["kind"].is_null() {
        recorded["kind"] = list["kind"].as_str().unwrap().trim_end_matches("List").into();
        recorded["apiVersion"] = list["apiVersion"].clone();
    }
    assert_eq!(object.to_value().unwrap(), recorded, "{context}");
}

#[tokio::test(start_paused = true)]
async fn recorded_failures_decode_to_their_status() {
    let mut count = 0;
    for (path, recording) in recordings() {
        for step in recording["steps"].as_array().unwrap() {
            let response = &step["response"];
            let code = response["status"].as_i64().unwrap_or_default();
            if code < 400 || step["projection"].is_string() {
                continue;
            }
            // Eleven times: a server that sends Retry-After is asked again.
            let server = Server::new((0..11).filter_map(|_| recorded_answer(response)));
            let request = Request::builder()
                .method(Method::POST)
                .uri("/x")
                .body(Bytes::new())
                .unwrap();
            let error = server
                .client(unlimited())
                .send(request, &SendOptions::default())
                .await
                .unwrap_err();
            let status = error
                .status()
                .unwrap_or_else(|| panic!("{} {}: {error:?}", path.display(), step["id"]));
            assert_eq!(i64::from(status.code), code, "{} {}", path.display(), step["id"]);
            if response["body"]["kind"] == "Status" {
                let mut sent = serde_json::to_value(status).unwrap();
                sent["metadata"] = response["body"]["metadata"].clone();
                assert_eq!(sent, response["body"], "{} {}", path.display(), step["id"]);
            }
            count += 1;
        }
    }
    assert!(count > 50, "only {count} failures were found");
}

#[tokio::test(start_paused = true)]
async fn objects_and_lists_decode_to_what_was_recorded() {
    let mut count = 0;
    for (path, recording) in recordings() {
        for step in recording["steps"].as_array().unwrap() {
            let response = &step["response"];
            let body = &response["body"];
            let Some((api_version, kind)) = type_of(body) else {
                continue;
            };
            let good = response["status"].as_u64().is_some_and(|status| status < 300);
            let stream = response["headers"]["Content-Type"]
                .as_str()
                .unwrap_or_default()
                .contains("stream=");
            if !good || stream || !is_objects(&kind, body) {
                continue;
            }
            let context = format!("{} {}", path.display(), step["id"]);
            let server = Server::new(recorded_answer(response));
            let api = api(&server, &api_version, &kind);
            let recorded_items = body["items"].as_array();
            if kind.ends_with("List") {
                let list = api
                    .list()
                    .await
                    .unwrap_or_else(|error| panic!("{context}: {error}"));
                assert!(list.undecodable.is_empty(), "{context}");
                for (object, recorded) in list.items.iter().zip(recorded_items.into_iter().flatten()) {
                    same(object, recorded, body, &context);
                }
                let recorded_len = recorded_items.map_or(list.items.len(), Vec::len);
                assert_eq!(list.items.len(), recorded_len, "{context}");
            } else {
                let object = api
                    .get("x")
                    .await
                    .unwrap_or_else(|error| panic!("{context}: {error}"));
                assert_eq!(
                    (object.kind(), &*object.api_version()),
                    (kind.as_str(), api_version.as_str()),
                    "{context}"
                );
                match body["base64"].is_string() {
                    true => assert!(object.to_value().unwrap()["metadata"].is_object(), "{context}"),
                    false => same(&object, body, body, &context),
                }
            }
            count += 1;
        }
    }
    assert!(count > 30, "only {count} answers were found");
}

#[tokio::test(start_paused = true)]
async fn streams_decode_to_what_was_recorded() {
    let mut count = 0;
    for (path, recording) in recordings() {
        for stream in recording["streams"].as_array().into_iter().flatten() {
            let Some(frames) = stream["frames"].as_array() else {
                continue;
            };
            let context = format!("{} {}", path.display(), stream["id"]);
            let content_type = stream["response"]["headers"]["Content-Type"]
                .as_str()
                .unwrap_or_default();
            if frames.is_empty() || !content_type.contains("json") && !content_type.contains("protobuf") {
                continue;
            }
            let (answer, sender) = crate::support::streamed(content_type);
            let server = Server::new([answer]);
            let mut watch = api(&server, "v1", "Anything").watch().await.unwrap();
            for frame in frames {
                sender.send(Ok(frame_bytes(frame))).unwrap();
                let event = watch
                    .next()
                    .await
                    .unwrap()
                    .unwrap_or_else(|error| panic!("{context}: {error}"));
                check_event(&event, frame, &context);
                count += 1;
            }
        }
    }
    assert!(count > 10, "only {count} events were found");
}

fn frame_bytes(frame: &Value) -> Bytes {
    match frame["base64"].as_str() {
        None => format!("{frame}\n").into(),
        Some(text) => {
            let frame = STANDARD.decode(text).unwrap();
            let len = u32::try_from(frame.len()).unwrap().to_be_bytes();
            [&len[..], &frame].concat().into()
        }
    }
}

fn check_event(event: &WatchEvent, frame: &Value, context: &str) {
    let (word, object) = match event {
        WatchEvent::Added(object) => ("ADDED", object),
        WatchEvent::Modified(object) => ("MODIFIED", object),
        WatchEvent::Deleted(object) => ("DELETED", object),
        WatchEvent::Bookmark(object) => ("BOOKMARK", object),
        WatchEvent::Error(status) => {
            if frame["base64"].is_null() {
                assert_eq!(json!(status.code), frame["object"]["code"], "{context}");
            }
            return;
        }
        WatchEvent::Undecodable(bad) => panic!("{context}: {bad:?}"),
    };
    if frame["base64"].is_null() {
        assert_eq!(word, frame["type"], "{context}");
        same(object, &frame["object"], frame, context);
    } else {
        object
            .to_value()
            .unwrap_or_else(|error| panic!("{context}: {error}"));
    }
}
