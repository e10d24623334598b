use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use super::*;

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
struct Widget {
    name: String,
    #[serde(default)]
    size: Option<i32>,
    #[serde(default)]
    is_open: bool,
    #[serde(default)]
    weight: f64,
    #[serde(default)]
    colour: Option<Colour>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    parts: Vec<Widget>,
    #[serde(default)]
    numbers: BTreeMap<i32, (u8, f32)>,
}

#[derive(Debug, Deserialize, PartialEq)]
enum Colour {
    Red,
    Blue,
}

/// A value that is all of a text.
fn from_text<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, Error> {
    let mut json = Json::new(text);
    let value = T::deserialize(&mut json)?;
    json.end()?;
    Ok(value)
}

/// A tree that is all of a text.
fn tree(text: &str) -> Option<Value> {
    let mut json = Json::new(text);
    let tree = json.tree(&mut false).ok()?;
    json.end().ok().map(|()| tree)
}

/// What is read here is what `serde_json` reads; what is not, is left to it.
fn check<'de, T: Deserialize<'de> + PartialEq + std::fmt::Debug>(text: &'de str) -> bool {
    let read = from_text::<T>(text);
    if let Ok(value) = &read {
        let expected = serde_json::from_str::<T>(text);
        assert_eq!(Some(value), expected.ok().as_ref(), "{text}");
    }
    assert_eq!(tree(text), from_text::<Value>(text).ok(), "{text}");
    read.is_ok()
}

#[test]
fn what_servers_write_is_read() {
    for text in [
        "null",
        " [ ] ",
        r#"{"a":[1,-2,0,1.5,-0,1e3,18446744073709551615,true,false,null,{}],"b":"","c":"\"\\\u00e4\n"}"#,
        "{\n\t\"a\" : \"longer than sixteen bytes, and then some more\" ,\r\n\"\\u0062\":{}}",
        "\"日本語のテキスト、十六バイトより長い\"",
    ] {
        assert!(check::<Value>(text), "{text}");
    }
    let widget = r#"{"name":"a","size":-7,"isOpen":true,"weight":2,"colour":"Blue","labels":{"k\u0031":"v"},
        "parts":[{"name":"b","size":null,"unknown":{"x":[1.5,"\ud83d\ude00"]}}]}"#;
    assert!(check::<Widget>(widget));
    assert_eq!(from_text::<&str>(r#""borrowed""#).unwrap(), "borrowed");
}

#[test]
fn what_is_no_json_is_refused() {
    for text in [
        "",
        "{",
        "[1,]",
        r#"{"a":1,}"#,
        r#"{"a" 1}"#,
        r#"{"a":1 "b":2}"#,
        r#"{1:2}"#,
        "[1 2]",
        "01",
        "-",
        "1.",
        "truex",
        "nul",
        "\"a\nb\"",
        "\"\\x\"",
        "\"\\ud800\"",
        "\"open",
        "{} {}",
        "[1e999]",
    ] {
        assert!(
            !check::<Value>(text) && serde_json::from_str::<Value>(text).is_err(),
            "{text}"
        );
    }
}

#[test]
fn what_is_asked_for_otherwise_is_left_to_serde_json() {
    assert!(!check::<Widget>(r#"{"name":"a","numbers":{"1":[2,3.5]}}"#));
    assert!(!check::<Widget>("[]"));
    assert!(!check::<Widget>(r#"{"size":1}"#));
    assert!(!check::<Widget>(r#"{"name":7}"#));
}

#[test]
fn nesting_ends_where_it_ends_for_serde_json() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(check::<Value>(&nested(127)));
    assert!(!check::<Value>(&nested(128)) && serde_json::from_str::<Value>(&nested(128)).is_err());
}

fn some_value() -> impl Strategy<Value = Value> {
    let text = "[a-z]{0,40}|\\PC{0,20}|[\"\\\\\n\u{1}é]{0,4}";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1000i64..1000).prop_map(Value::from),
        any::<f32>().prop_map(|number| json!(number)),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::btree_map(text, inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_value_is_read_as_by_serde_json(value in some_value()) {
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            prop_assert!(check::<Value>(&text), "{}", text);
        }
    }

    #[test]
    fn damaged_text_is_read_as_by_serde_json(
        value in some_value(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), "[\\[\\]{}\",:\\\\0-9eE.\\-a-zé ]"), 1..4),
    ) {
        let mut letters: Vec<char> = value.to_string().chars().collect();
        for (at, letter) in damage {
            let at = at.index(letters.len());
            letters.splice(at..=at, letter.chars());
        }
        check::<Value>(&String::from_iter(letters));
    }

    #[test]
    fn any_text_is_read_as_by_serde_json(text in "[\\[\\]{}\",:\\\\0-9eE.\\-truefalsn ]{0,30}") {
        check::<Value>(&text);
        check::<Widget>(&text);
    }
}
