//! Discovery over recorded and scripted answers.

use crate::support::{Answer, Server, answer, unlimited};
use serde_json::{Value, json};
use watchkeeper_client::{ClientOptions, DiscoveryClient, DiscoveryOptions};
use watchkeeper_meta::GroupVersionKind;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

fn served(plural: &str, kind: &str, short_names: &[&str], categories: &[&str]) -> Value {
    json!({
        "resource": plural, "responseKind": {"group": "", "version": "", "kind": kind}, "scope": "Namespaced",
        "singularResource": kind.to_lowercase(), "verbs": ["get", "list"], "shortNames": short_names,
        "categories": categories,
        "subresources": [{"subresource": "status", "responseKind": {"kind": kind}, "verbs": ["get"]}],
    })
}

fn aggregated(groups: Value, etag: &str) -> Answer {
    let body =
        json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": groups});
    answer(
        200,
        &[("content-type", AGGREGATED), ("etag", etag)],
        body.to_string(),
    )
}

fn core() -> Answer {
    aggregated(
        json!([{"metadata": {}, "versions": [{"version": "v1", "freshness": "Current", "resources": [
            served("pods", "Pod", &["po"], &["all"]), served("services", "Service", &["svc"], &["all"]),
            served("events", "Event", &["ev"], &[]),
        ]}]}]),
        "\"c1\"",
    )
}

fn groups() -> Answer {
    aggregated(
        json!([
            {"metadata": {"name": "apps"}, "versions": [{"version": "v1", "freshness": "Current", "resources": [
                served("deployments", "Deployment", &["deploy"], &["all"]),
            ]}]},
            {"metadata": {"name": "events.k8s.io"}, "versions": [{"version": "v1", "freshness": "Current", "resources": [
                served("events", "Event", &["ev"], &[]),
            ]}]},
            // The preferred version's server is unreachable; one resource only carries a subresource.
            {"metadata": {"name": "acme.example"}, "versions": [
                {"version": "v1", "freshness": "Stale", "resources": [
                    served("widgets", "Widget", &[], &[]), served("gadgets", "Gadget", &[], &[]),
                ]},
                {"version": "v2", "freshness": "Current", "resources": [
                    served("widgets", "Widget", &["po"], &[]), served("tokens", "", &[], &[]),
                ]},
            ]},
        ]),
        "\"g1\"",
    )
}

fn discovery(server: &Server) -> DiscoveryClient {
    DiscoveryClient::new(server.client(unlimited()), DiscoveryOptions::default())
}

/// The two requests are sent at once; the script is in their order.
fn server(more: impl IntoIterator<Item = Answer>) -> Server {
    let server = Server::new([core(), groups()]);
    more.into_iter().for_each(|answer| server.push(answer));
    server
}

#[tokio::test]
async fn names_of_every_kind_find_their_resource() {
    let server = server([]);
    let discovery = discovery(&server).get().await.unwrap();
    let check = |name: &str, expected: Option<&str>| {
        let found = discovery.resource(name).map(|found| {
            let resource = &found.resource;
            format!("{}/{}/{}", resource.group, resource.version, resource.plural)
        });
        assert_eq!(found.as_deref(), expected, "{name}");
    };
    for name in ["pods", "pod", "po", "Pod", "PODS", "pods.v1", "pods.v1."] {
        check(name, Some("/v1/pods"));
    }
    for name in ["deploy", "deployments.apps", "deploy.v1.apps", "Deployment.apps"] {
        check(name, Some("apps/v1/deployments"));
    }
    check("events", Some("/v1/events"));
    check("events.events.k8s.io", Some("events.k8s.io/v1/events"));
    check("widgets", Some("acme.example/v2/widgets"));
    check("widgets.v1.acme.example", Some("acme.example/v1/widgets"));
    check("gadgets", Some("acme.example/v1/gadgets"));
    check("gadgets.acme", Some("acme.example/v1/gadgets"));
    check("widgets.v1", None);
    check("tokens", None);
    check("pods.apps", None);
    check("", None);

    let all: Vec<_> = discovery
        .category("all")
        .iter()
        .map(|found| found.resource.plural.to_string())
        .collect();
    assert_eq!(all, ["pods", "services", "deployments"]);
    let widget = GroupVersionKind::new("acme.example", "v1", "Widget");
    assert_eq!(
        discovery.resource_of_kind(&widget).unwrap().resource.version,
        "v1"
    );
    assert_eq!(
        discovery
            .resource("pods")
            .unwrap()
            .subresource("status")
            .unwrap()
            .kind,
        "Pod"
    );
    let stale: Vec<_> = discovery
        .failures
        .iter()
        .map(|failure| failure.group_version.to_string())
        .collect();
    assert_eq!(stale, ["acme.example/v1"]);
}

