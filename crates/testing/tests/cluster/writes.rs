//! The record of writes.

use serde_json::json;
use watchkeeper_client::ClientOptions;
use watchkeeper_meta::{ListOptions, ObjectKey, PatchKind, UpdateOptions};
use watchkeeper_server::{Action, Outcome, RequestMatch, Rule, Verb};
use watchkeeper_testing::{client_of, unlimited};

use crate::support::{api, create_map, get, maps, paused, resource};

#[tokio::test]
async fn every_write_is_recorded_with_its_difference() {
    let cluster = paused().await;
    create_map(&cluster, "web").await;
    for colour in ["blue", "red", "red"] {
        let patch =
            json!({"data": {"colour": colour}, "metadata": {"labels": {"app.example.com/name": "web"}}});
        let patched = maps(&cluster).patch("web", PatchKind::Merge, &patch).await;
        patched.unwrap();
    }
    maps(&cluster).delete("web").await.unwrap();
    let expected = r#"admin create ConfigMap default/web: created
admin patch ConfigMap default/web: data - → {"colour":"blue"}, metadata.labels - → {"app.example.com/name":"web"}
admin patch ConfigMap default/web: data.colour "blue" → "red"
admin patch ConfigMap default/web: unchanged
admin delete ConfigMap default/web: deleted
"#;
    assert_eq!(cluster.writes().to_string(), expected);
    let versions: Vec<_> = cluster
        .writes()
        .effective()
        .0
        .iter()
        .map(|write| (write.previous, write.revision))
        .collect();
    assert_eq!(versions[0].0, None);
    let each_replaces_the_last = versions.windows(2).all(|pair| pair[1].0 == pair[0].1);
    assert!(each_replaces_the_last, "{versions:?}");
    assert_eq!(cluster.writes().except_kind("Lease").len(), 5);
    assert!(cluster.writes().except_kind("ConfigMap").is_empty());
    assert_eq!(cluster.take_writes().effective().len(), 4);
    assert!(cluster.writes().is_empty());
    cluster.stop().await;
}

#[tokio::test]
async fn reads_refusals_and_dry_runs_are_not_recorded() {
    let cluster = paused().await;
    create_map(&cluster, "a").await;
    cluster.take_writes();
    maps(&cluster).list().await.unwrap();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let again = maps(&cluster).create(&map).await;
    assert!(again.unwrap_err().is_already_exists());
    let dry = UpdateOptions {
        dry_run: true,
        ..UpdateOptions::default()
    };
    let updated = maps(&cluster).update("a", &map).with(&dry).await;
    updated.unwrap();
    assert_eq!(cluster.writes().to_string(), "");
    cluster.stop().await;
}

#[tokio::test]
async fn a_write_with_a_lost_answer_is_recorded_and_a_failed_one_is_not() {
    let cluster = paused().await;
    let creates = || RequestMatch::new(Verb::Create, "configmaps");
    let lost = Action::Cut(watchkeeper_server::Cut::BeforeAnswer);
    cluster.faults().inject(Rule::new(creates(), lost)).unwrap();
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let create = async |name: &str| maps(&cluster).create(&map(name)).await;
    create("a").await.unwrap_err();
    cluster
        .faults()
        .inject(Rule::new(creates(), Action::ReadOnly))
        .unwrap();
    create("b").await.unwrap_err();
    assert_eq!(
        cluster.writes().to_string(),
        "admin create ConfigMap default/a: created\n"
    );
    cluster.stop().await;
}

#[tokio::test]
async fn writes_are_filtered_by_program_kind_and_name() {
    let cluster = paused().await;
    let operator = client_of(
        cluster.server(),
        ClientOptions {
            user_agent: "operator/v1".to_owned(),
            ..unlimited()
        },
    );
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs"}});
    let theirs = operator.unwrap().dynamic(resource("", "configmaps"));
    let theirs = theirs.namespace("default");
    theirs.create(&map).await.unwrap();
    create_map(&cluster, "mine").await;
    assert_eq!(cluster.writes().by("operator/").0[0].name, "theirs");
    assert_eq!(cluster.writes().by("admin").len(), 2);
    assert_eq!(cluster.writes().of_kind("ConfigMap").named("mine").len(), 1);
    cluster.stop().await;
}

#[tokio::test]
async fn one_request_can_record_several_writes() {
    let cluster = paused().await;
    for name in ["a", "b"] {
        create_map(&cluster, name).await;
    }
    cluster.take_writes();
    let deleted = maps(&cluster).delete_collection(&ListOptions::default()).await;
    deleted.unwrap();
    let writes = cluster.writes();
    let deleted = writes
        .0
        .iter()
        .filter(|write| matches!(write.outcome, Outcome::Deleted(_)));
    let keys: Vec<_> = deleted
        .map(|write| ObjectKey::new(write.namespace.as_str(), write.name.as_str()).to_string())
        .collect();
    assert_eq!(keys, ["default/a", "default/b"]);
    cluster.stop().await;
}

#[tokio::test]
async fn a_status_write_is_recorded_as_such() {
    let cluster = paused().await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    let nodes = api(&cluster, "", "nodes");
    nodes.create(&node).await.unwrap();
    let patch = json!({"status": {"phase": "Running"}});
    let status = nodes.clone().subresource("status");
    status.patch("n", PatchKind::Merge, &patch).await.unwrap();
    assert_eq!(get(&nodes, "n").await["status"]["phase"], "Running");
    let last = cluster.writes().0.pop().unwrap();
    assert_eq!(
        last.to_string(),
        r#"admin patch Node/status n: status.phase - → "Running""#
    );
    cluster.stop().await;
}
