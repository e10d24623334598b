//! A value and its path in the object, for validation.
//!
//! Nearly all objects are valid, so a place only refers to its parent, and the path is built only for an error. Rules
//! shared by many kinds are methods here, with Kubernetes' texts; text formats are in
//! [`formats`](crate::rules::formats).

use std::fmt::Write as _;
use std::net::IpAddr;

use serde_json::Value;
use watchkeeper_meta::validation::label_selector;
use watchkeeper_meta::{BadValue, FieldError, FieldPath};

use crate::rules::formats::{self, Cidr};
use crate::rules::go_structs;

/// The errors of rules.
pub(crate) type Errors = watchkeeper_meta::FieldErrors;

/// Initial capacity of paths.
const PATH_BYTES: usize = 64;

/// A rule for the value at a place.
pub(crate) type Rule = fn(&Place<'_, '_>, &mut Errors);

/// A value and its path. Values outlive the places that rules make of them.
#[derive(Clone, Copy)]
pub(crate) struct Place<'v, 'p> {
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
    pub(crate) fn object(value: &'v Value) -> Self {
        Self {
            value,
            step: Step::Object,
            within: None,
        }
    }

    /// A field; it may be unset.
    pub(crate) fn field<'q>(&'q self, name: &'q str) -> Place<'v, 'q> {
        self.below(&self.value[name], Step::Field(name))
    }

    /// The same value under another name, for the few fields that Kubernetes' texts name differently.
    pub(crate) fn known_as(self, name: &'p str) -> Self {
        Self {
            step: Step::Field(name),
            ..self
        }
    }

    /// Another value at this path: for some lists, Kubernetes' texts omit the index.
    pub(crate) fn with_value(self, value: &'v Value) -> Self {
        Self { value, ..self }
    }

    /// The items of a list; none if there is no list.
    pub(crate) fn items<'q>(&'q self) -> impl Iterator<Item = Place<'v, 'q>> {
        let items = self.value.as_array().into_iter().flatten().enumerate();
        items.map(|(index, value)| self.below(value, Step::Index(index)))
    }

    /// The texts of a list.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &'v str> + use<'v> {
        self.value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
    }

    /// The entries of a map, in order; none if there is no map.
    pub(crate) fn entries<'q>(&'q self) -> impl Iterator<Item = (&'v str, Place<'v, 'q>)>
    where
        'v: 'q,
    {
        let entries = self.value.as_object().into_iter().flatten();
        entries.map(|(key, value)| (key.as_str(), self.below(value, Step::Key(key))))
    }

    /// One entry of a map; it may be missing.
    pub(crate) fn entry<'q>(&'q self, key: &'q str) -> Place<'v, 'q> {
        self.below(&self.value[key], Step::Key(key))
    }

    fn below<'q>(&'q self, value: &'v Value, step: Step<'q>) -> Place<'v, 'q> {
        let within = Some(self);
        Place { value, step, within }
    }

    /// The value; null if unset.
    pub(crate) fn value(&self) -> &'v Value {
        self.value
    }

    /// The text, or empty.
    pub(crate) fn text(&self) -> &'v str {
        self.value.as_str().unwrap_or_default()
    }

    /// The number, or 0.
    pub(crate) fn number(&self) -> i64 {
        self.value.as_i64().unwrap_or_default()
    }

    /// True if it is set.
    pub(crate) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// True if it is `true`.
    pub(crate) fn is_true(&self) -> bool {
        self.value == true
    }

    /// The number of items or entries.
    pub(crate) fn len(&self) -> usize {
        match self.value {
            Value::Array(items) => items.len(),
            Value::Object(entries) => entries.len(),
            _ => 0,
        }
    }

    /// The path.
    pub(crate) fn path(&self) -> FieldPath {
        let mut path = String::with_capacity(PATH_BYTES);
        self.write_path(&mut path);
        path.into()
    }

    fn write_path(&self, path: &mut String) {
        if let Some(within) = self.within {
            within.write_path(path);
        }
        match self.step {
            Step::Object => {}
            Step::Field(name) if path.is_empty() => path.push_str(name),
            Step::Field(name) => path.extend([".", name]),
            // Writing to a string cannot fail.
            Step::Index(index) => drop(write!(path, "[{index}]")),
            Step::Key(key) => path.extend(["[", key, "]"]),
        }
    }
}

