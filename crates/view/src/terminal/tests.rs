use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::json;
use watchkeeper_client::{Client, Config};
use watchkeeper_meta::{Resource, ResourceVersion};
use watchkeeper_runtime::follow::FollowEvent;
use watchkeeper_wire::{Object, ObjectOptions};

use super::screen::Cursor;
use super::*;

fn resource(kind: &str, plural: &str) -> Resource {
    Resource::namespaced("", "v1", kind.to_owned(), plural.to_owned())
}

/// A Table of config maps as a server sends it.
fn table(count: usize) -> String {
    let row = |number| {
        json!({
            "cells": [format!("map-{number:05}"), number % 10, "1s"],
            "object": {"metadata": {"name": format!("map-{number:05}"), "namespace": format!("team-{}", number % 3),
                "creationTimestamp": "1970-01-01T00:00:00Z"}},
        })
    };
    let column = |name: &str, kind: &str| json!({"name": name, "type": kind, "priority": 0});
    let table = json!({
        "kind": "Table",
        "columnDefinitions": [column("Name", "string"), column("Data", "integer"), column("Created", "string")],
        "rows": (0..count).map(row).collect::<Vec<_>>(),
    });
    table.to_string()
}

/// A board with two kinds and a change. There is no server for Tables here; those are tested in `watchkeeper-tests`.
fn live() -> Live {
    let live = Live::default();
    let map = |colour: &str, version: &str| {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "shop", "name": "settings", "uid": "u", "resourceVersion": version},
            "data": {"colour": colour},
        });
        Object::from_json(map.to_string().as_bytes(), &ObjectOptions::default()).unwrap()
    };
    let at = jiff::Timestamp::from_second(1_000).unwrap();
    live.update(|board| {
        let maps = board.add("configmaps".into(), resource("ConfigMap", "configmaps"));
        let pods = board.add("pods".into(), resource("Pod", "pods"));
        board.note(maps, &FollowEvent::Added(map("blue", "1")), at);
        board.note(maps, &FollowEvent::Synced(ResourceVersion::new("1")), at);
        board.note(maps, &FollowEvent::Modified(map("red", "2")), at);
        board.fail(pods, "pods is forbidden", at);
    });
    live
}

/// The number of objects that the view is designed for.
const OBJECTS: usize = 30_000;

fn key(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

/// The screen after these keys.
async fn shown(width: u16, height: u16, keys: &str) -> String {
    shown_of(3, (width, height), keys).await
}

/// The same with that many objects.
async fn shown_of(objects: usize, size: (u16, u16), keys: &str) -> String {
    drawn(&live(), objects, size, keys).await
}

/// The Tables of that many objects.
fn tables(objects: usize) -> Tables {
    let client = Client::new(
        &Config::new("http://127.0.0.1:9".parse().unwrap()),
        Default::default(),
    )
    .unwrap();
    let tables = Tables::new(client, Default::default());
    tables.put(&resource("ConfigMap", "configmaps"), &table(objects));
    tables
}

async fn drawn(live: &Live, objects: usize, (width, height): (u16, u16), keys: &str) -> String {
    let tables = tables(objects);
    let sources = Sources {
        live,
        tables: &tables,
        title: "test",
    };
    let mut screen = Screen::new(Some("configmaps"));
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen.draw(frame, &sources)).unwrap();
    for letter in keys.chars() {
        let code = match letter {
            '⏎' => KeyCode::Enter,
            '⇥' => KeyCode::Tab,
            letter => KeyCode::Char(letter),
        };
        assert_eq!(screen.key(key(code)), None);
        terminal.draw(|frame| screen.draw(frame, &sources)).unwrap();
    }
    let buffer = terminal.backend().buffer();
    let line = |row| {
        (0..width)
            .map(|column| buffer[(column, row)].symbol())
            .collect::<String>()
    };
    let lines: Vec<String> = (0..height).map(|row| line(row).trim_end().to_owned()).collect();
    lines.join("\n")
}

