//! Label selectors: `app=web,tier in (a,b),!legacy`.
//!
//! A selector is parsed from text (a query), read from `matchLabels` and `matchExpressions` (an object) or built from
//! pairs. It prints as in client-go, and matches against any [`Labels`] without allocating.

mod parser;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::field_error::{FieldError, FieldErrors, FieldPath, join_field_errors};
use crate::quote::quote;
use crate::{Header, Status, validation};

/// A label selector; all requirements must hold. The default has none and selects everything.
///
/// Requirements are sorted by key, which is also the order they print in.
///
/// ```
/// use watchkeeper_meta::LabelSelector;
/// let selector: LabelSelector = "tier in (b,a), app=web".parse()?;
/// assert_eq!(selector.to_string(), "app=web,tier in (a,b)");
/// assert!(selector.matches([("app", "web"), ("tier", "a")].as_slice()));
/// # Ok::<(), watchkeeper_meta::SelectorError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    requirements: Vec<LabelRequirement>,
}

/// A requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LabelRequirement {
    key: String,
    test: LabelTest,
}

/// The test a label's value must pass.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LabelTest {
    /// The label is present: `a`.
    Exists,
    /// The label is absent: `!a`.
    DoesNotExist,
    /// `a=b`.
    Equals(String),
    /// `a==b`: the same as `a=b`. The spelling is kept.
    DoubleEquals(String),
    /// The label has another value or is absent: `a!=b`.
    NotEquals(String),
    /// `a in (b,c)`: one of the values, which are sorted.
    In(Vec<String>),
    /// `a notin (b,c)`: none of the values, which are sorted; or the label is absent.
    NotIn(Vec<String>),
    /// `a>5`: a larger integer.
    GreaterThan(i64),
    /// `a<5`: a smaller integer.
    LessThan(i64),
}

/// An invalid selector, with Kubernetes' error text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub(crate) String);

impl From<SelectorError> for Status {
    fn from(error: SelectorError) -> Self {
        Status::bad_request(error.0)
    }
}

/// Something that has labels.
pub trait Labels {
    /// The value of one label.
    fn label(&self, key: &str) -> Option<&str>;

    /// An index of the labels, if [`label`](Self::label) would search too many of them for a long selector.
    fn index(&self) -> Option<HashMap<&str, &str>> {
        None
    }
}

/// More requirements are looked up in an index of the labels, if those are more as well.
const MANY: usize = 64;

impl LabelSelector {
    /// A selector of these requirements.
    pub fn new(requirements: impl IntoIterator<Item = LabelRequirement>) -> Self {
        let mut requirements: Vec<_> = requirements.into_iter().collect();
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self { requirements }
    }

    /// Selects objects that have all of these labels.
    pub fn from_labels<K, V>(labels: impl IntoIterator<Item = (K, V)>) -> Result<Self, SelectorError>
    where
        K: Into<String>,
        V: Into<String>,
    {
        let equals = |(key, value): (K, V)| LabelRequirement::new(key, LabelTest::Equals(value.into()));
        Ok(Self::new(
            labels.into_iter().map(equals).collect::<Result<Vec<_>, _>>()?,
        ))
    }

    /// Reads a `LabelSelector` object, `{"matchLabels": {…}, "matchExpressions": […]}`.
    ///
    /// An empty one selects everything. The meaning of a missing one differs from field to field and is left to the
    /// caller.
    pub fn from_json(selector: &Value) -> Result<Self, SelectorError> {
        let mut requirements = Vec::new();
        for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
            let value = text(value, || FieldPath::new("matchLabels").key(key))?;
            requirements.push(LabelRequirement::new(key, LabelTest::Equals(value))?);
        }
        for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
            requirements.push(LabelRequirement::from_json(expression)?);
        }
        Ok(Self::new(requirements))
    }

    /// True if it selects everything.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The requirements, sorted by key.
    pub fn requirements(&self) -> &[LabelRequirement] {
        &self.requirements
    }

    /// True if an object with these labels is selected.
    pub fn matches<L: Labels + ?Sized>(&self, labels: &L) -> bool {
        let index = (self.requirements.len() > MANY).then(|| labels.index()).flatten();
        let mut requirements = self.requirements.iter();
        match index {
            Some(index) => requirements.all(|requirement| requirement.matches(&index)),
            None => requirements.all(|requirement| requirement.matches(labels)),
        }
    }

    /// The only value of the label that can be selected, if there is just one. Lets an index answer.
    pub fn exact_value(&self, key: &str) -> Option<&str> {
        let requirement = self
            .requirements
            .iter()
            .find(|requirement| requirement.key == key)?;
        match &requirement.test {
            LabelTest::Equals(value) | LabelTest::DoubleEquals(value) => Some(value),
            LabelTest::In(values) if values.len() == 1 => Some(&values[0]),
            _ => None,
        }
    }
}

