//! Type checking of a ValidatingAdmissionPolicy: its validations are compiled again, for each kind it names, with the
//! kind's schema as the type of `object`. The result is a warning in the policy's status and changes nothing else.
//!
//! Schemas are those of the server's OpenAPI documents. A schema without a type (quantities, ports, arbitrary JSON) is
//! not checked.

use serde_json::{Map, Value, json};
use watchkeeper_cel::Declared;
use watchkeeper_meta::GroupVersionKind;

use crate::custom::expressions::declared;
use crate::expressions::Environments;

/// The prefix of references between named schemas.
const REFERENCE: &str = "#/components/schemas/";

/// A kind with the type of its objects.
#[derive(Clone, Debug)]
pub struct TypedKind {
    kind: GroupVersionKind,
    declared: Declared,
}

/// A warning about one expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionWarning {
    /// The field that has the expression: `spec.validations[0].expression`.
    pub field_ref: String,
    /// The compile errors for each kind.
    pub warning: String,
}

impl TypedKind {
    /// Reads the type of a kind from an OpenAPI document of its group and version. `None` if the document does not
    /// describe it.
    pub fn read(kind: GroupVersionKind, document: &Value) -> Option<Self> {
        let schemas = document["components"]["schemas"].as_object()?;
        let is_it = |own: &Value| {
            own["group"] == *kind.group && own["version"] == *kind.version && own["kind"] == *kind.kind
        };
        let (name, schema) = schemas.iter().find(|(_, schema)| {
            let kinds = schema["x-kubernetes-group-version-kind"].as_array();
            kinds.is_some_and(|kinds| kinds.iter().any(is_it))
        })?;
        let whole = resolved(schemas, schema, &mut vec![name]);
        let declared = declared(&whole, &kind.kind)?;
        Some(Self { kind, declared })
    }
}

/// Checks the validations of a policy's spec and their messages against each kind, with the type of its parameters if
/// that is known.
pub fn check_types(
    spec: &Value,
    kinds: &[TypedKind],
    parameters: Option<&TypedKind>,
) -> Vec<ExpressionWarning> {
    let environments: Vec<_> = kinds.iter().map(|kind| typed(spec, kind, parameters)).collect();
    let mut warnings = Vec::new();
    let validations = spec["validations"].as_array().into_iter().flatten();
    for (index, validation) in validations.enumerate() {
        for field in ["expression", "messageExpression"] {
            let source = validation[field].as_str().unwrap_or_default();
            let warning = warning(source, kinds, &environments);
            warnings.extend(warning.map(|warning| ExpressionWarning {
                field_ref: format!("spec.validations[{index}].{field}"),
                warning,
            }));
        }
    }
    warnings
}

/// The environment of the validations, after all variables.
fn typed(spec: &Value, kind: &TypedKind, parameters: Option<&TypedKind>) -> Environments {
    let parameters = parameters.map(|parameters| parameters.declared.clone());
    let mut environments = Environments::of(spec).with_types(kind.declared.clone(), parameters);
    for variable in spec["variables"].as_array().into_iter().flatten() {
        let text = |field: &str| variable[field].as_str().unwrap_or_default();
        let compiled = environments.compile(text("expression"), &[]);
        environments.add(text("name"), &compiled);
    }
    environments
}

/// The errors of an expression, a paragraph per kind.
fn warning(source: &str, kinds: &[TypedKind], environments: &[Environments]) -> Option<String> {
    if source.is_empty() {
        return None;
    }
    let checked = kinds.iter().zip(environments);
    let found = checked.filter_map(|(kind, environments)| {
        let issues = environments.issues(source)?;
        Some(format!("{}: {issues}\n", kind.kind))
    });
    let found: Vec<String> = found.collect();
    (!found.is_empty()).then(|| found.join("\n"))
}

