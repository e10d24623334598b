//! ValidatingAdmissionPolicies: which ones are accepted, and their effects.

use crate::recording::{create, registry, send};
use serde_json::{Value, json};
use watchkeeper_meta::{GroupVersionResource, Status};
use watchkeeper_registry::{Body, Format, Registry, User, WriteContext};
use watchkeeper_storage::{Store, StoreOptions};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const NAMESPACES: &str = "/api/v1/namespaces";

/// A policy about config maps with these parts of a spec.
fn policy(parts: Value) -> Value {
    let rules =
        json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]);
    let mut spec = json!({"matchConstraints": {"resourceRules": rules}});
    for (name, value) in parts.as_object().expect("parts") {
        spec[name] = value.clone();
    }
    json!({"metadata": {"name": "p"}, "spec": spec})
}

fn binding(parts: Value) -> Value {
    let mut spec = json!({"policyName": "p", "validationActions": ["Deny"]});
    for (name, value) in parts.as_object().expect("parts") {
        spec[name] = value.clone();
    }
    json!({"metadata": {"name": "b"}, "spec": spec})
}

/// A registry with an active policy.
async fn with(policy_parts: Value, binding_parts: Value) -> Registry {
    let registry = registry().await;
    create(&registry, POLICIES, policy(policy_parts)).await;
    create(&registry, BINDINGS, binding(binding_parts)).await;
    registry
}

fn config_map(name: &str, data: Value) -> Value {
    json!({"metadata": {"name": name}, "data": data})
}

/// The reason of a rejected write, without the common prefix.
fn why<T>(result: Result<T, Status>) -> Option<String> {
    let status = result.err()?;
    let said = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: ";
    let at = status
        .message
        .find(said)
        .unwrap_or_else(|| panic!("{}", status.message));
    Some(status.message[at + said.len()..].to_owned())
}

#[tokio::test]
async fn a_policy_with_invalid_expressions_is_rejected() {
    let registry = registry().await;
    let check = async |parts: Value, expected: &str| {
        let status = send(&registry, "POST", POLICIES, policy(parts))
            .await
            .unwrap_err();
        let within = "ValidatingAdmissionPolicy.admissionregistration.k8s.io \"p\" is invalid: ";
        assert_eq!(status.message.strip_prefix(within), Some(expected));
    };
    let valid = json!([{"expression": "true"}]);
    check(
        json!({"validations": [{"expression": "request.nme == ''"}]}),
        "spec.validations[0].expression: Invalid value: \"request.nme == ''\": compilation failed: ERROR: \
         <input>:1:8: undefined field 'nme'\n | request.nme == ''\n | .......^",
    )
    .await;
    check(
        json!({"validations": [{"expression": "'a'"}]}),
        "spec.validations[0].expression: Invalid value: \"'a'\": must evaluate to bool but got string",
    )
    .await;
    check(
        json!({"validations": [{"expression": "params.a == 1"}]}),
        "spec.validations[0].expression: Invalid value: \"params.a == 1\": compilation failed: ERROR: <input>:1:1: \
         undeclared reference to 'params' (in container '')\n | params.a == 1\n | ^",
    )
    .await;
    check(
        json!({"validations": [{"expression": "true", "messageExpression": "1", "reason": "Because"}]}),
        "[spec.validations[0].messageExpression: Invalid value: \"1\": must evaluate to string but got int, \
         spec.validations[0].reason: Unsupported value: \"Because\": supported values: \"Forbidden\", \"Invalid\", \
         \"RequestEntityTooLarge\"]",
    )
    .await;
    check(
        json!({"validations": [{"expression": "authorizer.path('/').check('get').allowed()",
            "messageExpression": "authorizer.path('/').check('get').reason()"}]}),
        "spec.validations[0].messageExpression: Invalid value: \"authorizer.path('/').check('get').reason()\": compilation \
         failed: ERROR: <input>:1:1: undeclared reference to 'authorizer' (in container '')\n | \
         authorizer.path('/').check('get').reason()\n | ^",
    )
    .await;
    check(
        json!({"validations": valid, "variables": [{"name": "a", "expression": "variables.b"},
            {"name": "b", "expression": "1"}]}),
        "spec.variables[0].expression: Invalid value: \"variables.b\": compilation failed: ERROR: <input>:1:10: \
         undefined field 'b'\n | variables.b\n | .........^",
    )
    .await;
    check(
        json!({"validations": valid, "matchConditions": [{"name": "m", "expression": ""}]}),
        "spec.matchConditions[0].expression: Required value",
    )
    .await;
}

