//! The default roles and bindings for users and clients: `admin`, `edit` and `view`, and access to discovery and
//! self-review for everyone. Roles of Kubernetes' own components are left out: those do not run here.

use serde_json::{Value, json};
use watchkeeper_kinds::{Kind, builtin};
use watchkeeper_meta::Scope;
use watchkeeper_wire::schema::resources;

use super::GROUP;

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];
/// Paths with only health and version information.
const PUBLIC_PATHS: &[&str] = &["/healthz", "/livez", "/readyz", "/version", "/version/"];
/// Resources that only administrators may write.
const RIGHTS: &[&str] = &[builtin::ROLE.plural, builtin::ROLE_BINDING.plural];
/// Resources hidden from viewers: a secret grants what it is the key to.
const HIDDEN: &[&str] = &[builtin::SECRET.plural];
/// The subresources a viewer may read. Others have effects when read: `exec` is a `get`.
const READABLE_PARTS: &[&str] = &["log", "scale", "status"];
/// Resources written by administrators and read by users.
const READ_ONLY: &[&str] = &[builtin::RESOURCE_QUOTA.plural, builtin::LIMIT_RANGE.plural];

/// The objects with their kinds.
pub(crate) fn default_objects() -> Vec<(&'static Kind, Value)> {
    let mut objects = Vec::new();
    let mut role =
        |name: &str, rules: Vec<Value>| objects.push((&builtin::CLUSTER_ROLE, cluster_role(name, rules)));
    role(
        "cluster-admin",
        vec![
            json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}),
            json!({"nonResourceURLs": ["*"], "verbs": ["*"]}),
        ],
    );
    role(
        "system:basic-user",
        vec![
            json!({
                "apiGroups": ["authorization.k8s.io"],
                "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
                "verbs": ["create"],
            }),
            json!({"apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"], "verbs": ["create"]}),
        ],
    );
    let mut discovery = vec!["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"];
    discovery.extend(PUBLIC_PATHS);
    discovery.sort_unstable();
    role(
        "system:discovery",
        vec![json!({"nonResourceURLs": discovery, "verbs": ["get"]})],
    );
    role(
        "system:public-info-viewer",
        vec![json!({"nonResourceURLs": PUBLIC_PATHS, "verbs": ["get"]})],
    );
    let issuer = [
        "/.well-known/openid-configuration",
        "/.well-known/openid-configuration/",
        "/openid/v1/jwks",
        "/openid/v1/jwks/",
    ];
    role(
        "system:service-account-issuer-discovery",
        vec![json!({"nonResourceURLs": issuer, "verbs": ["get"]})],
    );
    let bindings: [(&str, &[&str]); 5] = [
        ("cluster-admin", &["system:masters"]),
        ("system:basic-user", &["system:authenticated"]),
        ("system:discovery", &["system:authenticated"]),
        (
            "system:public-info-viewer",
            &["system:authenticated", "system:unauthenticated"],
        ),
        (
            "system:service-account-issuer-discovery",
            &["system:serviceaccounts"],
        ),
    ];
    objects.extend(user_facing_roles().map(|role| (&builtin::CLUSTER_ROLE, role)));
    for (name, groups) in bindings {
        objects.push((&builtin::CLUSTER_ROLE_BINDING, cluster_role_binding(name, groups)));
    }
    objects
}

/// The roles that aggregated API servers and other HTTPS servers need to delegate authentication to this server. With
/// kinds and namespaces.
pub(crate) fn delegation_objects() -> [(&'static Kind, &'static str, Value); 2] {
    let review = |group: &str, resource: &str| json!({"apiGroups": [group], "resources": [resource], "verbs": ["create"]});
    let delegator = vec![
        review("authentication.k8s.io", "tokenreviews"),
        review("authorization.k8s.io", "subjectaccessreviews"),
    ];
    let name = "extension-apiserver-authentication";
    let mut reader = json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "Role",
        "metadata": metadata(&format!("{name}-reader")),
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [name], "verbs": READ}],
    });
    reader["metadata"]["namespace"] = json!("kube-system");
    [
        (
            &builtin::CLUSTER_ROLE,
            "",
            cluster_role("system:auth-delegator", delegator),
        ),
        (&builtin::ROLE, "kube-system", reader),
    ]
}