/// The schema with every reference replaced by what it names; `above` has the names around it. A recursive one becomes
/// an object without fields, and one without a type a value of any type.
fn resolved<'s>(schemas: &'s Map<String, Value>, schema: &'s Value, above: &mut Vec<&'s str>) -> Value {
    let wrapped = schema["allOf"].as_array().and_then(|all| all.first());
    let reference = wrapped.unwrap_or(schema)["$ref"].as_str();
    let Some(name) = reference.and_then(|text| text.strip_prefix(REFERENCE)) else {
        return with_parts(schemas, schema, above);
    };
    if above.contains(&name) {
        return json!({"type": "object"});
    }
    let Some(named) = schemas.get(name) else {
        return any();
    };
    above.push(name);
    let whole = with_parts(schemas, named, above);
    above.pop();
    whole
}

fn with_parts<'s>(schemas: &'s Map<String, Value>, schema: &'s Value, above: &mut Vec<&'s str>) -> Value {
    if !schema["type"].is_string() {
        return any();
    }
    let mut whole = schema.clone();
    for part in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(part).filter(|inner| inner.is_object()) {
            whole[part] = resolved(schemas, inner, above);
        }
    }
    for (field, inner) in schema["properties"].as_object().into_iter().flatten() {
        whole["properties"][field] = resolved(schemas, inner, above);
    }
    whole
}

fn any() -> Value {
    json!({"x-kubernetes-int-or-string": true})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ships() -> TypedKind {
        let document = json!({"components": {"schemas": {
            "io.acme.v1.Ship": {
                "type": "object",
                "x-kubernetes-group-version-kind": [{"group": "acme.io", "version": "v1", "kind": "Ship"}],
                "properties": {
                    "crew": {"type": "integer"},
                    "home": {"allOf": [{"$ref": "#/components/schemas/io.acme.v1.Port"}]},
                    "cargo": {"$ref": "#/components/schemas/io.acme.v1.Cargo"},
                    "escort": {"$ref": "#/components/schemas/io.acme.v1.Ship"},
                },
            },
            "io.acme.v1.Port": {"type": "object", "properties": {"name": {"type": "string"}}},
            "io.acme.v1.Cargo": {"oneOf": [{"type": "string"}, {"type": "number"}]},
        }}});
        TypedKind::read(GroupVersionKind::new("acme.io", "v1", "Ship"), &document).unwrap()
    }

    fn check(spec: Value) -> Vec<(String, String)> {
        let warnings = check_types(&spec, &[ships()], None).into_iter();
        warnings.map(|it| (it.field_ref, it.warning)).collect()
    }

    #[test]
    fn correct_expressions_have_no_warning() {
        let warnings = check(json!({
            "variables": [{"name": "home", "expression": "object.home.name"}],
            "validations": [
                {"expression": "object.crew > 1 && variables.home == 'Kiel'", "messageExpression": "variables.home"},
                {"expression": "object.cargo == 5 && oldObject.home.name == object.home.name"},
            ],
        }));
        assert_eq!(warnings, []);
    }

    #[test]
    fn an_undefined_field_is_shown_in_its_expression() {
        let warnings =
            check(json!({"validations": [{"expression": "true"}, {"expression": "object.masts > 1"}]}));
        let expected = "acme.io/v1, Kind=Ship: ERROR: <input>:1:7: undefined field 'masts'\n \
                        | object.masts > 1\n | ......^\n";
        let field = "spec.validations[1].expression".to_owned();
        assert_eq!(warnings, [(field, expected.to_owned())]);
    }

    #[test]
    fn variables_have_the_types_of_their_fields() {
        let warnings = check(json!({
            "variables": [{"name": "crew", "expression": "object.crew"}],
            "validations": [{"expression": "true", "messageExpression": "'crew: ' + variables.crew"}],
        }));
        let [(field, warning)] = &warnings[..] else {
            panic!("{warnings:?}");
        };
        assert_eq!(field, "spec.validations[0].messageExpression");
        assert!(
            warning.contains("found no matching overload for '_+_' applied to '(string, int)'"),
            "{warning}"
        );
    }

    #[test]
    fn a_recursive_type_is_cut() {
        assert_eq!(
            check(json!({"validations": [{"expression": "has(object.escort)"}]})),
            []
        );
        let warnings = check(json!({"validations": [{"expression": "object.escort.crew > 0"}]}));
        assert!(warnings[0].1.contains("undefined field 'crew'"), "{warnings:?}");
    }
}