/// Errors.
impl Place<'_, '_> {
    /// The value is missing.
    pub(crate) fn required(&self, why: &str) -> FieldError {
        FieldError::required(&self.path(), why)
    }

    /// The value is malformed or out of range.
    pub(crate) fn invalid(&self, why: impl Into<String>) -> FieldError {
        FieldError::invalid(&self.path(), self.value.clone(), why)
    }

    /// An error at this path that shows another value.
    pub(crate) fn invalid_for(&self, shown: impl Into<Value>, why: impl Into<String>) -> FieldError {
        FieldError::invalid(&self.path(), shown, why)
    }

    /// An item of this list is invalid; the error shows the whole list.
    pub(crate) fn invalid_item(&self, index: usize, why: impl Into<String>) -> FieldError {
        FieldError::invalid(&self.path().index(index), self.value.clone(), why)
    }

    /// The value is invalid, shown as Kubernetes prints its own structs.
    pub(crate) fn invalid_in_go(&self, shown: String, why: impl Into<String>) -> FieldError {
        FieldError {
            value: BadValue::Printed(shown.into()),
            ..FieldError::invalid(&self.path(), Value::Null, why)
        }
    }

    /// The value is invalid, and shown as a struct of Kubernetes.
    pub(crate) fn invalid_as(&self, go_type: &str, why: impl Into<String>) -> FieldError {
        match self.value {
            Value::Null => self.invalid(why),
            value => self.invalid_in_go(go_structs::structure(go_type, value), why),
        }
    }

    /// The value is invalid, and too long or too secret to show.
    pub(crate) fn invalid_unshown(&self, why: impl Into<String>) -> FieldError {
        FieldError {
            value: BadValue::Omitted,
            ..FieldError::invalid(&self.path(), Value::Null, why)
        }
    }

    /// The field may not be set, or not to this value.
    pub(crate) fn forbidden(&self, why: impl Into<String>) -> FieldError {
        FieldError::forbidden(&self.path(), why)
    }

    /// The value is a duplicate.
    pub(crate) fn duplicate(&self) -> FieldError {
        FieldError::duplicate(&self.path(), self.value.clone())
    }

    /// The value refers to nothing.
    pub(crate) fn not_found(&self) -> FieldError {
        FieldError::not_found(&self.path(), self.value.clone())
    }

    /// The text is not one of these.
    pub(crate) fn unsupported(&self, supported: &[&str]) -> FieldError {
        FieldError::not_supported(&self.path(), self.text(), supported)
    }

    /// There are too many items.
    pub(crate) fn too_many(&self, max: usize) -> FieldError {
        FieldError::too_many(&self.path(), self.len(), max)
    }

    /// The text is too long.
    pub(crate) fn too_long(&self, max: usize) -> FieldError {
        FieldError::too_long(&self.path(), max)
    }
}

/// Rules.
impl Place<'_, '_> {
    /// Refuses an empty text.
    pub(crate) fn must_be_set(&self, errors: &mut Errors) {
        if self.text().is_empty() {
            errors.push(self.required(""));
        }
    }

    /// Refuses an empty text, or one that breaks a rule; one error for each reason.
    pub(crate) fn must_keep(&self, rule: fn(&str) -> Vec<String>, errors: &mut Errors) {
        errors.extend(rule(self.text()).into_iter().map(|reason| self.invalid(reason)));
    }

    /// Validates `metadata.generateName` and `metadata.name` by the rule of the kind. The second argument of the rule
    /// is true for a prefix. It is not called for an empty text.
    pub(crate) fn must_be_named(&self, rule: impl Fn(&str, bool) -> Vec<String>, errors: &mut Errors) {
        let metadata = self.field("metadata");
        for (name, is_prefix) in [("generateName", true), ("name", false)] {
            let field = metadata.field(name);
            if !field.text().is_empty() {
                let reasons = rule(field.text(), is_prefix).into_iter();
                errors.extend(reasons.map(|why| field.invalid(why)));
            }
        }
    }

    /// Refuses an empty text as missing, and one that breaks a rule.
    pub(crate) fn must_be_set_and_keep(&self, rule: fn(&str) -> Vec<String>, errors: &mut Errors) {
        match self.text() {
            "" => errors.push(self.required("")),
            _ => self.must_keep(rule, errors),
        }
    }

    /// Refuses a text that breaks a rule; it may be empty.
    pub(crate) fn may_keep(&self, rule: fn(&str) -> Vec<String>, errors: &mut Errors) {
        if !self.text().is_empty() {
            self.must_keep(rule, errors);
        }
    }

