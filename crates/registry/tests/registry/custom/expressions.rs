//! CEL validation rules: which ones a definition may have, and the errors they find.

use serde_json::{Value, json};
use watchkeeper_registry::{Part, PatchKind};

use super::cluster::{Cluster, context, definition, widget};

const CHEAPER: &str = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, \
                       and strings are declared)";

/// The errors of a definition of widgets with this spec; empty if it is accepted.
async fn errors_of(spec: Value) -> Vec<(String, String)> {
    let cluster = Cluster::start().await;
    match cluster.define(definition(spec)).await {
        Ok(_) => Vec::new(),
        Err(status) => causes(&status),
    }
}

fn causes(status: &watchkeeper_meta::Status) -> Vec<(String, String)> {
    let details = status.details.as_ref().expect("details");
    let causes = details.causes.iter();
    let within = "spec.validation.openAPIV3Schema.properties[spec]";
    let shorter = |field: &str| field.strip_prefix(within).unwrap_or(field).to_owned();
    causes
        .map(|cause| (shorter(&cause.field), cause.message.clone()))
        .collect()
}

async fn check_definition(spec: Value, expected: &[(&str, &str)]) {
    let found = errors_of(spec.clone()).await;
    let found: Vec<(&str, &str)> = found
        .iter()
        .map(|(field, message)| (&**field, &**message))
        .collect();
    assert_eq!(found, expected, "{spec}");
}

fn rule(text: &str) -> Value {
    json!({"type": "object", "properties": {
        "name": {"type": "string", "maxLength": 10},
        "names": {"type": "array", "items": {"type": "string"}},
    }, "x-kubernetes-validations": [{"rule": text}]})
}

#[tokio::test]
async fn a_definition_with_an_invalid_rule_is_rejected() {
    let at = ".x-kubernetes-validations[0].rule";
    let shown = |rule: &str| {
        format!(
            "Invalid value: {{\"Rule\":\"{rule}\",\"Message\":\"\",\"MessageExpression\":\"\",\"Reason\":null,\
             \"FieldPath\":\"\",\"OptionalOldSelf\":null}}: "
        )
    };
    for (text, why) in [
        (
            "self.z == 1",
            "compilation failed: ERROR: <input>:1:5: undefined field 'z'\n | self.z == 1\n | ....^",
        ),
        (
            "self.name.z",
            "compilation failed: ERROR: <input>:1:10: type 'string' does not support field selection\n | \
             self.name.z\n | .........^",
        ),
        ("self.name", "cel expression must evaluate to a bool"),
        (
            "self.metadata.name == ''",
            "compilation failed: ERROR: <input>:1:5: undefined field 'metadata'\n | self.metadata.name == ''\n | \
             ....^",
        ),
        (
            "self.name ==",
            "compilation failed: ERROR: <input>:1:13: Syntax error: mismatched input '<EOF>' expecting {'[', '{', \
             '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n \
             | self.name ==\n | ............^",
        ),
    ] {
        check_definition(rule(text), &[(at, &(shown(text) + why))]).await;
    }
    check_definition(
        rule("self.names.all(a, self.names.all(b, a == b))"),
        &[
            (
                at,
                &format!("Forbidden: estimated rule cost exceeds budget by factor of more than 100x {CHEAPER}"),
            ),
            (
                at,
                "Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema",
            ),
            (
                "spec.validation.openAPIV3Schema",
                &format!(
                    "Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema \
                     exceeds budget by factor of more than 100x {CHEAPER}"
                ),
            ),
        ],
    )
    .await;
    check_definition(rule("self.name == 'a' && has(self.names)"), &[]).await;
}

