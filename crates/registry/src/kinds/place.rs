//! A value and where it stands in its object, for rules that say what is wrong with it.
//!
//! Rules walk down an object, and nearly all objects are in order: a place knows its way back up, and the path is
//! only written out for a fault.

use serde_json::Value;
use watchkeeper_meta::{FieldError, FieldPath};

/// What rules find.
pub(super) type Faults = Vec<FieldError>;

/// A rule for what stands at a place.
pub(super) type Rule = fn(&Place<'_, '_>, &mut Faults);

/// A value and where it stands. Values outlive the places that rules make of them.
#[derive(Clone, Copy)]
pub(super) struct Place<'v, 'p> {
    value: &'v Value,
    step: Step<'p>,
    within: Option<&'p Place<'v, 'p>>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Object,
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'v, 'p> Place<'v, 'p> {
    /// A whole object.
    pub(super) fn object(value: &'v Value) -> Self {
        Self {
            value,
            step: Step::Object,
            within: None,
        }
    }

    /// A field; it need not be set.
    pub(super) fn field<'q>(&'q self, name: &'q str) -> Place<'v, 'q> {
        self.below(&self.value[name], Step::Field(name))
    }

    /// The items of a list; none if there is no list.
    pub(super) fn items<'q>(&'q self) -> impl Iterator<Item = Place<'v, 'q>> {
        let items = self.value.as_array().into_iter().flatten().enumerate();
        items.map(|(index, value)| self.below(value, Step::Index(index)))
    }

    /// The entries of a map, in order; none if there is no map.
    pub(super) fn entries<'q>(&'q self) -> impl Iterator<Item = (&'v str, Place<'v, 'q>)>
    where
        'v: 'q,
    {
        let entries = self.value.as_object().into_iter().flatten();
        entries.map(|(key, value)| (key.as_str(), self.below(value, Step::Key(key))))
    }

    fn below<'q>(&'q self, value: &'v Value, step: Step<'q>) -> Place<'v, 'q> {
        let within = Some(self);
        Place { value, step, within }
    }

    /// What stands here; null if nothing does.
    pub(super) fn value(&self) -> &'v Value {
        self.value
    }

    /// The text that stands here, or none.
    pub(super) fn text(&self) -> &'v str {
        self.value.as_str().unwrap_or_default()
    }

    /// The number that stands here, or 0.
    pub(super) fn number(&self) -> i64 {
        self.value.as_i64().unwrap_or_default()
    }

    /// Whether anything stands here.
    pub(super) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// How many items or entries there are.
    pub(super) fn len(&self) -> usize {
        match self.value {
            Value::Array(items) => items.len(),
            Value::Object(entries) => entries.len(),
            _ => 0,
        }
    }

    /// The way here.
    pub(super) fn path(&self) -> FieldPath {
        let above = self.within.map(Place::path).unwrap_or_default();
        match self.step {
            Step::Object => FieldPath::default(),
            Step::Field(name) => above.child(name),
            Step::Index(index) => above.index(index),
            Step::Key(key) => above.key(key),
        }
    }

    /// Something must stand here.
    pub(super) fn required(&self, why: &str) -> FieldError {
        FieldError::required(&self.path(), why)
    }

    /// What stands here is malformed or out of range.
    pub(super) fn invalid(&self, why: impl Into<String>) -> FieldError {
        FieldError::invalid(&self.path(), self.value.clone(), why)
    }

    /// Nothing may stand here, or not this.
    pub(super) fn forbidden(&self, why: impl Into<String>) -> FieldError {
        FieldError::forbidden(&self.path(), why)
    }

    /// What stands here stands elsewhere too.
    pub(super) fn duplicate(&self) -> FieldError {
        FieldError::duplicate(&self.path(), self.value.clone())
    }

    /// What stands here names nothing.
    pub(super) fn not_found(&self) -> FieldError {
        FieldError::not_found(&self.path(), self.value.clone())
    }

    /// The text that stands here is none of these.
    pub(super) fn unsupported(&self, supported: &[&str]) -> FieldError {
        FieldError::not_supported(&self.path(), self.text(), supported)
    }

    /// Refuses an empty text.
    pub(super) fn must_be_set(&self, faults: &mut Faults) {
        if self.text().is_empty() {
            faults.push(self.required(""));
        }
    }

    /// Refuses a text that breaks a rule; one fault for each reason.
    pub(super) fn must_keep(&self, rule: fn(&str) -> Vec<String>, faults: &mut Faults) {
        faults.extend(rule(self.text()).into_iter().map(|reason| self.invalid(reason)));
    }

    /// Refuses a text that is none of these.
    pub(super) fn must_be_one_of(&self, supported: &[&str], faults: &mut Faults) {
        if self.text().is_empty() {
            faults.push(self.required(""));
        } else if !supported.contains(&self.text()) {
            faults.push(self.unsupported(supported));
        }
    }

    /// Refuses a number below zero.
    pub(super) fn must_not_be_negative(&self, faults: &mut Faults) {
        if self.number() < 0 {
            faults.push(self.invalid(NOT_NEGATIVE));
        }
    }
}

/// What is said of amounts below zero.
pub(super) const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