    /// Refuses a text that is not one of these.
    pub(crate) fn must_be_one_of(&self, supported: &[&str], errors: &mut Errors) {
        match self.text() {
            "" => errors.push(self.required("")),
            _ => self.is_one_of(supported, errors),
        }
    }

    /// Refuses a text that is not one of these; it may be empty.
    pub(crate) fn may_be_one_of(&self, supported: &[&str], errors: &mut Errors) {
        if self.is_set() {
            self.is_one_of(supported, errors);
        }
    }

    /// Refuses a value that is not one of these.
    pub(crate) fn is_one_of(&self, supported: &[&str], errors: &mut Errors) {
        if !supported.contains(&self.text()) {
            errors.push(self.unsupported(supported));
        }
    }

    /// Refuses a negative quantity.
    pub(crate) fn must_not_be_negative_quantity(&self, errors: &mut Errors) {
        if self.is_set() && formats::quantity(self.value) < formats::quantity(&Value::from(0)) {
            errors.push(self.invalid(NOT_NEGATIVE));
        }
    }

    /// Refuses a negative number.
    pub(crate) fn must_not_be_negative(&self, errors: &mut Errors) {
        if self.number() < 0 {
            errors.push(self.invalid(NOT_NEGATIVE));
        }
    }

    /// Refuses an invalid port number.
    pub(crate) fn must_be_port(&self, errors: &mut Errors) {
        if !(1..=65_535).contains(&self.number()) {
            errors.push(self.invalid_for(self.number(), "must be between 1 and 65535, inclusive"));
        }
    }

    /// Refuses anything but a port number or name.
    pub(crate) fn must_be_port_or_name(&self, errors: &mut Errors) {
        match self.value {
            Value::String(_) => self.must_keep(formats::port_name, errors),
            _ => self.must_be_port(errors),
        }
    }

    /// Refuses anything but a number or a percentage.
    pub(crate) fn must_be_number_or_percent(&self, errors: &mut Errors) {
        match self.value {
            Value::String(_) => self.must_keep(formats::percent_text, errors),
            _ => self.must_not_be_negative(errors),
        }
    }

    /// Refuses more than 100 %.
    pub(crate) fn must_be_at_most_all(&self, errors: &mut Errors) {
        if formats::percent(self.text()).is_some_and(|percent| percent > 100) {
            errors.push(self.invalid("must not be greater than 100%"));
        }
    }

    /// Refuses an invalid IP address.
    pub(crate) fn must_be_ip(&self, errors: &mut Errors) -> Option<IpAddr> {
        formats::parse_ip(self.text())
            .map_err(|why| errors.push(self.invalid_for(self.text(), why)))
            .ok()
    }

    /// Refuses an invalid CIDR.
    pub(crate) fn must_be_cidr(&self, errors: &mut Errors) -> Option<Cidr> {
        let (range, why) = Cidr::parse(self.text());
        errors.extend(why.map(|why| self.invalid_for(self.text(), why)));
        range
    }

    /// Refuses an invalid label selector.
    pub(crate) fn must_select(&self, errors: &mut Errors) {
        if self.is_set() {
            errors.append(label_selector(self.value, &self.path()));
        }
    }

    /// Refuses a change, with the text of declarative rules, which do not show the value.
    pub(crate) fn must_stay_unshown(&self, live: &Self, errors: &mut Errors) {
        if self.value != live.value {
            errors.push(self.invalid_for(Value::Null, "field is immutable"));
        }
    }

    /// Refuses a change of a value that is shown as a struct of Kubernetes.
    pub(crate) fn must_stay_as(&self, go_type: &str, live: &Self, errors: &mut Errors) {
        if self.value != live.value {
            errors.push(self.invalid_as(go_type, "field is immutable"));
        }
    }

    /// Refuses a change of a text; missing equals empty.
    pub(crate) fn text_must_stay(&self, live: &Self, errors: &mut Errors) {
        if self.text() != live.text() {
            errors.push(self.invalid_for(self.text(), "field is immutable"));
        }
    }

    /// Refuses a change.
    pub(crate) fn must_stay(&self, live: &Self, errors: &mut Errors) {
        if self.value != live.value {
            errors.push(self.invalid("field is immutable"));
        }
    }
}

/// The text for negative amounts.
pub(crate) const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
