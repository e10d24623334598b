//! The fields of one manager, kept as text until they change.
//!
//! Most writes change little, and most managers own none of it. That is found by scanning the text: unchanged
//! branches are skipped, and no set is built.

use std::borrow::Cow;
use std::sync::Arc;

use crate::field_set::FieldSet;

/// The fields of one manager.
#[derive(Clone, Debug)]
pub struct OwnedFields(Form);

#[derive(Clone, Debug)]
enum Form {
    /// As stored. Text that turns out to be invalid counts as empty.
    Text(Arc<[u8]>),
    Set(FieldSet),
}

impl OwnedFields {
    /// The fields in a text written by [`FieldSet::write_json`].
    pub(crate) fn stored(text: &[u8]) -> Self {
        Self(Form::Text(text.into()))
    }

    /// True if there are none.
    pub(crate) fn is_empty(&self) -> bool {
        match &self.0 {
            Form::Text(text) => matches!(&**text, b"" | b"{}"),
            Form::Set(set) => set.is_empty(),
        }
    }

    /// The fields as a set.
    pub fn to_set(&self) -> Cow<'_, FieldSet> {
        match &self.0 {
            Form::Text(text) => Cow::Owned(FieldSet::read_json(text).unwrap_or_default()),
            Form::Set(set) => Cow::Borrowed(set),
        }
    }

    /// The wire form.
    pub(crate) fn to_json(&self) -> Cow<'_, [u8]> {
        match &self.0 {
            Form::Text(text) => Cow::Borrowed(text),
            Form::Set(set) => {
                let mut text = Vec::with_capacity(1024);
                set.write_json(&mut text);
                Cow::Owned(text)
            }
        }
    }

    /// Adds these fields.
    pub(crate) fn add(&mut self, fields: FieldSet) {
        if self.count(&fields) < fields.len() {
            self.edit(|set| set.absorb(fields));
        }
    }

    /// Removes these fields.
    pub(crate) fn subtract(&mut self, fields: &FieldSet) {
        if self.count(fields) > 0 {
            self.edit(|set| set.subtract(fields));
        }
    }

    /// Replaces the fields with those of a text in the form of [`FieldSet::write_json`]. Returns the previous fields
    /// if they differ.
    pub(crate) fn replace(&mut self, text: &[u8]) -> Option<Self> {
        let is_same = *self.to_json() == *text;
        (!is_same).then(|| std::mem::replace(self, Self::stored(text)))
    }

    fn edit(&mut self, edit: impl FnOnce(&mut FieldSet)) {
        let mut set = std::mem::take(self).into_set();
        edit(&mut set);
        self.0 = Form::Set(set);
    }

    fn into_set(self) -> FieldSet {
        match self.0 {
            Form::Text(text) => FieldSet::read_json(&text).unwrap_or_default(),
            Form::Set(set) => set,
        }
    }

    /// The number of these fields that are owned.
    pub(crate) fn count(&self, fields: &FieldSet) -> usize {
        match &self.0 {
            _ if fields.is_empty() => 0,
            Form::Text(text) if !may_have_any(text, fields) => 0,
            Form::Text(text) => {
                let counted = Scanner { rest: text }.count(false, fields, true);
                counted.unwrap_or_else(|| self.to_set().intersection(fields).len())
            }
            Form::Set(set) => set.intersection(fields).len(),
        }
    }
}

impl Default for OwnedFields {
    fn default() -> Self {
        Self(Form::Set(FieldSet::new()))
    }
}

impl From<FieldSet> for OwnedFields {
    fn from(fields: FieldSet) -> Self {
        Self(Form::Set(fields))
    }
}

impl PartialEq for OwnedFields {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Form::Text(one), Form::Text(other)) if Arc::ptr_eq(one, other) => true,
            (Form::Set(one), Form::Set(other)) => one == other,
            _ => self.to_json() == other.to_json(),
        }
    }
}

impl Eq for OwnedFields {}

/// False if the last step of none of these paths occurs in the text. Most managers own nothing of a change, and this
/// check ignores the structure of the text. Steps that may be escaped count as present.
fn may_have_any(text: &[u8], fields: &FieldSet) -> bool {
    let mut nodes = fields.nodes();
    nodes.any(|(element, node)| {
        let step = element.as_str().as_bytes();
        let is_there = || !step.iter().all(is_never_escaped) || memchr::memmem::find(text, step).is_some();
        node.member && is_there() || may_have_any(text, &node.below)
    })
}

/// True for bytes that are never escaped in JSON text: letters, digits and the separators of names.
fn is_never_escaped(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b':' | b'.' | b'-' | b'_' | b'/')
}

