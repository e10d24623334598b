//! Value validation of custom objects: `openAPIV3Schema` compiled into rules, with Kubernetes' error texts.
//!
//! Absent rules cost nothing, and patterns are compiled once. Unchanged parts of an object are not validated again
//! (ratcheting), so that an object that was valid under an older schema can still be changed elsewhere.

use std::collections::{BTreeMap, HashMap, HashSet};

use regex::Regex;
use serde_json::{Map, Value};
use watchkeeper_cel::pattern;
use watchkeeper_meta::validation::{FinalizerRule, NameRule, ObjectMetaRules, dns1035_label, object_meta};
use watchkeeper_meta::{FieldError, FieldErrors, FieldPath, Scope};

use super::formats;

/// The texts among many values, to look them up; `None` for few.
fn many_texts(values: &[Value]) -> Option<HashSet<String>> {
    const MANY: usize = 16;
    let texts = values.iter().filter_map(Value::as_str).map(str::to_owned);
    (values.len() > MANY).then(|| texts.collect())
}

/// The rules of a value.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    kind: Option<Kind>,
    int_or_string: bool,
    nullable: bool,
    format: String,
    pattern: Option<Regex>,
    values: Option<Vec<Value>>,
    /// The values that are texts, if there are many.
    texts: Option<HashSet<String>>,
    minimum: Option<Bound>,
    maximum: Option<Bound>,
    multiple_of: Option<f64>,
    min_length: Option<usize>,
    max_length: Option<usize>,
    min_items: Option<usize>,
    max_items: Option<usize>,
    min_properties: Option<usize>,
    max_properties: Option<usize>,
    required: Vec<String>,
    properties: BTreeMap<String, Rules>,
    additional: Option<Box<Rules>>,
    items: Option<Box<Rules>>,
    all_of: Vec<Rules>,
    any_of: Vec<Rules>,
    one_of: Vec<Rules>,
    not: Option<Box<Rules>>,
    list: List,
    /// An embedded object must state its type.
    is_resource: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

#[derive(Clone, Copy, Debug)]
struct Bound {
    number: f64,
    exclusive: bool,
}

/// The identity of list items.
#[derive(Debug, Default)]
enum List {
    #[default]
    Plain,
    Set,
    Map(Vec<String>),
}

/// The path of a value. Kubernetes names it twice: in the object, and relative to where its rules begin.
#[derive(Clone)]
struct At {
    /// The prefix of every path: `status` if only that is validated.
    base: &'static str,
    path: String,
}

impl At {
    fn member(&self, name: &str) -> Self {
        let path = match self.path.is_empty() {
            true => name.to_owned(),
            false => format!("{}.{name}", self.path),
        };
        Self { path, ..*self }
    }

    fn item(&self, index: usize) -> Self {
        Self {
            path: format!("{}[{index}]", self.path),
            ..*self
        }
    }

    fn field(&self) -> FieldPath {
        match (self.base, &*self.path) {
            (base, "") => base.into(),
            ("", path) => path.into(),
            (base, path) => format!("{base}.{path}").into(),
        }
    }

    /// An error of the value at this path.
    fn invalid(&self, shown: impl Into<Value>, why: &str) -> FieldError {
        FieldError::invalid(&self.field(), shown, format!("{} in body {why}", self.path))
    }

    fn wrong_type(&self, shown: &str, wanted: &str) -> FieldError {
        let why = format!("{} in body must be of type {wanted}: {shown:?}", self.path);
        FieldError::type_invalid(&self.field(), shown, why)
    }

    /// An error that Kubernetes reports without a field.
    fn elsewhere(&self, why: String) -> FieldError {
        FieldError::invalid(&FieldPath::from(self.base), "", why)
    }
}

