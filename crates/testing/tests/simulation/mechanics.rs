//! The guarantees of every simulation: reproducible runs, crashes that leave nothing behind, useful reports.

use std::time::Duration;

use fastrand::Rng;
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use watchkeeper_client::{Client, Error};
use watchkeeper_meta::PatchKind;
use watchkeeper_testing::Simulation;
use watchkeeper_testing::simulation::{Failure, FaultOptions, Plan, Process};

use crate::support::{SEARCHED, SEEDS, maps, or_exists, pod_of, pods, reconciles, tasks_come_and_go};

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

async fn start_pod(client: Client, task: Value) -> Result<(), Error> {
    or_exists(pods(&client).create(&pod_of(&task)).await)
}

#[test]
fn the_same_seed_gives_the_same_trace_byte_for_byte() {
    let simulation = tasks_come_and_go()
        .replicas("runner", 2, |process| {
            reconciles(process, |client, task| start_pod(client, task).boxed())
        })
        .faults(FaultOptions {
            most: 12,
            ..FaultOptions::default()
        });
    let mut lines = 0;
    for seed in 0..SEEDS {
        let plan = simulation.plan(seed);
        let (first, second) = (simulation.run(&plan), simulation.run(&plan));
        let both = first.trace.lines().iter().zip(second.trace.lines());
        both.for_each(|(first, second)| assert_eq!(first, second, "{plan}"));
        assert_eq!(first, second);
        lines += first.trace.lines().len();
    }
    assert!(lines > 20 * SEEDS as usize, "{lines} lines");
}

#[test]
fn another_simulation_of_the_same_parts_gives_the_same_trace() {
    let run = || {
        let simulation = tasks_come_and_go().controller("runner", |process| {
            reconciles(process, |client, task| start_pod(client, task).boxed())
        });
        simulation.run(&simulation.plan(7))
    };
    assert_eq!(run(), run());
}

