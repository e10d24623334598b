//! The operator with faults.

use std::time::Duration;

use watchkeeper::server::{Action, Cut, RequestMatch, Rule, Verb};

use crate::world::{OPERATOR, World};

#[tokio::test]
async fn lost_answers_do_no_harm() {
    let world = World::paused().await;
    let lost = Rule {
        probability: 0.3,
        seed: 7,
        times: Some(20),
        ..Rule::always(RequestMatch::user(OPERATOR), Action::Cut(Cut::BeforeAnswer))
    };
    let operator = world.operator();
    world.settle().await;
    world.cluster.faults().inject(lost).unwrap();
    for (name, domain) in [("a", "a.example.org"), ("b", "b.example.org")] {
        world.create(name, domain).await;
    }
    world.cluster.advance(Duration::from_secs(120)).await;
    assert_eq!(world.cluster.faults().fired().len(), 20);
    assert_eq!(
        (&*world.ready("a").await, &*world.ready("b").await),
        ("True Serving", "True Serving")
    );
    world.websites.delete("a").await.unwrap();
    world.settle().await;
    assert_eq!(
        world.domains().await,
        [("b.example.org".into(), "default/b".into())]
    );
    operator.stop().await;
    world.cluster.stop().await;
}

#[tokio::test]
async fn a_website_stays_until_its_domain_is_released() {
    let world = World::paused().await;
    let operator = world.operator();
    world.create("home", "example.org").await;
    world.settle().await;
    let domains = RequestMatch::new(Verb::DeleteCollection, "configmaps");
    let forbidden = world
        .cluster
        .faults()
        .inject(Rule::always(domains, Action::Forbid))
        .unwrap();
    world.websites.delete("home").await.unwrap();
    world.settle().await;
    assert!(
        world
            .websites
            .get("home")
            .await
            .unwrap()
            .metadata
            .deletion_timestamp
            .is_some()
    );
    assert_eq!(world.domains().await.len(), 1);
    world.cluster.faults().remove(forbidden);
    // Longer than the longest backoff so far.
    world.cluster.advance(Duration::from_secs(60)).await;
    assert!(world.websites.find("home").await.unwrap().is_none());
    assert_eq!(world.domains().await, []);
    operator.stop().await;
    world.cluster.stop().await;
}

#[tokio::test]
async fn a_read_only_store_is_retried() {
    let world = World::paused().await;
    let operator = world.operator();
    world.settle().await;
    let read_only = Rule::always(RequestMatch::new(Verb::Patch, "deployments"), Action::ReadOnly);
    let read_only = world.cluster.faults().inject(read_only).unwrap();
    world.create("home", "example.org").await;
    world.settle().await;
    assert_eq!(
        world.ready("home").await,
        "",
        "no status before the write succeeds"
    );
    world.cluster.faults().remove(read_only);
    world.cluster.advance(Duration::from_secs(60)).await;
    assert_eq!(world.ready("home").await, "True Serving");
    operator.stop().await;
    world.cluster.stop().await;
}
