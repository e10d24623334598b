//! The default roles and bindings, read from two tables: those of users and clients
//! (`people.txt`), and those of Kubernetes components (`components.txt`), which only a server with a port needs.
//!
//! A table has a paragraph per role. Fields are separated by blanks, the items of a field by commas:
//!
//! ```text
//! role system:node-bootstrapper            a cluster role; `namespace/name` is a role in a namespace
//!   create,get certificates.k8s.io certificatesigningrequests       verbs, groups, resources, and names if any
//!   get urls /metrics                      paths outside the resource API
//! binding system:node-proxier user:system:kube-proxy      the role of that name; `name=role` if it has another
//! controller job-controller                `system:controller:job-controller`, bound to its account in kube-system
//! ```
//!
//! `core` is the core group. `read`, `write` and `readwrite` are sets of verbs; `events` is the rule for reporting
//! events.

use serde_json::{Value, json};
use watchkeeper_kinds::{Kind, builtin};

use super::GROUP;

const READ: &str = "get,list,watch";
const WRITE: &str = "create,delete,deletecollection,patch,update";
const READ_WRITE: &str = "create,delete,deletecollection,get,list,patch,update,watch";
const EVENTS: &str = "create,patch,update core,events.k8s.io events";
const CONTROLLER: &str = "system:controller:";

/// An object with its kind and its namespace.
pub(crate) type Placed = (&'static Kind, &'static str, Value);

/// The roles and bindings of every server.
pub(crate) fn default_objects() -> Vec<Placed> {
    let mut objects = read(include_str!("defaults/people.txt"));
    let aggregated = user_facing_roles(&mut objects);
    objects.extend(aggregated);
    objects
}

/// The roles and bindings of Kubernetes' components, and of servers with delegated authentication.
pub(crate) fn component_objects() -> Vec<Placed> {
    read(include_str!("defaults/components.txt"))
}

fn read(table: &'static str) -> Vec<Placed> {
    let mut objects: Vec<Placed> = Vec::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let (first, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        match first {
            "" => {}
            "role" => objects.push(role(rest)),
            "binding" => objects.push(binding(rest)),
            "controller" => objects.extend(controller(rest)),
            _ => add_rule(&mut objects, line.trim()),
        }
    }
    objects
}

fn role(place: &'static str) -> Placed {
    let (namespace, name) = place.split_once('/').unwrap_or(("", place));
    let kind = match namespace {
        "" => &builtin::CLUSTER_ROLE,
        _ => &builtin::ROLE,
    };
    let mut role = object(kind, namespace, name);
    role["rules"] = json!([]);
    (kind, namespace, role)
}

/// A role of a controller after its binding: rules are added to the last object.
fn controller(name: &'static str) -> [Placed; 2] {
    let full = format!("{CONTROLLER}{name}");
    let account = format!("account:kube-system/{name}");
    let mut role = object(&builtin::CLUSTER_ROLE, "", &full);
    role["rules"] = json!([]);
    [
        bound(&builtin::CLUSTER_ROLE_BINDING, "", (&full, &full), &account),
        (&builtin::CLUSTER_ROLE, "", role),
    ]
}

fn binding(line: &'static str) -> Placed {
    let (place, subjects) = line.split_once(' ').unwrap_or((line, ""));
    let (namespace, name) = place.split_once('/').unwrap_or(("", place));
    let (name, role) = name.split_once('=').unwrap_or((name, name));
    let kind = match namespace {
        "" => &builtin::CLUSTER_ROLE_BINDING,
        _ => &builtin::ROLE_BINDING,
    };
    bound(kind, namespace, (name, role), subjects)
}

fn bound(kind: &'static Kind, namespace: &'static str, (name, role): (&str, &str), subjects: &str) -> Placed {
    let mut binding = object(kind, namespace, name);
    let role_kind = match namespace {
        "" => builtin::CLUSTER_ROLE.name,
        _ => builtin::ROLE.name,
    };
    binding["roleRef"] = json!({"apiGroup": GROUP, "kind": role_kind, "name": role});
    let subjects: Vec<Value> = subjects.split_whitespace().filter_map(subject).collect();
    if !subjects.is_empty() {
        binding["subjects"] = json!(subjects);
    }
    (kind, namespace, binding)
}

fn subject(word: &str) -> Option<Value> {
    let (kind, name) = word.split_once(':')?;
    match kind {
        "group" => Some(json!({"apiGroup": GROUP, "kind": "Group", "name": name})),
        "user" => Some(json!({"apiGroup": GROUP, "kind": "User", "name": name})),
        _ => {
            let (namespace, name) = name.split_once('/')?;
            Some(json!({"kind": "ServiceAccount", "name": name, "namespace": namespace}))
        }
    }
}

fn add_rule(objects: &mut [Placed], line: &str) {
    if let Some(rules) = objects
        .last_mut()
        .and_then(|(.., role)| role["rules"].as_array_mut())
    {
        rules.push(rule(if line == "events" { EVENTS } else { line }));
    }
}

fn rule(line: &str) -> Value {
    let mut words = line.split_whitespace();
    let mut next = || words.next().unwrap_or_default();
    let verbs = list(match next() {
        "read" => READ,
        "write" => WRITE,
        "readwrite" => READ_WRITE,
        verbs => verbs,
    });
    let (groups, what, names) = (next(), list(next()), list(next()));
    if groups == "urls" {
        return json!({"nonResourceURLs": what, "verbs": verbs});
    }
    let groups: Vec<&str> = list(groups)
        .iter()
        .map(|group| if *group == "core" { "" } else { group })
        .collect();
    let mut rule = json!({"apiGroups": groups, "resources": what, "verbs": verbs});
    if !names.is_empty() {
        rule["resourceNames"] = json!(names);
    }
    rule
}

