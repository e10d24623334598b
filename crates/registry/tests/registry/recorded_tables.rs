//! Computes the rows of every recorded Table from the objects of the same recording.

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Value, json};
use watchkeeper_meta::{GroupVersionKind, Time};
use watchkeeper_registry::{Definition, IncludeObject, StoredObject, TablePrinter};
use watchkeeper_wire::protobuf::encode_body;

fn recorded_cases() -> Vec<Value> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens/wire");
    let areas = std::fs::read_dir(root)
        .unwrap()
        .flatten()
        .filter(|entry| entry.path().is_dir());
    let files = areas.flat_map(|area| std::fs::read_dir(area.path()).unwrap().flatten());
    files
        .map(|file| serde_json::from_slice(&std::fs::read(file.path()).unwrap()).unwrap())
        .collect()
}

/// All recorded states of objects in a case, by uid and version.
fn states(case: &Value) -> HashMap<(String, String), Value> {
    let mut found = HashMap::new();
    let mut pending = vec![case];
    while let Some(value) = pending.pop() {
        let text = |pointer: &str| {
            value
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let key = (text("/metadata/uid"), text("/metadata/resourceVersion"));
        if !key.0.is_empty() && !text("/apiVersion").starts_with("meta.k8s.io") && !text("/kind").is_empty() {
            found.insert(key, value.clone());
        }
        match value {
            Value::Array(items) => pending.extend(items),
            Value::Object(fields) => pending.extend(fields.values()),
            _ => {}
        }
    }
    found
}

/// All Tables in a case.
fn tables(case: &Value) -> Vec<&Value> {
    let mut found = Vec::new();
    let mut pending = vec![case];
    while let Some(value) = pending.pop() {
        if value["kind"] == "Table" {
            found.push(value);
        }
        match value {
            Value::Array(items) => pending.extend(items),
            Value::Object(fields) => pending.extend(fields.values()),
            _ => {}
        }
    }
    found
}

/// Ages depend on the time of the request.
fn without_ages(cells: &Value) -> Vec<Value> {
    let is_age = |text: &str| {
        text.ends_with(['s', 'm', 'h', 'd', 'y'])
            && text.starts_with(|first: char| first.is_ascii_digit())
            && text.chars().all(|c| c.is_ascii_digit() || "smhdy".contains(c))
    };
    let mask = |cell: &Value| match cell.as_str() {
        Some(text) if is_age(text) => json!("<age>"),
        Some(text) if text.ends_with(" ago)") => json!(text.split(" (").next()),
        _ => cell.clone(),
    };
    cells.as_array().unwrap().iter().map(mask).collect()
}

/// The cells of an object's row.
fn cells(definition: &Definition, object: &Value, now: Time) -> Value {
    let stored = StoredObject {
        bytes: encode_body(&definition.schema, object).unwrap().into(),
        revision: None,
    };
    let printer = TablePrinter {
        definition,
        include: IncludeObject::None,
        now,
    };
    let mut printed: Value = serde_json::from_slice(&printer.object(&stored).unwrap()).unwrap();
    printed["rows"][0]["cells"].take()
}

#[test]
fn rows_equal_those_of_kubernetes() {
    let definitions = Definition::builtin();
    let now: Time = "2026-11-15T21:20:00Z".parse().unwrap();
    let (mut checked, mut wrong) = (0, Vec::new());
    for case in recorded_cases() {
        let states = states(&case);
        for row in tables(&case)
            .iter()
            .flat_map(|table| table["rows"].as_array().into_iter().flatten())
        {
            let text = |pointer: &str| row.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let key = (
                text("/object/metadata/uid"),
                text("/object/metadata/resourceVersion"),
            );
            let Some(object) = states.get(&(key.0.to_owned(), key.1.to_owned())) else {
                continue;
            };
            let kind = GroupVersionKind::from_api_version(
                object["apiVersion"].as_str().unwrap(),
                object["kind"].as_str().unwrap(),
            );
            let kind = kind.unwrap();
            let known = definitions
                .iter()
                .find(|known| known.resource.group_version_kind() == kind);
            let Some(definition) = known else { continue };
            checked += 1;
            let (ours, theirs) = (
                without_ages(&cells(definition, object, now)),
                without_ages(&row["cells"]),
            );
            if ours != theirs {
                wrong.push(format!(
                    "{} {}: {ours:?}, recorded {theirs:?}",
                    case["name"], kind
                ));
            }
        }
    }
    assert!(checked > 20, "only {checked} recorded rows were found");
    assert!(wrong.is_empty(), "{checked} rows\n{}", wrong.join("\n"));
}

#[test]
fn a_claim_shows_what_its_volume_has_once_it_is_bound() {
    let definitions = Definition::builtin();
    let claims = definitions
        .iter()
        .find(|known| known.resource.plural == "persistentvolumeclaims")
        .unwrap();
    let now: Time = "2026-11-15T21:20:00Z".parse().unwrap();
    // It requests less than it gets.
    let status = json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}});
    for (volume, status, shown) in [
        (
            json!("pv-1"),
            status.clone(),
            json!(["Bound", "pv-1", "2Gi", "RWO"]),
        ),
        (
            json!("pv-1"),
            json!({"phase": "Pending"}),
            json!(["Pending", "pv-1", "0", ""]),
        ),
        (
            json!(null),
            json!({"phase": "Pending"}),
            json!(["Pending", "", "", ""]),
        ),
        // A status that nothing stands behind.
        (json!(null), status, json!(["Bound", "", "", ""])),
    ] {
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
            "spec": {"volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}}, "status": status,
        });
        let cells = cells(claims, &claim, now);
        assert_eq!(json!(cells.as_array().unwrap()[1..5]), shown, "{claim}");
    }
}

