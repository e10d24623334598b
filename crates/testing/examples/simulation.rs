//! A controller with a classic bug, and the run that shows it; then the corrected one.
//!
//! The controller gives each `ServiceAccount` a `Secret` for its token. The careless one lets the server generate the
//! name, and creates another one if the answer is lost.
//!
//! `cargo run -p watchkeeper-testing --example simulation`; with `--release … -- 3000` it also prints the seeds per
//! minute.
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use watchkeeper_client::{Client, DynamicApi, Error};
use watchkeeper_meta::{ObjectKey, Resource};
use watchkeeper_runtime::controller::{Action, ControllerOptions, DynamicController, Reconciler, Request};
use watchkeeper_runtime::factory::{Factory, FactoryOptions, Selection};
use watchkeeper_testing::simulation::{Process, Simulation, invariants};

/// The number of seeds.
const SEEDS: u64 = 300;

fn main() {
    let careless = simulation(false);
    match careless.search(0..SEEDS) {
        Some(found) => println!("the careless controller:\n\n{found}"),
        None => println!("the careless controller was lucky {SEEDS} times"),
    }

    let careful = simulation(true);
    let asked = std::env::args().nth(1).and_then(|count| count.parse().ok());
    let begun = Instant::now();
    careful.check(asked.unwrap_or(SEEDS));
    println!("the careful controller: nothing found");
    if let Some(seeds) = asked {
        let minutes = begun.elapsed().as_secs_f64() / 60.0;
        println!("{seeds} seeds: {:.0} in a minute", seeds as f64 / minutes);
    }
}

fn simulation(is_careful: bool) -> Simulation {
    Simulation::new()
        .controller("tokens", move |process| run(process, is_careful))
        .workload(|user, mut rng| async move {
            let accounts = accounts(&user.client());
            for name in ["web", "shop", "mail"] {
                accounts.create(&account(name)).await.unwrap();
                tokio::time::sleep(Duration::from_millis(rng.u64(..3000))).await;
            }
        })
        .always(
            "never two tokens for one account",
            invariants::at_most_one_per_owner("Secret"),
        )
        .eventually("every account has its token", |state| {
            let owners: Vec<_> = state.all("Secret").into_iter().map(owner).collect();
            let has_none = |account: &&Value| !owners.contains(&account["metadata"]["uid"].as_str());
            match state.all("ServiceAccount").into_iter().find(has_none) {
                None => Ok(()),
                Some(account) => Err(format!("{} has none", account["metadata"]["name"])),
            }
        })
}

/// The program as in a cluster, except for the source of its client.
async fn run(process: Process, is_careful: bool) {
    let client = process.client();
    let factory = Factory::new(client.clone(), FactoryOptions::default());
    let informer = factory.informer(Selection::all(resource("ServiceAccount", "serviceaccounts")));
    let controller = DynamicController::new("tokens", informer, ControllerOptions::default());
    controller
        .run(Tokens { client, is_careful }, std::future::pending())
        .await;
}

struct Tokens {
    client: Client,
    is_careful: bool,
}

impl Reconciler for Tokens {
    type Error = Error;

    async fn reconcile(&self, request: Request) -> Result<Action, Error> {
        let Some(account) = request.object else {
            return Ok(Action::Done);
        };
        let secrets = self
            .client
            .dynamic(resource("Secret", "secrets"))
            .namespace(request.key.namespace());
        let mut secret = token_of(&request.key, account.uid());
        if self.is_careful {
            // A second secret would have the same name.
            secret["metadata"]["name"] = format!("token-{}", request.key.name()).into();
            return match secrets.create(&secret).await {
                Err(error) if !error.is_already_exists() => Err(error),
                _ => Ok(Action::Done),
            };
        }
        let there = secrets.list().await?.items;
        let mut there = there.iter().map(|secret| secret.to_value().expect("JSON"));
        if there.any(|secret| owner(&secret) == Some(account.uid())) {
            return Ok(Action::Done);
        }
        secret["metadata"]["generateName"] = "token-".into();
        while secrets.create(&secret).await.is_err() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(Action::Done)
    }
}

fn account(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
}

fn token_of(account: &ObjectKey, uid: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"ownerReferences": [{
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "name": account.name(),
            "uid": uid,
            "controller": true,
        }]},
    })
}

fn owner(object: &Value) -> Option<&str> {
    object.pointer("/metadata/ownerReferences/0/uid")?.as_str()
}

fn accounts(client: &Client) -> DynamicApi {
    client
        .dynamic(resource("ServiceAccount", "serviceaccounts"))
        .namespace("default")
}

fn resource(kind: &'static str, plural: &'static str) -> Resource {
    Resource::namespaced("", "v1", kind, plural)
}