#[tokio::test]
async fn a_policy_denies_writes_while_it_is_bound() {
    let registry = registry().await;
    let validations = json!([{"expression": "object.data.size() < 2"}]);
    create(&registry, POLICIES, policy(json!({"validations": validations}))).await;
    let large = |name: &str| config_map(name, json!({"a": "1", "b": "2"}));
    create(&registry, CONFIG_MAPS, large("before")).await;

    create(&registry, BINDINGS, binding(json!({}))).await;
    let status = send(&registry, "POST", CONFIG_MAPS, large("c"))
        .await
        .unwrap_err();
    assert_eq!(
        status.message,
        "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed \
         expression: object.data.size() < 2"
    );
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    let details = status.details.expect("details");
    assert!(
        details.causes[0]
            .message
            .starts_with("ValidatingAdmissionPolicy 'p'")
    );
    create(&registry, CONFIG_MAPS, config_map("c", json!({"a": "1"}))).await;

    // It applies to all kinds of updates, too.
    let path = format!("{CONFIG_MAPS}/c");
    let grown = send(&registry, "PATCH", &path, json!({"data": {"b": "2"}})).await;
    assert!(why(grown).is_some());
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let before = format!("{CONFIG_MAPS}/before");
    assert!(why(send(&registry, "PATCH", &before, labels.clone()).await).is_some());
    send(&registry, "PATCH", &path, labels).await.unwrap();

    send(&registry, "DELETE", &format!("{BINDINGS}/b"), Value::Null)
        .await
        .unwrap();
    create(&registry, CONFIG_MAPS, large("d")).await;
}

#[tokio::test]
async fn messages_reasons_and_variables() {
    let registry = with(
        json!({
            "variables": [
                {"name": "count", "expression": "object.data.size()"},
                {"name": "limit", "expression": "variables.count > 5 ? 1 : 2"},
                {"name": "broken", "expression": "object.nobody"},
            ],
            "validations": [
                {"expression": "variables.count < 3 || variables.limit == 1",
                 "messageExpression": "'has ' + string(variables.count) + ' entries'", "reason": "Forbidden"},
                {"expression": "!('x' in object.data) || variables.broken == 1"},
                {"expression": "!('y' in object.data)", "message": "y is not for you"},
            ],
        }),
        json!({}),
    )
    .await;
    let create = async |data: Value| send(&registry, "POST", CONFIG_MAPS, config_map("c", data)).await;
    let status = create(json!({"a": "", "b": "", "c": ""})).await.unwrap_err();
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"));
    assert_eq!(why::<()>(Err(status)).as_deref(), Some("has 3 entries"));
    assert_eq!(
        why(create(json!({"y": ""})).await).as_deref(),
        Some("y is not for you")
    );
    assert_eq!(
        why(create(json!({"x": ""})).await).as_deref(),
        Some(
            "expression '!('x' in object.data) || variables.broken == 1' resulted in error: composited variable \
             \"broken\" fails to evaluate: no such key: nobody"
        )
    );
    assert_eq!(why(create(json!({"a": ""})).await), None);
}

#[tokio::test]
async fn an_evaluation_error_follows_the_failure_policy() {
    let validations = json!([{"expression": "object.data.a == '1'"}]);
    let fails = with(json!({"validations": validations}), json!({})).await;
    let empty = config_map("c", json!({}));
    assert_eq!(
        why(send(&fails, "POST", CONFIG_MAPS, empty.clone()).await).as_deref(),
        Some("expression 'object.data.a == '1'' resulted in error: no such key: data")
    );
    let ignores = with(
        json!({"validations": validations, "failurePolicy": "Ignore"}),
        json!({}),
    )
    .await;
    create(&ignores, CONFIG_MAPS, empty).await;
    let wrong = send(&ignores, "POST", CONFIG_MAPS, config_map("d", json!({"a": "2"}))).await;
    assert!(why(wrong).is_some());
}

