//! A shared informer with a handler: what is there, then what changes, from what to what, and why it is told.
#![allow(clippy::print_stdout)]

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use serde_json::json;
use tokio::sync::mpsc;
use watchkeeper::meta::{DeleteOptions, PatchKind, PatchOptions};
use watchkeeper::runtime::delta::Cause;
use watchkeeper::runtime::factory::{Factory, FactoryOptions, Selection};
use watchkeeper::runtime::informer::Handler;
use watchkeeper::wire::Object;
use watchkeeper_testing::TestCluster;

/// Tells what it is told.
struct Teller(mpsc::UnboundedSender<String>);

impl Teller {
    fn tell(&self, line: String) {
        println!("{line}");
        let _ = self.0.send(line);
    }
}

impl Handler for Teller {
    fn added(&mut self, object: &Object, cause: Cause) {
        self.tell(format!("added {} ({cause:?})", object.key()));
    }

    fn updated(&mut self, old: &Object, new: &Object, cause: Cause) {
        let (from, to) = (old.label("colour"), new.label("colour"));
        self.tell(format!(
            "updated {} from {from:?} to {to:?} ({cause:?})",
            new.key()
        ));
    }

    fn deleted(&mut self, last: &Object, final_state: bool) {
        self.tell(format!(
            "deleted {}, final state known: {final_state}",
            last.key()
        ));
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = TestCluster::start().await?;
    let api = cluster.client().api::<Namespace>();
    let factory = Factory::new(cluster.client().clone(), FactoryOptions::default());
    let informer = factory.informer(Selection::of::<Namespace>());
    informer.synced(Duration::from_secs(10)).await?;

    let (lines, mut told) = mpsc::unbounded_channel();
    let handler = informer.handle(Default::default(), Teller(lines));
    assert!(handler.synced().await);
    cluster
        .load("{apiVersion: v1, kind: Namespace, metadata: {name: team-a}}")
        .await?;
    let labelled = json!({"metadata": {"labels": {"colour": "blue"}}});
    api.patch("team-a", PatchKind::Merge, &labelled, &PatchOptions::default())
        .await?;
    api.delete("team-a", &DeleteOptions::default()).await?;

    let mut about_team = Vec::new();
    while about_team.len() < 3
        && let Some(line) = told.recv().await
    {
        if line.contains("team-a") {
            about_team.push(line);
        }
    }
    assert_eq!(about_team[0], "added team-a (Watch)");
    assert_eq!(
        about_team[1],
        r#"updated team-a from None to Some("blue") (Watch)"#
    );
    handler.stop().await;
    factory.stop().await;
    cluster.stop().await;
    Ok(())
}
