//! Rules for writes that no recording covers: claims beyond limits, bindings, the outcome of migrations.

use serde_json::{Value, json};
use watchkeeper_registry::Registry;

use crate::recording::{registry, send};
use crate::refusals::{check, check_change};

const LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                     alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', \
                     regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                         and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                         validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

const MIGRATIONS: &str = "/apis/storagemigration.k8s.io/v1/storageversionmigrations";

fn migration() -> Value {
    json!({"metadata": {"name": "m"}, "spec": {"resource": {"group": "example.com", "resource": "things"}}})
}

#[tokio::test]
async fn a_migration_names_a_resource() {
    check(
        MIGRATIONS,
        migration(),
        &[
            ("/spec/resource/group", json!(""), ""),
            (
                "/spec/resource/group",
                json!("-x"),
                &format!(r#"spec.resource.group: Invalid value: "-x": {SUBDOMAIN}"#),
            ),
            (
                "/spec/resource/resource",
                json!("Things"),
                &format!(r#"spec.resource.resource: Invalid value: "Things": {LABEL}"#),
            ),
            (
                "/spec/resource/resource",
                json!(""),
                "spec.resource.resource: Required value: resource is required to be set",
            ),
        ],
    )
    .await;
    check_change(
        MIGRATIONS,
        migration(),
        &[(
            "/spec/resource/resource",
            json!("others"),
            r#"spec: Invalid value: {"Resource":{"group":"example.com","resource":"others"}}: field is immutable"#,
        )],
    )
    .await;
}

#[tokio::test]
async fn the_outcome_of_a_migration_is_final() {
    let registry = registry().await;
    send(&registry, "POST", MIGRATIONS, migration()).await.unwrap();
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": "R", "message": "m",
            "lastTransitionTime": "2020-01-01T00:00:00Z"})
    };
    let path = format!("{MIGRATIONS}/m/status");
    for (conditions, refusal) in [
        (
            json!([condition("Succeeded", "True"), condition("Running", "True")]),
            "Running condition cannot be true when success condition is true",
        ),
        (json!([condition("Succeeded", "True")]), ""),
        (
            json!([condition("Succeeded", "False")]),
            "Success condition cannot be set to false once it is true",
        ),
        (
            json!([condition("Succeeded", "True"), condition("Failed", "True")]),
            "Both success and failed conditions cannot be true at the same time",
        ),
    ] {
        let change = json!({"status": {"conditions": conditions}});
        let told = send(&registry, "PATCH", &path, change).await;
        let told = told.map_or_else(|status| status.message, |_| String::new());
        assert!(
            told.ends_with(refusal) && told.is_empty() == refusal.is_empty(),
            "{told}"
        );
    }
}

#[tokio::test]
async fn an_unknown_address_family_is_not_compared_with_the_old_one() {
    check_change(
        "/api/v1/namespaces/default/services",
        json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}),
        &[(
            "/spec/ipFamilies",
            json!(["IPv4x"]),
            r#"spec.ipFamilies[0]: Unsupported value: "IPv4x": supported values: "IPv4", "IPv6""#,
        )],
    )
    .await;
}

