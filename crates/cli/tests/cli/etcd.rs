//! Several servers on one real etcd: a write through one is seen through all. Skipped, with a message, on a machine
//! without etcd.
#![cfg(unix)]

#[path = "../../../storage/tests/support/etcd.rs"]
mod etcd_process;
#[path = "../../../storage/tests/support/proxy.rs"]
mod proxy;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use self::etcd_process::Etcd;
use self::proxy::Proxy;
use crate::process::{PROGRAM, Running};
use http::Request;
use serde_json::{Value, json};
use tokio::time::timeout;
use watchkeeper_client::{Client, DynamicApi, WatchEvent, WatchStream};
use watchkeeper_conformance::{Options, Outcome};
use watchkeeper_meta::{
    GetOptions, GroupVersionResource, ListOptions, Resource, ResourceVersion, WatchOptions,
};
use watchkeeper_server::{EtcdOptions, Handle, Server};

/// Long enough for anything that is going to happen.
const PATIENCE: Duration = Duration::from_secs(30);

async fn start(etcd: &Etcd) -> (Handle, Client) {
    start_at(etcd.url()).await
}

async fn start_at(url: String) -> (Handle, Client) {
    let server = Server::builder().etcd(EtcdOptions::at([url])).start();
    let server = server.await.unwrap();
    let client = watchkeeper_testing::client_of(&server, watchkeeper_testing::unlimited()).unwrap();
    (server, client)
}

fn api(client: &Client, group: &'static str, kind: &'static str, plural: &'static str) -> DynamicApi {
    let resource = Resource::namespaced(group, "v1", kind, plural);
    client.dynamic(resource).namespace("default")
}

fn config_maps(client: &Client) -> DynamicApi {
    api(client, "", "ConfigMap", "configmaps")
}

fn config_map(name: &str, data: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": data}})
}

/// `ADDED a`
async fn next(watch: &mut WatchStream) -> String {
    loop {
        let (word, object) = match timeout(PATIENCE, watch.next()).await.unwrap().unwrap().unwrap() {
            WatchEvent::Added(object) => ("ADDED", object),
            WatchEvent::Modified(object) => ("MODIFIED", object),
            WatchEvent::Deleted(object) => ("DELETED", object),
            WatchEvent::Bookmark(_) => continue,
            other => panic!("{other:?}"),
        };
        return format!("{word} {}", object.name());
    }
}

#[tokio::test]
async fn what_is_written_through_one_server_is_seen_through_the_other() {
    let Some(etcd) = Etcd::start() else { return };
    let ((one, client), (other, other_client)) = (start(&etcd).await, start(&etcd).await);
    let (here, there) = (config_maps(&client), config_maps(&other_client));
    let now = there.list().await.unwrap().head.resource_version;
    let options = WatchOptions {
        resource_version: now.clone(),
        ..Default::default()
    };
    let mut watch = there.watch().with(&options).await.unwrap();

    let created = here.create(&config_map("a", "1")).await.unwrap();
    assert_eq!(next(&mut watch).await, "ADDED a");
    // The most recent state is the same on every server.
    let found = there.get("a").await.unwrap();
    assert_eq!(found.version(), created.version());
    let mut stale = found.to_value().unwrap();
    stale["data"]["k"] = json!("2");
    there.update("a", &stale).await.unwrap();
    assert_eq!(next(&mut watch).await, "MODIFIED a");
    let refused = here.update("a", &stale).await.unwrap_err();
    assert!(refused.is_conflict(), "{refused}");
    let taken = there.create(&config_map("a", "3")).await.unwrap_err();
    assert!(taken.is_already_exists(), "{taken}");
    here.delete("a").await.unwrap();
    assert_eq!(next(&mut watch).await, "DELETED a");

    // History compacted by one server is compacted in etcd, for all that start later.
    let store = one.registry().store();
    store.compact(store.current_revision()).await.unwrap();
    let expired = match here.watch().with(&options).await {
        Err(error) => error.is_expired(),
        Ok(mut watch) => match timeout(PATIENCE, watch.next()).await.unwrap().unwrap() {
            Ok(WatchEvent::Error(status)) => status.is_expired(),
            other => panic!("{other:?}"),
        },
    };
    assert!(expired);
    one.shutdown().await;
    other.shutdown().await;
}

#[tokio::test]
async fn list_and_watch_keep_their_promises_while_others_write() {
    let Some(etcd) = Etcd::start() else { return };
    let ((one, client), (other, other_client)) = (start(&etcd).await, start(&etcd).await);
    let there = config_maps(&other_client);
    let others = async {
        loop {
            there.create(&config_map("noise", "1")).await.unwrap();
            there.delete("noise").await.unwrap();
        }
    };
    let options = Options::default();
    let report = tokio::select! {
        report = watchkeeper_conformance::run(&client, "default", &options, std::future::pending(), |_| ()) => report,
        () = others => unreachable!("they write until nobody listens"),
    };
    let others = report
        .findings
        .iter()
        .filter(|finding| finding.outcome != Outcome::Passed);
    let others: Vec<String> = others.map(ToString::to_string).collect();
    assert_eq!(others, Vec::<String>::new());
    one.shutdown().await;
    other.shutdown().await;
}

