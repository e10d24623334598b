//! The client against the embedded server, in-process and over TLS, with the same bytes as on a network.

mod proxy;

use std::time::Duration;

use serde_json::{Value, json};
use watchkeeper_client::config::{Config, Credentials};
use watchkeeper_client::{
    Client, ClientOptions, DiscoveryClient, DiscoveryOptions, DynamicApi, InProcess, LoadOptions,
    ObjectOrStatus, Secret, TokenOptions, WatchEvent, retry_on_conflict,
};
use watchkeeper_meta::{DeleteOptions, PatchKind, Resource, ResourceVersion, Scope, WatchOptions};
use watchkeeper_server::{Flow, Handle, RequestMatch, Server, Verb};

/// Without rate limits or additional connections.
fn unlimited() -> ClientOptions {
    ClientOptions {
        rate_limit: None,
        loopback_http1: false,
        user_agent: "test/1.0".to_owned(),
        ..Default::default()
    }
}

async fn start() -> (Handle, Client) {
    let server = Server::builder().in_memory().start().await.unwrap();
    let client = in_process(&server);
    (server, client)
}

fn in_process(server: &Handle) -> Client {
    let connector = server.connector();
    let connect = InProcess::new(move || {
        let connector = connector.clone();
        async move { connector.connect().await }
    });
    let mut config = Config::new("http://localhost".parse().unwrap());
    config.credentials = Credentials::Token(Secret::new(server.admin_token().reveal()));
    Client::in_process_as(connect, &config, unlimited()).unwrap()
}

fn resource(group: &'static str, kind: &'static str, plural: &'static str, scope: Scope) -> Resource {
    Resource {
        group: group.into(),
        version: "v1".into(),
        kind: kind.into(),
        plural: plural.into(),
        scope,
    }
}

fn config_maps(client: &Client) -> DynamicApi {
    client
        .dynamic(resource("", "ConfigMap", "configmaps", Scope::Namespaced))
        .namespace("default")
}

fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

#[tokio::test]
async fn an_object_is_created_updated_and_deleted() {
    let (server, client) = start().await;
    let api = config_maps(&client);
    let created = api.create(&config_map("a", json!({"k": "1"}))).await.unwrap();
    assert_eq!(created.key().to_string(), "default/a");
    let again = api.create(&config_map("a", json!({}))).await.unwrap_err();
    assert!(again.is_already_exists());
    assert_eq!(again.status().unwrap().message, "configmaps \"a\" already exists");

    let mut value = created.to_value().unwrap();
    value["data"]["k"] = "2".into();
    let updated = api.update("a", &value).await.unwrap();
    let stale = api.update("a", &value).await.unwrap_err();
    assert!(stale.is_conflict());
    assert_eq!(
        stale.status().unwrap().message,
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes \
         to the latest version and try again"
    );
    let patch = json!({"data": {"k": "3"}});
    let patched = api.patch("a", PatchKind::Merge, &patch).await.unwrap();
    assert_eq!(patched.to_value().unwrap()["data"]["k"], "3");
    assert_ne!(patched.resource_version(), updated.resource_version());

    let deleted = api.delete("a").await.unwrap();
    assert!(matches!(deleted, ObjectOrStatus::Status(status) if status.is_success()));
    assert!(api.get("a").await.unwrap_err().is_not_found());
    server.shutdown().await;
}

#[tokio::test]
async fn built_in_kinds_are_sent_as_protobuf() {
    let (server, client) = start().await;
    let namespaces = client.dynamic(resource("", "Namespace", "namespaces", Scope::Cluster));
    let list = namespaces.list().await.unwrap();
    assert!(list.items.iter().any(|namespace| namespace.name() == "default"));
    assert!(
        list.items
            .iter()
            .all(|namespace| namespace.encoding() == watchkeeper_wire::Encoding::Protobuf)
    );
    let json = namespaces.clone().json_only().list().await.unwrap();
    let values = |list: &watchkeeper_client::ObjectList| -> Vec<Value> {
        list.items
            .iter()
            .map(|object| object.to_value().unwrap())
            .collect()
    };
    assert_eq!(values(&list), values(&json));
    let partial = namespaces.metadata_only().list().await.unwrap();
    assert_eq!(partial.items[0].kind(), "PartialObjectMetadata");
    server.shutdown().await;
}

