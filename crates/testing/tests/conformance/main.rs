//! Tests of the conformance kit: the embedded server passes every check, and for each check a faulty proxy is
//! detected.

mod fault;
mod proxy;

use std::collections::BTreeSet;
use std::future::pending;
use std::time::Duration;

use watchkeeper_conformance::{Check, CustomKind, Options, Outcome, Report, run};
use watchkeeper_testing::{TestCluster, TestOptions};

use fault::Fault;

async fn cluster() -> TestCluster {
    let options = TestOptions {
        paused: true,
        ..TestOptions::default()
    };
    let cluster = TestCluster::start_with(options).await.unwrap();
    // A watch from version 1 gets 410.
    let store = cluster.server().registry().store();
    store.compact(store.current_revision()).await.unwrap();
    cluster
}

async fn judge(fault: Fault, options: &Options) -> Report {
    let cluster = cluster().await;
    let report = run(
        &proxy::client(&cluster, fault),
        "default",
        options,
        pending(),
        |_| (),
    )
    .await;
    let left = cluster.dump();
    assert!(!left.contains("conformance-"), "left behind: {left}");
    cluster.stop().await;
    report
}

/// The check must find the fault; those in `also` may.
async fn finds(fault: Fault, check: Check, also: &[Check]) {
    let report = judge(fault, &Options::default()).await;
    let failed: BTreeSet<Check> = report.failed().map(|finding| finding.check).collect();
    let told: Vec<String> = report.failed().map(ToString::to_string).collect();
    assert!(
        failed.contains(&check),
        "{fault:?} is not found by {check}: {told:#?}"
    );
    let sensible: BTreeSet<Check> = also.iter().copied().chain([check]).collect();
    assert!(failed.is_subset(&sensible), "{fault:?}: {told:#?}");
}

#[tokio::test]
async fn the_embedded_server_passes_every_check() {
    for seed in 1..=3 {
        let options = Options {
            seed,
            ..Options::default()
        };
        for fault in [Fault::Nothing, Fault::CutsWatches] {
            let report = judge(fault, &options).await;
            let broken: Vec<String> = report
                .findings
                .iter()
                .filter(|finding| finding.outcome != Outcome::Passed)
                .map(ToString::to_string)
                .collect();
            assert_eq!(broken, Vec::<String>::new(), "{fault:?}, seed {seed}");
            assert_eq!(report.findings.len(), Check::ALL.len());
        }
    }
}

/// Every check that follows a watch to its end.
const WATCHES: &[Check] = &[
    Check::GapFree,
    Check::Resumable,
    Check::Bookmarkable,
    Check::BookmarkSent,
    Check::StreamingList,
    Check::Expired,
    Check::NoOp,
];

#[tokio::test]
async fn dropped_events_are_found() {
    let also = [
        Check::Resumable,
        Check::Bookmarkable,
        Check::StreamingList,
        Check::NoOp,
    ];
    finds(Fault::DropsEvents, Check::GapFree, &also).await;
}

#[tokio::test]
async fn repeated_events_are_found() {
    // An event repeated after a bookmark violates that, too.
    let also = [Check::Bookmarkable, Check::StreamingList, Check::NoOp];
    finds(Fault::RepeatsEvents, Check::Unique, &also).await;
}

#[tokio::test]
async fn swapped_events_are_found() {
    // A watcher that stops between the two resumes after both.
    finds(Fault::SwapsEvents, Check::Ordered, WATCHES).await;
}

#[tokio::test]
async fn silent_watches_are_found() {
    finds(Fault::Stalls, Check::GapFree, WATCHES).await;
}

#[tokio::test]
async fn wrong_types_are_found() {
    finds(Fault::WrongType, Check::Faithful, &[]).await;
}

#[tokio::test]
async fn late_resumptions_are_found() {
    finds(Fault::ResumesLate, Check::Resumable, WATCHES).await;
}

