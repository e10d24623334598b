//! Copies an object without its `metadata.managedFields`: more than half of its bytes, and used only by server-side
//! apply.

use super::error::JsonError;
use super::header::find_metadata;

/// Appends the object to `out` without its `metadata.managedFields`; all other bytes are unchanged.
///
/// On an error, `out` is unchanged.
pub fn copy_without(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), JsonError> {
    let before = out.len();
    copy(bytes, out).inspect_err(|_| out.truncate(before))
}

fn copy(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), JsonError> {
    let mut copied = 0;
    if let Some(mut reader) = find_metadata(bytes)?
        && let Some(mut members) = reader.object()?
    {
        // The end of the last member kept, and a flag for a comma to drop because no member before it was kept.
        let mut kept_end = None;
        let mut drop_comma = false;
        while members.next(&mut reader)? {
            let start = reader.position();
            let cut = reader.key()? == "managedFields";
            reader.skip()?;
            if !cut {
                if std::mem::take(&mut drop_comma) {
                    copied = start;
                }
                kept_end = Some(reader.position());
                continue;
            }
            let keep_to = kept_end.unwrap_or(start);
            if !drop_comma && copied < keep_to {
                out.extend_from_slice(&bytes[copied..keep_to]);
            }
            copied = reader.position();
            drop_comma = kept_end.is_none();
        }
    }
    out.extend_from_slice(&bytes[copied..]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_stay_right_wherever_the_field_stands() {
        let check = |before: &str, after: &str| {
            let mut out = Vec::new();
            copy_without(before.as_bytes(), &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), after);
        };
        check(
            r#"{"metadata":{"name":"a","managedFields":[{"a":1}]},"spec":1}"#,
            r#"{"metadata":{"name":"a"},"spec":1}"#,
        );
        check(
            r#"{"metadata":{ "managedFields" : [] , "name":"a"}}"#,
            r#"{"metadata":{ "name":"a"}}"#,
        );
        check(
            r#"{"metadata":{"a":1,"managedFields":null,"b":2}}"#,
            r#"{"metadata":{"a":1,"b":2}}"#,
        );
        check(r#"{"metadata":{"managedFields":[]}}"#, r#"{"metadata":{}}"#);
        check(
            r#"{"metadata":{"managedFields":1,"managedFields":2,"a":1,"managedFields":3,"managedFields":4}}"#,
            r#"{"metadata":{"a":1}}"#,
        );
        check(
            r#"{"spec":{"managedFields":[]},"metadata":null}"#,
            r#"{"spec":{"managedFields":[]},"metadata":null}"#,
        );
    }

    #[test]
    fn nothing_is_left_behind_by_a_bad_object() {
        let mut out = b"before".to_vec();
        copy_without(br#"{"metadata":{"managedFields":[],"#, &mut out).unwrap_err();
        assert_eq!(out, b"before");
    }
}
