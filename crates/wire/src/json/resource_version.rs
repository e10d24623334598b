//! Copies an object with a resourceVersion inserted: stored objects have none.

use super::error::JsonError;
use super::header::find_metadata;

const KEY: &str = "resourceVersion";

/// Appends the object to `out` with this `metadata.resourceVersion`, in the sorted place among the keys. All other
/// bytes are unchanged; an object without metadata, or with a version, is copied as it is.
///
/// On an error, `out` is unchanged.
pub fn copy_with(bytes: &[u8], version: &str, out: &mut Vec<u8>) -> Result<(), JsonError> {
    let Some(place) = place(bytes)? else {
        out.extend_from_slice(bytes);
        return Ok(());
    };
    out.extend_from_slice(&bytes[..place.offset]);
    if place.comma_before {
        out.push(b',');
    }
    out.extend_from_slice(format!("\"{KEY}\":\"{version}\"").as_bytes());
    if place.comma_after {
        out.push(b',');
    }
    out.extend_from_slice(&bytes[place.offset..]);
    Ok(())
}

struct Place {
    offset: usize,
    comma_before: bool,
    comma_after: bool,
}

/// Before the first key that sorts after it, or after the last key.
fn place(bytes: &[u8]) -> Result<Option<Place>, JsonError> {
    let Some(mut reader) = find_metadata(bytes)? else {
        return Ok(None);
    };
    reader.peek()?;
    let mut last = reader.position() + 1;
    let mut is_first = true;
    let Some(mut members) = reader.object()? else {
        return Ok(None);
    };
    while members.next(&mut reader)? {
        let start = reader.position();
        let key = reader.key()?;
        if key == KEY {
            return Ok(None);
        }
        if *key > *KEY {
            return Ok(Some(Place {
                offset: start,
                comma_before: false,
                comma_after: true,
            }));
        }
        reader.skip()?;
        (last, is_first) = (reader.position(), false);
    }
    Ok(Some(Place {
        offset: last,
        comma_before: !is_first,
        comma_after: false,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_stands_where_the_order_of_keys_wants_it() {
        let check = |before: &str, after: &str| {
            let mut out = Vec::new();
            copy_with(before.as_bytes(), "7", &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), after);
        };
        check(
            r#"{"kind":"A","metadata":{"name":"a","uid":"u"},"spec":{}}"#,
            r#"{"kind":"A","metadata":{"name":"a","resourceVersion":"7","uid":"u"},"spec":{}}"#,
        );
        check(
            r#"{"metadata":{"name":"a"}}"#,
            r#"{"metadata":{"name":"a","resourceVersion":"7"}}"#,
        );
        check(r#"{"metadata":{}}"#, r#"{"metadata":{"resourceVersion":"7"}}"#);
        check(
            r#"{"metadata":{"uid":"u"}}"#,
            r#"{"metadata":{"resourceVersion":"7","uid":"u"}}"#,
        );
        check(
            r#"{"metadata":{"resourceVersion":"3"}}"#,
            r#"{"metadata":{"resourceVersion":"3"}}"#,
        );
        check(r#"{"metadata":null}"#, r#"{"metadata":null}"#);
        check(r#"{"spec":1}"#, r#"{"spec":1}"#);
    }
}
