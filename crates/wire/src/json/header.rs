//! Reads the header of an object (identity, version, labels, owners) without decoding the rest.

use watchkeeper_meta::{Header, OwnerReference};

use super::error::{JsonError, expected};
use super::reader::Reader;
use crate::TextPairs;

/// Reads an object's header; stops once `apiVersion`, `kind` and `metadata` have been seen.
///
/// If one of the first two is missing, the object is scanned to its end, because members may be in any order.
pub fn header(bytes: &[u8]) -> Result<Header<'_>, JsonError> {
    read(bytes, Lists::Kept, |seen| {
        seen.api_version && seen.kind && seen.metadata
    })
}

/// Reads the header of a list's item; stops after `metadata`.
///
/// Items of built-in lists do not state their type; looking for it would mean scanning every item. Items of other
/// lists state it before `metadata`, the order every server writes.
pub fn item_header(bytes: &[u8]) -> Result<Header<'_>, JsonError> {
    read(bytes, Lists::Kept, |seen| seen.metadata)
}

/// Like [`item_header`], but labels, owners and finalizers are only checked; [`Object`](crate::Object) does not keep
/// them.
pub(crate) fn item_identity(bytes: &[u8]) -> Result<Header<'_>, JsonError> {
    read(bytes, Lists::Checked, |seen| seen.metadata)
}

/// The treatment of labels, owners and finalizers.
#[derive(Clone, Copy, PartialEq)]
enum Lists {
    Kept,
    Checked,
}

/// Reads `metadata.annotations`, in order.
pub fn annotations(bytes: &[u8]) -> Result<TextPairs<'_>, JsonError> {
    metadata_pairs(bytes, "annotations")
}

/// Reads `metadata.labels`, in order.
pub fn labels(bytes: &[u8]) -> Result<TextPairs<'_>, JsonError> {
    metadata_pairs(bytes, "labels")
}

fn metadata_pairs<'a>(bytes: &'a [u8], member: &str) -> Result<TextPairs<'a>, JsonError> {
    let mut pairs = TextPairs::new();
    let Some(mut reader) = find_metadata(bytes)? else {
        return Ok(pairs);
    };
    if let Some(mut members) = reader.object()? {
        while let Some(key) = members.next_key(&mut reader)? {
            match key == member {
                true => pairs = text_map(&mut reader, Lists::Kept)?,
                false => drop(reader.skip()?),
            }
        }
    }
    Ok(pairs)
}

/// A reader positioned at the value of `metadata`.
pub(super) fn find_metadata(bytes: &[u8]) -> Result<Option<Reader<'_>>, JsonError> {
    let mut reader = Reader::new(bytes);
    let mut members = reader.object()?.ok_or_else(|| expected("an object", 0))?;
    while let Some(key) = members.next_key(&mut reader)? {
        if key == "metadata" {
            return Ok(Some(reader));
        }
        reader.skip()?;
    }
    Ok(None)
}

/// The members of the object that have been read.
#[derive(Default)]
struct Seen {
    api_version: bool,
    kind: bool,
    metadata: bool,
}

fn read(bytes: &[u8], lists: Lists, enough: impl Fn(&Seen) -> bool) -> Result<Header<'_>, JsonError> {
    let mut reader = Reader::new(bytes);
    let mut header = Header::default();
    let mut seen = Seen::default();
    let mut members = reader.object()?.ok_or_else(|| expected("an object", 0))?;
    while let Some(key) = members.next_key(&mut reader)? {
        match &*key {
            "apiVersion" => (header.api_version, seen.api_version) = (reader.text()?, true),
            "kind" => (header.kind, seen.kind) = (reader.text()?, true),
            "metadata" => {
                metadata(&mut reader, &mut header, lists)?;
                seen.metadata = true;
            }
            _ => drop(reader.skip()?),
        }
        if enough(&seen) {
            break;
        }
    }
    Ok(header)
}

fn metadata<'a>(reader: &mut Reader<'a>, header: &mut Header<'a>, lists: Lists) -> Result<(), JsonError> {
    let Some(mut members) = reader.object()? else {
        return Ok(());
    };
    while let Some(key) = members.next_key(reader)? {
        match &*key {
            "name" => header.name = reader.text()?,
            "namespace" => header.namespace = reader.text()?,
            "uid" => header.uid = reader.text()?,
            "resourceVersion" => header.resource_version = reader.text()?,
            "generation" => header.generation = reader.integer()?.unwrap_or_default(),
            "creationTimestamp" => header.creation_timestamp = reader.time()?,
            "deletionTimestamp" => header.deletion_timestamp = reader.time()?,
            "labels" => header.labels = text_map(reader, lists)?,
            "ownerReferences" => header.owner_references = list(reader, lists, owner_reference)?,
            "finalizers" => header.finalizers = list(reader, lists, Reader::text)?,
            _ => drop(reader.skip()?),
        }
    }
    Ok(())
}

fn owner_reference<'a>(reader: &mut Reader<'a>) -> Result<OwnerReference<'a>, JsonError> {
    let mut owner = OwnerReference::default();
    let Some(mut members) = reader.object()? else {
        return Ok(owner);
    };
    while let Some(key) = members.next_key(reader)? {
        match &*key {
            "apiVersion" => owner.api_version = reader.text()?,
            "kind" => owner.kind = reader.text()?,
            "name" => owner.name = reader.text()?,
            "uid" => owner.uid = reader.text()?,
            "controller" => owner.controller = reader.boolean()?,
            "blockOwnerDeletion" => owner.block_owner_deletion = reader.boolean()?,
            _ => drop(reader.skip()?),
        }
    }
    Ok(owner)
}