impl Rules {
    /// Compiles a schema. An invalid pattern accepts anything; definitions with one are refused.
    pub(crate) fn compile(schema: &Value) -> Self {
        let number = |name: &str| schema[name].as_f64();
        let count = |name: &str| {
            schema[name]
                .as_u64()
                .map(|count| usize::try_from(count).unwrap_or(usize::MAX))
        };
        let is_set = |name: &str| schema[name] == true;
        let all = |name: &str| -> Vec<Self> {
            let list = schema[name].as_array().into_iter().flatten();
            list.map(Self::compile).collect()
        };
        let one = |name: &str| {
            let found = schema.get(name).filter(|found| found.is_object());
            found.map(|found| Box::new(Self::compile(found)))
        };
        let bound = |name: &str, exclusive: &str| {
            number(name).map(|number| Bound {
                number,
                exclusive: is_set(exclusive),
            })
        };
        let properties = schema["properties"].as_object().into_iter().flatten();
        Self {
            kind: kind(schema["type"].as_str().unwrap_or_default()),
            int_or_string: is_set("x-kubernetes-int-or-string"),
            nullable: is_set("nullable"),
            format: schema["format"].as_str().unwrap_or_default().to_owned(),
            pattern: schema["pattern"]
                .as_str()
                .and_then(|text| pattern::compile(text).ok()),
            values: schema["enum"].as_array().cloned(),
            texts: schema["enum"].as_array().and_then(|values| many_texts(values)),
            minimum: bound("minimum", "exclusiveMinimum"),
            maximum: bound("maximum", "exclusiveMaximum"),
            multiple_of: number("multipleOf").filter(|factor| *factor > 0.0),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            required: texts(&schema["required"]),
            properties: properties
                .map(|(name, schema)| (name.clone(), Self::compile(schema)))
                .collect(),
            additional: one("additionalProperties"),
            items: one("items"),
            all_of: all("allOf"),
            any_of: all("anyOf"),
            one_of: all("oneOf"),
            not: one("not"),
            list: match schema["x-kubernetes-list-type"].as_str() {
                Some("set") => List::Set,
                Some("map") => List::Map(texts(&schema["x-kubernetes-list-map-keys"])),
                _ => List::Plain,
            },
            is_resource: is_set("x-kubernetes-embedded-resource"),
        }
    }

    /// The errors of an object, given its old state, if any.
    pub(crate) fn errors(&self, object: &Value, live: Option<&Value>) -> FieldErrors {
        self.errors_at("", object, live)
    }

    /// The errors of one part of an object. Kubernetes omits the part from the paths.
    pub(crate) fn errors_of_part(
        &self,
        base: &'static str,
        object: &Value,
        live: Option<&Value>,
    ) -> FieldErrors {
        let live = live.and_then(|live| live.get(base));
        match (self.properties.get(base), object.get(base)) {
            (Some(rules), Some(part)) => rules.errors_at(base, part, live),
            _ => FieldErrors::new(),
        }
    }

    fn errors_at(&self, base: &'static str, value: &Value, live: Option<&Value>) -> FieldErrors {
        let at = At {
            base,
            path: String::new(),
        };
        let mut errors = FieldErrors::new();
        self.check(value, live, &at, &mut errors);
        self.check_identities(value, live, &at, &mut errors);
        errors
    }

    fn check(&self, value: &Value, live: Option<&Value>, at: &At, errors: &mut FieldErrors) {
        if live == Some(value) {
            return;
        }
        self.check_type(value, at, errors);
        if value.is_null() {
            return self.check_values(value, at, errors);
        }
        self.check_junctors(value, live, at, errors);
        match value {
            Value::String(text) => self.check_text(text, at, errors),
            Value::Number(_) => self.check_number(value, at, errors),
            Value::Array(items) => self.check_items(items, live, at, errors),
            _ => {}
        }
        self.check_values(value, at, errors);
        if let Value::Object(members) = value {
            self.check_members(members, live, at, errors);
        }
    }

    fn check_type(&self, value: &Value, at: &At, errors: &mut FieldErrors) {
        let found = type_name(value);
        if value.is_null() && self.nullable {
            return;
        }
        if self.int_or_string {
            if !matches!(found, "integer" | "string") {
                errors.push(at.wrong_type(found, "integer,string"));
            }
            return;
        }
        let Some(kind) = self.kind else { return };
        let fits = match kind {
            Kind::Number => matches!(found, "integer" | "number"),
            kind => kind.name() == found,
        };
        if !fits {
            errors.push(at.wrong_type(found, kind.name()));
        }
    }

