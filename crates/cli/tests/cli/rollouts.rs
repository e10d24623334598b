//! Rollouts, Events and descriptions of a cluster whose controllers run.

use crate::support::World;
use watchkeeper_testing::{TestCluster, TestOptions};

/// A world whose commands go to a cluster with simulated nodes and controllers.
async fn simulated() -> (World, TestCluster) {
    let options = TestOptions {
        simulator: Some(Default::default()),
        ..Default::default()
    };
    let cluster = TestCluster::start_with(options).await.unwrap();
    let mut world = World::new().await;
    world.client = cluster.client().clone();
    (world, cluster)
}

#[tokio::test]
async fn a_deployment_is_rolled_out_undone_and_restarted() {
    let (world, cluster) = simulated().await;
    world
        .run("create deployment web --image web:1 --replicas 2")
        .await;
    let status = world.run("rollout status deployment/web --timeout 60s").await;
    assert!(
        status.ends_with("deployment \"web\" successfully rolled out\n"),
        "{status}"
    );

    let image = r#"[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"web:2"}]"#;
    world
        .run(&format!("patch deployment web --type json -p {image}"))
        .await;
    world.run("rollout status deployment/web --timeout 60s").await;
    assert_eq!(
        world.run("rollout history deployment/web").await,
        "deployment.apps/web \nREVISION  CHANGE-CAUSE\n1         <none>\n2         <none>\n\n"
    );
    let first = world.run("rollout history deployment/web --revision 1").await;
    assert!(first.contains("Image:"), "{first}");
    assert!(first.contains("web:1"), "{first}");

    assert_eq!(
        world.run("rollout undo deployment/web --dry-run=server").await,
        "deployment.apps/web rolled back (server dry run)\n"
    );
    assert_eq!(
        world.run("get deployment web -o jsonpath={..image}").await,
        "web:2"
    );
    assert_eq!(
        world.run("rollout undo deployment/web").await,
        "deployment.apps/web rolled back\n"
    );
    world.run("rollout status deployment/web --timeout 60s").await;
    let image = world.run("get deployment web -o jsonpath={..image}").await;
    assert_eq!(image, "web:1");
    let missing = world.run("rollout undo deployment/web --to-revision 9").await;
    assert!(missing.contains("unable to find revision 9"), "{missing}");

    assert_eq!(
        world.run("rollout restart deployment/web").await,
        "deployment.apps/web restarted\n"
    );
    let again = world.run("rollout status deployment/web --timeout 60s").await;
    assert!(again.ends_with("successfully rolled out\n"), "{again}");
    cluster.stop().await;
}

#[tokio::test]
async fn kinds_without_revisions_have_no_rollout() {
    let world = World::new().await;
    let screen = world.run("rollout status deployment/nope").await;
    let missing = "Error from server (NotFound): deployments.apps \"nope\" not found";
    assert!(screen.contains(missing), "{screen}");
    let screen = world.run("rollout status pod/web").await;
    assert_eq!(
        screen,
        "stderr: error: pods have no rollouts: name a deployment, daemonset or statefulset\nexit 1\n"
    );
}

#[tokio::test]
async fn events_are_listed_for_an_object() {
    let (world, cluster) = simulated().await;
    world.run("create deployment web --image web").await;
    world.run("rollout status deployment/web --timeout 60s").await;
    let events = world.run("events --for deployment/web").await;
    assert!(events.starts_with("LAST SEEN"), "{events}");
    assert!(events.contains("ScalingReplicaSet"), "{events}");
    assert_eq!(
        world.run("events --types Warning").await,
        "stderr: No events found in default namespace.\n"
    );
    cluster.stop().await;
}

#[tokio::test]
async fn descriptions_read_as_those_of_kubectl() {
    let (world, cluster) = simulated().await;
    world.run("create deployment web --image web --port 80").await;
    world.run("rollout status deployment/web --timeout 60s").await;
    let lines = |screen: &str, wanted: &[&str]| {
        for wanted in wanted {
            assert!(
                screen.lines().any(|line| line.trim_end() == *wanted),
                "{wanted:?} in\n{screen}"
            );
        }
    };
    lines(
        &world.run("describe deployment web").await,
        &[
            "Labels:                 app=web",
            "Selector:               app=web",
            "Replicas:               1 desired | 1 updated | 1 total | 1 available | 0 unavailable",
            "RollingUpdateStrategy:  25% max unavailable, 25% max surge",
            "Pod Template:",
            "  Labels:  app=web",
            "   web:",
            "    Port:          80/TCP",
            "OldReplicaSets:  <none>",
        ],
    );
    lines(
        &world.run("describe pods -l app=web").await,
        &[
            "Containers:",
            "    State:          Running",
            "    Restart Count:  0",
            "QoS Class:                    BestEffort",
        ],
    );
    let nodes = world.run("describe nodes").await;
    lines(
        &nodes,
        &[
            "Allocated resources:",
            "  (Total limits may be over 100 percent, i.e., overcommitted.)",
        ],
    );
    lines(
        &world.run("describe namespace default").await,
        &["No resource quota.", "No LimitRange resource."],
    );
    assert_eq!(
        world.run("describe services -n kube-public").await,
        "stderr: No resources found in kube-public namespace.\n"
    );
    cluster.stop().await;
}