#[tokio::test]
async fn the_other_fields_of_a_rule_are_validated() {
    let with = |extra: Value| {
        let mut spec = rule("self.name == 'a'");
        let rule = &mut spec["x-kubernetes-validations"][0];
        for (name, value) in extra.as_object().expect("members") {
            rule[name] = value.clone();
        }
        spec
    };
    let at = ".x-kubernetes-validations[0]";
    for (extra, field, message) in [
        (
            json!({"rule": " "}),
            "rule",
            "Required value: rule is not specified",
        ),
        (
            json!({"message": " "}),
            "message",
            "Invalid value: \" \": must be non-empty if specified",
        ),
        (
            json!({"message": "a\nb"}),
            "message",
            "Invalid value: \"a\\nb\": must not contain line breaks",
        ),
        (
            json!({"message": "0123456789".repeat(205)}),
            "message",
            "Invalid value: \"0123456789...\": must have a maximum length of 2048 characters",
        ),
        (
            json!({"rule": "self.name\n== 'a'"}),
            "message",
            "Required value: message must be specified if rule contains line breaks",
        ),
        (
            json!({"reason": "Because"}),
            "reason",
            "Unsupported value: \"Because\": supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", \
             \"FieldValueInvalid\", \"FieldValueRequired\"",
        ),
        (
            json!({"fieldPath": ".nobody"}),
            "fieldPath",
            "Invalid value: \".nobody\": must be a valid path",
        ),
        (
            json!({"optionalOldSelf": true}),
            "optionalOldSelf",
            "Invalid value: true: may not be set if oldSelf is not used in rule",
        ),
    ] {
        check_definition(with(extra), &[(&format!("{at}.{field}"), message)]).await;
    }
    let found = errors_of(with(json!({"messageExpression": "self.count"}))).await;
    assert_eq!(found[0].0, format!("{at}.messageExpression"));
    assert!(
        found[0]
            .1
            .contains("messageExpression compilation failed: ERROR: <input>:1:5: undefined field 'count'")
    );
    let found = errors_of(with(json!({"messageExpression": "1"}))).await;
    assert!(
        found[0]
            .1
            .ends_with("messageExpression must evaluate to a string")
    );
}