#[tokio::test]
async fn claims_are_limited_when_created_and_when_changed() {
    let registry = registry().await;
    let namespace = "/api/v1/namespaces/default";
    let limit = json!({"type": "PersistentVolumeClaim", "min": {"storage": "2Gi"}});
    let range = json!({"metadata": {"name": "l"}, "spec": {"limits": [limit]}});
    let claims = format!("{namespace}/persistentvolumeclaims");
    let claim = |name: &str, size: &str| {
        json!({"metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}})
    };
    send(&registry, "POST", &claims, claim("old", "1Gi"))
        .await
        .unwrap();
    send(&registry, "POST", &format!("{namespace}/limitranges"), range)
        .await
        .unwrap();
    let refused = |name: &str| {
        format!(
            "persistentvolumeclaims \"{name}\" is forbidden: minimum storage usage per PersistentVolumeClaim is 2Gi, \
             but request is 1Gi"
        )
    };
    let created = send(&registry, "POST", &claims, claim("new", "1Gi")).await;
    assert_eq!(created.unwrap_err().message, refused("new"));
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let changed = send(&registry, "PATCH", &format!("{claims}/old"), label).await;
    assert_eq!(changed.unwrap_err().message, refused("old"));
    send(&registry, "POST", &claims, claim("large", "3Gi"))
        .await
        .unwrap();
}

async fn bind(registry: &Registry, pod: &str) -> Result<Value, String> {
    let binding =
        json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": {"name": "n"}});
    let path = format!("/api/v1/namespaces/default/pods/{pod}/binding");
    send(registry, "POST", &path, binding)
        .await
        .map_err(|status| status.message)
}

#[tokio::test]
async fn a_gated_pod_cannot_be_bound() {
    let registry = registry().await;
    let pod = json!({"metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "schedulingGates": [{"name": "example.com/wait"}]}});
    let pods = "/api/v1/namespaces/default/pods";
    send(&registry, "POST", pods, pod).await.unwrap();
    let refused =
        r#"Operation cannot be fulfilled on pods/binding "p": pod p has non-empty .spec.schedulingGates"#;
    assert_eq!(bind(&registry, "p").await.unwrap_err(), refused);
    let open = json!({"spec": {"schedulingGates": null}});
    send(&registry, "PATCH", &format!("{pods}/p"), open)
        .await
        .unwrap();
    bind(&registry, "p").await.unwrap();
}

#[tokio::test]
async fn a_bound_pod_is_no_longer_nominated() {
    let registry = registry().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    send(&registry, "POST", pods, pod).await.unwrap();
    let nominated = json!({"status": {"nominatedNodeName": "elsewhere"}});
    let path = format!("{pods}/p");
    let pod = send(&registry, "PATCH", &format!("{path}/status"), nominated).await;
    assert_eq!(pod.unwrap()["status"]["nominatedNodeName"], "elsewhere");
    bind(&registry, "p").await.unwrap();
    let pod = send(&registry, "GET", &path, json!(null)).await.unwrap();
    assert!(pod["status"]["nominatedNodeName"].is_null(), "{pod}");
}

#[tokio::test]
async fn a_binding_needs_the_name_of_a_pod() {
    let registry = registry().await;
    let binding = json!({"target": {"kind": "Node", "name": "n"}});
    let refused = send(&registry, "POST", "/api/v1/namespaces/default/bindings", binding).await;
    let refused = refused.unwrap_err();
    assert_eq!(
        (refused.code, &*refused.message),
        (400, "Name parameter required.")
    );
}

#[tokio::test]
async fn a_definition_whose_stored_versions_were_emptied_lives_on() {
    let registry = registry().await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let define = |plural: &str, kind: &str| {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        json!({"metadata": {"name": format!("{plural}.example.com")}, "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        }})
    };
    send(&registry, "POST", definitions, define("things", "Thing"))
        .await
        .unwrap();
    let path = format!("{definitions}/things.example.com");
    let emptied = json!({"status": {"storedVersions": []}});
    send(&registry, "PATCH", &format!("{path}/status"), emptied.clone())
        .await
        .unwrap();
    let short = json!({"spec": {"names": {"shortNames": ["th"]}}});
    let changed = send(&registry, "PATCH", &path, short).await.unwrap();
    assert_eq!(changed["status"]["storedVersions"], json!(["v1"]));
    send(&registry, "PATCH", &format!("{path}/status"), emptied)
        .await
        .unwrap();
    send(&registry, "POST", definitions, define("others", "Other"))
        .await
        .unwrap();
    send(&registry, "DELETE", &path, json!(null)).await.unwrap();
    let gone = send(&registry, "GET", &path, json!(null)).await;
    assert!(gone.unwrap_err().is_not_found());
}

#[tokio::test]
async fn the_status_of_a_budget_has_valid_conditions() {
    let registry = registry().await;
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    send(
        &registry,
        "POST",
        budgets,
        json!({"metadata": {"name": "b"}, "spec": {}}),
    )
    .await
    .unwrap();
    let condition =
        json!({"type": "X", "status": "Bad", "reason": "R", "lastTransitionTime": "2020-01-01T00:00:00Z"});
    let path = format!("{budgets}/b/status");
    let refused = send(
        &registry,
        "PATCH",
        &path,
        json!({"status": {"conditions": [condition]}}),
    )
    .await;
    let why = "status.conditions[0].status: Unsupported value: \"Bad\": supported values: \"False\", \"True\", \"Unknown\"";
    assert!(refused.unwrap_err().message.ends_with(why));
}

#[tokio::test]
async fn the_status_of_a_pod_names_its_own_claims_once() {
    let registry = registry().await;
    let pods = "/api/v1/namespaces/default/pods";
    let spec = json!({"containers": [{"name": "c", "image": "i"}], "resourceClaims": [{"name": "a", "resourceClaimName": "x"}]});
    send(
        &registry,
        "POST",
        pods,
        json!({"metadata": {"name": "p"}, "spec": spec}),
    )
    .await
    .unwrap();
    let claims = json!([{"name": "a", "resourceClaimName": "_"}, {"name": "a"}, {"name": "b"}]);
    let path = format!("{pods}/p/status");
    let refused = send(
        &registry,
        "PATCH",
        &path,
        json!({"status": {"resourceClaimStatuses": claims}}),
    )
    .await;
    let message = refused.unwrap_err().message;
    for why in [
        "status.resourceClaimStatuses[0].name: Invalid value: \"_\"",
        "status.resourceClaimStatuses[1].name: Duplicate value: \"a\"",
        "status.resourceClaimStatuses[2].name: Invalid value: \"b\": must match the name of an entry in `spec.resourceClaims`",
    ] {
        assert!(message.contains(why), "{message}");
    }
}

#[tokio::test]
async fn a_resize_is_completed_and_limited_by_the_ranges_of_its_namespace() {
    let registry = registry().await;
    let limits = json!([{"type": "Container", "max": {"cpu": "2"}, "default": {"cpu": "1"}}]);
    let pods = "/api/v1/namespaces/default/pods";
    let resources = json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}});
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}});
    send(&registry, "POST", pods, pod).await.unwrap();
    let ranges = "/api/v1/namespaces/default/limitranges";
    let range = json!({"metadata": {"name": "r"}, "spec": {"limits": limits}});
    send(&registry, "POST", ranges, range).await.unwrap();
    let path = format!("{pods}/p/resize");
    let resize = |cpu: &str| {
        let resources = json!({"requests": {"cpu": "100m"}, "limits": {"cpu": cpu}});
        json!({"spec": {"containers": [{"name": "c", "resources": resources}]}})
    };
    let refused = send(&registry, "PATCH", &path, resize("3")).await.unwrap_err();
    assert_eq!(
        refused.message,
        "pods \"p\" is forbidden: maximum cpu usage per Container is 2, but limit is 3"
    );
    let pod = send(&registry, "PATCH", &path, resize("2")).await.unwrap();
    assert_eq!(pod["spec"]["containers"][0]["resources"]["limits"]["cpu"], "2");
}

#[tokio::test]
async fn an_unset_node_port_is_kept_by_the_name_of_the_port() {
    let services = "/api/v1/namespaces/default/services";
    let ports = |name: &str, number: i64| json!([{"name": name, "port": number}]);
    let mut service =
        json!({"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": ports("a", 80)}});
    for (name, number, is_kept) in [("a", 81, true), ("b", 80, false)] {
        let registry = registry().await;
        service["spec"]["ports"] = ports("a", 80);
        let made = send(&registry, "POST", services, service.clone()).await.unwrap();
        service["spec"]["ports"] = ports(name, number);
        let changed = send(&registry, "PUT", &format!("{services}/s"), service.clone()).await;
        let [before, after] =
            [&made, &changed.unwrap()].map(|service| service["spec"]["ports"][0]["nodePort"].clone());
        assert_eq!(before == after, is_kept, "{name} {number}");
    }
}