/// Checks some cells of an object's row, by the names of their columns.
fn check_cells(kind: &str, object: &Value, wanted: &[(&str, Value)]) {
    let definitions = Definition::builtin();
    let mut named = definitions.iter().filter(|known| known.resource.plural == kind);
    let definition = named.next().unwrap();
    let mut object = object.clone();
    let kind_of = definition.resource.group_version_kind();
    object["apiVersion"] = json!(kind_of.api_version());
    object["kind"] = json!(kind_of.kind);
    let cells = cells(definition, &object, "2026-11-15T21:20:00Z".parse().unwrap());
    let headings = definition.headings();
    for (column, cell) in wanted {
        let index = headings.iter().position(|heading| heading.name == *column);
        assert_eq!(
            cells[index.expect("a column")],
            *cell,
            "{kind} {column} of {object}"
        );
    }
}

#[test]
fn access_modes_are_shown_once_and_in_their_order() {
    let modes = json!(["ReadWriteMany", "ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany"]);
    let wanted = [("Access Modes", json!("RWO,ROX,RWX"))];
    check_cells(
        "persistentvolumes",
        &json!({"spec": {"accessModes": modes}}),
        &wanted,
    );
    let claim = json!({"spec": {"volumeName": "v"}, "status": {"accessModes": modes}});
    check_cells("persistentvolumeclaims", &claim, &wanted);
}