fn list(words: &str) -> Vec<&str> {
    words.split(',').filter(|word| !word.is_empty()).collect()
}

fn object(kind: &Kind, namespace: &str, name: &str) -> Value {
    let mut object = json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": kind.name,
        "metadata": {
            "name": name,
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        },
    });
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

/// `view`, `edit` and `admin`. Each aggregates the roles with its label and includes the previous one; new kinds are
/// added with a role that has such a label. The aggregated roles are labelled too.
fn user_facing_roles(objects: &mut [Placed]) -> Vec<Placed> {
    let label = |role: &str| format!("{GROUP}/aggregate-to-{role}");
    let mut sofar: Vec<Value> = Vec::new();
    let steps = [("view", "edit"), ("edit", "admin"), ("admin", "")];
    let roles = steps.into_iter().map(|(name, next)| {
        let own = label_source(objects, &format!("system:aggregate-to-{name}"), &label(name));
        // In the order of the aggregated roles' names, so that aggregation changes nothing.
        sofar = match name {
            "admin" => together(&sofar, &own),
            _ => together(&own, &sofar),
        };
        let mut role = object(&builtin::CLUSTER_ROLE, "", name);
        role["rules"] = json!(sofar);
        role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {label(name): "true"}}]});
        if !next.is_empty() {
            role["metadata"]["labels"][label(next)] = json!("true");
        }
        (&builtin::CLUSTER_ROLE, "", role)
    });
    roles.collect()
}

/// Labels a role, and returns its rules.
fn label_source(objects: &mut [Placed], name: &str, label: &str) -> Vec<Value> {
    let mut roles = objects
        .iter_mut()
        .filter(|(kind, ..)| std::ptr::eq(*kind, &builtin::CLUSTER_ROLE));
    let Some((.., role)) = roles.find(|(.., role)| role["metadata"]["name"] == name) else {
        return Vec::new();
    };
    role["metadata"]["labels"][label] = json!("true");
    role["rules"].as_array().cloned().unwrap_or_default()
}

/// The union of two lists of rules, without duplicates.
fn together(rules: &[Value], more: &[Value]) -> Vec<Value> {
    let mut all = rules.to_vec();
    all.extend(more.iter().filter(|rule| !rules.contains(rule)).cloned());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Placed> {
        let mut all = default_objects();
        all.extend(component_objects());
        all
    }

    fn named<'a>(objects: &'a [Placed], kind: &str, name: &str) -> &'a Value {
        let found = objects
            .iter()
            .find(|(of, _, object)| of.name == kind && object["metadata"]["name"] == name);
        &found.unwrap_or_else(|| panic!("no {kind} {name}")).2
    }

    #[test]
    fn every_line_of_the_tables_is_read() {
        for (kind, namespace, object) in all() {
            let name = &object["metadata"]["name"];
            if kind.name.ends_with("Binding") {
                let role = object["roleRef"]["name"].as_str().unwrap();
                named(&all(), object["roleRef"]["kind"].as_str().unwrap(), role);
                continue;
            }
            let rules = object["rules"].as_array().unwrap();
            assert!(!rules.is_empty(), "{namespace}/{name} has no rules");
            for rule in rules {
                let what = ["resources", "nonResourceURLs"]
                    .iter()
                    .filter_map(|field| rule[field].as_array());
                assert!(what.flatten().count() > 0, "{name}: {rule}");
                assert!(!rule["verbs"].as_array().unwrap().is_empty(), "{name}: {rule}");
            }
        }
    }

    #[test]
    fn words_within_a_rule_are_sorted_as_kubernetes_sorts_them() {
        for (_, _, object) in all() {
            for rule in object["rules"].as_array().into_iter().flatten() {
                for field in rule.as_object().unwrap().values() {
                    let words: Vec<&str> = field
                        .as_array()
                        .unwrap()
                        .iter()
                        .filter_map(Value::as_str)
                        .collect();
                    assert!(words.is_sorted(), "{}: {words:?}", object["metadata"]["name"]);
                }
            }
        }
    }

    #[test]
    fn names_are_unique_in_their_place() {
        let objects = all();
        let places = objects.iter().map(|(kind, namespace, object)| {
            (
                kind.name,
                *namespace,
                object["metadata"]["name"].as_str().unwrap(),
            )
        });
        let places: Vec<_> = places.collect();
        let unique: std::collections::BTreeSet<_> = places.iter().collect();
        assert_eq!(unique.len(), places.len());
    }

    #[test]
    fn editors_and_administrators_write_no_status_endpoints_or_bindings() {
        let objects = default_objects();
        for name in ["view", "edit", "admin"] {
            for rule in named(&objects, "ClusterRole", name)["rules"].as_array().unwrap() {
                let writes = rule["verbs"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|verb| verb == "update");
                for resource in rule["resources"].as_array().unwrap() {
                    let resource = resource.as_str().unwrap();
                    let of_the_system = resource.ends_with("/status")
                        || [
                            "endpoints",
                            "endpointslices",
                            "bindings",
                            "resourcequotas",
                            "limitranges",
                        ]
                        .contains(&resource);
                    assert!(!(writes && of_the_system), "{name} writes {resource}");
                }
            }
        }
    }

    #[test]
    fn administrators_have_what_editors_have_and_those_what_viewers_have() {
        let objects = default_objects();
        let rules = |name| {
            named(&objects, "ClusterRole", name)["rules"]
                .as_array()
                .unwrap()
                .clone()
        };
        assert!(rules("view").iter().all(|rule| rules("edit").contains(rule)));
        assert!(rules("edit").iter().all(|rule| rules("admin").contains(rule)));
        assert!(!rules("edit").iter().any(|rule| rule["apiGroups"][0] == GROUP));
    }
}
