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

/// Deserializes a whole text.
fn from_text<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, Error> {
    let mut json = Json::new(text);
    let value = T::deserialize(&mut json)?;
    json.end()?;
    Ok(value)
}

/// Parses a whole text into a tree.
fn tree(text: &str) -> Option<Value> {
    let mut json = Json::new(text);
    let tree = json.tree(&mut false).ok()?;
    json.end().ok().map(|()| tree)
}

/// Every text this deserializer accepts, `serde_json` reads the same way.
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

#[derive(Debug, Deserialize, PartialEq)]
enum Shape {
    Point,
    Circle(i32),
    Line(i32, i32),
    Square { side: u64 },
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Rare {
    shape: Shape,
    #[serde(default)]
    shapes: BTreeMap<Option<bool>, Shape>,
    #[serde(default)]
    large: i128,
    #[serde(default)]
    huge: u128,
    #[serde(default)]
    unit: (),
}

/// Accepts and refuses the same texts as `serde_json`, with the same message and position, except for the rare texts
/// it leaves to `serde_json`.
fn check_all<'de, T: Deserialize<'de> + PartialEq + std::fmt::Debug>(
    text: &'de str,
    in_the_same_words: bool,
) {
    let mut json = Json::new(text);
    let read = T::deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    let read = read.map_err(|error| json.explain(&error).to_string());
    let expected = serde_json::from_str::<T>(text).map_err(|error| error.to_string());
    match in_the_same_words {
        true => assert_eq!(read, expected, "{text}"),
        false => assert_eq!(read.ok(), expected.ok(), "{text}"),
    }
}

#[test]
fn what_servers_do_not_write_is_read_or_refused_as_by_serde_json() {
    for text in [
        r#"{"name":"a","numbers":{"1":[2,3.5],"-7":[0,1]}}"#,
        r#"{"name":"a","colour":"Green"}"#,
        r#"{"name":"a","colour":{"Red":null}}"#,
        r#"{"name":"a","size":1.5}"#,
        r#"{"name":"a","size":1e3,"parts":[]}"#,
        r#"{"name":"a","size":99999999999}"#,
        r#"{"name":"a","isOpen":"true"}"#,
        "{\n  \"name\": \"a\",\n  \"labels\": {\"k\": 7}\n}",
        r#"{"name":"a","labels":[]}"#,
        r#"{"name":"a","parts":{}}"#,
        r#"{"name":"a","parts":[{"size":1}]}"#,
        r#"{"name":null}"#,
        r#"{"name":7}"#,
        r#"{"size":1}"#,
        r#"{"name":"a"} x"#,
        "[]",
        r#"["a",1]"#,
        "7",
    ] {
        check_all::<Widget>(text, true);
    }
    for text in [
        r#"{"shape":"Point"}"#,
        r#"{"shape":{"Point":null}}"#,
        r#"{"shape":{"Circle":3}}"#,
        r#"{"shape":{"Line":[1,2]}}"#,
        r#"{"shape":{"Square":{"side":4}},"large":-170141183460469231731687303715884105728}"#,
        r#"{"shape":"P\u006fint","huge":340282366920938463463374607431768211455,"unit":null}"#,
        r#"{"shape":{"Oval":3}}"#,
        r#"{"shape":"Point","shapes":{"true":"Point","false":{"Circle":1}}}"#,
        r#"{"shape":"Point","more":1}"#,
        r#"{"shape":"Point","unit":1}"#,
    ] {
        check_all::<Rare>(text, true);
    }
    for text in [
        r#"{"name":"a","numbers":{"x":[2,3.5]}}"#,
        r#"{"name":"a","numbers":{"1":[2,3.5,4]}}"#,
    ] {
        check_all::<Widget>(text, false);
    }
    for text in [
        r#"{"shape":"Circle"}"#,
        r#"{"shape":{"Circle":"3"}}"#,
        r#"{"shape":["Point"]}"#,
        r#"{"shape":"Point","shapes":{"yes":"Point"}}"#,
        r#"{"shape":"Point","large":true}"#,
    ] {
        check_all::<Rare>(text, false);
    }
}

#[test]
fn raw_json_stays_as_it_is_written() {
    #[derive(Deserialize)]
    struct Held<'a> {
        #[serde(borrow)]
        part: &'a serde_json::value::RawValue,
        rest: Box<serde_json::value::RawValue>,
    }
    let held: Held<'_> = from_text(r#"{"part": {"a" : 1} , "rest": [1, 2]}"#).unwrap();
    assert_eq!((held.part.get(), held.rest.get()), (r#"{"a" : 1}"#, "[1, 2]"));
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