#[tokio::test]
async fn a_policy_applies_only_to_matching_writes() {
    let never = json!([{"expression": "false", "message": "never"}]);
    let namespaces = json!({"namespaceSelector": {"matchLabels": {"strict": "yes"}}});
    let registry = with(
        json!({"validations": never, "matchConditions": [
            {"name": "not-for-root", "expression": "request.userInfo.?username.orValue('') != 'root'"},
            {"name": "named", "expression": "!object.metadata.name.startsWith('free')"}]}),
        json!({"matchResources": {"objectSelector": {"matchExpressions": [
            {"key": "exempt", "operator": "DoesNotExist"}]}, "namespaceSelector": namespaces["namespaceSelector"]}}),
    )
    .await;
    create(
        &registry,
        NAMESPACES,
        json!({"metadata": {"name": "strict", "labels": {"strict": "yes"}}}),
    )
    .await;
    let strict = "/api/v1/namespaces/strict/configmaps";
    let map = |name: &str, labels: Value| json!({"metadata": {"name": name, "labels": labels}});
    assert_eq!(
        why(send(&registry, "POST", strict, map("a", json!({}))).await).as_deref(),
        Some("never")
    );
    create(&registry, strict, map("b", json!({"exempt": ""}))).await;
    create(&registry, strict, map("free", json!({}))).await;
    create(&registry, CONFIG_MAPS, map("elsewhere", json!({}))).await;
    create(
        &registry,
        "/api/v1/namespaces/strict/secrets",
        map("s", json!({})),
    )
    .await;

    let context = WriteContext {
        requester: Some(User::authenticated("root", "", Vec::new())),
        ..WriteContext::default()
    };
    let maps = registry
        .definition(&GroupVersionResource::new("", "v1", "configmaps"))
        .unwrap();
    let bytes = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}}).to_string();
    let body = Body {
        format: Format::Json,
        bytes: bytes.as_bytes(),
    };
    registry.create(&maps, "strict", body, &context).await.unwrap();
}

#[tokio::test]
async fn policies_see_deletions_and_old_objects() {
    let registry = with(
        json!({"validations": [
            {"expression": "request.operation != 'DELETE' || oldObject.metadata.name != 'kept'", "message": "kept"},
            {"expression": "request.operation != 'UPDATE' || object.data.a == oldObject.data.a", "message": "a is fixed"},
            {"expression": "request.namespace == 'default' && namespaceObject.metadata.name == 'default'"}]}),
        json!({}),
    )
    .await;
    for name in ["kept", "other"] {
        create(&registry, CONFIG_MAPS, config_map(name, json!({"a": "1"}))).await;
    }
    let delete =
        async |name: &str| send(&registry, "DELETE", &format!("{CONFIG_MAPS}/{name}"), Value::Null).await;
    assert_eq!(why(delete("kept").await).as_deref(), Some("kept"));
    assert_eq!(why(delete("other").await), None);
    let path = format!("{CONFIG_MAPS}/kept");
    let changed = send(&registry, "PATCH", &path, json!({"data": {"a": "2"}})).await;
    assert_eq!(why(changed).as_deref(), Some("a is fixed"));
    send(&registry, "PATCH", &path, json!({"data": {"b": "2"}}))
        .await
        .unwrap();
}

