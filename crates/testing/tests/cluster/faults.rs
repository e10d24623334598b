//! Faults, seen through the client.

use std::time::Duration;

use serde_json::json;
use watchkeeper_runtime::factory::{Factory, FactoryOptions, Selection};
use watchkeeper_server::{Action, Cut, Flow, RequestMatch, Rule, Stale, Verb};

use crate::support::{create_map, maps, names, paused, resource};

#[tokio::test]
async fn a_retried_create_after_a_lost_answer_creates_two_objects() {
    let cluster = paused().await;
    let lost = Rule::new(
        RequestMatch::new(Verb::Create, "configmaps"),
        Action::Cut(Cut::BeforeAnswer),
    );
    cluster.faults().inject(lost).unwrap();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "job-"}});
    let create = async || maps(&cluster).create(&map).await;
    // A careless controller: an error means that nothing happened.
    if create().await.is_err() {
        create().await.unwrap();
    }
    assert_eq!(names(&maps(&cluster)).await.len(), 2);
    cluster.stop().await;
}

#[tokio::test]
async fn a_cache_is_stale_while_its_events_are_delayed() {
    let cluster = paused().await;
    let factory = Factory::new(cluster.client().clone(), FactoryOptions::default());
    let informer = factory.informer(Selection::all(resource("", "configmaps")));
    cluster.run_until_idle().await;
    let late = Rule::new(
        RequestMatch::new(Verb::Watch, "configmaps"),
        Action::DelayEvent(Duration::from_secs(30)),
    );
    cluster.faults().inject(late).unwrap();
    create_map(&cluster, "a").await;
    cluster.run_until_idle().await;
    let cached = || informer.store().snapshot().iter().count();
    assert_eq!(cached(), 0);
    cluster.advance(Duration::from_secs(31)).await;
    assert_eq!(cached(), 1);
    factory.stop().await;
    cluster.stop().await;
}

#[tokio::test]
async fn an_informer_lists_a_stale_state_and_catches_up() {
    let cluster = paused().await;
    create_map(&cluster, "a").await;
    let then = cluster.revision();
    create_map(&cluster, "b").await;
    let any = RequestMatch {
        resource: Some("configmaps".to_owned()),
        ..RequestMatch::default()
    };
    let stale = Action::Stale(Stale::At(then));
    let stale = cluster.faults().inject(Rule::always(any.clone(), stale)).unwrap();
    let stalls = Rule {
        nth: 2,
        ..Rule::new(any, Action::Flow(Flow::Stalled))
    };
    cluster.faults().inject(stalls).unwrap();
    let factory = Factory::new(cluster.client().clone(), FactoryOptions::default());
    let informer = factory.informer(Selection::all(resource("", "configmaps")));
    cluster.run_until_idle().await;
    let cached = || -> Vec<String> {
        let all = informer.store().snapshot();
        all.iter().map(|object| object.name().to_owned()).collect()
    };
    assert_eq!(cached(), ["a"]);
    cluster.faults().remove(stale);
    cluster.faults().set_flow(&RequestMatch::default(), Flow::Running);
    cluster.run_until_idle().await;
    assert_eq!(cached(), ["a", "b"]);
    factory.stop().await;
    cluster.stop().await;
}

#[tokio::test]
async fn the_same_seed_fails_the_same_requests() {
    let failures = async |seed| {
        let cluster = paused().await;
        let rule = Rule {
            seed,
            probability: 0.3,
            ..Rule::always(RequestMatch::new(Verb::List, "configmaps"), Action::Forbid)
        };
        cluster.faults().inject(rule).unwrap();
        let mut failed = Vec::new();
        for turn in 0..30 {
            if maps(&cluster).list().await.is_err() {
                failed.push(turn);
            }
        }
        assert_eq!(cluster.faults().fired().len(), failed.len());
        cluster.stop().await;
        failed
    };
    let first = failures(7).await;
    assert!(!first.is_empty());
    assert_eq!(failures(7).await, first);
}

#[tokio::test]
async fn fired_faults_have_the_time_of_the_cluster() {
    let cluster = paused().await;
    let gets = RequestMatch::new(Verb::Get, "configmaps");
    cluster.faults().inject(Rule::new(gets, Action::Forbid)).unwrap();
    cluster.advance(Duration::from_secs(600)).await;
    let refused = maps(&cluster).get("a").await;
    assert!(refused.unwrap_err().is_forbidden());
    let fired = cluster.faults().fired();
    assert_eq!(fired[0].at.to_rfc3339(), "2030-01-01T00:10:00Z");
    assert_eq!(fired[0].path, "/api/v1/namespaces/default/configmaps/a");
    cluster.stop().await;
}