#[tokio::test]
async fn a_watch_delivers_exactly_the_changes_after_its_version() {
    let (server, client) = start().await;
    let api = config_maps(&client);
    let first = api.create(&config_map("a", json!({}))).await.unwrap();
    let options = WatchOptions {
        resource_version: first.version(),
        ..Default::default()
    };
    for json in [false, true] {
        let watched = if json {
            api.clone().json_only()
        } else {
            api.clone()
        };
        let mut watch = watched.watch().with(&options).await.unwrap();
        if !json {
            api.create(&config_map("b", json!({}))).await.unwrap();
            api.patch("b", PatchKind::Merge, &json!({"data": {"k": "1"}}))
                .await
                .unwrap();
            api.delete("b").await.unwrap();
        }
        let mut seen = Vec::new();
        while seen.len() < 3 {
            let (word, object) = match watch.next().await.unwrap().unwrap() {
                WatchEvent::Added(object) => ("ADDED", object),
                WatchEvent::Modified(object) => ("MODIFIED", object),
                WatchEvent::Deleted(object) => ("DELETED", object),
                WatchEvent::Bookmark(_) => continue,
                other => panic!("{other:?}"),
            };
            seen.push(format!("{word} {}", object.name()));
        }
        assert_eq!(seen, ["ADDED b", "MODIFIED b", "DELETED b"]);
    }
    server.shutdown().await;
}