fn text_map<'a>(reader: &mut Reader<'a>, lists: Lists) -> Result<TextPairs<'a>, JsonError> {
    let mut entries = Vec::new();
    if let Some(mut members) = reader.object()? {
        while let Some(key) = members.next_key(reader)? {
            let entry = (key, reader.text()?);
            entries.extend((lists == Lists::Kept).then_some(entry));
        }
    }
    Ok(entries)
}

fn list<'a, T>(
    reader: &mut Reader<'a>,
    lists: Lists,
    read: impl Fn(&mut Reader<'a>) -> Result<T, JsonError>,
) -> Result<Vec<T>, JsonError> {
    let mut values = Vec::new();
    if let Some(mut members) = reader.list()? {
        while members.next(reader)? {
            let value = read(reader)?;
            values.extend((lists == Lists::Kept).then_some(value));
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use expect_test::{Expect, expect};

    use super::*;

    const POD: &str = r#"{
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "name": "web-0", "namespace": "shop", "uid": "u-1", "resourceVersion": "42", "generation": 7,
            "creationTimestamp": "2026-11-15T21:19:23Z", "deletionTimestamp": null,
            "labels": {"app": "we\u0062", "tier": "front"},
            "annotations": {"note": "a } in \"text\""},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "u-0",
                                 "controller": true, "blockOwnerDeletion": true}],
            "finalizers": ["a/b"],
            "managedFields": [{"manager": "x", "fieldsV1": {"f:metadata": {}}}]
        },
        "spec": {"never": ["looked at"
    "#;

    #[test]
    fn the_header_is_read_and_the_rest_is_not() {
        let header = header(POD.as_bytes()).unwrap();
        assert_eq!(header.key().to_string(), "shop/web-0");
        assert_eq!((&*header.api_version, &*header.kind), ("v1", "Pod"));
        assert_eq!(
            (&*header.uid, &*header.resource_version, header.generation),
            ("u-1", "42", 7)
        );
        assert_eq!(
            header.creation_timestamp.unwrap().to_rfc3339(),
            "2026-11-15T21:19:23Z"
        );
        assert_eq!(header.deletion_timestamp, None);
        assert_eq!(
            (header.label("app"), header.label("tier")),
            (Some("web"), Some("front"))
        );
        assert!(
            matches!(header.labels[0].1, Cow::Owned(_)),
            "escaped text is copied"
        );
        assert!(
            matches!(header.labels[1].1, Cow::Borrowed(_)),
            "plain text is not"
        );
        assert_eq!(header.controller().unwrap().kind, "StatefulSet");
        assert_eq!(header.finalizers, ["a/b"]);
        assert_eq!(
            annotations(POD.as_bytes()).unwrap(),
            [("note".into(), r#"a } in "text""#.into())]
        );
    }

    #[test]
    fn the_type_may_stand_behind_the_metadata() {
        let text = br#"{"metadata":{"name":"a"},"data":{"kind":"no"},"kind":"ConfigMap","apiVersion":"v1"}"#;
        assert_eq!(header(text).unwrap().kind, "ConfigMap");
        assert_eq!(item_header(text).unwrap().kind, "");
        assert_eq!(header(b"{}").unwrap(), Header::default());
        assert_eq!(annotations(b"{}").unwrap(), []);
    }

    #[test]
    fn bad_headers_are_named_with_their_offset() {
        fn check(text: &str, expect: Expect) {
            expect.assert_eq(&header(text.as_bytes()).unwrap_err().to_string());
        }
        check("", expect!["invalid JSON at byte 0: truncated"]);
        check("null", expect!["invalid JSON at byte 0: expected an object"]);
        check("[]", expect!["invalid JSON at byte 0: expected an object"]);
        check(
            r#"{"metadata":{"name":7}}"#,
            expect!["invalid JSON at byte 20: expected a string"],
        );
        check(
            r#"{"metadata":{"name":"a""#,
            expect!["invalid JSON at byte 23: truncated"],
        );
        check(
            r#"{"metadata":{"name":"a"#,
            expect!["invalid JSON at byte 22: truncated"],
        );
        check(
            r#"{"metadata":{"name":"\x"}}"#,
            expect!["invalid JSON at byte 20: invalid string"],
        );
        check(
            "{\"metadata\":{\"name\":\"a\nb\"}}",
            expect!["invalid JSON at byte 22: invalid string"],
        );
        check(
            r#"{"metadata":{"generation":1.5}}"#,
            expect!["invalid JSON at byte 26: expected a whole number"],
        );
        check(
            r#"{"metadata":{"deletionTimestamp":"soon"}}"#,
            expect!["invalid JSON at byte 33: invalid time: soon"],
        );
        check(
            r#"{"metadata":{"labels":["a"]}}"#,
            expect!["invalid JSON at byte 22: expected an object"],
        );
        check(
            r#"{"metadata":{},}"#,
            expect!["invalid JSON at byte 15: expected a value after the comma"],
        );
        check(
            r#"{"metadata" {}}"#,
            expect!["invalid JSON at byte 12: expected a colon"],
        );
        check(
            r#"{"a":,"b":1}"#,
            expect!["invalid JSON at byte 5: expected a value"],
        );
        let bad = [&br#"{"kind":"P"#[..], &[0xff], br#"od"}"#].concat();
        let error = header(&bad).unwrap_err();
        assert_eq!(error.to_string(), "invalid JSON at byte 10: invalid UTF-8");
    }
}