impl LabelRequirement {
    /// A requirement on one label. Fails if the key or a value is invalid.
    pub fn new(key: impl Into<String>, mut test: LabelTest) -> Result<Self, SelectorError> {
        let key = key.into();
        if let LabelTest::In(values) | LabelTest::NotIn(values) = &mut test {
            values.sort_unstable();
            values.dedup();
        }
        let mut errors: FieldErrors = check_key(&key, || FieldPath::new("key")).into_iter().collect();
        let values = || FieldPath::new("values");
        if test.values().is_some_and(<[String]>::is_empty) {
            let why = "for 'in', 'notin' operators, values set can't be empty";
            errors.push(FieldError::invalid(&values(), Value::Array(Vec::new()), why));
        }
        for (index, value) in test.values().into_iter().flatten().enumerate() {
            errors.extend(check_value(value, || values().index(index).key(&key)));
        }
        match errors.is_empty() {
            true => Ok(Self { key, test }),
            false => Err(SelectorError(join_field_errors(&errors))),
        }
    }

    /// The label's key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The test its value must pass.
    pub fn test(&self) -> &LabelTest {
        &self.test
    }

    /// True if these labels meet the requirement.
    pub fn matches<L: Labels + ?Sized>(&self, labels: &L) -> bool {
        let value = labels.label(&self.key);
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.test {
            LabelTest::Exists => value.is_some(),
            LabelTest::DoesNotExist => value.is_none(),
            LabelTest::Equals(wanted) | LabelTest::DoubleEquals(wanted) => value == Some(wanted),
            LabelTest::NotEquals(unwanted) => value != Some(unwanted),
            LabelTest::In(wanted) => value.is_some_and(|value| has(wanted, value)),
            LabelTest::NotIn(unwanted) => value.is_none_or(|value| !has(unwanted, value)),
            LabelTest::GreaterThan(bound) => number().is_some_and(|number| number > *bound),
            LabelTest::LessThan(bound) => number().is_some_and(|number| number < *bound),
        }
    }

    /// Reads one of `matchExpressions`.
    fn from_json(expression: &Value) -> Result<Self, SelectorError> {
        let listed = expression["values"].as_array().into_iter().flatten().enumerate();
        let path = FieldPath::new("values");
        let values = listed
            .map(|(index, value)| text(value, || path.index(index)))
            .collect::<Result<Vec<_>, _>>()?;
        let no_values_for = |test: LabelTest| match values.is_empty() {
            true => Ok(test),
            false => Err(SelectorError(
                FieldError::invalid(
                    &path,
                    values.clone(),
                    "values set must be empty for exists and does not exist",
                )
                .to_string(),
            )),
        };
        let test = match expression["operator"].as_str().unwrap_or_default() {
            "In" => LabelTest::In(values),
            "NotIn" => LabelTest::NotIn(values),
            "Exists" => no_values_for(LabelTest::Exists)?,
            "DoesNotExist" => no_values_for(LabelTest::DoesNotExist)?,
            other => {
                let message = format!("{} is not a valid label selector operator", quote(other));
                return Err(SelectorError(message));
            }
        };
        Self::new(expression["key"].as_str().unwrap_or_default(), test)
    }
}

/// True if a sorted list of values contains the value.
fn has(values: &[String], value: &str) -> bool {
    values.binary_search_by(|one| one.as_str().cmp(value)).is_ok()
}