#[tokio::test]
async fn fifty_watches_share_one_connection() {
    let (server, client) = start().await;
    let api = config_maps(&client);
    let mut watches = Vec::new();
    for _ in 0..50 {
        let options = WatchOptions {
            resource_version: ResourceVersion::any(),
            ..Default::default()
        };
        watches.push(api.watch().with(&options).await.unwrap());
    }
    assert_eq!(client.open_connections(), 1);
    api.create(&config_map("seen-by-all", json!({}))).await.unwrap();
    for watch in &mut watches {
        loop {
            match watch.next().await.unwrap().unwrap() {
                WatchEvent::Added(object) if object.name() == "seen-by-all" => break,
                WatchEvent::Added(_) | WatchEvent::Bookmark(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    server.shutdown().await;
}

#[tokio::test]
async fn pages_add_up_to_the_list() {
    let (server, client) = start().await;
    let api = config_maps(&client);
    for index in 0..7 {
        api.create(&config_map(&format!("c-{index}"), json!({})))
            .await
            .unwrap();
    }
    let names = |list: watchkeeper_client::ObjectList| -> Vec<String> {
        list.items.iter().map(|object| object.name().to_owned()).collect()
    };
    let whole = names(api.list().await.unwrap());
    let paged = names(api.pages().page_size(2).collect().await.unwrap());
    assert_eq!(whole, paged);
    server.shutdown().await;
}

#[tokio::test]
async fn apply_and_retry_work_together() {
    let (server, client) = start().await;
    let api = config_maps(&client);
    api.apply("a", &config_map("a", json!({"k": "1"})), "me")
        .await
        .unwrap();
    let updated = retry_on_conflict(|| async {
        let mut value = api.get("a").await?.to_value().unwrap();
        value["data"]["k"] = "2".into();
        api.update("a", &value).await
    })
    .await
    .unwrap();
    assert_eq!(updated.to_value().unwrap()["data"]["k"], "2");
    server.shutdown().await;
}

/// Subresources: status, scale, log, binding, eviction, token.
#[tokio::test]
async fn subresources_are_read_and_written() {
    let (server, client) = start().await;
    let api = |group, kind, plural| {
        let resource = resource(group, kind, plural, Scope::Namespaced);
        client.dynamic(resource).namespace("default")
    };
    let containers = json!([{"name": "web", "image": "web:1"}]);
    let labels = json!({"app": "web"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
    let spec = json!({"replicas": 2, "selector": {"matchLabels": labels}, "template": template});
    let deployments = api("apps", "Deployment", "deployments");
    deployments
        .create(&json!({"metadata": {"name": "web"}, "spec": spec}))
        .await
        .unwrap();
    let scales = deployments.clone().subresource("scale");
    let mut scale = scales.get("web").await.unwrap().to_value().unwrap();
    assert_eq!(
        (&scale["kind"], &scale["spec"]["replicas"]),
        (&json!("Scale"), &json!(2))
    );
    scale["spec"]["replicas"] = json!(5);
    scales.update("web", &scale).await.unwrap();
    let scale = deployments.scale("web").await.unwrap();
    assert_eq!(
        (scale.desired, scale.current, &*scale.selector),
        (5, 0, "app=web")
    );
    assert_eq!(deployments.scale_to("web", 3).await.unwrap().desired, 3);
    assert_eq!(deployments.scale_to("web", 5).await.unwrap().desired, 5);
    assert!(deployments.scale("nobody").await.unwrap_err().is_not_found());
    let status = deployments.clone().subresource("status");
    let patch = json!({"spec": {"replicas": 9}, "status": {"replicas": 5, "observedGeneration": 2}});
    let whole = status
        .patch("web", PatchKind::Merge, &patch)
        .await
        .unwrap()
        .to_value()
        .unwrap();
    assert_eq!(
        (&whole["spec"]["replicas"], &whole["status"]["replicas"]),
        (&json!(5), &json!(5))
    );

    let pods = api("", "Pod", "pods");
    let pod = json!({"metadata": {"name": "web-0"}, "spec": {"containers": containers}});
    pods.create(&pod).await.unwrap();
    let mut log = pods.log("web-0").await.unwrap();
    assert!(log.chunk().await.is_none(), "an unscheduled pod has an empty log");
    let binding = json!({"metadata": {"name": "web-0"}, "target": {"kind": "Node", "name": "node-1"}});
    let bound = pods.clone().subresource("binding").post("web-0", &binding).await;
    assert!(matches!(bound.unwrap(), ObjectOrStatus::Status(status) if status.is_success()));
    let placed = pods.get("web-0").await.unwrap();
    assert_eq!(placed.to_value().unwrap()["spec"]["nodeName"], "node-1");
    let at_once = DeleteOptions {
        grace_period_seconds: Some(0),
        ..Default::default()
    };
    pods.evict("web-0").with(&at_once).await.unwrap();
    assert!(pods.get("web-0").await.unwrap_err().is_not_found());

    let accounts = api("", "ServiceAccount", "serviceaccounts");
    accounts
        .create(&json!({"metadata": {"name": "robot"}}))
        .await
        .unwrap();
    let wish = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"audiences": ["api"], "expirationSeconds": 600},
    });
    let token = accounts.clone().subresource("token").post("robot", &wish).await;
    let token = token.unwrap();
    let ObjectOrStatus::Object(token) = token else {
        panic!("{token:?} is not a token");
    };
    assert_eq!(token.kind(), "TokenRequest");
    assert!(token.to_value().unwrap()["status"]["token"].is_string());
    let token = accounts.token("robot").await.unwrap();
    assert!(token.token.expose().split('.').count() == 3, "it is a JWT");
    let for_others = TokenOptions {
        audiences: vec!["others".into()],
        expires_after: Some(Duration::from_secs(86_400)),
    };
    let longer = accounts.token("robot").with(&for_others).await.unwrap();
    assert!(longer.expiration_timestamp > token.expiration_timestamp);
    server.shutdown().await;
}

#[tokio::test]
async fn discovery_lists_what_the_server_serves() {
    let (server, client) = start().await;
    let discovery = DiscoveryClient::new(client.clone(), DiscoveryOptions::default());
    let deployments = discovery.resource("deploy").await.unwrap();
    assert_eq!(
        deployments.resource,
        resource("apps", "Deployment", "deployments", Scope::Namespaced)
    );
    assert!(discovery.get().await.unwrap().failures.is_empty());
    let all = discovery.resources("all").await.unwrap();
    assert!(all.iter().any(|found| found.resource.plural == "pods"));
    assert_eq!(client.server_version().await.unwrap().major, "1");
    server.shutdown().await;
}

#[tokio::test]
async fn the_kubeconfig_of_a_server_connects_over_tls() {
    let address = "127.0.0.1:0".parse().unwrap();
    let server = Server::builder()
        .in_memory()
        .listen(address)
        .start()
        .await
        .unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config");
    server.write_kubeconfig(&path).unwrap();
    let config = Config::load(&LoadOptions {
        path: Some(path),
        ..Default::default()
    })
    .unwrap();
    let client = Client::new(&config, unlimited()).unwrap();
    let api = config_maps(&client);
    api.create(&config_map("a", json!({}))).await.unwrap();
    let options = WatchOptions {
        resource_version: ResourceVersion::any(),
        ..Default::default()
    };
    let mut watch = api.watch_websocket().with(&options).await.unwrap();
    let event = tokio::time::timeout(Duration::from_secs(60), watch.next())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(matches!(event, WatchEvent::Added(object) if object.name() == "a"));
    server.shutdown().await;
}

/// Cuts the stream at many points and resumes after the last version seen: every event is delivered exactly once.
#[tokio::test]
async fn resuming_after_every_cut_loses_and_repeats_nothing() {
    let (server, client) = start().await;
    let api = config_maps(&client);
    let begin = api.list().await.unwrap().head.resource_version;
    let cut = RequestMatch::new(Verb::Watch, "configmaps");

    let writer = async {
        let mut written = Vec::new();
        for index in 0..40 {
            let name = format!("c-{index}");
            let created = api.create(&config_map(&name, json!({}))).await.unwrap();
            written.push(created.resource_version().to_owned());
            if index % 3 == 0 {
                server
                    .faults()
                    .set_flow(&cut, if index % 2 == 0 { Flow::Cut } else { Flow::Ended });
            }
        }
        written
    };
    let reader = async {
        let (mut version, mut seen, mut streams) = (begin.clone(), Vec::new(), 0);
        while seen.len() < 40 {
            streams += 1;
            let options = WatchOptions {
                resource_version: version.clone(),
                ..Default::default()
            };
            let mut watch = api.watch().with(&options).await.unwrap();
            // A cut or an end leads to the next watch; any event but an added object is an error.
            while seen.len() < 40
                && let Some(Ok(event)) = watch.next().await
            {
                let WatchEvent::Added(object) = event else {
                    panic!("{event:?}")
                };
                version = object.version();
                seen.push(object.resource_version().to_owned());
            }
        }
        (seen, streams)
    };
    let (written, (seen, streams)) = tokio::join!(writer, reader);
    assert_eq!(seen, written);
    assert!(streams > 1, "nothing was cut");
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_retry_waits_for_the_retry_after_of_the_server() {
    let (server, client) = start().await;
    let busy = watchkeeper_meta::Status::too_many_requests("slow down", 3);
    server
        .faults()
        .answer_next(RequestMatch::new(Verb::Create, "configmaps"), 2, busy)
        .unwrap();
    let begun = tokio::time::Instant::now();
    config_maps(&client)
        .create(&config_map("a", json!({})))
        .await
        .unwrap();
    assert_eq!(begun.elapsed().as_secs(), 6);
    server.shutdown().await;
}