#[tokio::test]
async fn parameters_are_read_when_they_are_needed() {
    let registry = registry().await;
    create(&registry, CONFIG_MAPS, config_map("limits", json!({"most": "1"}))).await;
    let large = |name: &str| config_map(name, json!({"a": "", "b": ""}));
    let validations = json!([{"expression": "object.data.size() <= int(params.data.most)",
        "messageExpression": "'at most ' + params.data.most"}]);
    let kind = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let parts = json!({"paramKind": kind, "validations": validations});
    create(&registry, POLICIES, policy(parts)).await;
    let reference = json!({"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"});
    create(&registry, BINDINGS, binding(json!({"paramRef": reference}))).await;
    let limited = send(&registry, "POST", CONFIG_MAPS, large("c")).await;
    assert_eq!(why(limited).as_deref(), Some("at most 1"));

    let path = format!("{CONFIG_MAPS}/limits");
    send(&registry, "PATCH", &path, json!({"data": {"most": "2"}}))
        .await
        .unwrap();
    create(&registry, CONFIG_MAPS, large("c")).await;

    send(&registry, "DELETE", &format!("{BINDINGS}/b"), Value::Null)
        .await
        .unwrap();
    let missing = json!({"name": "nobody", "namespace": "default", "parameterNotFoundAction": "Deny"});
    create(&registry, BINDINGS, binding(json!({"paramRef": missing}))).await;
    assert_eq!(
        why(send(&registry, "POST", CONFIG_MAPS, large("d")).await).as_deref(),
        Some(
            "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
        )
    );
}

#[tokio::test]
async fn a_policy_or_binding_without_parameters_denies_whatever_its_actions() {
    let validations = json!([{"expression": "true"}]);
    let refused = async |kind: Value, reference: Value| {
        let actions = json!(["Warn"]);
        let registry = with(
            json!({"paramKind": kind, "validations": validations}),
            json!({"paramRef": reference, "validationActions": actions}),
        );
        let created = send(&registry.await, "POST", CONFIG_MAPS, config_map("c", json!({}))).await;
        created.map(drop).map_err(|status| status.message).unwrap_err()
    };
    let why = |whose: &str, why: &str| {
        format!(
            "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy {whose} denied request: failed to configure {why}"
        )
    };
    let node = json!({"apiVersion": "v1", "kind": "Node"});
    let in_namespace = json!({"name": "n", "namespace": "default", "parameterNotFoundAction": "Allow"});
    assert_eq!(
        refused(node, in_namespace).await,
        why(
            "'p' with binding 'b'",
            "binding: paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
        )
    );
    let named = json!({"name": "n", "parameterNotFoundAction": "Allow"});
    for (api_version, shown) in [("example.com/v1", "example.com/v1"), ("v1", "/v1")] {
        let unknown = json!({"apiVersion": api_version, "kind": "Nothing"});
        let missing =
            format!("policy: failed to find resource referenced by paramKind: '{shown}, Kind=Nothing'");
        assert_eq!(refused(unknown, named.clone()).await, why("'p'", &missing));
    }
}

#[tokio::test]
async fn expressions_see_the_options_of_the_request() {
    let validations =
        json!([{"expression": "request.options.kind != 'CreateOptions'", "message": "creates"}]);
    let registry = with(json!({"validations": validations}), json!({})).await;
    let created = send(&registry, "POST", CONFIG_MAPS, config_map("c", json!({}))).await;
    assert_eq!(why(created).as_deref(), Some("creates"));
}

#[tokio::test]
async fn the_parameters_of_a_namespace_are_in_it() {
    let registry = registry().await;
    create(&registry, NAMESPACES, json!({"metadata": {"name": "n"}})).await;
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"],
        "resources": ["namespaces", "nodes"]}]);
    let parts = json!({
        "matchConstraints": {"resourceRules": rules},
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "false", "messageExpression": "'says ' + params.metadata.namespace"}],
    });
    create(&registry, POLICIES, policy(parts)).await;
    let own = json!({"metadata": {"name": "own"}});
    create(&registry, "/api/v1/namespaces/n/configmaps", own).await;
    let reference = json!({"name": "own", "parameterNotFoundAction": "Deny"});
    create(&registry, BINDINGS, binding(json!({"paramRef": reference}))).await;
    create(&registry, "/api/v1/nodes", json!({"metadata": {"name": "n"}})).await;
    let label = async |path: &str| {
        let labels = json!({"metadata": {"labels": {"a": "b"}}});
        why(send(&registry, "PATCH", path, labels).await)
    };
    assert_eq!(label("/api/v1/namespaces/n").await.as_deref(), Some("says n"));
    assert_eq!(
        label("/api/v1/nodes/n").await.as_deref(),
        Some(
            "failed to configure binding: cannot use namespaced paramRef in policy binding that matches cluster-scoped \
             resources"
        )
    );
}

