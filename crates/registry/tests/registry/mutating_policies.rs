//! MutatingAdmissionPolicies: their results, their order, and their failures.

use crate::recording::{create, registry, send};
use serde_json::{Value, json};
use watchkeeper_meta::Status;
use watchkeeper_registry::Registry;

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn apply(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

fn patch(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

/// Creates a policy about config maps and pods, and its binding.
async fn bind(registry: &Registry, name: &str, parts: Value) {
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
        "resources": ["configmaps", "pods"]});
    let mut spec = json!({"matchConstraints": {"resourceRules": [rule]}, "reinvocationPolicy": "Never"});
    for (name, value) in parts.as_object().expect("parts") {
        spec[name] = value.clone();
    }
    create(
        registry,
        POLICIES,
        json!({"metadata": {"name": name}, "spec": spec}),
    )
    .await;
    let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name}});
    create(registry, BINDINGS, binding).await;
}

fn map() -> Value {
    json!({"metadata": {"name": "m"}, "data": {"a": "1"}})
}

async fn created(registry: &Registry, path: &str, object: Value) -> Result<Value, Status> {
    send(registry, "POST", path, object).await
}

#[tokio::test]
async fn mutations_run_in_order_on_the_result_of_the_previous_one() {
    let registry = registry().await;
    let mutations = json!([
        apply("Object{metadata: Object.metadata{labels: {'a': variables.first}}}"),
        patch(
            "[JSONPatch{op: 'test', path: '/metadata/labels/a', value: 'one'}, \
             JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('b/c'), value: 'two'}]"
        ),
        patch("[JSONPatch{op: 'test', path: '/data/a', value: '2'}, JSONPatch{op: 'remove', path: '/data'}]"),
        patch("has(object.metadata.labels) ? [JSONPatch{op: 'copy', from: '/data/a', path: '/data/b'}] : []"),
    ]);
    let variables = json!([{"name": "first", "expression": "'one'"}]);
    bind(
        &registry,
        "p",
        json!({"mutations": mutations, "variables": variables}),
    )
    .await;
    let made = created(&registry, CONFIG_MAPS, map()).await.unwrap();
    assert_eq!(made["metadata"]["labels"], json!({"a": "one", "b/c": "two"}));
    assert_eq!(made["data"], json!({"a": "1", "b": "1"}));
    // Fields set by a policy have no manager.
    let managed = made["metadata"]["managedFields"].to_string();
    assert!(!managed.contains("f:labels"), "{managed}");
}

#[tokio::test]
async fn an_apply_configuration_is_merged_by_list_keys() {
    let registry = registry().await;
    let sidecar = "Object{spec: Object.spec{initContainers: [Object.spec.initContainers{name: 'side', image: 'x', \
        restartPolicy: 'Always'}], containers: object.spec.containers.map(c, \
        Object.spec.containers{name: c.name, ?workingDir: optional.of('/w')})}}";
    bind(&registry, "p", json!({"mutations": [apply(sidecar)]})).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = created(&registry, PODS, pod).await.unwrap();
    let container = &made["spec"]["containers"][0];
    assert_eq!(
        (&container["image"], &container["workingDir"]),
        (&json!("i"), &json!("/w"))
    );
    // Added parts are defaulted.
    let side = &made["spec"]["initContainers"][0];
    assert_eq!(side["terminationMessagePath"], json!("/dev/termination-log"));
}

#[tokio::test]
async fn a_failed_mutation_follows_the_failure_policy() {
    let labels = "Object{metadata: Object.metadata{labels: {'a': object.data.missing}}}";
    for (expression, why) in [
        (
            labels,
            format!("expression '{labels}' resulted in error: no such key: missing"),
        ),
        (
            "Object{spec: Object.spec{}}",
            "error applying patch: failed to convert patch object to typed object: .spec: field not declared in schema"
                .to_owned(),
        ),
        (
            "Object{metadata: Object.wrong{labels: {'a': 'b'}}}",
            "type mismatch: unexpected type name \"Object.wrong\", expected \"Object.metadata\", which matches field \
             name path from root Object type"
                .to_owned(),
        ),
    ] {
        let registry = registry().await;
        bind(&registry, "p", json!({"mutations": [apply(expression)]})).await;
        let status = created(&registry, CONFIG_MAPS, map()).await.unwrap_err();
        let expected = format!("policy 'p' with binding 'p' denied request: {why}");
        assert_eq!(status.message, expected);
        assert_eq!((status.code, status.reason.as_str()), (403, "Invalid"));
        assert_eq!(status.details.expect("details").causes[0].message, expected);
    }
    let registry = registry().await;
    let mutations = json!([apply(labels), apply("Object{data: {'b': '2'}}")]);
    bind(
        &registry,
        "p",
        json!({"mutations": mutations, "failurePolicy": "Ignore"}),
    )
    .await;
    let made = created(&registry, CONFIG_MAPS, map()).await.unwrap();
    assert_eq!(made["data"], json!({"a": "1", "b": "2"}));
}

#[tokio::test]
async fn atomic_lists_cannot_be_replaced() {
    let registry = registry().await;
    let command = "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', args: ['x']}]}}";
    bind(&registry, "p", json!({"mutations": [apply(command)]})).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let status = created(&registry, PODS, pod).await.unwrap_err();
    let said = "may not mutate atomic arrays, maps or structs: .spec.containers[0].args";
    assert!(status.message.ends_with(said), "{}", status.message);
}

#[tokio::test]
async fn a_policy_is_reinvoked_after_later_changes() {
    let registry = registry().await;
    // In the order of their names: the first counts what the second adds.
    let count = "Object{metadata: Object.metadata{annotations: {'count': string(object.data.size())}}}";
    let again = json!({"mutations": [apply(count)], "reinvocationPolicy": "IfNeeded"});
    bind(&registry, "a", again).await;
    bind(
        &registry,
        "b",
        json!({"mutations": [apply("Object{data: {'b': '2'}}")]}),
    )
    .await;
    let made = created(&registry, CONFIG_MAPS, map()).await.unwrap();
    assert_eq!(made["metadata"]["annotations"], json!({"count": "2"}));
}

#[tokio::test]
async fn match_conditions_and_the_authorizer_select_writes() {
    let registry = registry().await;
    let may = "authorizer.serviceAccount('default', 'robot').group('').resource('pods').namespace('default')\
        .check('list').allowed()";
    let conditions = json!([{"name": "not-yet", "expression": format!("!{may}")}]);
    let mutations = json!([apply("Object{data: {'robot': 'may not'}}")]);
    bind(
        &registry,
        "p",
        json!({"mutations": mutations, "matchConditions": conditions}),
    )
    .await;
    let made = created(&registry, CONFIG_MAPS, map()).await.unwrap();
    assert_eq!(made["data"]["robot"], json!("may not"));

    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]);
    create(
        &registry,
        &format!("{rbac}/roles"),
        json!({"metadata": {"name": "r"}, "rules": rules}),
    )
    .await;
    let subjects = json!([{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}]);
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"});
    let bound = json!({"metadata": {"name": "r"}, "roleRef": role, "subjects": subjects});
    create(&registry, &format!("{rbac}/rolebindings"), bound).await;
    let mut other = map();
    other["metadata"]["name"] = json!("n");
    let made = created(&registry, CONFIG_MAPS, other).await.unwrap();
    assert_eq!(made["data"], json!({"a": "1"}));
}
