//! Field selectors: `status.phase=Running,metadata.name!=a`.
//!
//! A selector can be parsed, printed and matched. The server decides which fields a kind can be selected by. In
//! values, `\`, `,` and `=` are escaped with a backslash.

use std::fmt;
use std::str::FromStr;

use crate::label_selector::{SelectorError, fmt_requirements};
use crate::quote::quote;

/// A field selector; all requirements must hold. The default has none and selects everything.
///
/// ```
/// use watchkeeper_meta::FieldSelector;
/// let selector: FieldSelector = "status.phase!=Failed".parse()?;
/// assert!(selector.matches(|field| if field == "status.phase" { "Running" } else { "" }));
/// # Ok::<(), watchkeeper_meta::SelectorError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

/// A requirement on one field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldRequirement {
    /// The field, as the server names it.
    pub field: String,
    /// The value it is compared with.
    pub value: String,
    /// The comparison.
    pub operator: FieldOperator,
}

/// The comparison of a field with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldOperator {
    /// `a=b`, also written `a==b`.
    Equals,
    /// `a!=b`.
    NotEquals,
}

impl FieldSelector {
    /// A selector of these requirements, kept in the order of their printed form.
    pub fn new(requirements: impl IntoIterator<Item = FieldRequirement>) -> Self {
        let mut requirements: Vec<_> = requirements.into_iter().collect();
        requirements.sort_by_cached_key(FieldRequirement::to_string);
        Self { requirements }
    }

    /// Objects whose field has this value.
    pub fn equals(field: impl Into<String>, value: impl Into<String>) -> Self {
        Self::new([FieldRequirement {
            field: field.into(),
            value: value.into(),
            operator: FieldOperator::Equals,
        }])
    }

    /// The object of this name: how a single object is watched.
    pub fn name(name: impl Into<String>) -> Self {
        Self::equals("metadata.name", name)
    }

    /// True if it selects everything.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The requirements, in the order they print in.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// True if an object is selected. `field` looks up a field's value; a missing field is empty.
    pub fn matches<T: AsRef<str>>(&self, field: impl Fn(&str) -> T) -> bool {
        self.requirements.iter().all(|requirement| {
            let equal = field(&requirement.field).as_ref() == requirement.value;
            equal == (requirement.operator == FieldOperator::Equals)
        })
    }

    /// The value the field must be equal to, if the selector demands one.
    pub fn exact_value(&self, field: &str) -> Option<&str> {
        let exact = |one: &&FieldRequirement| one.field == field && one.operator == FieldOperator::Equals;
        self.requirements.iter().find(exact).map(|one| one.value.as_str())
    }

    /// Renames each field, or fails with the error of `rename`. Used to check field names and convert them between
    /// versions.
    pub fn try_rename<E>(self, rename: impl Fn(&str) -> Result<String, E>) -> Result<Self, E> {
        let renamed = self.requirements.into_iter().map(|requirement| {
            let field = rename(&requirement.field)?;
            Ok(FieldRequirement { field, ..requirement })
        });
        Ok(Self::new(renamed.collect::<Result<Vec<_>, E>>()?))
    }
}

impl SelectorError {
    /// An error with a kind's own text.
    pub fn new(reason: String) -> Self {
        Self(reason)
    }

    /// An unknown field of a kind that only supports the metadata fields.
    pub fn unknown_field(field: &str) -> Self {
        Self(format!(
            r#"{} is not a known field selector: only "metadata.name", "metadata.namespace""#,
            quote(field)
        ))
    }

    /// A field the kind cannot be selected by.
    pub fn unsupported_field(field: &str) -> Self {
        Self(format!("field label not supported: {field}"))
    }
}

impl FromStr for FieldSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut terms: Vec<&str> = split_terms(text).filter(|term| !term.is_empty()).collect();
        // Sorted, so that the first of several errors is always the same.
        terms.sort_unstable();
        let read = |term: &&str| {
            parse_term(term).unwrap_or_else(|| {
                Err(SelectorError(format!(
                    "invalid selector: '{text}'; can't understand '{term}'"
                )))
            })
        };
        Ok(Self::new(terms.iter().map(read).collect::<Result<Vec<_>, _>>()?))
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_requirements(&self.requirements, f)
    }
}

impl fmt::Display for FieldRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.field)?;
        f.write_str(match self.operator {
            FieldOperator::Equals => "=",
            FieldOperator::NotEquals => "!=",
        })?;
        for c in self.value.chars() {
            if is_special(c) {
                f.write_str("\\")?;
            }
            write!(f, "{c}")?;
        }
        Ok(())
    }
}

fn is_special(c: char) -> bool {
    matches!(c, '\\' | ',' | '=')
}