#[tokio::test]
async fn a_binding_may_only_warn() {
    let registry = with(
        json!({"validations": [{"expression": "false", "message": "never"}]}),
        json!({"validationActions": ["Warn"]}),
    )
    .await;
    let maps = registry
        .definition(&GroupVersionResource::new("", "v1", "configmaps"))
        .unwrap();
    let context = WriteContext::default();
    let bytes = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}).to_string();
    let body = Body {
        format: Format::Json,
        bytes: bytes.as_bytes(),
    };
    registry.create(&maps, "default", body, &context).await.unwrap();
    assert_eq!(
        context.warnings.take(),
        ["Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': never"]
    );
}

#[tokio::test]
async fn the_servers_own_writes_are_exempt_from_policies() {
    let every =
        json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/status"]}]);
    let store = Store::memory(StoreOptions::default());
    let registry = Registry::open(store.clone()).await.unwrap();
    let never = json!({
        "matchConstraints": {"resourceRules": every},
        "validations": [{"expression": "request.userInfo.username == 'root'"}],
    });
    create(&registry, POLICIES, policy(never)).await;
    create(&registry, BINDINGS, binding(json!({}))).await;
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}},
    });
    let widgets = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "versions": [version],
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    create(&registry, definitions, widgets).await;
    let widgets = GroupVersionResource::new("example.com", "v1", "widgets");
    assert!(registry.definition(&widgets).is_some());
    drop(registry);
    let again = Registry::open(store).await.unwrap();
    assert!(again.definition(&widgets).is_some());
}

#[tokio::test]
async fn a_variable_has_the_type_of_its_expression() {
    let variables = json!([
        {"name": "wanted", "expression": "object.?data.?flag.orValue('false') == 'true' ? optional.of(true) : optional.none()"},
        {"name": "names", "expression": "['a', 'b']"},
    ]);
    let validations =
        json!([{"expression": "variables.wanted.orValue(false) || variables.names.exists(n, n == 'c')"}]);
    let registry = with(
        json!({"validations": validations, "variables": variables}),
        json!({}),
    )
    .await;
    create(&registry, CONFIG_MAPS, config_map("yes", json!({"flag": "true"}))).await;
    let refused = send(&registry, "POST", CONFIG_MAPS, config_map("no", json!({}))).await;
    assert!(why(refused).is_some());
}

#[tokio::test]
async fn expressions_can_use_the_authorizer() {
    for (expression, is_allowed) in [
        ("authorizer.path('/healthz').check('get').allowed()", true),
        ("authorizer.requestResource.check('create').allowed()", true),
        ("authorizer.requestResource.check('create').errored()", false),
        (
            "authorizer.serviceAccount('a', 'b').group('apps').resource('deployments').subresource('scale').name('x')\
             .check('get').reason() != ''",
            false,
        ),
    ] {
        let registry = with(json!({"validations": [{"expression": expression}]}), json!({})).await;
        let made = send(&registry, "POST", CONFIG_MAPS, config_map("c", json!({}))).await;
        assert_eq!(made.is_ok(), is_allowed, "{expression}");
    }
}

#[tokio::test]
async fn a_failed_audit_annotation_follows_the_failure_policy() {
    let parts = |policy: &str| json!({"failurePolicy": policy, "auditAnnotations": [{"key": "k", "valueExpression": "string(object.data.missing)"}]});
    let warns = json!({"validationActions": ["Audit"]});
    let registry = with(parts("Fail"), warns.clone()).await;
    let refused = send(&registry, "POST", CONFIG_MAPS, config_map("c", json!({}))).await;
    assert!(why(refused).is_some());
    let registry = with(parts("Ignore"), warns).await;
    create(&registry, CONFIG_MAPS, config_map("c", json!({}))).await;
}