#[tokio::test]
async fn watches_that_never_resume_are_found() {
    let also = [Check::BookmarkSent, Check::NoOp, Check::Bookmarkable];
    finds(Fault::AlwaysGone, Check::Resumable, &also).await;
}

#[tokio::test]
async fn ignored_selectors_are_found() {
    // One watcher selects by both, and one streaming list by label.
    let also = [Check::FieldSelector, Check::StreamingList, Check::Resumable];
    finds(Fault::IgnoresLabelSelectors, Check::LabelSelector, &also).await;
    finds(
        Fault::IgnoresFieldSelectors,
        Check::FieldSelector,
        &[Check::Resumable],
    )
    .await;
    let also = [Check::FieldSelector, Check::StreamingList];
    finds(Fault::LeavingIsModified, Check::LabelSelector, &also).await;
}

#[tokio::test]
async fn missing_and_false_bookmarks_are_found() {
    finds(Fault::ForgetsBookmarks, Check::BookmarkSent, &[]).await;
    finds(Fault::BookmarksAhead, Check::Bookmarkable, &[]).await;
    finds(Fault::BookmarksBehind, Check::Bookmarkable, &[]).await;
}

#[tokio::test]
async fn broken_streaming_lists_are_found() {
    finds(Fault::NoEndOfInitialEvents, Check::StreamingList, &[]).await;
    finds(Fault::LosesAnInitialEvent, Check::StreamingList, &[]).await;
}

#[tokio::test]
async fn a_fresh_stream_for_an_expired_version_is_found() {
    finds(Fault::FreshStreamForGone, Check::Expired, &[]).await;
}

#[tokio::test]
async fn no_op_writes_that_change_something_are_found() {
    finds(Fault::TouchesWhatItWrites, Check::NoOp, &[]).await;
}

#[tokio::test]
async fn lists_of_the_wrong_version_are_found() {
    finds(Fault::OldLists, Check::ListLatest, &[]).await;
    finds(Fault::MixedLists, Check::ListAny, &[]).await;
    finds(
        Fault::OlderThanAsked,
        Check::ListNotOlderThan,
        &[Check::ListFuture],
    )
    .await;
    finds(Fault::IgnoresExact, Check::ListExact, &[Check::Expired]).await;
    finds(Fault::AnswersFuture, Check::ListFuture, &[]).await;
}

#[tokio::test]
async fn pages_of_different_lists_are_found() {
    finds(Fault::IgnoresContinue, Check::Pagination, &[]).await;
    finds(Fault::PagesOfNow, Check::Pagination, &[]).await;
}

#[tokio::test]
async fn a_custom_kind_passes_every_check() {
    let cluster = cluster().await;
    let custom = CustomKind::install(cluster.client()).await.unwrap();
    let options = Options {
        kind: custom.kind().clone(),
        ..Options::default()
    };
    let report = run(cluster.client(), "default", &options, pending(), |_| ()).await;
    let told: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert!(report.passed() && report.count("skipped") == 0, "{told:#?}");
    assert_eq!(custom.remove().await, None);
    cluster.stop().await;
}

#[tokio::test]
async fn a_single_check_can_be_selected() {
    let checks = vec!["pagination".parse().unwrap()];
    let options = Options {
        checks,
        ..Options::default()
    };
    let report = judge(Fault::DropsEvents, &options).await;
    let lines: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert_eq!(lines, ["pagination passed"]);
}

#[tokio::test]
async fn an_interrupted_run_cleans_up() {
    let cluster = cluster().await;
    // Silent watches: it waits in the middle of the first check.
    let client = proxy::client(&cluster, Fault::Stalls);
    let stop = tokio::time::sleep(Duration::from_secs(5));
    let report = run(&client, "default", &Options::default(), stop, |_| ()).await;
    assert!(report.interrupted);
    assert_eq!(report.count("skipped"), Check::ALL.len());
    assert!(cluster.take_writes().effective().len() > 1, "it had begun");
    assert!(!cluster.dump().contains("conformance-"));
    cluster.stop().await;
}
