//! Histories of the machine: each rule by name as a script, and random ones for the guarantees.

use std::fmt::Write;
use std::sync::Arc;

use expect_test::{Expect, expect};
use proptest::prelude::*;
use watchkeeper_meta::{GroupResource, ObjectKey, Status};

use super::*;
use crate::watcher::Unread;

impl Versioned for &'static str {
    /// A test object is its name, an `@` and its version.
    fn resource_version(&self) -> &str {
        self.split_once('@').map_or("", |(_, version)| version)
    }
}

const PAGED: Config = Config {
    initial_list: InitialList::Paged,
    list_semantic: ListSemantic::MostRecent,
    page_size: Some(500),
    timeout: Duration::from_secs(300),
};

fn streaming() -> Config {
    Config {
        initial_list: InitialList::Streaming,
        ..PAGED
    }
}

/// An action of the server in a script, one per line of the printed history.
#[derive(Clone, Debug)]
enum Says {
    Opens,
    Item(&'static str),
    Page {
        version: &'static str,
        token: &'static str,
    },
    Adds(&'static str),
    Modifies(&'static str),
    Deletes(&'static str),
    Bookmark(&'static str),
    EndOfInitial(&'static str),
    Garbled,
    GarbledNamed(&'static str),
    Ends,
    Fails(Failure),
    Silence,
    Seconds(u64),
}

use Says::*;

fn status(status: Status) -> Says {
    Fails(status.into())
}

fn lost() -> Failure {
    Failure::Connection(error("reset"))
}

fn error(text: &str) -> Arc<dyn std::error::Error + Send + Sync> {
    Arc::from(Box::<dyn std::error::Error + Send + Sync>::from(text))
}

fn input(says: Says) -> Option<Input<&'static str>> {
    Some(match says {
        Opens => Input::Opened,
        Item(object) => Input::Item(object),
        Page { version, token } => Input::PageEnd(ListMeta {
            resource_version: ResourceVersion::new(version),
            continue_token: token.to_owned(),
            ..Default::default()
        }),
        Adds(object) => Input::Added(object),
        Modifies(object) => Input::Modified(object),
        Deletes(object) => Input::Deleted(object),
        Bookmark(version) => Input::Bookmark {
            version: ResourceVersion::new(version),
            ends_initial: false,
        },
        EndOfInitial(version) => Input::Bookmark {
            version: ResourceVersion::new(version),
            ends_initial: true,
        },
        Garbled => Input::Undecodable(Failure::Undecodable {
            object: Unread::default(),
            source: error("no name"),
        }),
        GarbledNamed(object) => Input::Undecodable(Failure::Undecodable {
            object: Unread {
                key: Some(ObjectKey::new("", object.split('@').next().unwrap_or_default())),
                version: ResourceVersion::new(object.resource_version()),
                position: 0,
            },
            source: error("bad labels"),
        }),
        Ends => Input::Ended,
        Fails(failure) => Input::Failed(failure),
        Silence => Input::Late,
        Seconds(_) => return None,
    })
}

fn show_next(next: &Next) -> String {
    match next {
        Next::Read => String::new(),
        Next::List(ListRequest {
            limit,
            continue_token,
            version,
        }) => {
            let limit = limit.map_or(String::new(), |limit| format!(" limit={limit}"));
            let token = if continue_token.is_empty() {
                ""
            } else {
                " continue="
            };
            format!("LIST rv={:?}{limit}{token}{continue_token}", version.as_str())
        }
        Next::Watch(WatchRequest {
            version,
            initial_events,
            ..
        }) => {
            let initial = if *initial_events { " initial" } else { "" };
            format!("WATCH rv={:?}{initial}", version.as_str())
        }
        Next::Stop => "STOP".to_owned(),
    }
}

/// Prints the machine's actions; waits are printed without jitter.
fn check(config: Config, script: Vec<Says>, expected: Expect) {
    let mut machine = Machine::new(config, 0);
    let mut now = Instant::now();
    machine.asked(now);
    let mut out = format!("{}\n", show_next(&machine.start()));
    for says in script {
        if let Seconds(seconds) = says {
            now += Duration::from_secs(seconds);
        }
        if matches!(says, Silence) {
            now = machine.deadline().expect("a deadline is set");
        }
        let Some(input) = input(says) else { continue };
        let output = machine.step(input, now);
        if let Some(event) = output.event {
            writeln!(out, "  {}", show_event(event)).unwrap();
        }
        if let Some(report) = output.report {
            writeln!(out, "  ! {report}").unwrap();
        }
        if !output.after.is_zero() {
            let base = output.after.as_secs_f64();
            writeln!(
                out,
                "  wait {}",
                if base < 1.6 {
                    "0.8 s"
                } else if base < 3.2 {
                    "1.6 s"
                } else {
                    "longer"
                }
            )
            .unwrap();
        }
        if output.next != Next::Read {
            writeln!(out, "{}", show_next(&output.next)).unwrap();
        }
    }
    expected.assert_eq(&out);
}

fn show_event(event: Event<&'static str>) -> String {
    match event {
        Event::Init => "Init".into(),
        Event::InitApply(object) => format!("InitApply {object}"),
        Event::InitDone(version) => format!("InitDone {version}"),
        Event::Added(object) => format!("Added {object}"),
        Event::Modified(object) => format!("Modified {object}"),
        Event::Deleted(object) => format!("Deleted {object}"),
        Event::Progress(version) => format!("Progress {version}"),
    }
}

/// A watcher that has listed `a` at version 5 and watches.
fn watching(more: Vec<Says>) -> Vec<Says> {
    let mut script = vec![
        Opens,
        Item("a@3"),
        Page {
            version: "5",
            token: "",
        },
        Opens,
    ];
    script.extend(more);
    script
}

#[test]
fn list_then_watch_page_by_page() {
    check(
        PAGED,
        vec![
            Opens,
            Item("a@1"),
            Page {
                version: "5",
                token: "t",
            },
            Opens,
            Item("b@4"),
            Page {
                version: "5",
                token: "",
            },
            Opens,
            Adds("c@6"),
            Modifies("c@7"),
            Bookmark("9"),
            Deletes("a@10"),
        ],
        expect![[r#"
            LIST rv="" limit=500
              Init
              InitApply a@1
            LIST rv="" limit=500 continue=t
              InitApply b@4
              InitDone 5
            WATCH rv="5"
              Added c@6
              Modified c@7
              Progress 9
              Deleted a@10
        "#]],
    );
}

#[test]
fn streaming_list_goes_on_as_the_watch() {
    check(
        streaming(),
        vec![
            Opens,
            Adds("a@7"),
            Adds("b@2"),
            Deletes("a@8"),
            EndOfInitial("8"),
            Modifies("c@9"),
        ],
        expect![[r#"
            WATCH rv="" initial
              Init
              InitApply a@7
              InitApply b@2
              Deleted a@8
              InitDone 8
              Modified c@9
        "#]],
    );
}

#[test]
fn a_streaming_list_after_the_first_is_not_older_than_seen() {
    check(
        streaming(),
        vec![
            Opens,
            EndOfInitial("8"),
            Modifies("c@9"),
            status(Status::watch_expired()),
            Opens,
            Modifies("c@9"),
            EndOfInitial("12"),
        ],
        expect![[r#"
            WATCH rv="" initial
              Init
              InitDone 8
              Modified c@9
            WATCH rv="9" initial
              Init
              InitApply c@9
              InitDone 12
        "#]],
    );
}

#[test]
fn streaming_list_falls_back_when_refused_and_remembers() {
    let refused = Status::failure(
        422,
        watchkeeper_meta::StatusReason::INVALID,
        "sendInitialEvents is forbidden",
    );
    check(
        streaming(),
        vec![
            status(refused),
            Opens,
            Page {
                version: "5",
                token: "",
            },
            Opens,
            status(Status::watch_expired()),
        ],
        expect![[r#"
            WATCH rv="" initial
              ! sendInitialEvents is forbidden
            LIST rv="" limit=500
              Init
              InitDone 5
            WATCH rv="5"
            LIST rv="5"
        "#]],
    );
}

#[test]
fn streaming_list_falls_back_when_its_end_never_comes() {
    check(
        streaming(),
        vec![Opens, Modifies("a@7"), Silence],
        expect![[r#"
        WATCH rv="" initial
          Init
          InitApply a@7
          ! streaming list has no end: the server does not support it
        LIST rv="" limit=500
    "#]],
    );
    check(
        streaming(),
        vec![Opens, Modifies("a@7"), Ends],
        expect![[r#"
        WATCH rv="" initial
          Init
          InitApply a@7
          ! streaming list has no end: the server does not support it
        LIST rv="" limit=500
    "#]],
    );
}

#[test]
fn streaming_lists_are_tried_again_after_a_while() {
    let plain_list_after = |seconds| {
        let page = Page {
            version: "7",
            token: "",
        };
        let expired = status(Status::watch_expired());
        vec![Opens, Silence, Opens, page, Opens, Seconds(seconds), expired]
    };
    check(
        streaming(),
        plain_list_after(STREAMING_PAUSE.as_secs() - 1),
        expect![[r#"
            WATCH rv="" initial
              Init
              ! streaming list has no end: the server does not support it
            LIST rv="" limit=500
              Init
              InitDone 7
            WATCH rv="7"
            LIST rv="7"
        "#]],
    );
    check(
        streaming(),
        plain_list_after(STREAMING_PAUSE.as_secs()),
        expect![[r#"
            WATCH rv="" initial
              Init
              ! streaming list has no end: the server does not support it
            LIST rv="" limit=500
              Init
              InitDone 7
            WATCH rv="7"
            WATCH rv="7" initial
        "#]],
    );
}

#[test]
fn an_ended_watch_resumes_at_once_at_the_last_version() {
    check(
        PAGED,
        watching(vec![Modifies("b@7"), Bookmark("9"), Ends]),
        expect![[r#"
            LIST rv="" limit=500
              Init
              InitApply a@3
              InitDone 5
            WATCH rv="5"
              Modified b@7
              Progress 9
            WATCH rv="9"
        "#]],
    );
    check(
        PAGED,
        watching(vec![Seconds(2), Ends]),
        expect![[r#"
        LIST rv="" limit=500
          Init
          InitApply a@3
          InitDone 5
        WATCH rv="5"
        WATCH rv="5"
    "#]],
    );
}

#[test]
fn a_watch_that_ends_at_once_without_an_event_is_delayed() {
    check(
        PAGED,
        watching(vec![Ends, Opens, Ends]),
        expect![[r#"
        LIST rv="" limit=500
          Init
          InitApply a@3
          InitDone 5
        WATCH rv="5"
          ! watch ended after 0ns without an event
          wait 0.8 s
        WATCH rv="5"
          ! watch ended after 0ns without an event
          wait 1.6 s
        WATCH rv="5"
    "#]],
    );
}

#[test]
fn expired_in_any_form_lists_again_not_older_than_seen() {
    let after = |form: Status| {
        let mut machine = Machine::new(PAGED, 0);
        let now = Instant::now();
        machine.start();
        let inputs = watching(vec![status(form)]).into_iter().filter_map(input);
        let outputs = inputs.map(|input| machine.step(input, now));
        outputs
            .last()
            .map(|output| show_next(&output.next))
            .unwrap_or_default()
    };
    for form in [
        Status::watch_expired(),
        Status::gone("gone"),
        Status::too_old_resource_version(5, 9),
        Status {
            code: 410,
            ..Default::default()
        },
    ] {
        assert_eq!(after(form), r#"LIST rv="5""#);
    }
}

#[test]
fn expired_when_opening_the_watch_lists_again() {
    check(
        PAGED,
        vec![
            Opens,
            Page {
                version: "5",
                token: "",
            },
            status(Status::watch_expired()),
        ],
        expect![[r#"
            LIST rv="" limit=500
              Init
              InitDone 5
            WATCH rv="5"
            LIST rv="5"
        "#]],
    );
}

#[test]
fn expired_again_and_again_is_delayed() {
    let again = [
        Opens,
        Page {
            version: "6",
            token: "",
        },
        Opens,
        status(Status::watch_expired()),
    ];
    let mut script = watching(vec![status(Status::watch_expired())]);
    script.extend(again.clone());
    script.extend(again);
    check(
        PAGED,
        script,
        expect![[r#"
        LIST rv="" limit=500
          Init
          InitApply a@3
          InitDone 5
        WATCH rv="5"
        LIST rv="5"
          Init
          InitDone 6
        WATCH rv="6"
          wait 0.8 s
        LIST rv="6"
          Init
          InitDone 6
        WATCH rv="6"
          wait 1.6 s
        LIST rv="6"
    "#]],
    );
}

#[test]
fn an_expired_list_asks_for_the_most_recent_state() {
    check(
        PAGED,
        watching(vec![
            status(Status::watch_expired()),
            status(Status::list_expired()),
        ]),
        expect![[r#"
            LIST rv="" limit=500
              Init
              InitApply a@3
              InitDone 5
            WATCH rv="5"
            LIST rv="5"
            LIST rv="" limit=500
        "#]],
    );
}

#[test]
fn an_expired_page_lists_everything_in_one_piece() {
    check(
        PAGED,
        vec![
            Opens,
            Item("a@1"),
            Page {
                version: "5",
                token: "t",
            },
            status(Status::continue_expired("u")),
            Opens,
        ],
        expect![[r#"
            LIST rv="" limit=500
              Init
              InitApply a@1
            LIST rv="" limit=500 continue=t
            LIST rv=""
              Init
        "#]],
    );
}

#[test]
fn a_version_too_large_asks_for_the_most_recent_state_and_reports_going_back() {
    check(
        PAGED,
        watching(vec![
            status(Status::watch_expired()),
            status(Status::too_large_resource_version(5, 2, 1)),
            Opens,
            Page {
                version: "2",
                token: "",
            },
        ]),
        expect![[r#"
            LIST rv="" limit=500
              Init
              InitApply a@3
              InitDone 5
            WATCH rv="5"
            LIST rv="5"
              ! Timeout: Too large resource version: 5, current: 2
              wait 0.8 s
            LIST rv="" limit=500
              Init
              InitDone 2
              ! resource version went back from 5 to 2
            WATCH rv="2"
        "#]],
    );
}

#[test]
fn an_event_older_than_seen_is_reported_and_lists_again() {
    check(
        PAGED,
        watching(vec![Modifies("b@4")]),
        expect![[r#"
        LIST rv="" limit=500
          Init
          InitApply a@3
          InitDone 5
        WATCH rv="5"
          ! resource version went back from 5 to 4
        LIST rv="" limit=500
    "#]],
    );
}

#[test]
fn too_many_requests_and_lost_connections_resume_without_a_list() {
    check(
        PAGED,
        watching(vec![
            Modifies("b@6"),
            status(Status::too_many_requests("slow down", 1)),
            Fails(lost()),
            Opens,
            Modifies("c@7"),
            Fails(lost()),
        ]),
        expect![[r#"
            LIST rv="" limit=500
              Init
              InitApply a@3
              InitDone 5
            WATCH rv="5"
              Modified b@6
              ! slow down
              wait 0.8 s
            WATCH rv="6"
              ! connection to the server lost
              wait 1.6 s
            WATCH rv="6"
              Modified c@7
              ! connection to the server lost
              wait 0.8 s
            WATCH rv="7"
        "#]],
    );
}

#[test]
fn a_watch_that_fails_again_where_it_failed_is_listed() {
    let damaged = || {
        status(Status::internal_error(
            "data from the storage is not transformable",
        ))
    };
    check(
        PAGED,
        watching(vec![
            damaged(),
            Opens,
            Modifies("b@6"),
            damaged(),
            Opens,
            damaged(),
        ]),
        expect![[r#"
            LIST rv="" limit=500
              Init
              InitApply a@3
              InitDone 5
            WATCH rv="5"
              ! Internal error occurred: data from the storage is not transformable
              wait 0.8 s
            WATCH rv="5"
              Modified b@6
              ! Internal error occurred: data from the storage is not transformable
              wait 0.8 s
            WATCH rv="6"
              ! Internal error occurred: data from the storage is not transformable
              wait 1.6 s
            LIST rv="6"
        "#]],
    );
}

#[test]
fn a_list_of_any_state_that_comes_in_pages_all_the_same_is_read_to_its_end() {
    let config = Config {
        list_semantic: ListSemantic::Any,
        ..PAGED
    };
    let page = |token| Page { version: "5", token };
    check(
        config,
        vec![Opens, Item("a@1"), page("t"), Opens, Item("b@2"), page("")],
        expect![[r#"
            LIST rv="0"
              Init
              InitApply a@1
            LIST rv="" continue=t
              InitApply b@2
              InitDone 5
            WATCH rv="5"
        "#]],
    );
}

#[test]
fn a_failing_list_waits_longer_each_time_and_says_nothing_began() {
    check(
        PAGED,
        vec![Fails(lost()), Fails(lost()), Fails(lost())],
        expect![[r#"
            LIST rv="" limit=500
              ! connection to the server lost
              wait 0.8 s
            LIST rv="" limit=500
              ! connection to the server lost
              wait 1.6 s
            LIST rv="" limit=500
              ! connection to the server lost
              wait longer
            LIST rv="" limit=500
        "#]],
    );
}

#[test]
fn a_lost_page_is_asked_for_again() {
    check(
        PAGED,
        vec![
            Opens,
            Item("a@1"),
            Page {
                version: "5",
                token: "t",
            },
            Opens,
            Fails(lost()),
        ],
        expect![[r#"
            LIST rv="" limit=500
              Init
              InitApply a@1
            LIST rv="" limit=500 continue=t
              ! connection to the server lost
              wait 0.8 s
            LIST rv="" limit=500 continue=t
        "#]],
    );
}

#[test]
fn a_dead_connection_is_noticed() {
    check(
        PAGED,
        watching(vec![Silence]),
        expect![[r#"
        LIST rv="" limit=500
          Init
          InitApply a@3
          InitDone 5
        WATCH rv="5"
          ! nothing heard for 490.788282157s: the connection is dead
        WATCH rv="5"
    "#]],
    );
}

#[test]
fn one_unreadable_object_is_left_out_of_a_list_and_makes_a_watch_list_again() {
    check(
        PAGED,
        vec![Opens, Garbled, Item("a@1")],
        expect![[r#"
        LIST rv="" limit=500
          Init
          ! object number 0 of the answer cannot be read
          InitApply a@1
    "#]],
    );
    check(
        PAGED,
        watching(vec![Garbled]),
        expect![[r#"
        LIST rv="" limit=500
          Init
          InitApply a@3
          InitDone 5
        WATCH rv="5"
          ! object number 0 of the answer cannot be read
          wait 0.8 s
        LIST rv="5"
    "#]],
    );
}

#[test]
fn an_unreadable_object_of_a_known_name_leaves_the_watch_as_it_is() {
    check(
        PAGED,
        watching(vec![GarbledNamed("b@6"), Modifies("a@7"), GarbledNamed("b@2")]),
        expect![[r#"
            LIST rv="" limit=500
              Init
              InitApply a@3
              InitDone 5
            WATCH rv="5"
              Progress 6
              ! object b cannot be read
              Modified a@7
              ! resource version went back from 7 to 2
            LIST rv="" limit=500
        "#]],
    );
}

#[test]
fn refusals_are_reported_and_tried_again() {
    let forbidden = || status(Status::forbidden(&GroupResource::new("", "pods"), "", "no"));
    check(
        PAGED,
        vec![forbidden(), forbidden()],
        expect![[r#"
        LIST rv="" limit=500
          ! pods is forbidden: no
          wait 0.8 s
        LIST rv="" limit=500
          ! pods is forbidden: no
          wait 1.6 s
        LIST rv="" limit=500
    "#]],
    );
    check(
        PAGED,
        watching(vec![forbidden()]),
        expect![[r#"
        LIST rv="" limit=500
          Init
          InitApply a@3
          InitDone 5
        WATCH rv="5"
          ! pods is forbidden: no
          wait 0.8 s
        WATCH rv="5"
    "#]],
    );
}

#[test]
fn a_wrong_request_stops() {
    check(
        PAGED,
        vec![status(Status::bad_request("unable to parse requirement"))],
        expect![[r#"
            LIST rv="" limit=500
              ! unable to parse requirement
              wait 0.8 s
            STOP
        "#]],
    );
}

#[test]
fn any_semantic_asks_for_any_state_without_a_limit() {
    let any = Config {
        list_semantic: ListSemantic::Any,
        ..PAGED
    };
    check(
        any,
        vec![],
        expect![[r#"
        LIST rv="0"
    "#]],
    );
}

#[test]
fn a_position_from_elsewhere_is_resumed_and_reported_if_too_old() {
    let mut machine = Machine::new(streaming(), 0);
    machine.resume_from(ResourceVersion::new("1000"));
    assert_eq!(show_next(&machine.start()), r#"WATCH rv="1000""#);
    let now = Instant::now();
    machine.step::<&str>(Input::Opened, now);
    let expired = Status::too_old_resource_version(1000, 1_080_816);
    let output = machine.step::<&str>(Input::Failed(expired.into()), now);
    assert_eq!(
        output.report.unwrap().to_string(),
        "too old resource version: 1000 (1080816)"
    );
    assert_eq!(
        (show_next(&output.next).as_str(), output.after),
        (r#"WATCH rv="" initial"#, Duration::ZERO)
    );
}

fn anything() -> impl Strategy<Value = Says> {
    let objects = prop::sample::select(vec!["a@1", "b@2", "c@3", "a@4", "b@5", "c@6", "d@7", "a@8"]);
    let objects_again = objects.clone();
    let versions = prop::sample::select(vec!["1", "3", "5", "7", "9"]);
    prop_oneof![
        6 => Just(Opens),
        4 => objects.clone().prop_map(Item),
        3 => (versions.clone(), prop::sample::select(vec!["", "t"]))
            .prop_map(|(version, token)| Page { version, token }),
        3 => objects.clone().prop_map(Adds),
        3 => objects.clone().prop_map(Modifies),
        3 => objects.prop_map(Deletes),
        3 => versions.clone().prop_map(Bookmark),
        3 => versions.prop_map(EndOfInitial),
        1 => Just(Garbled),
        1 => objects_again.prop_map(GarbledNamed),
        3 => Just(Ends),
        2 => Just(Fails(lost())),
        2 => Just(status(Status::watch_expired())),
        1 => Just(status(Status::too_large_resource_version(9, 1, 1))),
        1 => Just(status(Status::internal_error("boom"))),
        1 => Just(status(Status::too_many_requests("slow", 0))),
        2 => Just(Silence),
        2 => (0..400_u64).prop_map(Seconds),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// Whatever a server does, the four guarantees of the module hold.
    #[test]
    fn promises_hold_in_every_history(
        streams in any::<bool>(),
        says in prop::collection::vec(anything(), 0..80),
    ) {
        let config = if streams { streaming() } else { PAGED };
        let mut machine = Machine::new(config, 1);
        let mut now = Instant::now();
        let mut request = machine.start();
        machine.asked(now);
        let (mut initial, mut last) = (false, ResourceVersion::unset());
        let (mut fruitless, mut open) = (0, false);
        for says in says {
            if let Seconds(seconds) = says {
                now += Duration::from_secs(seconds);
            }
            // A server answers what was requested: lists with items and pages, watches with events.
            let asked_list = matches!(request, Next::List(_));
            let fits = match says {
                Opens => !open,
                Item(_) | Page { .. } => open && asked_list,
                Adds(_) | Modifies(_) | Deletes(_) | GarbledNamed(_) | Bookmark(_) | EndOfInitial(_) => open && !asked_list,
                Silence => machine.deadline().is_some(),
                _ => true,
            };
            let Some(input) = input(says).filter(|_| fits) else { continue };
            let (from, streams_before) = (machine.from, machine.streaming);
            let opens = matches!(input, Input::Opened);
            let (ended, next_page) = (matches!(input, Input::Ended), matches!(input, Input::PageEnd(_)));
            let output = machine.step(input, now);
            match &output.event {
                Some(Event::Init) => initial = true,
                Some(Event::InitApply(_)) => {}
                Some(Event::InitDone(version)) => {
                    initial = false;
                    let back = version.compare(&last) == Some(Ordering::Less);
                    prop_assert_eq!(back, matches!(output.report, Some(Failure::WentBack { .. })));
                    last = version.clone();
                }
                Some(Event::Added(object) | Event::Modified(object) | Event::Deleted(object)) if !initial => {
                    let version = ResourceVersion::new(object.resource_version());
                    prop_assert!(version.compare(&last) != Some(Ordering::Less));
                    (last, fruitless) = (version, 0);
                }
                Some(Event::Progress(version)) => {
                    prop_assert!(version.compare(&last) != Some(Ordering::Less));
                    (last, fruitless) = (version.clone(), 0);
                }
                Some(_) | None => {}
            }
            open = output.next == Next::Read && (open || opens);
            match &output.next {
                Next::Read => continue,
                Next::Watch(watch) if !watch.initial_events => {
                    prop_assert_eq!(&watch.version, machine.version(), "resumes where it stopped");
                }
                Next::List(list) => {
                    prop_assert!(list.limit.is_none() || list.version.is_unset());
                    initial = initial && !list.continue_token.is_empty();
                }
                Next::Watch(_) => initial = false,
                Next::Stop => return Ok(()),
            }
            // These are normal: the step to a list's next page or to its watch, the watch after one that ended
            // regularly, a larger request after an expiry, and a plain list if streaming does not work. Everything
            // else must back off until a watch brings something.
            let normal = machine.streaming != streams_before || matches!(output.event, Some(Event::InitDone(_)))
                || matches!(&output.next, Next::List(list) if next_page && !list.continue_token.is_empty())
                || ended && output.report.is_none()
                || machine.from > from;
            if !normal {
                fruitless += 1;
                prop_assert!(fruitless < 2 || output.after >= crate::watcher::FIRST_WAIT);
            }
            request = output.next;
        }
    }
}