#[test]
fn addresses_of_load_balancers_are_shown_once_and_in_order() {
    let points =
        json!([{"hostname": "b.example.com"}, {"ip": "10.0.0.2"}, {"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]);
    let status = json!({"loadBalancer": {"ingress": points}});
    check_cells(
        "ingresses",
        &json!({"status": status}),
        &[("Address", json!("10.0.0.1,10.0.0.2,b.example.com"))],
    );
    let service = json!({"spec": {"type": "LoadBalancer", "externalIPs": ["1.1.1.1"]}, "status": status});
    let wanted = json!("10.0.0.1,10.0.0.2,b.example.com,1.1.1.1");
    check_cells("services", &service, &[("External-IP", wanted)]);
}

#[test]
fn further_rules_of_an_ingress_count_with_or_without_a_host() {
    for (hosts, shown) in [
        (&[] as &[&str], "*"),
        (&["", ""], "*"),
        (&["a", "b", "c"], "a,b,c"),
        (&["", "a", "b", "c"], "a,b,c"),
        (&["a", "b", "c", ""], "a,b,c + 1 more..."),
        (&["", "a", "b", "c", "d"], "a,b,c + 2 more..."),
    ] {
        let rules: Vec<Value> = hosts.iter().map(|host| json!({"host": host})).collect();
        let ingress = json!({"spec": {"rules": rules}});
        check_cells("ingresses", &ingress, &[("Hosts", json!(shown))]);
    }
}

#[test]
fn endpoints_without_a_ready_address_show_none_only_if_there_are_no_subsets() {
    check_cells("endpoints", &json!({}), &[("Endpoints", json!("<none>"))]);
    let unready = json!({"subsets": [{"notReadyAddresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]});
    check_cells("endpoints", &unready, &[("Endpoints", json!(""))]);
}

#[test]
fn an_empty_role_of_a_node_is_not_shown() {
    let labels = json!({"kubernetes.io/role": "", "node-role.kubernetes.io/worker": ""});
    check_cells(
        "nodes",
        &json!({"metadata": {"labels": labels}}),
        &[("Roles", json!("worker"))],
    );
}

#[test]
fn an_api_service_that_is_not_available_says_why() {
    let available = |status: &str, reason: &str| {
        let condition = json!({"type": "Available", "status": status, "reason": reason});
        json!({"status": {"conditions": [condition]}})
    };
    for (service, shown) in [
        (json!({}), "Unknown"),
        (available("True", "Passed"), "True"),
        (available("False", "MissingEndpoints"), "False (MissingEndpoints)"),
        (available("False", ""), "False"),
    ] {
        check_cells("apiservices", &service, &[("Available", json!(shown))]);
    }
}

#[test]
fn a_default_volume_attributes_class_is_marked() {
    let class = |mark: &str| {
        let mark = json!({"volumeattributesclass.alpha.kubernetes.io/is-default-class": mark});
        json!({"metadata": {"name": "gold", "annotations": mark}})
    };
    for (mark, shown) in [("true", "gold (default)"), ("false", "gold")] {
        check_cells("volumeattributesclasses", &class(mark), &[("Name", json!(shown))]);
    }
}

#[test]
fn the_parameters_of_a_binding_are_a_name_or_a_selector() {
    let selector = json!({
        "matchLabels": {"b": "2", "a": "1"},
        "matchExpressions": [{"key": "k", "operator": "In", "values": ["v", "w"]}],
    });
    let printed = "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},\
                   MatchExpressions:[]LabelSelectorRequirement{\
                   LabelSelectorRequirement{Key:k,Operator:In,Values:[v w],},},}";
    for (parameters, shown) in [
        (json!(null), "<unset>"),
        (json!({"name": "p"}), "*/p"),
        (json!({"name": "p", "namespace": "n"}), "n/p"),
        (json!({"selector": selector}), printed),
    ] {
        let binding = json!({"spec": {"paramRef": parameters}});
        for kind in [
            "validatingadmissionpolicybindings",
            "mutatingadmissionpolicybindings",
        ] {
            check_cells(kind, &binding, &[("ParamRef", json!(shown))]);
        }
    }
}

#[test]
fn an_event_names_its_object_by_kind_and_name() {
    for (object, shown) in [
        (json!({"kind": "Pod", "name": "web"}), "pod/web"),
        (json!({"kind": "Pod"}), "pod"),
        (json!({"name": "web"}), "/web"),
    ] {
        let event = json!({"involvedObject": object});
        check_cells("events", &event, &[("Object", json!(shown))]);
    }
}