#[test]
fn tasks_of_a_crashed_process_cannot_write() {
    // Spawns an endless task that writes its life number every second.
    let leaves_tasks = |process: Process| async move {
        let (client, life) = (process.client(), process.life());
        tokio::spawn(async move {
            for second in 0..30 {
                let written = format!("life-{life}-second-{second}");
                let _ = maps(&client).create(&map(&written)).await;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        std::future::pending().await
    };
    let simulation = Simulation::new().controller("leaves", leaves_tasks);
    let plan: Plan = "1: crash leaves at write 3 for 5s; crash leaves at write 10 for 0s"
        .parse()
        .unwrap();
    let trace = simulation.run(&plan).trace.to_string();
    let count = |life: &str| trace.matches(&format!("ConfigMap default/life-{life}-")).count();
    assert_eq!((count("1"), count("2"), count("3")), (3, 7, 30), "{trace}");
}

#[test]
fn a_write_with_a_lost_answer_is_stored() {
    let writes_once = |process: Process| async move {
        let created = maps(&process.client()).create(&map("a")).await;
        let heard = if created.is_ok() { "heard" } else { "not-heard" };
        maps(&process.client()).create(&map(heard)).await.unwrap();
        std::future::pending().await
    };
    let simulation = Simulation::new().controller("writer", writes_once);
    let trace = |plan: &str| simulation.run(&plan.parse().unwrap()).trace.to_string();
    assert!(trace("1").contains("default/heard: created"));
    let lost = trace("1: lose-answer writer at write 1");
    assert!(lost.contains("default/a: created"), "{lost}");
    assert!(lost.contains("default/not-heard: created"), "{lost}");
}

#[test]
fn every_kind_of_fault_appears_in_the_trace() {
    let simulation = tasks_come_and_go().controller("runner", |process| {
        reconciles(process, |client, task| start_pod(client, task).boxed())
    });
    let check = |fault: &str, expected: &str| {
        let run = simulation.run(&format!("3: {fault}").parse().unwrap());
        let trace = run.trace.to_string();
        assert!(trace.contains(expected), "{fault}: no {expected}\n{trace}");
        assert_eq!(run.failure, None, "{trace}");
    };
    check("crash runner at write 2 for 10s", "runner#1       crashes");
    check(
        "crash runner at write 2 for 1s back 3 behind",
        "runner#1       meets a server that is at version ",
    );
    check("lose-answer runner at write 1", "never hears of it");
    check("drop runner at request 1", "is never handled");
    check("fail runner at request 2 with 503", "is answered 503");
    check("delay runner at request 3 by 5s", "is handled 5s late");
    check("cut-watch runner at event 1", "is cut, at default/a");
    check("late-events runner at event 1 by 10s", "10s late, at default/a");
    check("cut-off runner at 2s for 10s", "runner#1       is cut off");
    check(
        "cut-off runner at 2s for 10s and compact",
        "runner#1       can reach the server again",
    );
}

#[test]
fn a_run_that_cannot_start_or_end_reports_why() {
    let failure = |simulation: Simulation| simulation.run(&Plan::default()).failure.unwrap();
    let unknown =
        Simulation::new().manifest("apiVersion: example.com/v1\nkind: Nothing\nmetadata: {name: a}\n");
    assert!(failure(unknown).to_string().contains("example.com/v1 Nothing"));

    let panics = Simulation::new().workload(async |_: Process, _: Rng| panic!("a user"));
    assert_eq!(failure(panics), Failure::Workload("a user".to_owned()));

    let restless = Simulation::new().controller("restless", |process| {
        write_every(process, Duration::from_secs(30))
    });
    assert_eq!(failure(restless), Failure::Restless);

    let runaway = Simulation::new().controller("runaway", |process| {
        write_every(process, Duration::from_millis(100))
    });
    assert!(matches!(failure(runaway), Failure::Runaway { .. }));

    let polls = Simulation::new().controller("polls", |process| async move {
        let maps = maps(&process.client());
        while maps.get("a").await.is_err() {}
    });
    let run = polls.run(&Plan::default());
    let last = "get /api/v1/namespaces/default/configmaps/a";
    let expected = format!("polls sends requests without a pause, the last: {last}");
    assert_eq!(run.failure.unwrap().to_string(), expected);
    let line = run.trace.lines().last().unwrap();
    assert!(line.contains("polls#1        does not pause"), "{line}");

    let never = Simulation::new().eventually("never", |_| Err("as it says".to_owned()));
    assert_eq!(failure(never).to_string(), "eventually \"never\": as it says");
}

async fn write_every(process: Process, pause: Duration) {
    let maps = maps(&process.client());
    or_exists(maps.create(&map("a")).await).unwrap();
    for number in 0_u64.. {
        let patch = json!({"data": {"number": number.to_string()}});
        maps.patch("a", PatchKind::Merge, &patch).await.unwrap();
        tokio::time::sleep(pause).await;
    }
}

#[test]
fn a_finding_has_the_earliest_sufficient_point() {
    let writer = |process: Process| async move {
        for number in 0..20 {
            let name = format!("life-{}-{number}", process.life());
            let _ = maps(&process.client()).create(&map(&name)).await;
        }
        std::future::pending().await
    };
    let is_of = |life: &str, name: &str| name.starts_with(&format!("life-{life}-"));
    let simulation = Simulation::new().controller("writer", writer).always(
        "no second life after three writes",
        move |state| {
            let second = state.write().is_some_and(|write| is_of("2", &write.name));
            let maps = state.all("ConfigMap").into_iter();
            let first = maps.filter(|map| is_of("1", map["metadata"]["name"].as_str().unwrap_or_default()));
            match second && first.count() >= 3 {
                true => Err("it lives again".to_owned()),
                false => Ok(()),
            }
        },
    );
    let found = simulation.search(0..SEARCHED).expect("a seed that fails");
    let plan = found.run.plan.to_string();
    assert!(plan.ends_with(": crash writer at write 3 for 0s"), "{plan}");
}

#[test]
#[should_panic(expected = "simulation.replay(\"5: crash writer at write 1 for 0s\")")]
fn a_report_ends_with_the_line_that_reproduces_it() {
    let simulation = Simulation::new()
        .controller("writer", |process| async move {
            let _ = maps(&process.client()).create(&map("a")).await;
            let _ = maps(&process.client()).create(&map("b")).await;
            std::future::pending().await
        })
        .always("never a second life", |state| {
            let user = state.write().map(|write| write.name.as_str());
            match user {
                Some("b") => Err("it lives".to_owned()),
                _ => Ok(()),
            }
        });
    simulation.replay("5: crash writer at write 1 for 0s");
}