    fn check_junctors(&self, value: &Value, live: Option<&Value>, at: &At, errors: &mut FieldErrors) {
        let results = |list: &[Self]| -> Vec<FieldErrors> {
            let errors_of = |rules: &Self| {
                let mut errors = FieldErrors::new();
                rules.check(value, live, at, &mut errors);
                errors
            };
            list.iter().map(errors_of).collect()
        };
        let count_valid = |results: &[FieldErrors]| results.iter().filter(|it| it.is_empty()).count();
        let path = &at.path;
        if !self.any_of.is_empty() {
            let results = results(&self.any_of);
            if count_valid(&results) == 0 {
                errors.push(at.elsewhere(format!("{path:?} must validate at least one schema (anyOf)")));
                errors.append(results.into_iter().next().unwrap_or_default());
            }
        }
        if !self.one_of.is_empty() {
            let results = results(&self.one_of);
            let text = format!("{path:?} must validate one and only one schema (oneOf).");
            match count_valid(&results) {
                0 => {
                    errors.push(at.elsewhere(format!("{text} Found none valid")));
                    errors.append(results.into_iter().next().unwrap_or_default());
                }
                1 => {}
                several => {
                    errors.push(at.elsewhere(format!("{text} Found {several} valid alternatives")));
                }
            }
        }
        if !self.all_of.is_empty() {
            let results = results(&self.all_of);
            let valid = count_valid(&results);
            if valid < results.len() {
                let more = if valid == 0 { ". None validated" } else { "" };
                let text = format!("{path:?} must validate all the schemas (allOf){more}");
                results.into_iter().for_each(|found| errors.append(found));
                errors.push(at.elsewhere(text));
            }
        }
        if let Some(not) = &self.not
            && count_valid(&results(std::slice::from_ref(not))) == 1
        {
            errors.push(at.elsewhere(format!("{path:?} must not validate the schema (not)")));
        }
    }

