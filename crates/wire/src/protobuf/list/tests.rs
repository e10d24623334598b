//! Lists in any number of chunks, good and bad.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::protobuf::Envelope;
use crate::protobuf::primitive::put_bytes;

type Split = (ListHead, Vec<Vec<u8>>);

fn split(body: &[u8], size: usize) -> Result<Split, ProtobufError> {
    let mut splitter = ListSplitter::default();
    let mut items = Vec::new();
    for mut chunk in body.chunks(size) {
        while let Some(item) = splitter.next(&mut chunk)? {
            items.push(item.to_vec());
        }
    }
    splitter.finish()?;
    Ok((splitter.head, items))
}

fn join(items: &[Vec<u8>]) -> Vec<u8> {
    let mut raw = Vec::new();
    put_bytes(&mut raw, LIST_META, b"\x0a\x00\x12\x017\x1a\x03abc\x20\x03");
    for item in items {
        put_bytes(&mut raw, ITEMS, item);
    }
    enveloped(&raw)
}

fn enveloped(raw: &[u8]) -> Vec<u8> {
    let (mut body, api_version, kind) = (Vec::new(), "v1", "PodList");
    Envelope {
        api_version,
        kind,
        raw,
    }
    .write(&mut body);
    body
}

#[test]
fn items_and_head_are_found_in_chunks_of_any_size() {
    let items = [vec![], vec![7; 300], b"abc".to_vec(), vec![]];
    let body = join(&items);
    for size in 1..=body.len() {
        let (head, found) = split(&body, size).unwrap();
        assert_eq!(found, items, "in {size}s");
        assert_eq!((&*head.api_version, head.item_kind()), ("v1", Some("Pod")));
        assert_eq!(head.resource_version.as_str(), "7");
        assert_eq!(
            (&*head.continue_token, head.remaining_item_count),
            ("abc", Some(3))
        );
    }
    assert_eq!(split(&enveloped(b""), 1).unwrap().1.len(), 0);
}

#[test]
fn bad_lists_are_named_with_their_offset() {
    fn check(body: &[u8], expect: Expect) {
        let whole = split(body, body.len().max(1)).unwrap_err();
        expect.assert_eq(&whole.to_string());
        assert_eq!(split(body, 1).unwrap_err(), whole, "in single bytes");
    }
    check(b"", expect!["invalid protobuf at byte 0: truncated"]);
    check(
        br#"{"kind":"#,
        expect![[
            r"invalid protobuf at byte 0: not a Kubernetes protobuf body: it does not begin with k8s\0"
        ]],
    );
    check(
        b"k8s\0\x12\x04\x12\x09ab",
        expect!["invalid protobuf at byte 8: truncated"],
    );
    check(
        b"k8s\0\x12\x04\x12\x02a",
        expect!["invalid protobuf at byte 9: truncated"],
    );
    check(
        b"k8s\0\x12\x01\x82\x01",
        expect!["invalid protobuf at byte 7: truncated"],
    );
    check(
        b"k8s\0\x12\x05\x19aaaaaaaa\x12\x01a",
        expect!["invalid protobuf at byte 7: truncated"],
    );
    check(
        b"k8s\0\x12\x02\x10\x01",
        expect!["invalid protobuf at byte 7: field 2 has the wrong wire type"],
    );
    check(
        b"k8s\0\x12\x02\x13\x01",
        expect!["invalid protobuf at byte 7: wire type 3 is not supported"],
    );
    check(
        b"k8s\0\x00",
        expect!["invalid protobuf at byte 5: field number 0 is not allowed"],
    );
    check(
        b"k8s\0\x12\x7f\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
        expect!["invalid protobuf at byte 16: varint too long"],
    );
    check(
        b"k8s\0\x12\xff\xff\xff\xff\x0f\x12\xff\xff\xff\x7f",
        expect!["invalid protobuf at byte 15: an item is larger than 33554432 bytes"],
    );
    check(
        b"k8s\0\x12\x00\x12\x00",
        expect!["invalid protobuf at byte 8: the list occurs twice in its envelope"],
    );
    check(
        b"k8s\0\x1a\x04gzip",
        expect![[r#"invalid protobuf at byte 6: content encoding "gzip" is not supported"#]],
    );
    check(
        b"k8s\0\x0a\x03\x12\x01\xff",
        expect!["invalid protobuf at byte 8: invalid UTF-8 in field 2"],
    );
}

proptest! {
    #[test]
    fn split_and_join_is_the_identity(
        items in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..8),
        size in 1usize..300,
    ) {
        prop_assert_eq!(split(&join(&items), size).unwrap().1, items);
    }

    #[test]
    fn any_bytes_end_in_items_or_an_error(tail in prop::collection::vec(any::<u8>(), 0..200), size in 1usize..20) {
        let body = [&MAGIC[..], &tail].concat();
        prop_assert_eq!(split(&body, size), split(&body, body.len()));
    }
}

#[test]
fn a_body_cut_before_its_list_is_not_an_empty_list() {
    let mut body = MAGIC.to_vec();
    put_bytes(&mut body, envelope::TYPE_META, b"");
    let mut splitter = ListSplitter::default();
    assert!(splitter.next(&mut body.as_slice()).unwrap().is_none());
    assert_eq!(splitter.finish().unwrap_err().kind, ProtobufErrorKind::Truncated);
}