/// Splits at commas that are not escaped.
fn split_terms(text: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    text.split(move |c| {
        let cut = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        cut
    })
}

/// Returns `None` if the term has no operator.
fn parse_term(term: &str) -> Option<Result<FieldRequirement, SelectorError>> {
    let at = term.find('=')?;
    let (field, operator, value) = match (&term[..at], &term[at + 1..]) {
        (field, value) if field.ends_with('!') => (&field[..at - 1], FieldOperator::NotEquals, value),
        (field, value) => (
            field,
            FieldOperator::Equals,
            value.strip_prefix('=').unwrap_or(value),
        ),
    };
    Some(unescape(value).map(|value| FieldRequirement {
        field: field.to_owned(),
        value,
        operator,
    }))
}

fn unescape(text: &str) -> Result<String, SelectorError> {
    let mut value = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(special) if is_special(special) => value.push(special),
                Some(other) => return Err(bad_escape(&format!("\\{other}"))),
                None => return Err(bad_escape("\\")),
            },
            // Kubernetes prints the character's number here.
            ',' | '=' => {
                let number = c as u32;
                return Err(SelectorError(format!(
                    "invalid field selector: unescaped character in value: {number}"
                )));
            }
            c => value.push(c),
        }
    }
    Ok(value)
}

fn bad_escape(sequence: &str) -> SelectorError {
    SelectorError(format!(
        "invalid field selector: invalid escape sequence: {sequence}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn printed(text: &str) -> Result<String, String> {
        let selector: Result<FieldSelector, _> = text.parse();
        selector
            .map(|selector| selector.to_string())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn selectors_print_in_one_form() {
        for (text, form) in [
            ("", ""),
            ("b==1,a=2,,a!=3", "a!=3,a=2,b=1"),
            (r"a=x\,y\=z\\", r"a=x\,y\=z\\"),
            ("a=", "a="),
            ("metadata.name!=", "metadata.name!="),
        ] {
            assert_eq!(printed(text).as_deref(), Ok(form), "{text}");
        }
    }

    #[test]
    fn errors_are_kubernetes_own() {
        for (text, message) in [
            ("a", "invalid selector: 'a'; can't understand 'a'"),
            ("x=1,a", "invalid selector: 'x=1,a'; can't understand 'a'"),
            (
                "a=b=c",
                "invalid field selector: unescaped character in value: 61",
            ),
            (r"a=\b", r"invalid field selector: invalid escape sequence: \b"),
            (r"a=b\", r"invalid field selector: invalid escape sequence: \"),
        ] {
            assert_eq!(printed(text), Err(message.to_owned()), "{text}");
        }
        assert_eq!(
            SelectorError::unknown_field("data.k").to_string(),
            r#""data.k" is not a known field selector: only "metadata.name", "metadata.namespace""#
        );
    }

    #[test]
    fn missing_fields_are_empty() {
        let phase = |field: &str| if field == "status.phase" { "Running" } else { "" };
        for (selector, selected) in [
            ("", true),
            ("status.phase=Running", true),
            ("status.phase!=Running", false),
            ("spec.nodeName=", true),
            ("spec.nodeName!=", false),
            ("status.phase=Running,spec.nodeName=x", false),
        ] {
            assert_eq!(
                selector.parse::<FieldSelector>().unwrap().matches(phase),
                selected,
                "{selector}"
            );
        }
    }

    #[test]
    fn fields_are_checked_and_renamed() {
        let rename = |field: &str| match field {
            "spec.host" => Ok("spec.nodeName".to_owned()),
            field => Err(SelectorError::unsupported_field(field)),
        };
        let selector: FieldSelector = "spec.host=a".parse().unwrap();
        assert_eq!(
            selector.try_rename(rename).unwrap().exact_value("spec.nodeName"),
            Some("a")
        );
        let unknown: FieldSelector = "spec.ports=1".parse().unwrap();
        assert_eq!(
            unknown.try_rename(rename).unwrap_err().to_string(),
            "field label not supported: spec.ports"
        );
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(terms in proptest::collection::vec(("[a-z.]{0,5}", "\\PC{0,6}", any::<bool>()), 0..4)) {
            let operator = |equals| if equals { FieldOperator::Equals } else { FieldOperator::NotEquals };
            let selector = FieldSelector::new(terms.into_iter().map(|(field, value, equals)| {
                FieldRequirement { field, value, operator: operator(equals) }
            }));
            prop_assert_eq!(selector.to_string().parse::<FieldSelector>().unwrap(), selector);
        }

        #[test]
        fn any_text_is_answered(text in "[a!=,\\\\\\PC]{0,16}") {
            if let Ok(selector) = text.parse::<FieldSelector>() {
                prop_assert_eq!(selector.to_string().parse::<FieldSelector>().unwrap(), selector);
            }
        }
    }
}