/// `view`, `edit` and `admin`. Each aggregates the roles with its label and includes the previous one; new kinds are
/// added with a role that has such a label.
fn user_facing_roles() -> impl Iterator<Item = Value> {
    let label = |role: &str| format!("{GROUP}/aggregate-to-{role}");
    let mut sofar: Vec<Value> = Vec::new();
    let steps = [
        ("view", "edit", viewer_rules()),
        ("edit", "admin", editor_rules(|plural| !RIGHTS.contains(&plural))),
        ("admin", "", editor_rules(|plural| RIGHTS.contains(&plural))),
    ];
    steps.into_iter().flat_map(move |(name, next, own)| {
        let mut source = cluster_role(&format!("system:aggregate-to-{name}"), own.clone());
        source["metadata"]["labels"][label(name)] = json!("true");
        // In the order of the aggregated roles' names, so that aggregation changes nothing.
        sofar = match name {
            "admin" => together(&sofar, &own),
            _ => together(&own, &sofar),
        };
        let mut role = cluster_role(name, sofar.clone());
        role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {label(name): "true"}}]});
        if !next.is_empty() {
            role["metadata"]["labels"][label(next)] = json!("true");
        }
        [source, role]
    })
}

/// The union of two lists of rules, without duplicates.
fn together(rules: &[Value], more: &[Value]) -> Vec<Value> {
    let mut all = rules.to_vec();
    all.extend(more.iter().filter(|rule| !rules.contains(rule)).cloned());
    all
}

fn cluster_role(name: &str, rules: Vec<Value>) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "ClusterRole",
        "metadata": metadata(name),
        "rules": rules,
    })
}

fn cluster_role_binding(name: &str, groups: &[&str]) -> Value {
    let subject = |group: &&str| json!({"apiGroup": GROUP, "kind": "Group", "name": group});
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": metadata(name),
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
        "subjects": groups.iter().map(subject).collect::<Vec<_>>(),
    })
}

fn metadata(name: &str) -> Value {
    json!({
        "name": name,
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
    })
}

/// Rules for reading and writing the namespaced resources that satisfy `mine`.
fn editor_rules(mine: fn(&str) -> bool) -> Vec<Value> {
    let mut rules = Vec::new();
    for (group, names) in namespaced(mine, |_| true) {
        let (read_only, both): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| {
            let plural = name.split('/').next().unwrap_or_default();
            READ_ONLY.contains(&plural)
        });
        rules.extend(rule(group, &both, &[READ, WRITE].concat()));
        rules.extend(rule(group, &read_only, READ));
    }
    rules.extend(rule("", &[builtin::NAMESPACE.plural.to_owned()], READ));
    rules
}

fn viewer_rules() -> Vec<Value> {
    let seen = |plural: &str| !HIDDEN.contains(&plural) && !RIGHTS.contains(&plural);
    let groups = namespaced(seen, |part| READABLE_PARTS.contains(&part));
    let mut rules: Vec<Value> = groups
        .into_iter()
        .filter_map(|(group, names)| rule(group, &names, READ))
        .collect();
    rules.extend(rule("", &[builtin::NAMESPACE.plural.to_owned()], READ));
    rules
}

fn rule(group: &str, names: &[String], verbs: &[&str]) -> Option<Value> {
    (!names.is_empty()).then(|| json!({"apiGroups": [group], "resources": names, "verbs": verbs}))
}

/// The namespaced resources and subresources, `pods` and `pods/log`, by group.
fn namespaced(mine: fn(&str) -> bool, part_is_mine: fn(&str) -> bool) -> Vec<(&'static str, Vec<String>)> {
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for known in resources::all() {
        let resource = &known.resource;
        let plural = &*resource.plural;
        if resource.scope != Scope::Namespaced || !known.has_verb("list") || !mine(plural) {
            continue;
        }
        let parts = known.subresources.iter().filter(|part| part_is_mine(&part.name));
        let parts = parts.map(|part| format!("{plural}/{}", part.name));
        let names = std::iter::once(plural.to_owned()).chain(parts);
        match groups.iter_mut().find(|(group, _)| *group == resource.group) {
            Some((_, known)) => known.extend(names),
            None => groups.push((&resource.group, names.collect())),
        }
    }
    groups
}
