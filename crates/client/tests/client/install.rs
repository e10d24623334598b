//! Installing definitions on a scripted server: the conditions waited for, and the errors if they are not met.

use crate::support::{Answer, Server, streamed, unlimited};
use serde_json::{Value, json};
use watchkeeper_client::{InstallError, install_crds};

fn crd(conditions: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "sites.example.com", "resourceVersion": "7"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"plural": "sites", "kind": "Site"},
            "versions": [
                {"name": "v2", "served": true, "storage": true},
                {"name": "v1", "served": true, "storage": false},
                {"name": "v0", "served": false, "storage": false},
            ],
        },
        "status": {"conditions": conditions},
    })
}

fn established() -> Value {
    crd(json!([{"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"}]))
}

fn list(crd: Value) -> Answer {
    let list = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinitionList",
        "metadata": {"resourceVersion": "7"}, "items": [crd],
    });
    crate::support::json(200, list)
}

/// The documents of `/api` and `/apis`: a group with these versions of the kind.
fn discovery(versions: &[&str]) -> [Answer; 2] {
    let kind = json!({"group": "example.com", "kind": "Site"});
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| {
            let resource =
                json!({"resource": "sites", "responseKind": kind, "scope": "Cluster", "verbs": ["get"]});
            json!({"version": version, "resources": [resource], "freshness": "Current"})
        })
        .collect();
    let document = |items: Value| {
        let list =
            json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items});
        let content_type = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        crate::support::answer(200, &[("content-type", content_type)], list.to_string())
    };
    [
        document(json!([])),
        document(json!([{"metadata": {"name": "example.com"}, "versions": versions}])),
    ]
}

async fn install(server: &Server) -> Result<(), InstallError> {
    let client = server.client(unlimited());
    install_crds(&client, &[crd(json!([]))]).await
}

#[tokio::test(start_paused = true)]
async fn installation_waits_until_discovery_lists_every_served_version() {
    let (watch, events) = streamed("application/json");
    let event = json!({"type": "MODIFIED", "object": established()});
    events.send(Ok(format!("{event}\n").into())).unwrap();
    let server = Server::new([
        crate::support::json(200, crd(json!([]))),
        list(crd(json!([]))),
        watch,
    ]);
    for versions in [&[][..], &["v2"], &["v2", "v1"]] {
        discovery(versions)
            .into_iter()
            .for_each(|answer| server.push(answer));
    }
    install(&server).await.unwrap();
    let asked = server.lines();
    assert_eq!(
        asked.iter().filter(|line| *line == "GET /apis").count(),
        3,
        "{asked:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_is_never_established_is_named_with_the_condition() {
    let (watch, _events) = streamed("application/json");
    let server = Server::new([
        crate::support::json(200, crd(json!([]))),
        list(crd(json!([]))),
        watch,
    ]);
    assert_eq!(
        install(&server).await.unwrap_err().to_string(),
        "sites.example.com is not ready after 30s: waited for Established"
    );
}

#[tokio::test(start_paused = true)]
async fn a_version_that_discovery_never_lists_is_named() {
    let server = Server::new([crate::support::json(200, crd(json!([]))), list(established())]);
    for _ in 0..100 {
        discovery(&["v2"])
            .into_iter()
            .for_each(|answer| server.push(answer));
    }
    assert_eq!(
        install(&server).await.unwrap_err().to_string(),
        "sites.example.com is not ready after 30s: waited for discovery of example.com/v1 sites"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_is_begun_again() {
    let (first, events) = streamed("application/json");
    drop(events);
    let server = Server::new([
        crate::support::json(200, crd(json!([]))),
        list(crd(json!([]))),
        first,
        list(established()),
    ]);
    discovery(&["v2", "v1"])
        .into_iter()
        .for_each(|answer| server.push(answer));
    install(&server).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn names_that_another_kind_has_are_refused() {
    let refused =
        json!([{"type": "NamesAccepted", "status": "False", "message": "\"sites\" is already in use"}]);
    let server = Server::new([crate::support::json(200, crd(json!([]))), list(crd(refused))]);
    assert_eq!(
        install(&server).await.unwrap_err().to_string(),
        "sites.example.com is refused: condition NamesAccepted is False: \"sites\" is already in use"
    );
}