#[tokio::test]
async fn a_second_discovery_is_revalidated_by_etag() {
    let unchanged = || answer(304, &[], "");
    let server = server([unchanged(), unchanged()]);
    let discovery = discovery(&server);
    let first = discovery.get().await.unwrap();
    let second = discovery.refresh().await.unwrap();
    assert!(std::sync::Arc::ptr_eq(&first, &second));
    let tags: Vec<_> = server.seen()[2..]
        .iter()
        .map(|seen| seen.headers["if-none-match"].clone())
        .collect();
    assert_eq!(tags, ["\"c1\"", "\"g1\""]);
}

#[tokio::test]
async fn an_unknown_name_refreshes_discovery_once() {
    let server = server([answer(304, &[], ""), answer(304, &[], "")]);
    let discovery = discovery(&server);
    let error = discovery.resource("gizmos").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the server doesn't have a resource type \"gizmos\""
    );
    assert_eq!(server.seen().len(), 4);
    let kind = GroupVersionKind::new("acme.example", "v9", "Gizmo");
    server.push(answer(304, &[], ""));
    server.push(answer(304, &[], ""));
    let error = discovery.resource_of_kind(&kind).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "no matches for kind \"Gizmo\" in version \"acme.example/v9\""
    );
}

#[tokio::test]
async fn documents_can_be_kept_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let options = DiscoveryOptions {
        cache_directory: Some(directory.path().join("kube")),
    };
    let first = server([]);
    DiscoveryClient::new(first.client(unlimited()), options.clone())
        .get()
        .await
        .unwrap();
    let second = Server::new([answer(304, &[], ""), answer(304, &[], "")]);
    let found = DiscoveryClient::new(second.client(unlimited()), options.clone())
        .get()
        .await
        .unwrap();
    assert!(found.resource("deploy").is_some());
    // A damaged file costs a full answer and nothing else.
    std::fs::write(directory.path().join("kube/api.json"), "{").unwrap();
    let third = Server::new([core(), answer(304, &[], "")]);
    let found = DiscoveryClient::new(third.client(unlimited()), options)
        .get()
        .await
        .unwrap();
    assert!(found.resource("po").is_some() && found.resource("deploy").is_some());
}

#[tokio::test]
async fn older_servers_are_asked_version_by_version() {
    let resources =
        |list: Value| crate::support::json(200, json!({"kind": "APIResourceList", "resources": list}));
    let server = Server::new([
        crate::support::json(200, json!({"kind": "APIVersions", "versions": ["v1"]})),
        crate::support::json(
            200,
            json!({"kind": "APIGroupList", "groups": [
                {"name": "apps", "versions": [{"version": "v1beta1"}, {"version": "v1"}],
                 "preferredVersion": {"version": "v1"}},
                {"name": "broken.example", "versions": [{"version": "v1"}]},
            ]}),
        ),
        resources(json!([
            {"name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod", "verbs": ["list"], "shortNames": ["po"]},
            {"name": "pods/log", "singularName": "", "namespaced": true, "kind": "Pod", "verbs": ["get"]},
        ])),
        resources(
            json!([{"name": "deployments", "namespaced": true, "kind": "Deployment", "verbs": ["list"]}]),
        ),
        resources(
            json!([{"name": "deployments", "namespaced": true, "kind": "Deployment", "verbs": ["list"]}]),
        ),
        answer(503, &[], "service unavailable"),
    ]);
    let found = discovery(&server).get().await.unwrap();
    assert_eq!(
        found.resource("po").unwrap().subresource("log").unwrap().verbs,
        ["get"]
    );
    assert_eq!(found.resource("deployments").unwrap().resource.version, "v1");
    assert_eq!(found.failures.len(), 1);
    assert_eq!(found.failures[0].group_version.to_string(), "broken.example/v1");
    assert!(
        found.failures[0].reason.contains("/apis/broken.example/v1: "),
        "{}",
        found.failures[0].reason
    );
    assert_eq!(found.groups.len(), 3, "the rest is there");
    assert!(found.resource("").is_none(), "not even one without a singular");
}