#[tokio::test]
async fn a_list_goes_on_with_a_server_that_has_seen_less() {
    let Some(etcd) = Etcd::start() else { return };
    let proxy = Proxy::start(etcd.port()).await;
    let ((one, client), (other, _)) = (start(&etcd).await, start_at(proxy.url()).await);
    let here = config_maps(&client);
    proxy.refuse(true);
    proxy.cut();
    for name in ["a", "b"] {
        here.create(&config_map(name, "1")).await.unwrap();
    }
    let mut options = ListOptions {
        limit: Some(1),
        ..Default::default()
    };
    let first = here.list().with(&options).await.unwrap();
    options.continue_token = first.head.continue_token.clone();
    let reconnected = async {
        tokio::task::yield_now().await;
        proxy.refuse(false);
    };
    // Not through a client, which would retry.
    let resource = GroupVersionResource::new("", "v1", "configmaps");
    let definition = other.registry().definition(&resource).unwrap();
    let second = other.registry().list(&definition, "default", &options);
    let (second, ()) = tokio::join!(second, reconnected);
    assert_eq!(second.unwrap().items.len(), 1);
    one.shutdown().await;
    other.shutdown().await;
}

#[tokio::test]
async fn servers_may_begin_at_the_same_moment() {
    let Some(etcd) = Etcd::start() else { return };
    let (one, two, three) = tokio::join!(start(&etcd), start(&etcd), start(&etcd));
    for (server, client) in [one, two, three] {
        let services = api(&client, "", "Service", "services");
        let found = services.get("kubernetes").await.unwrap();
        assert_eq!(found.to_value().unwrap()["spec"]["clusterIP"], "10.0.0.1");
        server.shutdown().await;
    }
}

#[tokio::test]
async fn custom_kinds_are_served_by_all() {
    let Some(etcd) = Etcd::start() else { return };
    let ((one, client), (other, other_client)) = (start(&etcd).await, start(&etcd).await);
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    let definitions = client.dynamic(Resource::cluster(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    ));
    definitions.create(&definition).await.unwrap();
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    let (here, there) = (
        api(&client, "example.com", "Widget", "widgets"),
        api(&other_client, "example.com", "Widget", "widgets"),
    );
    let created = async {
        // The other server learns of the kind a moment later.
        while let Err(error) = there.create(&widget).await {
            assert!(error.is_not_found(), "{error}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, created).await.unwrap();
    assert_eq!(here.get("w").await.unwrap().name(), "w");
    definitions.delete("widgets.example.com").await.unwrap();
    let gone = async {
        while there.get("w").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, gone).await.unwrap();
    one.shutdown().await;
    other.shutdown().await;
}

#[tokio::test]
async fn addresses_are_given_out_once() {
    let Some(etcd) = Etcd::start() else { return };
    let ((one, client), (other, other_client)) = (start(&etcd).await, start(&etcd).await);
    const COUNT: usize = 60;
    let services = (0..COUNT).map(|number| {
        let client = if number % 2 == 0 { &client } else { &other_client };
        let services = api(client, "", "Service", "services");
        tokio::spawn(async move {
            let service = json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("s{number}")},
                // Few are free, so that both servers often pick the same.
                "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30_000 + number / 4}]},
            });
            let created = services.create(&service).await;
            created.map(|created| created.to_value().unwrap())
        })
    });
    let (mut addresses, mut ports, mut refused) = (BTreeSet::new(), BTreeSet::new(), 0);
    for service in services.collect::<Vec<_>>() {
        match service.await.unwrap() {
            Ok(service) => {
                let address = service["spec"]["clusterIP"].as_str().unwrap().to_owned();
                assert!(addresses.insert(address), "{service}");
                let port = service["spec"]["ports"][0]["nodePort"].as_i64().unwrap();
                assert!(ports.insert(port), "{service}");
            }
            Err(error) => {
                let text = error.to_string();
                assert!(error.is_invalid() || text.contains("please try again"), "{text}");
                refused += 1;
            }
        }
    }
    assert_eq!(ports.len() + refused, COUNT);
    assert!(ports.len() <= COUNT / 4);
    // Ports that both wanted and neither got are free.
    for port in (30_000..30_000 + COUNT as i64 / 4).filter(|port| !ports.contains(port)) {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("late{port}")},
            "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]},
        });
        let services = api(&client, "", "Service", "services");
        services.create(&service).await.unwrap();
    }
    one.shutdown().await;
    other.shutdown().await;
}