impl LabelTest {
    /// The values as text, for tests that have them.
    fn values(&self) -> Option<&[String]> {
        match self {
            Self::Equals(value) | Self::DoubleEquals(value) | Self::NotEquals(value) => {
                Some(std::slice::from_ref(value))
            }
            Self::In(values) | Self::NotIn(values) => Some(values),
            Self::Exists | Self::DoesNotExist | Self::GreaterThan(_) | Self::LessThan(_) => None,
        }
    }
}

impl FromStr for LabelSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parser::parse(text).map(Self::new)
    }
}

/// Writes the requirements of a selector, joined by commas.
pub(crate) fn fmt_requirements<R: fmt::Display>(
    requirements: &[R],
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    for (index, requirement) in requirements.iter().enumerate() {
        if index > 0 {
            f.write_str(",")?;
        }
        requirement.fmt(f)?;
    }
    Ok(())
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_requirements(&self.requirements, f)
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.test {
            LabelTest::Exists => write!(f, "{key}"),
            LabelTest::DoesNotExist => write!(f, "!{key}"),
            LabelTest::Equals(value) => write!(f, "{key}={value}"),
            LabelTest::DoubleEquals(value) => write!(f, "{key}=={value}"),
            LabelTest::NotEquals(value) => write!(f, "{key}!={value}"),
            LabelTest::In(values) => write!(f, "{key} in ({})", values.join(",")),
            LabelTest::NotIn(values) => write!(f, "{key} notin ({})", values.join(",")),
            LabelTest::GreaterThan(bound) => write!(f, "{key}>{bound}"),
            LabelTest::LessThan(bound) => write!(f, "{key}<{bound}"),
        }
    }
}

/// A label must be text; a number or a boolean is a mistake in the manifest.
fn text(value: &Value, path: impl FnOnce() -> FieldPath) -> Result<String, SelectorError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        other => Err(SelectorError(
            FieldError::type_invalid(&path(), other.clone(), "must be a string").to_string(),
        )),
    }
}

fn check_key(key: &str, path: impl FnOnce() -> FieldPath) -> Option<FieldError> {
    let reasons = validation::qualified_name(key);
    (!reasons.is_empty()).then(|| FieldError::invalid(&path(), key, reasons.join("; ")))
}

fn check_value(value: &str, path: impl FnOnce() -> FieldPath) -> Option<FieldError> {
    let reasons = validation::label_value(value);
    (!reasons.is_empty()).then(|| FieldError::invalid(&path(), value, reasons.join("; ")))
}

impl Labels for Header<'_> {
    fn label(&self, key: &str) -> Option<&str> {
        Header::label(self, key)
    }

    fn index(&self) -> Option<HashMap<&str, &str>> {
        index(self.labels.iter().map(|(key, value)| (&**key, &**value)))
    }
}

/// The first value of each key; `None` if there are few.
fn index<'l>(
    labels: impl DoubleEndedIterator<Item = (&'l str, &'l str)> + ExactSizeIterator,
) -> Option<HashMap<&'l str, &'l str>> {
    (labels.len() > MANY).then(|| labels.rev().collect())
}

impl<K: AsRef<str>, V: AsRef<str>> Labels for [(K, V)] {
    fn label(&self, key: &str) -> Option<&str> {
        self.iter()
            .find(|(k, _)| k.as_ref() == key)
            .map(|(_, value)| value.as_ref())
    }

    fn index(&self) -> Option<HashMap<&str, &str>> {
        index(self.iter().map(|(key, value)| (key.as_ref(), value.as_ref())))
    }
}

impl Labels for HashMap<&str, &str> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).copied()
    }
}

impl Labels for BTreeMap<String, String> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

impl<S: std::hash::BuildHasher> Labels for HashMap<String, String, S> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

impl Labels for serde_json::Map<String, Value> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }
}

/// `metadata.labels` of an object; none if missing or null.
impl Labels for Value {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const WEB: &[(&str, &str)] = &[("app", "web"), ("tier", "7"), ("empty", "")];

    fn check(selector: &str, selects_web: bool) {
        let parsed: LabelSelector = selector.parse().unwrap();
        assert_eq!(parsed.matches(WEB), selects_web, "{selector}");
    }

