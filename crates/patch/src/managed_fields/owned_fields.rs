//! What one manager owns, left as text until it changes.
//!
//! Most writes change little, and most managers have nothing to do with what changed. Whether one has is found by
//! passing over the text: branches that did not change are skipped, and nothing is made of the rest.

use std::borrow::Cow;
use std::sync::Arc;

use crate::field_set::FieldSet;

/// What one manager owns.
#[derive(Clone, Debug)]
pub struct OwnedFields(Form);

#[derive(Clone, Debug)]
enum Form {
    /// As it is stored; it may turn out that it cannot be read, and then it is nothing.
    Text(Arc<[u8]>),
    Set(FieldSet),
}

impl OwnedFields {
    /// The fields in this text, which [`FieldSet::write_json`] wrote.
    pub(crate) fn stored(text: &[u8]) -> Self {
        Self(Form::Text(text.into()))
    }

    /// Whether there are none.
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

    /// Takes these fields out.
    pub(crate) fn subtract(&mut self, fields: &FieldSet) {
        if self.count(fields) > 0 {
            self.edit(|set| set.subtract(fields));
        }
    }

    /// Replaces the fields with those in a text that [`FieldSet::write_json`] would write. Gives those there were, if
    /// they were others.
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

    /// How many of these fields are here.
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

/// Whether the last step of any of these paths stands anywhere in a text. Most managers have nothing to do with what
/// changed, and to see that takes no look at the structure. Steps that may be written with escapes may be there.
fn may_have_any(text: &[u8], fields: &FieldSet) -> bool {
    let mut nodes = fields.nodes();
    nodes.any(|(element, node)| {
        let step = element.as_str().as_bytes();
        let is_there = || !step.iter().all(is_never_escaped) || memchr::memmem::find(text, step).is_some();
        node.member && is_there() || may_have_any(text, &node.below)
    })
}

/// Whether nobody writes a byte of JSON text in another way: letters, digits, and what names are joined with.
fn is_never_escaped(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b':' | b'.' | b'-' | b'_' | b'/')
}

/// Passes over the text of a field set.
struct Scanner<'t> {
    rest: &'t [u8],
}

impl<'t> Scanner<'t> {
    /// How many of these paths are in the object that stands here, the object's own path included if it is asked for;
    /// `None` if the text is not as [`FieldSet::write_json`] writes it. Where nothing is asked of what comes after the
    /// object, it is not read to its end.
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

    /// Passes over an object.
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

    /// Where the quote is that ends a text.
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

/// What is asked for below a step that stands in quotes.
fn child<'s>(fields: &'s FieldSet, quoted: &[u8]) -> Option<(bool, &'s FieldSet)> {
    let step = &quoted[1..quoted.len() - 1];
    if !step.contains(&b'\\') {
        return fields.find(std::str::from_utf8(step).ok()?);
    }
    // Only keys and values have escapes, and most changes go through none.
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