/// The answer to a health check.
async fn is_ready(client: &Client) -> bool {
    let request = Request::get("/readyz/etcd").body(Default::default()).unwrap();
    client.send(request, &Default::default()).await.is_ok()
}

#[tokio::test]
async fn a_server_without_etcd_says_so_and_recovers() {
    let Some(mut etcd) = Etcd::start() else { return };
    let (server, client) = start(&etcd).await;
    assert!(is_ready(&client).await);
    let api = config_maps(&client);
    let created = api.create(&config_map("a", "1")).await.unwrap();
    let options = WatchOptions {
        resource_version: created.version(),
        ..Default::default()
    };
    let mut watch = api.watch().with(&options).await.unwrap();
    etcd.kill();
    assert!(!is_ready(&client).await);
    // Reads that need not be current still work.
    let any = GetOptions {
        resource_version: ResourceVersion::new("0"),
    };
    assert_eq!(api.get("a").with(&any).await.unwrap().name(), "a");
    etcd.restart();
    let recovered = async { while !is_ready(&client).await {} };
    timeout(PATIENCE, recovered).await.unwrap();
    assert_eq!(api.get("a").await.unwrap().version(), created.version());
    api.create(&config_map("b", "1")).await.unwrap();
    // The watch was not affected.
    assert_eq!(next(&mut watch).await, "ADDED b");
    server.shutdown().await;
}

/// Behind one address, it does not matter which of them answers.
#[tokio::test]
async fn servers_that_share_an_etcd_share_their_identity() {
    let Some(etcd) = Etcd::start() else { return };
    let start = || {
        let any_port = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::builder().etcd(EtcdOptions::at([etcd.url()]));
        server.listen(any_port).start()
    };
    // Both at once: one of them creates it, the other finds it.
    let (one, other) = tokio::join!(start(), start());
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!(one.authority_pem(), other.authority_pem());
    assert_eq!(one.admin_token().reveal(), other.admin_token().reveal());
    one.shutdown().await;
    other.shutdown().await;
}

fn up(directory: &Path, kubeconfig: &str, more: &[&str]) -> Running {
    let mut command = Command::new(PROGRAM);
    command
        .args(["up", "--listen", "127.0.0.1:0", "--kubeconfig", kubeconfig])
        .args(more)
        .current_dir(directory);
    let mut running = Running::of(&mut command);
    let ready = running.line();
    assert!(ready.starts_with("watchkeeper is ready"), "{ready}");
    running
}

fn run(directory: &Path, kubeconfig: &str, words: &[&str]) -> String {
    let output = Command::new(PROGRAM)
        .args(words)
        .current_dir(directory)
        .env("KUBECONFIG", directory.join(kubeconfig))
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

#[test]
fn one_of_two_programs_runs_the_simulator() {
    let Some(etcd) = Etcd::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let (url, flag) = (etcd.url(), "--etcd-servers");
    let mut one = up(directory, "one", &[flag, &url]);
    let mut other = up(directory, "other", &[flag, &url]);
    let manifest = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web"}]},
            },
        },
    });
    std::fs::write(directory.join("web.json"), manifest.to_string()).unwrap();
    assert_eq!(
        run(directory, "other", &["apply", "-f", "web.json"]),
        "replicaset.apps/web created\n"
    );
    let ready = [
        "wait",
        "--for=jsonpath={.status.readyReplicas}=3",
        "replicaset/web",
        "--timeout=60s",
    ];
    assert_eq!(
        run(directory, "one", &ready),
        "replicaset.apps/web condition met\n"
    );
    let pods = |kubeconfig| run(directory, kubeconfig, &["get", "pods", "-o", "name"]);
    assert_eq!(pods("one").lines().count(), 3, "{}", pods("one"));
    assert_eq!(pods("one"), pods("other"));
    for running in [&mut one, &mut other] {
        running.interrupt();
        assert!(running.ended().success());
    }
}

#[test]
fn what_cannot_be_is_refused_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let check = |words: &[&str], said: &str| {
        let words = [&["up", "--listen", "127.0.0.1:0"], words].concat();
        let text = run(directory.path(), "none", &words);
        assert!(text.contains(said), "{text}");
    };
    check(
        &["--etcd-servers", "http://127.0.0.1:1", "--data-dir", "data"],
        "cannot be used with",
    );
    check(
        &["--etcd-servers", "127.0.0.1:1"],
        "cannot use etcd: server \"127.0.0.1:1\" starts with neither http:// nor https://",
    );
    check(
        &["--etcd-servers", "http://127.0.0.1:1"],
        "cannot open the store: cannot use etcd: etcd at http://127.0.0.1:1: ",
    );
    check(
        &["--etcd-cafile", "ca.pem"],
        "required flag(s) \"etcd-servers\" not set",
    );
}
