//! A replay, watched by a client in virtual time.

use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tokio::time::Instant;
use watchkeeper_meta::{ObjectKey, PatchKind, Time, WatchOptions};
use watchkeeper_recording::{Entry, Moment, Recorder, Recording};
use watchkeeper_testing::TestCluster;
use watchkeeper_testing::replay::{Played, ReplayOptions, Speed};

use super::{catch_up, config_maps, objects, only};

/// Records a config map `sky` that is blue, red after ten seconds and green after thirty. Returns its versions.
async fn record_sky(path: &Path) -> Vec<Entry> {
    let cluster = TestCluster::start().await.unwrap();
    let api = objects(cluster.client(), config_maps());
    let mut recorder = Recorder::start(cluster.client(), path, only(config_maps()))
        .await
        .unwrap();
    catch_up(&mut recorder, &cluster).await;
    // Each version has its own, which cannot be packed against those of the others.
    let mut random = fastrand::Rng::with_seed(1);
    let mut clouds = || -> String { (0..6000).map(|_| random.alphanumeric()).collect() };
    let sky = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "sky"},
        "data": {"colour": "blue", "clouds": clouds()}});
    api.create(&sky).await.unwrap();
    catch_up(&mut recorder, &cluster).await;
    for (colour, seconds) in [("red", 10), ("green", 20)] {
        cluster.advance(Duration::from_secs(seconds)).await;
        let patch = json!({"data": {"colour": colour, "clouds": clouds()}});
        api.patch("sky", PatchKind::Merge, &patch).await.unwrap();
        catch_up(&mut recorder, &cluster).await;
    }
    recorder.finish().unwrap();
    cluster.stop().await;
    let recording = Recording::open(path).unwrap();
    let versions = recording.versions(&config_maps(), &ObjectKey::new("default", "sky"));
    versions.unwrap()
}

fn revision(entry: &Entry) -> u64 {
    entry.revision.unwrap()
}

async fn colour(cluster: &TestCluster) -> Value {
    let sky = objects(cluster.client(), config_maps()).get("sky").await;
    sky.unwrap().to_value().unwrap()["data"]["colour"].clone()
}

/// The times at which a client receives each version of the sky, up to the last one.
async fn heard(cluster: &TestCluster, last: u64) -> Vec<(Instant, u64)> {
    let options = WatchOptions {
        resource_version: cluster.revision().into(),
        ..Default::default()
    };
    let api = objects(cluster.client(), config_maps());
    let mut events = api.watch().with(&options).await.unwrap();
    let mut heard = Vec::new();
    while let Some(event) = events.next().await {
        let event = event.unwrap();
        let object = event.object().unwrap();
        let version: u64 = object.resource_version().parse().unwrap();
        if object.name() == "sky" {
            heard.push((Instant::now(), version));
        }
        if version >= last {
            break;
        }
    }
    heard
}

#[tokio::test(start_paused = true)]
async fn a_client_hears_of_changes_at_the_recorded_pace_times_the_speed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sky.rec");
    let versions = record_sky(&path).await;
    let [blue, red, green] = &versions[..] else {
        panic!("{versions:?}")
    };
    let recorded = SystemTime::from(green.time)
        .duration_since(red.time.into())
        .unwrap();
    assert!(recorded >= Duration::from_secs(20), "{recorded:?}");
    for times in [1, 10] {
        let options = ReplayOptions {
            at: Moment::Revision(revision(blue)),
            ..Default::default()
        };
        let cluster = TestCluster::replay(&path, options).await.unwrap();
        let play = cluster.play(Speed::Times(f64::from(times)));
        let (played, heard) = tokio::join!(play, heard(&cluster, revision(green)));
        assert_eq!(played.unwrap(), Played::Ended);
        let [(first, red_heard), (second, green_heard)] = heard[..] else {
            panic!("{heard:?}")
        };
        assert_eq!((red_heard, green_heard), (revision(red), revision(green)));
        let (heard, expected) = (second - first, recorded / times);
        assert!(
            heard.abs_diff(expected) < Duration::from_millis(20),
            "{heard:?}, not {expected:?}, at {times}x"
        );
        cluster.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_replay_begins_at_a_time_or_a_version_and_ends_where_it_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sky.rec");
    let versions = record_sky(&path).await;
    let [blue, red, green] = &versions[..] else {
        panic!("{versions:?}")
    };
    let before = |time: Time| Moment::Time((SystemTime::from(time) - Duration::from_millis(1)).into());
    let cases = [
        (Moment::Revision(revision(blue)), Moment::End, "blue", "green"),
        (
            Moment::Revision(revision(red) - 1),
            Moment::Revision(revision(red)),
            "blue",
            "red",
        ),
        (Moment::Time(blue.time), Moment::Time(red.time), "blue", "red"),
        (Moment::Time(blue.time), before(red.time), "blue", "blue"),
        (
            Moment::Time(red.time),
            Moment::Revision(revision(green)),
            "red",
            "green",
        ),
        (Moment::Revision(revision(red)), before(green.time), "red", "red"),
        (Moment::End, Moment::End, "green", "green"),
    ];
    for (at, until, begins, ends) in cases {
        let options = ReplayOptions {
            at,
            until,
            ..Default::default()
        };
        let cluster = TestCluster::replay(&path, options).await.unwrap();
        assert_eq!(colour(&cluster).await, begins, "{at} to {until}");
        assert_eq!(cluster.play(Speed::Max).await.unwrap(), Played::Ended);
        assert_eq!(colour(&cluster).await, ends, "{at} to {until}");
        cluster.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_recording_that_needs_too_much_memory_is_refused_and_a_part_of_it_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sky.rec");
    let versions = record_sky(&path).await;
    let first = Moment::Revision(revision(&versions[0]));
    let small = |at, until| ReplayOptions {
        at,
        until,
        max_bytes: 10 << 10,
        ..Default::default()
    };
    for options in [small(Moment::End, Moment::End), small(first, Moment::End)] {
        let refused = TestCluster::replay(&path, options).await.map(drop).unwrap_err();
        let text = format!("{:#}", anyhow::Error::from(refused));
        assert!(
            text.contains("the recorded versions need more than the limit of 0 MiB of memory"),
            "{text}"
        );
    }
    let cluster = TestCluster::replay(&path, small(first, first)).await.unwrap();
    assert_eq!(colour(&cluster).await, "blue");
    cluster.stop().await;
}
