//! Lists in any number of chunks, good and bad.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

fn split(body: &[u8], size: usize) -> Result<(ListHead, Vec<String>), JsonError> {
    let mut splitter = ListSplitter::default();
    let mut items = Vec::new();
    for mut chunk in body.chunks(size) {
        while let Some(item) = splitter.next(&mut chunk)? {
            items.push(String::from_utf8_lossy(item).into_owned());
        }
    }
    splitter.finish()?;
    Ok((splitter.head, items))
}

#[test]
fn the_head_is_found_wherever_it_stands() {
    let meta = r#""metadata" : {"continue":"abc","remainingItemCount":3,"resourceVersion":"7"}"#;
    for body in [
        format!(r#"{{"kind":"PodList","apiVersion":"v1",{meta},"items":[{{"a":"]"}} , {{}}]}}"#),
        format!(
            " {{\"items\":[{{\"a\":\"]\"}},{{}}],\"x\":[[1]],{meta},\"ki\\u006ed\":\"PodList\",\"apiVersion\":\"v1\"}}\n"
        ),
    ] {
        for size in 1..body.len() {
            let (head, items) = split(body.as_bytes(), size).unwrap();
            assert_eq!(items, [r#"{"a":"]"}"#, "{}"], "{body} in {size}s");
            assert_eq!((&*head.api_version, head.item_kind()), ("v1", Some("Pod")));
            assert_eq!(head.resource_version.as_str(), "7");
            assert_eq!(
                (&*head.continue_token, head.remaining_item_count),
                ("abc", Some(3))
            );
        }
    }
}

#[test]
fn lists_may_be_empty() {
    for body in [
        "{}",
        r#"{"items":null}"#,
        r#"{"items":[]}"#,
        r#"{"items":null,"metadata":null,"n":-1.5e3}"#,
    ] {
        for size in 1..=body.len() {
            assert_eq!(
                split(body.as_bytes(), size),
                Ok(Default::default()),
                "{body} in {size}s"
            );
        }
    }
}

#[test]
fn bad_lists_are_named_with_their_offset() {
    fn check(body: &str, expect: Expect) {
        let whole = split(body.as_bytes(), body.len().max(1)).unwrap_err();
        expect.assert_eq(&whole.to_string());
        assert_eq!(split(body.as_bytes(), 1).unwrap_err(), whole, "in single bytes");
    }
    check("", expect!["invalid JSON at byte 0: truncated"]);
    check("[]", expect!["invalid JSON at byte 0: expected a list object"]);
    check(
        r#"{"items":[{"a":1}"#,
        expect!["invalid JSON at byte 17: truncated"],
    );
    check(
        r#"{"items":[{"a":1}]"#,
        expect!["invalid JSON at byte 18: truncated"],
    );
    check(
        r#"{"items":[null]}"#,
        expect!["invalid JSON at byte 10: expected an object"],
    );
    check(
        r#"{"items":[{},]}"#,
        expect!["invalid JSON at byte 13: expected an object"],
    );
    check(
        r#"{"items":[{}{}]}"#,
        expect!["invalid JSON at byte 12: expected a comma or the end of the items"],
    );
    check(
        r#"{"items":{}}"#,
        expect!["invalid JSON at byte 9: expected a list of items"],
    );
    check(
        r#"{"items":nil}"#,
        expect!["invalid JSON at byte 9: expected a list of items"],
    );
    check(
        r#"{"items":[],"items":[]}"#,
        expect!["invalid JSON at byte 20: items occurs twice in the list"],
    );
    check(r#"{"a":}"#, expect!["invalid JSON at byte 5: expected a value"]);
    check(r#"{"\x":1}"#, expect!["invalid JSON at byte 1: invalid string"]);
    check(r#"{"a":1,}"#, expect!["invalid JSON at byte 7: expected a key"]);
    check(
        r#"{"kind":7}"#,
        expect!["invalid JSON at byte 8: expected a string"],
    );
    check(
        r#"{"metadata":{"resourceVersion":7}}"#,
        expect!["invalid JSON at byte 12: expected a list's metadata"],
    );
    check(
        r#"{"items":[]} x"#,
        expect!["invalid JSON at byte 13: unexpected bytes after the end"],
    );
    let deep = format!(r#"{{"items":[{}"#, r#"{"a":"#.repeat(128));
    check(
        &deep,
        expect!["invalid JSON at byte 645: nested deeper than 127 levels"],
    );
}

#[test]
fn an_endless_item_is_refused() {
    let mut splitter = ListSplitter::default();
    let mut start = &br#"{"items":[{"a":""#[..];
    assert_eq!(splitter.next(&mut start), Ok(None));
    let megabyte = vec![b'x'; 1 << 20];
    let error = (0..64)
        .find_map(|_| splitter.next(&mut &megabyte[..]).err())
        .unwrap();
    assert!(
        error
            .to_string()
            .ends_with("an item is larger than 33554432 bytes"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn split_and_join_is_the_identity(texts in prop::collection::vec(r#"[a-z"\\{}\[\],:é ]{0,90}"#, 0..8), size in 1usize..200) {
        let items: Vec<String> = texts.iter().map(|text| serde_json::json!({"a": [text, {text: 1}]}).to_string()).collect();
        let body = format!(r#"{{"items":[{}],"kind":"XList"}}"#, items.join(","));
        let (head, split) = split(body.as_bytes(), size).unwrap();
        prop_assert_eq!(split, items);
        prop_assert_eq!(head.kind, "XList");
    }

    #[test]
    fn any_bytes_end_in_items_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200), size in 1usize..20) {
        let _ = split(&bytes, size);
    }

    #[test]
    fn any_chunking_of_broken_lists_gives_the_same_answer(
        body in r#"\{"items":\[\{[{}\[\]",:\\an ]{0,60}"#, size in 1usize..70,
    ) {
        prop_assert_eq!(split(body.as_bytes(), size), split(body.as_bytes(), body.len()));
    }
}