    #[test]
    fn labels_pass_tests() {
        for selector in [
            "",
            "app",
            "app=web",
            "app==web",
            "app!=x",
            "gone!=x",
            "!gone",
            "app in (x,web)",
            "app notin (x)",
            "gone notin (x)",
            "tier>6",
            "tier<8",
            "empty=",
            "empty in ()",
            "app=web,tier=7",
        ] {
            check(selector, true);
        }
        for selector in [
            "gone",
            "!app",
            "app=x",
            "app!=web",
            "app in (x)",
            "app notin (web)",
            "gone in (x)",
            "tier>7",
            "tier<7",
            "app>1",
            "gone<1",
            "gone=",
            "app=web,tier=8",
        ] {
            check(selector, false);
        }
    }

    #[test]
    fn every_carrier_of_labels_will_do() {
        let selector: LabelSelector = "app=web".parse().unwrap();
        let header = Header {
            labels: vec![("app".into(), "web".into())],
            ..Default::default()
        };
        assert!(selector.matches(&header));
        assert!(selector.matches(&json!({"app": "web"})));
        assert!(!selector.matches(&Value::Null));
        assert!(selector.matches(&BTreeMap::from([("app".to_owned(), "web".to_owned())])));
    }

    #[test]
    fn many_requirements_on_many_labels_are_looked_up_in_an_index() {
        let labels: Vec<(String, String)> = (0..200)
            .map(|number| (format!("k{}", number % 100), number.to_string()))
            .collect();
        let all: Vec<String> = (0..100).map(|number| format!("k{number}={number}")).collect();
        let check = |selector: String, is_selected: bool| {
            let selector: LabelSelector = selector.parse().unwrap();
            assert!(selector.requirements.len() > MANY);
            assert_eq!(selector.matches(labels.as_slice()), is_selected);
            let header = Header {
                labels: labels
                    .iter()
                    .map(|(key, value)| (key.into(), value.into()))
                    .collect(),
                ..Default::default()
            };
            assert_eq!(selector.matches(&header), is_selected);
        };
        // The first of several labels with one key counts, as without an index.
        check(all.join(","), true);
        check(format!("{},!gone", all.join(",")), true);
        check(format!("{},gone", all.join(",")), false);
        check(format!("{},!k1", all.join(",")), false);
    }

    #[test]
    fn objects_carry_selectors_too() {
        let selector = json!({
            "matchLabels": {"b": "1", "a": "2"},
            "matchExpressions": [
                {"key": "t", "operator": "In", "values": ["y", "x", "y"]},
                {"key": "u", "operator": "DoesNotExist"},
            ],
        });
        assert_eq!(
            LabelSelector::from_json(&selector).unwrap().to_string(),
            "a=2,b=1,t in (x,y),!u"
        );
        assert!(LabelSelector::from_json(&json!({})).unwrap().is_everything());
    }

    #[test]
    fn broken_selectors_in_objects_are_named() {
        for (expression, message) in [
            (
                json!({"key": "a", "operator": "Like"}),
                r#""Like" is not a valid label selector operator"#,
            ),
            (
                json!({"key": "a", "operator": "In", "values": []}),
                "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
            ),
            (
                json!({"key": "a", "operator": "Exists", "values": ["x"]}),
                r#"values: Invalid value: ["x"]: values set must be empty for exists and does not exist"#,
            ),
        ] {
            let error = LabelSelector::from_json(&json!({"matchExpressions": [expression]})).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
        let error = LabelSelector::from_json(&json!({"matchLabels": {"a": 1}})).unwrap_err();
        assert_eq!(
            error.to_string(),
            "matchLabels[a]: Invalid value: 1: must be a string"
        );
    }

    #[test]
    fn an_index_can_answer_exact_tests() {
        let selector: LabelSelector = "a=1,b in (2),c in (3,4),d".parse().unwrap();
        let exact = |key| selector.exact_value(key);
        assert_eq!(
            (exact("a"), exact("b"), exact("c"), exact("d"), exact("e")),
            (Some("1"), Some("2"), None, None, None)
        );
    }
}
