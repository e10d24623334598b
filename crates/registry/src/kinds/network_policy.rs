//! Network policies: who may talk to whom.

use serde_json::{Value, json};
use watchkeeper_meta::validation::label_selector;
use watchkeeper_meta::{FieldError, FieldPath};

use super::check::{items, one_of, port, port_name, set_default, text};
use super::defaulting::items_mut;
use super::formats::{cidr, each};
use super::{Hooks, PLAIN};

pub(super) const HOOKS: Hooks = Hooks {
    default,
    faults,
    ..PLAIN
};

fn default(policy: &mut Value) {
    let spec = &mut policy["spec"];
    if !spec.is_object() {
        return;
    }
    for direction in ["ingress", "egress"] {
        for rule in items_mut(spec, direction) {
            for port in items_mut(rule, "ports") {
                set_default(port, "protocol", "TCP");
            }
        }
    }
    let sends = !spec
        .get("egress")
        .and_then(Value::as_array)
        .is_none_or(Vec::is_empty);
    let named = spec.get("policyTypes").and_then(Value::as_array);
    if named.is_none_or(Vec::is_empty) {
        let types = if sends {
            json!(["Ingress", "Egress"])
        } else {
            json!(["Ingress"])
        };
        spec["policyTypes"] = types;
    }
}

fn faults(policy: &Value) -> Vec<FieldError> {
    let spec = FieldPath::new("spec");
    let mut faults = Vec::new();
    if let Some(selector) = policy.pointer("/spec/podSelector") {
        faults.extend(label_selector(selector, &spec.child("podSelector")));
    }
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in items(policy, &format!("/spec/{direction}")).enumerate() {
            let path = spec.child(direction).index(index);
            for (index, entry) in items(rule, "/ports").enumerate() {
                port_faults(entry, &path.child("ports").index(index), &mut faults);
            }
            for (index, peer) in items(rule, &format!("/{peers}")).enumerate() {
                peer_faults(peer, &path.child(peers).index(index), &mut faults);
            }
        }
    }
    let types = spec.child("policyTypes");
    let named: Vec<&Value> = items(policy, "/spec/policyTypes").collect();
    if named.len() > 2 {
        let why = "may not specify more than two policyTypes";
        faults.push(FieldError::invalid(&types, json!(named), why));
        return faults;
    }
    for (index, name) in named.iter().enumerate() {
        let name = name.as_str().unwrap_or_default();
        one_of(&mut faults, &types.index(index), name, &["Ingress", "Egress"]);
    }
    faults
}

fn port_faults(entry: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    if let Some(protocol) = entry.get("protocol").and_then(Value::as_str) {
        one_of(faults, &path.child("protocol"), protocol, &["SCTP", "TCP", "UDP"]);
    }
    let end = entry.get("endPort").and_then(Value::as_i64);
    let end_path = path.child("endPort");
    match (entry.get("port"), end) {
        (Some(Value::String(name)), end) => {
            if let Some(end) = end {
                let why = "may not be specified when `port` is non-numeric";
                faults.push(FieldError::invalid(&end_path, end, why));
            }
            each(faults, &path.child("port"), name, port_name(name));
        }
        (Some(number), end) => {
            let number = number.as_i64().unwrap_or_default();
            port(faults, &path.child("port"), number);
            if let Some(end) = end {
                if end < number {
                    let why = "must be greater than or equal to `port`";
                    faults.push(FieldError::invalid(&end_path, number, why));
                }
                port(faults, &end_path, end);
            }
        }
        (None, Some(end)) => {
            let why = "may not be specified when `port` is not specified";
            faults.push(FieldError::invalid(&end_path, end, why));
        }
        (None, None) => {}
    }
}

fn peer_faults(peer: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let selectors = ["podSelector", "namespaceSelector"];
    let named = selectors.iter().filter(|name| peer.get(name).is_some()).count();
    for name in selectors {
        if let Some(selector) = peer.get(name) {
            faults.extend(label_selector(selector, &path.child(name)));
        }
    }
    let block = peer.get("ipBlock");
    if let Some(block) = block {
        block_faults(block, &path.child("ipBlock"), faults);
    }
    match (named, block) {
        (0, None) => faults.push(FieldError::required(path, "must specify a peer")),
        (1.., Some(_)) => {
            let why = "may not specify both ipBlock and another peer";
            faults.push(FieldError::forbidden(path, why));
        }
        _ => {}
    }
}

fn block_faults(block: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let range = text(block, "/cidr");
    if range.is_empty() {
        faults.push(FieldError::required(&path.child("cidr"), "cidr is required"));
        return;
    }
    let Some(range) = cidr(faults, &path.child("cidr"), range) else {
        return;
    };
    for (index, except) in items(block, "/except").enumerate() {
        let except = except.as_str().unwrap_or_default();
        let path = path.child("except").index(index);
        if let Some(inner) = cidr(faults, &path, except)
            && !inner.is_strictly_within(&range)
        {
            each(faults, &path, except, ["must be a strict subset of `cidr`"]);
        }
    }
}