#[tokio::test]
async fn kinds_and_changes() {
    let expected = expect_test::expect![[r#"
         test  1 object of 2 kinds · 0.0 changes/s · 1 failing
        ┌ Kinds ─────────────────────────┐┌ Changes (2) ─────────────────────────────────────────────────────────────┐
        │● configmaps                   1││00:16:40.000 FAILED    pods: pods is forbidden                            │
        │✖ pods                         0││00:16:40.000 MODIFIED  configmaps shop/settings  data.colour blue→red     │
        │                                ││                                                                          │
        │                                ││                                                                          │
        └────────────────────────────────┘└──────────────────────────────────────────────────────────────────────────┘
         ? keys  q quit  / filter  Tab kinds  Enter open  e changes  p pause"#]];
    expected.assert_eq(&shown(110, 8, "e").await);
}

#[tokio::test]
async fn thirty_thousand_objects_are_shown_in_a_window() {
    let expected = expect_test::expect![[r#"
         test  1 object of 2 kinds · 0.0 changes/s · 1 failing
        ┌ Kinds ─────────────────────────┐┌ configmaps (30000) ────────────────────────────────────────────┐
        │● configmaps                   1││NAMESPACE  NAME       DATA  CREATED                             │
        │✖ pods                         0││team-0     map-00000  0     1s                                  │
        │                                ││team-0     map-00003  3     1s                                  │
        │                                ││team-0     map-00006  6     1s                                  │
        └────────────────────────────────┘└────────────────────────────────────────────────────────────────┘
         ? keys  q quit  / filter  Tab kinds  Enter open  e changes  p pause"#]];
    expected.assert_eq(&shown_of(OBJECTS, (100, 8), "").await);
    let expected = expect_test::expect![[r#"
         test  1 object of 2 kinds · 0.0 changes/s ·
        ┌ configmaps (30000) ──────────────────────┐
        │NAMESPACE  NAME       DATA  CREATED       │
        │team-2     map-29996  6     1s            │
        │team-2     map-29999  9     1s            │
        └──────────────────────────────────────────┘
         ? keys  q quit  / filter  Tab kinds  Enter"#]];
    expected.assert_eq(&shown_of(OBJECTS, (44, 7), "G").await);
    let expected = expect_test::expect![[r#"
         test  1 object of 2 kinds · 0.0 changes/s · 1 failing
        ┌ Kinds ─────────────────────────┐┌ configmaps (10 of 30000) ──────────────────────────────────────────────────────────┐
        │● configmaps                   1││NAMESPACE  NAME       DATA  CREATED                                                 │
        │✖ pods                         0││team-0     map-12342  2     1s                                                      │
        │                                ││team-0     map-12345  5     1s                                                      │
        └────────────────────────────────┘└────────────────────────────────────────────────────────────────────────────────────┘
        /P-1234▏"#]];
    expected.assert_eq(&shown_of(OBJECTS, (120, 7), "/P-1234").await);
}

#[test]
fn a_long_name_leaves_room_for_the_other_columns() {
    let check = |room, expected: [usize; 4]| {
        assert_eq!(super::draw::fitted(vec![11, 60, 8, 10], room), expected);
    };
    check(87, [11, 60, 8, 10]);
    check(70, [11, 43, 8, 10]);
    check(20, [11, 18, 8, 10]);
    assert_eq!(super::draw::cut_middle("web-7cd7lrt5w6-bmjvm", 11), "web-7…bmjvm");
}

#[tokio::test]
async fn a_narrow_terminal_shows_one_pane() {
    let expected = expect_test::expect![[r#"
         test  1 object of 2 kinds · 0.0 changes/s · 1 fai
        ┌ Kinds ─────────────────────────────────────────┐
        │● configmaps                                   1│
        │✖ pods                                         0│
        │                                                │
        └────────────────────────────────────────────────┘
         ? keys  q quit  / filter  Tab kinds  Enter open"#]];
    expected.assert_eq(&shown(50, 7, "⇥").await);
}

#[tokio::test]
async fn an_object_has_yaml_and_history() {
    let expected = expect_test::expect![[r#"
         test  1 object of 2 kinds · 0.0 changes/s · 1 failing
        ┌ configmaps shop/settings – history ──────────────────────┐
        │00:16:40.000 MODIFIED  configmaps shop/settings  data.colo│
        │ur blue→red                                               │
        │    data.colour blue → red                                │
        │                                                          │
        │                                                          │
        │                                                          │
        │                                                          │
        │                                                          │
        │                                                          │
        │                                                          │
        └──────────────────────────────────────────────────────────┘
         ? keys  q quit  / filter  Tab kinds  Enter open  e changes"#]];
    expected.assert_eq(&shown(60, 14, "ej⏎").await);
    let expected = expect_test::expect![[r#"
         test  1 object of 2 kinds · 0.0 changes/s · 1 failing
        ┌ configmaps shop/settings – YAML ─────────────────────────┐
        │apiVersion: v1                                            │
        │data:                                                     │
        │  colour: red                                             │
        │kind: ConfigMap                                           │
        │metadata:                                                 │
        │  name: settings                                          │
        │  namespace: shop                                         │
        │  resourceVersion: "2"                                    │
        │  uid: u                                                  │
        │                                                          │
        └──────────────────────────────────────────────────────────┘
         ? keys  q quit  / filter  Tab kinds  Enter open  e changes"#]];
    expected.assert_eq(&shown(60, 14, "ej⏎y").await);
}

#[tokio::test]
async fn the_filter_is_applied_as_it_is_typed() {
    assert!(shown(110, 8, "e/sett").await.contains("Changes (1)"));
    assert!(shown(110, 8, "e/nothing").await.contains("Changes (0)"));
}

#[tokio::test]
async fn an_empty_table_says_why() {
    assert!(
        shown(110, 8, "/nothing")
            .await
            .contains("Nothing matches the filter. Esc clears it.")
    );
    assert!(shown(110, 8, "/00001").await.contains(" configmaps (1 of 3) "));
    assert!(shown_of(0, (110, 8), "").await.contains("There are none."));
}

#[tokio::test]
async fn a_page_is_as_long_as_the_screen() {
    let screen = shown_of(OBJECTS, (44, 10), "    ").await;
    let rows: Vec<&str> = screen.lines().filter(|line| line.contains("map-")).collect();
    assert_eq!(rows.len(), 5);
    // Four pages of five rows, and every third object is in the first namespace.
    assert!(rows[4].contains("map-00060"), "{screen}");
}

#[tokio::test]
async fn events_and_heartbeats_are_asked_for() {
    let live = live();
    let at = jiff::Timestamp::from_second(1_001).unwrap();
    live.update(|board| {
        let events = board.add("events".into(), resource("Event", "events"));
        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"namespace": "shop", "name": "e", "uid": "e", "resourceVersion": "3"},
        });
        let event = Object::from_json(event.to_string().as_bytes(), &ObjectOptions::default()).unwrap();
        board.note(events, &FollowEvent::Synced(ResourceVersion::new("2")), at);
        board.note(events, &FollowEvent::Added(event), at);
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "shop", "name": "settings", "uid": "u", "resourceVersion": "4"},
            "data": {"colour": "red"},
        });
        let map = Object::from_json(map.to_string().as_bytes(), &ObjectOptions::default()).unwrap();
        board.note(0, &FollowEvent::Modified(map), at);
    });
    let screen = drawn(&live, 3, (110, 8), "e").await;
    assert!(
        screen.contains("Changes (2); a shows 2 Events and heartbeats"),
        "{screen}"
    );
    assert!(!screen.contains("shop/e "), "{screen}");
    let screen = drawn(&live, 3, (110, 8), "ea").await;
    assert!(screen.contains("Changes (4) "), "{screen}");
    assert!(screen.contains("events shop/e "), "{screen}");
}

#[tokio::test]
async fn any_size_can_be_drawn() {
    for (width, height) in [(1, 1), (3, 2), (20, 3), (89, 5), (90, 5), (300, 90)] {
        shown(width, height, "?⇥⏎eh").await;
    }
}

#[tokio::test]
async fn the_cursor_stays_on_its_change_while_others_come() {
    let (live, tables) = (live(), tables(3));
    let sources = Sources {
        live: &live,
        tables: &tables,
        title: "test",
    };
    let mut screen = Screen::new(Some("configmaps"));
    let mut terminal = Terminal::new(TestBackend::new(110, 8)).unwrap();
    for letter in ['e', 'j'] {
        screen.key(key(KeyCode::Char(letter)));
        terminal.draw(|frame| screen.draw(frame, &sources)).unwrap();
    }
    let at = jiff::Timestamp::from_second(1_001).unwrap();
    live.update(|board| board.remark(1, "a newer line", at));
    terminal.draw(|frame| screen.draw(frame, &sources)).unwrap();
    screen.key(key(KeyCode::Enter));
    let opened = screen.detail.map(|detail| detail.key.to_string());
    assert_eq!(opened.as_deref(), Some("shop/settings"));
}

#[test]
fn the_cursor_stays_on_its_item_except_on_the_first_row() {
    let mut cursor = Cursor::<u64>::default();
    let mut check = |row: usize, items: &[u64], expected: usize| {
        cursor.row = row;
        cursor.place(items, |item| item, 3);
        assert_eq!(cursor.row, expected, "{items:?}");
        expected
    };
    check(0, &[5, 6, 7], 0);
    check(0, &[4, 5, 6, 7], 0);
    let row = check(2, &[4, 5, 6, 7], 2);
    let row = check(row, &[2, 3, 4, 5, 6, 7], 4);
    // A key moves it by one, while an item goes.
    let row = check(row + 1, &[3, 4, 5, 6, 7], 4);
    // Its own item goes.
    let row = check(row, &[3, 4, 5, 6], 3);
    assert_eq!(row, 3);
    check(0, &[1, 2, 3, 4, 5, 6], 0);
}

#[test]
fn q_goes_back_and_then_quits() {
    let mut screen = Screen::new(None);
    screen.under_cursor = Some(("pods".into(), watchkeeper_meta::ObjectKey::new("a", "b")));
    assert_eq!(screen.key(key(KeyCode::Enter)), None);
    assert_eq!(screen.key(key(KeyCode::Char('q'))), None);
    assert_eq!(screen.key(key(KeyCode::Char('q'))), Some(Ending::Quit));
}

proptest::proptest! {
    #[test]
    fn the_cursor_is_always_visible(steps in proptest::collection::vec((0usize..60, 0usize..60, 0usize..20), 1..20)) {
        let mut cursor = Cursor::<u64>::default();
        for (row, count, height) in steps {
            cursor.row = row;
            cursor.fit(count, height);
            proptest::prop_assert!(cursor.row < count.max(1));
            proptest::prop_assert!(cursor.first <= cursor.row && cursor.row < cursor.first + height.max(1));
        }
    }
}
