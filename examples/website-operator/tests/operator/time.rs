//! Behaviour that takes minutes, tested in milliseconds.

use std::time::Duration;

use website_operator::LOOK_AGAIN;

use crate::world::World;

#[tokio::test]
async fn a_released_domain_goes_to_the_waiting_website() {
    let world = World::paused().await;
    let operator = world.operator();
    world.create("first", "example.org").await;
    world.settle().await;
    world.create("second", "example.org").await;
    world.settle().await;
    assert_eq!(world.ready("second").await, "False DomainTaken");
    assert_eq!(world.events("second").await, ["Warning DomainTaken"]);
    world.websites.delete("first").await.unwrap();
    world.settle().await;
    assert_eq!(
        world.ready("second").await,
        "False DomainTaken",
        "it does not look all the time"
    );
    world.cluster.advance(LOOK_AGAIN).await;
    world.settle().await;
    assert_eq!(world.ready("second").await, "True Serving");
    assert_eq!(
        world.domains().await,
        [("example.org".into(), "default/second".into())]
    );
    operator.stop().await;
    world.cluster.stop().await;
}

#[tokio::test]
async fn a_standby_takes_over_when_the_lease_has_expired() {
    let world = World::paused().await;
    let leader = world.operator();
    world.settle().await;
    let standby = world.operator();
    leader.kill().await;
    world.create("home", "example.org").await;
    world.cluster.advance(Duration::from_secs(1)).await;
    assert_eq!(world.ready("home").await, "", "the lease is still held");
    world.cluster.advance(Duration::from_secs(30)).await;
    assert_eq!(world.ready("home").await, "True Serving");
    standby.stop().await;
    world.cluster.stop().await;
}

#[tokio::test]
async fn a_standby_takes_over_at_once_after_a_shutdown() {
    let world = World::paused().await;
    let leader = world.operator();
    world.settle().await;
    let standby = world.operator();
    leader.stop().await;
    world.create("home", "example.org").await;
    world.settle().await;
    assert_eq!(world.ready("home").await, "True Serving");
    standby.stop().await;
    world.cluster.stop().await;
}