    /// Of length and pattern, only the first that does not fit is reported.
    fn check_text(&self, text: &str, at: &At, errors: &mut FieldErrors) {
        let length = || text.chars().count();
        if let Some(max) = self.max_length.filter(|max| length() > *max) {
            errors.push(FieldError::too_long(&at.field(), max));
        } else if let Some(min) = self.min_length.filter(|min| length() < *min) {
            errors.push(at.invalid(text, &format!("should be at least {min} chars long")));
        } else if let Some(pattern) = self.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
            errors.push(at.invalid(text, &format!("should match '{}'", pattern.as_str())));
        }
        if !formats::is_valid(&self.format, text) {
            errors.push(at.wrong_type(text, &self.format));
        }
    }

    fn check_number(&self, value: &Value, at: &At, errors: &mut FieldErrors) {
        let number = value.as_f64().unwrap_or_default();
        let is_integer = self.kind == Some(Kind::Integer);
        let unfit = match (&*self.format, is_integer) {
            ("int32", true) => value
                .as_i64()
                .is_none_or(|whole| i32::try_from(whole).is_err())
                .then_some("with format int32"),
            ("int64", true) => value.as_i64().is_none().then_some("with format int64"),
            (_, true) => (type_name(value) != "integer").then_some("(default format)"),
            _ => None,
        };
        if let Some(which) = unfit {
            let path = &at.path;
            errors.push(at.elsewhere(format!("Checked value must be of type integer {which} in {path}")));
        }
        let is_multiple = |factor: f64| {
            let times = number / factor;
            (times - times.round()).abs() < 1e-9
        };
        if let Some(factor) = self.multiple_of.filter(|factor| !is_multiple(*factor)) {
            errors.push(at.invalid(value.clone(), &format!("should be a multiple of {factor}")));
        }
        if let Some(max) = self.maximum {
            let (fits, words) = match max.exclusive {
                true => (number < max.number, "less than"),
                false => (number <= max.number, "less than or equal to"),
            };
            if !fits {
                errors.push(at.invalid(value.clone(), &format!("should be {words} {}", max.number)));
            }
        }
        if let Some(min) = self.minimum {
            let (fits, words) = match min.exclusive {
                true => (number > min.number, "greater than"),
                false => (number >= min.number, "greater than or equal to"),
            };
            if !fits {
                errors.push(at.invalid(value.clone(), &format!("should be {words} {}", min.number)));
            }
        }
    }

    fn check_items(&self, items: &[Value], live: Option<&Value>, at: &At, errors: &mut FieldErrors) {
        if let Some(rules) = &self.items {
            let before = self.list.by_identity(live);
            for (index, item) in items.iter().enumerate() {
                let live = self
                    .list
                    .identity(item)
                    .and_then(|it| before.get(&it.to_string()).copied());
                rules.check(item, live, &at.item(index), errors);
            }
        }
        if let Some(min) = self.min_items.filter(|min| items.len() < *min) {
            errors.push(at.invalid(items.len(), &format!("should have at least {min} items")));
        }
        if let Some(max) = self.max_items.filter(|max| items.len() > *max) {
            errors.push(FieldError::too_many(&at.field(), items.len(), max));
        }
    }

    fn check_values(&self, value: &Value, at: &At, errors: &mut FieldErrors) {
        let Some(values) = &self.values else { return };
        let is_known = match (&self.texts, value) {
            (Some(texts), Value::String(text)) => texts.contains(text),
            _ => values.contains(value),
        };
        if is_known {
            return;
        }
        errors.push_with(|| {
            let texts: Vec<String> = values.iter().map(plain_text).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            FieldError::not_supported(&at.field(), value.clone(), &texts)
        });
    }

    fn check_members(
        &self,
        members: &Map<String, Value>,
        live: Option<&Value>,
        at: &At,
        errors: &mut FieldErrors,
    ) {
        if let Some(min) = self.min_properties.filter(|min| members.len() < *min) {
            errors.push(at.invalid(members.len(), &format!("should have at least {min} properties")));
        }
        if let Some(max) = self.max_properties.filter(|max| members.len() > *max) {
            errors.push(FieldError::too_many(&at.field(), members.len(), max));
        }
        for (name, value) in members {
            let rules = self.properties.get(name).or(self.additional.as_deref());
            if let Some(rules) = rules {
                let live = live.and_then(|live| live.get(name));
                rules.check(value, live, &at.member(name), errors);
            }
        }
        let missing = self.required.iter().filter(|name| !members.contains_key(*name));
        errors.extend(missing.map(|name| FieldError::required(&at.member(name).field(), "")));
        if self.is_resource {
            check_embedded(members, at, errors);
        }
    }

    /// Refuses duplicate items of a set or map list.
    fn check_identities(&self, value: &Value, live: Option<&Value>, at: &At, errors: &mut FieldErrors) {
        if live == Some(value) {
            return;
        }
        match value {
            Value::Array(items) => {
                let (before, mut seen) = (self.list.by_identity(live), HashSet::new());
                for (index, item) in items.iter().enumerate() {
                    let identity = self.list.identity(item);
                    let text = identity.as_ref().map(Value::to_string);
                    if let Some(rules) = &self.items {
                        let live = text.as_ref().and_then(|text| before.get(text).copied());
                        rules.check_identities(item, live, &at.item(index), errors);
                    }
                    if let (Some(identity), Some(text)) = (identity, text)
                        && !seen.insert(text)
                    {
                        errors.push(FieldError::duplicate(&at.item(index).field(), identity));
                    }
                }
            }
            Value::Object(members) => {
                for (name, value) in members {
                    if let Some(rules) = self.properties.get(name).or(self.additional.as_deref()) {
                        let live = live.and_then(|live| live.get(name));
                        rules.check_identities(value, live, &at.member(name), errors);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Checks the API version, kind and metadata of an embedded object.
fn check_embedded(members: &Map<String, Value>, at: &At, errors: &mut FieldErrors) {
    let stated = |name: &str| members.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (stated("apiVersion"), stated("kind"));
    for name in ["apiVersion", "kind"]
        .into_iter()
        .filter(|name| stated(name).is_empty())
    {
        errors.push(FieldError::required(&at.member(name).field(), ""));
    }
    if api_version.matches('/').count() > 1 {
        let why = format!("unexpected GroupVersion string: {api_version}");
        errors.push(FieldError::invalid(
            &at.member("apiVersion").field(),
            api_version,
            why,
        ));
    }
    let reasons = dns1035_label(&kind.to_lowercase());
    if !kind.is_empty() && !reasons.is_empty() {
        let why = format!(
            "may have mixed case, but should otherwise match: {}",
            reasons.join(",")
        );
        errors.push(FieldError::invalid(&at.member("kind").field(), kind, why));
    }
    let Some(metadata @ Value::Object(_)) = members.get("metadata") else {
        return;
    };
    let mut metadata = metadata.clone();
    if metadata["name"].as_str().unwrap_or_default().is_empty() {
        // The name is optional here; a valid one stands in for it.
        metadata["name"] = Value::from("x");
    }
    let has_namespace = !metadata["namespace"].as_str().unwrap_or_default().is_empty();
    let rules = ObjectMetaRules {
        scope: if has_namespace {
            Scope::Namespaced
        } else {
            Scope::Cluster
        },
        name: NameRule::PathSegment,
        finalizers: FinalizerRule::AnyQualifiedName,
    };
    errors.append(object_meta(&metadata, &rules, &at.member("metadata").field()));
}

impl List {
    /// The identity of an item.
    fn identity(&self, item: &Value) -> Option<Value> {
        match self {
            Self::Plain => None,
            Self::Set => Some(item.clone()),
            Self::Map(keys) => {
                let field = |key: &String| Some((key.clone(), item.get(key)?.clone()));
                Some(Value::Object(keys.iter().filter_map(field).collect()))
            }
        }
    }

    /// The items of a list by their identities, as JSON.
    fn by_identity<'v>(&self, list: Option<&'v Value>) -> HashMap<String, &'v Value> {
        let items = list.and_then(Value::as_array).into_iter().flatten();
        let identified = items.filter_map(|item| Some((self.identity(item)?.to_string(), item)));
        identified.collect()
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

fn kind(name: &str) -> Option<Kind> {
    Some(match name {
        "object" => Kind::Object,
        "array" => Kind::Array,
        "string" => Kind::String,
        "integer" => Kind::Integer,
        "number" => Kind::Number,
        "boolean" => Kind::Boolean,
        _ => return None,
    })
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() && number.as_f64().is_some_and(|it| it.fract() != 0.0) => {
            "number"
        }
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A text without quotes, anything else as JSON.
fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    list.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(schema: Value, object: Value, live: Option<Value>, expected: &[&str]) {
        let errors = Rules::compile(&schema).errors(&object, live.as_ref());
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors, expected, "{object}");
    }

    #[test]
    fn errors_have_the_texts_of_kubernetes() {
        let of = |schema: Value| json!({"properties": {"a": schema}});
        let a = |value: Value| json!({"a": value});
        check(
            of(json!({"type": "integer", "maximum": 3})),
            a(json!(1.5)),
            None,
            &[
                r#"a: Invalid value: "number": a in body must be of type integer: "number""#,
                r#"<nil>: Invalid value: "": Checked value must be of type integer (default format) in a"#,
            ],
        );
        check(
            of(json!({"items": {"type": "string", "maxLength": 1}})),
            a(json!(["a", "bc", 1])),
            None,
            &[
                "a[1]: Too long: may not be more than 1 byte",
                r#"a[2]: Invalid value: "integer": a[2] in body must be of type string: "integer""#,
            ],
        );
        check(
            of(json!({"type": "string", "enum": ["x", 3]})),
            a(json!("y")),
            None,
            &[r#"a: Unsupported value: "y": supported values: "x", "3""#],
        );
        check(
            of(json!({"type": "string", "nullable": true})),
            a(Value::Null),
            None,
            &[],
        );
    }

    #[test]
    fn unchanged_values_are_not_validated_again() {
        let schema = json!({"properties": {
            "old": {"type": "string"},
            "list": {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"properties": {"v": {"maximum": 1}}}},
        }});
        let live = json!({"old": 5, "list": [{"k": 1, "v": 9}, {"k": 2, "v": 1}]});
        let new = json!({"old": 5, "list": [{"k": 2, "v": 7}, {"k": 1, "v": 9}]});
        check(
            schema,
            new,
            Some(live),
            &["list[0].v: Invalid value: 7: list[0].v in body should be less than or equal to 1"],
        );
    }

    #[test]
    fn errors_of_a_part_omit_it_from_the_path() {
        let rules =
            Rules::compile(&json!({"properties": {"status": {"properties": {"phase": {"type": "string"}}}}}));
        let errors = rules.errors_of_part("status", &json!({"status": {"phase": 1}}), None);
        assert_eq!(
            errors[0].to_string(),
            r#"status.phase: Invalid value: "integer": phase in body must be of type string: "integer""#
        );
    }
}