#[tokio::test]
async fn transition_rules_need_a_correlatable_path() {
    let items = |list_type: Value| {
        json!({"type": "object", "properties": {"list": {
            "type": "array", "maxItems": 5, "x-kubernetes-list-type": list_type,
            "x-kubernetes-list-map-keys": if list_type == "map" { json!(["k"]) } else { Value::Null },
            "items": {"type": "object", "required": ["k"],
                "properties": {"k": {"type": "string", "maxLength": 5}, "v": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": "self.v == oldSelf.v"}]},
        }}})
    };
    check_definition(items(json!("map")), &[]).await;
    let within = "spec.validation.openAPIV3Schema.properties[spec].properties[list]";
    check_definition(
        items(json!("atomic")),
        &[(
            ".properties[list].items.x-kubernetes-validations[0].rule",
            &format!(
                "Invalid value: \"self.v == oldSelf.v\": oldSelf cannot be used on the uncorrelatable portion of the \
                 schema within {within}"
            ),
        )],
    )
    .await;
}

#[tokio::test]
async fn defaults_must_satisfy_the_rules() {
    let spec = |default: i64| {
        json!({"type": "object", "properties": {"n": {"type": "integer", "default": default,
            "x-kubernetes-validations": [{"rule": "self > 1"}]}}})
    };
    check_definition(spec(2), &[]).await;
    check_definition(
        spec(1),
        &[(
            ".properties[n].default",
            "Invalid value: 1: failed rule: self > 1",
        )],
    )
    .await;
}

#[tokio::test]
async fn rules_are_forbidden_inside_composition() {
    let spec = json!({"type": "object", "properties": {"a": {"type": "string"}},
        "anyOf": [{"properties": {"a": {"x-kubernetes-validations": [{"rule": "true"}]}}}]});
    check_definition(
        spec,
        &[(
            ".anyOf[0].properties[a].x-kubernetes-validations",
            "Forbidden: must be empty to be structural",
        )],
    )
    .await;
}

/// The errors of creating a widget with this spec.
async fn create_errors(schema: &Value, spec: Value) -> Vec<(String, String)> {
    let cluster = Cluster::with_widgets(schema.clone()).await;
    match cluster.create(widget("a", spec)).await {
        Ok(_) => Vec::new(),
        Err(status) => causes(&status),
    }
}

async fn check_create(schema: &Value, spec: Value, expected: &[(&str, &str)]) {
    let found = create_errors(schema, spec.clone()).await;
    let found: Vec<(&str, &str)> = found
        .iter()
        .map(|(field, message)| (&**field, &**message))
        .collect();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn rules_of_every_type_are_enforced() {
    let schema = json!({"type": "object", "properties": {
        "at": {"type": "string", "format": "date-time", "x-kubernetes-validations": [
            {"rule": "self > timestamp('2020-01-01T00:00:00Z')"}]},
        "wait": {"type": "string", "format": "duration", "x-kubernetes-validations": [
            {"rule": "self < duration('1h')", "message": "too long"}]},
        "data": {"type": "string", "format": "byte", "maxLength": 20, "x-kubernetes-validations": [
            {"rule": "self == b'hi'"}]},
        "port": {"x-kubernetes-int-or-string": true, "maxLength": 10, "x-kubernetes-validations": [
            {"rule": "type(self) == int ? self > 0 : self.endsWith('%')"}]},
        "ratio": {"type": "number", "x-kubernetes-validations": [{"rule": "self < 1.0"}]},
        "labels": {"type": "object", "maxProperties": 5,
            "additionalProperties": {"type": "string", "maxLength": 9, "x-kubernetes-validations": [
                {"rule": "self.startsWith('v')", "reason": "FieldValueForbidden", "message": "no"}]},
            "x-kubernetes-validations": [{"rule": "self.all(key, key.size() < 3)"}]},
        "tags": {"type": "array", "maxItems": 5, "x-kubernetes-list-type": "set",
            "items": {"type": "string", "maxLength": 5},
            "x-kubernetes-validations": [{"rule": "self == ['a', 'b'] || self.size() > 2"}]},
        "a-b.c": {"type": "integer"},
        "empty": {"type": "string", "nullable": true, "maxLength": 5,
            "x-kubernetes-validations": [{"rule": "self != ''"}]},
        "pod": {"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true,
            "x-kubernetes-validations": [{"rule": "self.metadata.name != 'bad' && self.kind == 'Pod'"}]},
    }, "x-kubernetes-validations": [{"rule": "!has(self.a__dash__b__dot__c) || self.a__dash__b__dot__c > 1"}],
       "allOf": [{"properties": {"ratio": {"x-kubernetes-validations": [{"rule": "self > 0.0"}]}}}]});
    let check = async |spec, expected: &[(&str, &str)]| check_create(&schema, spec, expected).await;
    check(
        json!({"at": "2024-01-01T00:00:00Z", "wait": "5m", "data": "aGk=", "port": "5%", "ratio": 0.5,
        "labels": {"a": "v1"}, "tags": ["b", "a"], "a-b.c": 2, "empty": null,
        "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}}),
        &[],
    )
    .await;
    check(json!({"at": "2019-01-01T00:00:00Z", "wait": "2h", "data": "aG8=", "port": "5", "ratio": 1}), &[
        ("spec.at", "Invalid value: \"2019-01-01T00:00:00Z\": failed rule: self > timestamp('2020-01-01T00:00:00Z')"),
        ("spec.data", "Invalid value: \"aG8=\": failed rule: self == b'hi'"),
        ("spec.port", "Invalid value: \"5\": failed rule: type(self) == int ? self > 0 : self.endsWith('%')"),
        ("spec.ratio", "Invalid value: 1: failed rule: self < 1.0"),
        ("spec.wait", "Invalid value: \"2h\": too long"),
    ])
    .await;
    check(
        json!({"port": 0, "a-b.c": 1, "labels": {"long": "x"}, "tags": ["x"], "empty": "", "ratio": -1}),
        &[
            (
                "spec",
                "Invalid value: failed rule: !has(self.a__dash__b__dot__c) || self.a__dash__b__dot__c > 1",
            ),
            ("spec.ratio", "Invalid value: -1: failed rule: self > 0.0"),
            ("spec.empty", "Invalid value: \"\": failed rule: self != ''"),
            (
                "spec.labels",
                "Invalid value: failed rule: self.all(key, key.size() < 3)",
            ),
            ("spec.labels[long]", "Forbidden: no"),
            (
                "spec.port",
                "Invalid value: 0: failed rule: type(self) == int ? self > 0 : self.endsWith('%')",
            ),
            (
                "spec.tags",
                "Invalid value: failed rule: self == ['a', 'b'] || self.size() > 2",
            ),
        ],
    )
    .await;
    check(
        json!({"pod": {"apiVersion": "v1", "kind": "Job", "metadata": {"name": "p"}}}),
        &[(
            "spec.pod",
            "Invalid value: failed rule: self.metadata.name != 'bad' && self.kind == 'Pod'",
        )],
    )
    .await;
}

#[tokio::test]
async fn an_evaluation_error_is_a_validation_error() {
    let schema = |rule: &str| {
        json!({"type": "object", "properties": {
            "a": {"x-kubernetes-int-or-string": true}, "n": {"type": "integer"},
            "list": {"type": "array", "items": {"type": "integer"}}},
            "x-kubernetes-validations": [{"rule": rule}]})
    };
    for (rule, spec, message) in [
        (
            "self.n == 1",
            json!({}),
            "Invalid value: \"object\": no such key: n evaluating rule: self.n == 1",
        ),
        (
            "1 / self.n == 1",
            json!({"n": 0}),
            "Invalid value: \"object\": division by zero evaluating rule: 1 / self.n == 1",
        ),
        (
            "self.list[1] == 1",
            json!({"list": []}),
            "Invalid value: \"object\": index out of bounds: 1 evaluating rule: self.list[1] == 1",
        ),
        (
            "self.a + 1 == 2",
            json!({"a": "x"}),
            "Invalid value: \"object\": 'no such overload': call arguments did not match a supported operator, function or macro \
             signature for rule: self.a + 1 == 2",
        ),
    ] {
        check_create(&schema(rule), spec, &[("spec", message)]).await;
    }
}

#[tokio::test]
async fn the_cost_budget_ends_validation() {
    // Below the estimate, because the list is declared short; expensive, because of the pattern.
    let schema = |rules: Value| {
        json!({"type": "object", "properties": {"text": {"type": "string", "maxLength": 20000}},
            "x-kubernetes-validations": rules})
    };
    let dear = format!("self.text.matches('{}$')", "(a|b)".repeat(100));
    let many: Vec<Value> = (0..45).map(|_| json!({"rule": dear})).collect();
    let text = json!({"text": "a".repeat(19000)});
    check_create(&schema(json!(many)), text, &[(
        "spec",
        "Invalid value: \"object\": validation failed due to running out of cost budget, no further validation rules will be run",
    )])
    .await;
    let nested = "[1,2,3,4,5,6,7,8,9,10]";
    let endless = (0..6).fold("true".to_owned(), |inner, level| {
        format!("{nested}.all(x{level}, {inner})")
    });
    let found = create_errors(&schema(json!([{"rule": endless, "message": "never"}])), json!({})).await;
    assert_eq!(
        found,
        [(
            "spec".to_owned(),
            "Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run \
             due to call cost exceeds limit for rule: never"
                .to_owned()
        )]
    );
}

#[tokio::test]
async fn transition_rules_correlate_by_names_and_keys() {
    let cluster = Cluster::with_widgets(json!({"type": "object", "properties": {
        "fixed": {"type": "string", "maxLength": 9,
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed is immutable"}]},
        "count": {"type": "integer", "x-kubernetes-validations": [
            {"rule": "oldSelf.optMap(old, self >= old).orValue(self == 1)", "optionalOldSelf": true,
             "messageExpression": "'must grow, not become ' + string(self)"}]},
        "list": {"type": "array", "maxItems": 5, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"],
                "properties": {"k": {"type": "string", "maxLength": 5}, "v": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v"}]}},
    }, "x-kubernetes-validations": [{"rule": "!has(oldSelf.fixed) || has(self.fixed)", "message": "fixed must stay"}]}))
    .await;
    let status = cluster
        .create(widget("w", json!({"count": 2})))
        .await
        .unwrap_err();
    assert_eq!(
        causes(&status),
        [(
            "spec.count".to_owned(),
            "Invalid value: 2: must grow, not become 2".to_owned()
        )]
    );
    let items = json!([{"k": "a", "v": 1}, {"k": "b", "v": 5}]);
    cluster
        .create(widget("w", json!({"fixed": "x", "count": 1, "list": items})))
        .await
        .unwrap();
    let widgets = cluster.widgets();
    let check = async |spec: Value, expected: &[(&str, &str)]| {
        let patched = cluster
            .patch(&widgets, "default", "w", json!({"spec": spec}))
            .await;
        let found = patched.err().map(|status| causes(&status)).unwrap_or_default();
        let found: Vec<(&str, &str)> = found
            .iter()
            .map(|(field, message)| (&**field, &**message))
            .collect();
        assert_eq!(found, expected, "{spec}");
    };
    check(
        json!({"fixed": "y"}),
        &[("spec.fixed", "Invalid value: \"y\": fixed is immutable")],
    )
    .await;
    check(
        json!({"fixed": null}),
        &[("spec", "Invalid value: fixed must stay")],
    )
    .await;
    check(
        json!({"count": 0}),
        &[("spec.count", "Invalid value: 0: must grow, not become 0")],
    )
    .await;
    check(json!({"count": 3}), &[]).await;
    // Items are correlated by their keys, in any order; a new one has no old value.
    check(
        json!({"list": [{"k": "b", "v": 4}, {"k": "a", "v": 1}, {"k": "c", "v": 0}]}),
        &[("spec.list[0]", "Invalid value: failed rule: self.v >= oldSelf.v")],
    )
    .await;
    check(
        json!({"list": [{"k": "b", "v": 5}, {"k": "c", "v": 0}, {"k": "a", "v": 2}]}),
        &[],
    )
    .await;
}

#[tokio::test]
async fn violations_in_unchanged_parts_are_only_warnings() {
    let fields = |rules: Value| {
        json!({"type": "object", "properties": {
            "old": {"type": "string", "maxLength": 9, "x-kubernetes-validations": rules},
            "other": {"type": "integer"},
            "words": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 9,
                "x-kubernetes-validations": rules}},
        }})
    };
    let cluster = Cluster::with_widgets(fields(Value::Null)).await;
    cluster
        .create(widget("w", json!({"old": "bad", "words": ["bad"]})))
        .await
        .unwrap();
    cluster.redefine(fields(json!([{"rule": "self != 'bad'"}]))).await;
    let (widgets, context) = (cluster.widgets(), context());
    let patch = async |patch: Value| {
        let patch = patch.to_string();
        let patched = cluster.registry.patch(
            &widgets,
            "default",
            "w",
            Part::Object,
            (PatchKind::Merge, patch.as_bytes()),
            &context,
        );
        patched.await.map(drop).map_err(|status| causes(&status))
    };
    patch(json!({"spec": {"other": 1}})).await.unwrap();
    assert_eq!(
        context.warnings.take(),
        [
            "spec.old: Invalid value: \"bad\": failed rule: self != 'bad'",
            "spec.words[0]: Invalid value: \"bad\": failed rule: self != 'bad'",
        ]
    );
    // Items of such a list cannot be correlated: if it changes, all are validated.
    let errors = patch(json!({"spec": {"words": ["bad", "good"]}}))
        .await
        .unwrap_err();
    assert_eq!(errors[0].0, "spec.words[0]");
    assert_eq!(errors.len(), 1);
}

#[tokio::test]
async fn a_status_write_is_validated_by_all_rules() {
    let mut defined = definition(json!({"type": "object", "properties": {"max": {"type": "integer"}}}));
    let version = &mut defined["spec"]["versions"][0];
    version["subresources"] = json!({"status": {}});
    let schema = &mut version["schema"]["openAPIV3Schema"];
    schema["properties"]["status"] = json!({"type": "object", "properties": {"used": {"type": "integer"}}});
    schema["x-kubernetes-validations"] = json!([{"rule": "!has(self.status) || self.status.used <= self.spec.max", "message": "too much is used"}]);
    let cluster = Cluster::start().await;
    cluster.define(defined).await.unwrap();
    cluster.create(widget("w", json!({"max": 5}))).await.unwrap();
    let (widgets, context) = (cluster.widgets(), context());
    let used = async |used: i64| {
        let patch = json!({"status": {"used": used}}).to_string();
        let patched = cluster.registry.patch(
            &widgets,
            "default",
            "w",
            Part::Status,
            (PatchKind::Merge, patch.as_bytes()),
            &context,
        );
        patched.await.map(drop).map_err(|status| causes(&status))
    };
    assert_eq!(used(5).await, Ok(()));
    let wanted = ("<nil>".to_owned(), "Invalid value: too much is used".to_owned());
    assert_eq!(used(6).await, Err(vec![wanted]));
}

/// Rules over unbounded values are accepted if Kubernetes accepts them.
#[tokio::test]
async fn rules_that_kubernetes_finds_cheap_enough_are_accepted() {
    let unlimited = json!({"type": "object", "properties": {
        "labels": {"type": "object", "maxProperties": 100, "additionalProperties": {"type": "string", "maxLength": 63},
            "x-kubernetes-validations": [
                {"rule": "self.all(x, x in ['example.com/a'] || !x.find('^([^/]+)').endsWith('example.com'))"},
                {"rule": "!('example.com/b' in self)"}]},
        "numbers": {"type": "array", "items": {"type": "integer"},
            "x-kubernetes-validations": [{"rule": "self.all(x, x == 1 || x == 2)"}]},
        "limits": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true},
            "x-kubernetes-validations": [{"rule": "self.all(k, isQuantity(dyn(self[k])) || type(self[k]) == int)"}]},
        "requirements": {"type": "array", "maxItems": 100, "items": {"type": "object", "required": ["operator"],
            "properties": {"operator": {"type": "string", "enum": ["In", "Gt"]},
                "values": {"type": "array", "items": {"type": "string"}}}},
            "x-kubernetes-validations": [
                {"rule": "self.all(x, x.operator == 'In' ? x.values.size() != 0 : true)"},
                {"rule": "self.all(x, x.operator == 'Gt' ? (x.values.size() == 1 && int(x.values[0]) >= 0) : true)"}]},
    }});
    check_definition(unlimited, &[]).await;
}

/// Rules as in Gateway API routes.
#[tokio::test]
async fn the_rules_of_a_route_are_enforced() {
    let path = json!({"type": "object", "properties": {
        "type": {"type": "string", "enum": ["Exact", "PathPrefix"], "default": "PathPrefix"},
        "value": {"type": "string", "maxLength": 1024, "default": "/"},
    }, "x-kubernetes-validations": [
        {"message": "value must be an absolute path and start with '/'",
         "rule": "(self.type in ['Exact', 'PathPrefix']) ? self.value.startsWith('/') : true"},
        {"message": "must not contain '//'",
         "rule": "(self.type in ['Exact', 'PathPrefix']) ? !self.value.contains('//') : true"},
        {"message": "must only contain valid characters", "rule": "self.value.matches(r'^[-A-Za-z0-9/._~!$&*+,;=:@%]+$')"},
    ]});
    let filter = json!({"type": "object", "required": ["type"], "properties": {
        "type": {"type": "string", "enum": ["RequestRedirect", "URLRewrite"]},
        "requestRedirect": {"type": "object", "properties": {"port": {"type": "integer"}}},
        "urlRewrite": {"type": "object", "properties": {"hostname": {"type": "string", "maxLength": 253}}},
    }, "x-kubernetes-validations": [
        {"message": "filter.requestRedirect must be specified for RequestRedirect filter.type",
         "rule": "!(!has(self.requestRedirect) && self.type == 'RequestRedirect')"},
        {"message": "filter.requestRedirect must be nil if the filter.type is not RequestRedirect",
         "rule": "!(has(self.requestRedirect) && self.type != 'RequestRedirect')"},
    ]});
    let schema = json!({"type": "object", "properties": {
        "gateway": {"type": "string", "maxLength": 63,
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "gateway is immutable"}]},
        "rules": {"type": "array", "maxItems": 16, "items": {"type": "object", "properties": {
            "name": {"type": "string", "maxLength": 63},
            "matches": {"type": "array", "maxItems": 8, "items": {"type": "object", "properties": {"path": path}}},
            "filters": {"type": "array", "maxItems": 4, "items": filter, "x-kubernetes-validations": [
                {"message": "May specify either requestRedirect or urlRewrite, but not both",
                 "rule": "!(self.exists(f, f.type == 'RequestRedirect') && self.exists(f, f.type == 'URLRewrite'))"}]},
        }}, "x-kubernetes-validations": [
            {"message": "While 16 rules and 64 matches per rule are allowed, the total number of matches across all rules \
                in a route must be less than 128",
             "rule": "(self.size() > 0 && has(self[0].matches) ? self[0].matches.size() : 0) <= 128"},
            {"message": "Rule name must be unique within the route",
             "rule": "self.all(l1, !has(l1.name) || self.exists_one(l2, has(l2.name) && l1.name == l2.name))"},
        ]},
    }});
    let check = async |spec, expected: &[(&str, &str)]| check_create(&schema, spec, expected).await;
    check(
        json!({"gateway": "g", "rules": [
        {"name": "a", "matches": [{"path": {"value": "/a"}}], "filters": [
            {"type": "RequestRedirect", "requestRedirect": {"port": 443}}]},
        {"name": "b", "matches": [{"path": {}}]}, {}]}),
        &[],
    )
    .await;
    check(
        json!({"rules": [
        {"name": "a", "matches": [{"path": {"value": "a//b c"}}],
         "filters": [{"type": "RequestRedirect"}, {"type": "URLRewrite", "requestRedirect": {}}]},
        {"name": "a"}]}),
        &[
            (
                "spec.rules",
                "Invalid value: Rule name must be unique within the route",
            ),
            (
                "spec.rules[0].filters",
                "Invalid value: May specify either requestRedirect or urlRewrite, but not both",
            ),
            (
                "spec.rules[0].filters[0]",
                "Invalid value: filter.requestRedirect must be specified for RequestRedirect filter.type",
            ),
            (
                "spec.rules[0].filters[1]",
                "Invalid value: filter.requestRedirect must be nil if the filter.type is not RequestRedirect",
            ),
            (
                "spec.rules[0].matches[0].path",
                "Invalid value: value must be an absolute path and start with '/'",
            ),
            (
                "spec.rules[0].matches[0].path",
                "Invalid value: must not contain '//'",
            ),
            (
                "spec.rules[0].matches[0].path",
                "Invalid value: must only contain valid characters",
            ),
        ],
    )
    .await;
}