/// A scanner over the text of a field set.
struct Scanner<'t> {
    rest: &'t [u8],
}

impl<'t> Scanner<'t> {
    /// The number of these paths in the object at the scanner, with the object's own path if `own`; `None` if the
    /// text is not in the form of [`FieldSet::write_json`]. If `is_last`, the object need not be read to its end.
    fn count(&mut self, own: bool, below: &FieldSet, is_last: bool) -> Option<usize> {
        self.take(b"{")?;
        let mut found = 0;
        let mut left = below.elements().len();
        let mut is_member = self.rest.starts_with(b"}");
        while self.take(b"}").is_none() {
            let step = self.step()?;
            self.take(b":")?;
            is_member |= step == b"\".\"";
            if let Some((own, below)) = child(below, step) {
                left -= 1;
                found += self.count(own, below, is_last && left == 0)?;
            } else {
                self.skip()?;
            }
            // The object's own mark comes before all steps.
            if is_last && left == 0 {
                break;
            }
            let _ = self.take(b",");
        }
        Some(found + usize::from(own && is_member))
    }

    /// A step in its quotes.
    fn step(&mut self) -> Option<&'t [u8]> {
        let (start, quoted) = (self.rest, self.rest.strip_prefix(b"\"")?);
        self.rest = quoted;
        let (step, rest) = start.split_at(self.end_of_text()? + 2);
        self.rest = rest;
        Some(step)
    }

    /// Skips an object.
    fn skip(&mut self) -> Option<()> {
        self.take(b"{")?;
        let mut depth = 1;
        while depth > 0 {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            match byte {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                b'"' => self.rest = &self.rest[self.end_of_text()? + 1..],
                _ => {}
            }
        }
        Some(())
    }

    /// The position of the closing quote.
    fn end_of_text(&self) -> Option<usize> {
        let mut at = 0;
        loop {
            at += memchr::memchr2(b'"', b'\\', self.rest.get(at..)?)?;
            match self.rest[at] {
                b'"' => return Some(at),
                _ => at += 2,
            }
        }
    }

    fn take(&mut self, expected: &[u8]) -> Option<()> {
        self.rest = self.rest.strip_prefix(expected)?;
        Some(())
    }
}

/// The fields to count below a quoted step.
fn child<'s>(fields: &'s FieldSet, quoted: &[u8]) -> Option<(bool, &'s FieldSet)> {
    let step = &quoted[1..quoted.len() - 1];
    if !step.contains(&b'\\') {
        return fields.find(std::str::from_utf8(step).ok()?);
    }
    // Only keys and values have escapes, and few changes contain them.
    let mut elements = fields.elements().map(|element| element.as_str().as_bytes()[0]);
    elements.find(|first| *first == step[0])?;
    fields.find(&serde_json::from_slice::<String>(quoted).ok()?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::field_set::PathElement;

    fn any_set() -> impl Strategy<Value = FieldSet> {
        let step = prop_oneof![
            "[ab\"]{1,2}".prop_map(|name| PathElement::field(&name)),
            "[ab\"]".prop_map(|text| PathElement::value(&json!(text))),
        ];
        let path = prop::collection::vec(step, 1..4);
        prop::collection::vec(path, 0..8).prop_map(|paths| {
            let mut set = FieldSet::new();
            paths.iter().for_each(|path| set.insert(path));
            set
        })
    }

    fn stored(set: &FieldSet) -> OwnedFields {
        let mut text = Vec::new();
        set.write_json(&mut text);
        OwnedFields::stored(&text)
    }

    proptest! {
        #[test]
        fn text_and_set_say_the_same(fields in any_set(), others in any_set()) {
            let (text, set) = (stored(&fields), OwnedFields::from(fields.clone()));
            prop_assert_eq!(&text, &set);
            prop_assert_eq!(text.is_empty(), set.is_empty());
            prop_assert_eq!(text.count(&others), set.count(&others));
            for change in [OwnedFields::subtract, |owned: &mut OwnedFields, set: &FieldSet| owned.add(set.clone())] {
                let (mut text, mut set) = (text.clone(), set.clone());
                change(&mut text, &others);
                change(&mut set, &others);
                prop_assert_eq!(text, set);
            }
        }
    }

    #[test]
    fn a_text_in_another_form_counts_as_well() {
        let owned = OwnedFields::stored(br#"{ "f:a" : { "f:b" : {} } }"#);
        let field = |name: &str| PathElement::field(name);
        let mut set = FieldSet::new();
        set.insert(&[field("a"), field("b")]);
        set.insert(&[field("a"), field("c")]);
        assert_eq!(owned.count(&set), 1);
        assert_eq!(OwnedFields::stored(b"no JSON").count(&set), 0);
    }
}