/// Servers written in Go write `null` for an empty list.
#[tokio::test]
async fn null_is_an_empty_list() {
    let lonely = json!({
        "resource": "pods", "responseKind": {"kind": "Pod"}, "scope": "Namespaced", "singularResource": "pod",
        "verbs": null, "shortNames": null, "categories": null,
        "subresources": [{"subresource": "log", "responseKind": null, "verbs": null}],
    });
    let core = aggregated(
        json!([{"metadata": {}, "versions": [{"version": "v1", "resources": [lonely]}]}]),
        "\"c\"",
    );
    let groups = aggregated(
        json!([
            {"metadata": {"name": "a.example"}, "versions": [{"version": "v1", "resources": null}]},
            {"metadata": {"name": "b.example"}, "versions": null},
        ]),
        "\"g\"",
    );
    let found = discovery(&Server::new([core, groups])).get().await.unwrap();
    assert!(found.resource("pods").unwrap().verbs.is_empty());
    assert_eq!((found.groups.len(), found.failures.len()), (3, 0));

    let server = Server::new([
        crate::support::json(200, json!({"kind": "APIVersions", "versions": null})),
        crate::support::json(
            200,
            json!({"kind": "APIGroupList", "groups": [
                {"name": "a.example", "versions": [{"version": "v1"}], "preferredVersion": null},
                {"name": "b.example", "versions": null},
            ]}),
        ),
        crate::support::json(200, json!({"kind": "APIResourceList", "resources": null})),
    ]);
    let found = discovery(&server).get().await.unwrap();
    assert!(found.failures.is_empty(), "{:?}", found.failures);
    assert_eq!(found.groups.len(), 3);
}

/// An older server with more versions than the rate limit allows at once.
#[tokio::test(start_paused = true)]
async fn discovery_does_not_wait_for_the_rate_limit() {
    let versions: Vec<Value> = (0..60)
        .map(|version| json!({"version": format!("v{version}")}))
        .collect();
    let server = Server::new([
        crate::support::json(200, json!({"kind": "APIVersions", "versions": []})),
        crate::support::json(
            200,
            json!({"kind": "APIGroupList", "groups": [{"name": "acme.example", "versions": versions}]}),
        ),
    ]);
    for _ in 0..60 {
        server.push(crate::support::json(
            200,
            json!({"kind": "APIResourceList", "resources": []}),
        ));
    }
    let client = server.client(ClientOptions::default());
    let begun = tokio::time::Instant::now();
    let found = client.discover().await.unwrap();
    assert!(found.failures.is_empty());
    assert_eq!((server.seen().len(), begun.elapsed().as_secs()), (62, 0));
}

#[tokio::test]
async fn a_forbidden_tree_counts_as_empty() {
    let forbidden = || {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "no", "reason": "Forbidden", "code": 403,
        });
        crate::support::json(403, status)
    };
    let found = discovery(&Server::new([core(), forbidden()]))
        .get()
        .await
        .unwrap();
    assert!(found.resource("pods").is_some() && found.resource("deploy").is_none());
    let error = discovery(&Server::new([forbidden(), forbidden()])).get().await;
    assert!(error.unwrap_err().is_forbidden());
}

/// A server whose list of groups has not changed, but one of them answers again.
#[tokio::test]
async fn failed_groups_are_requested_again() {
    let groups = json!({"kind": "APIGroupList", "groups": [{"name": "acme.example", "versions": [{"version": "v1"}]}]});
    let headers = [("content-type", "application/json"), ("etag", "\"g1\"")];
    let widgets = json!([{"name": "widgets", "kind": "Widget", "verbs": []}]);
    let server = Server::new([
        answer(404, &[], ""),
        answer(200, &headers, groups.to_string()),
        answer(503, &[], "service unavailable"),
        answer(404, &[], ""),
        answer(304, &[], ""),
        crate::support::json(200, json!({"kind": "APIResourceList", "resources": widgets})),
    ]);
    let discovery = discovery(&server);
    assert_eq!(discovery.get().await.unwrap().failures.len(), 1);
    assert!(discovery.resource("widgets").await.is_ok());
}

#[tokio::test]
async fn the_server_version_is_read() {
    let server = Server::new([crate::support::json(
        200,
        json!({"major": "1", "minor": "37", "emulationMinor": "36", "gitVersion": "v1.37.0"}),
    )]);
    let version = server.client(unlimited()).server_version().await.unwrap();
    assert_eq!(
        [&*version.minor, &*version.emulation_minor, &*version.git_version],
        ["37", "36", "v1.37.0"]
    );
}
