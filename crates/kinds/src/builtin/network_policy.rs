//! Network policies: who may talk to whom.

use serde_json::{Value, json};

use crate::kind::{Generation, Hooks, Kind, PLAIN};
use crate::rules::defaulting::{fill, items_mut};
use crate::rules::place::{Faults, Place};
use crate::table::Column;
use crate::table::cells::selector;

const TYPES: &[&str] = &["Ingress", "Egress"];
const PROTOCOLS: &[&str] = &["TCP", "UDP", "SCTP"];

/// What is particular to `networkpolicies`.
pub static KIND: Kind = Kind {
    group: "networking.k8s.io",
    name: "NetworkPolicy",
    plural: "networkpolicies",
    generation: Generation::Spec,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Pod-Selector", |row| json!(selector(row.at("/spec/podSelector")))),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    default,
    check: |policy, faults| check(&policy.field("spec"), faults),
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
                fill(port, "protocol", "TCP");
            }
        }
    }
    let is_empty = |name: &str| spec.get(name).and_then(Value::as_array).is_none_or(Vec::is_empty);
    let sends = !is_empty("egress");
    if is_empty("policyTypes") {
        spec["policyTypes"] = json!(&TYPES[..1 + usize::from(sends)]);
    }
}

fn check(spec: &Place<'_, '_>, faults: &mut Faults) {
    spec.field("podSelector").must_select(faults);
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.field(direction).items() {
            for port in rule.field("ports").items() {
                check_port(&port, faults);
            }
            for peer in rule.field(peers).items() {
                check_peer(&peer, faults);
            }
        }
    }
    let types = spec.field("policyTypes");
    if types.len() > TYPES.len() {
        faults.push(types.invalid("may not specify more than two policyTypes"));
        return;
    }
    types.items().for_each(|kind| kind.is_one_of(TYPES, faults));
}

fn check_port(entry: &Place<'_, '_>, faults: &mut Faults) {
    entry.field("protocol").may_be_one_of(PROTOCOLS, faults);
    let (port, end) = (entry.field("port"), entry.field("endPort"));
    let refusal = match port.value() {
        Value::Null => Some("may not be specified when `port` is not specified"),
        Value::String(_) => Some("may not be specified when `port` is non-numeric"),
        _ => None,
    };
    match refusal {
        Some(why) => {
            if end.is_set() {
                faults.push(end.invalid(why));
            }
            if port.is_set() {
                port.must_be_port_or_name(faults);
            }
        }
        None => {
            port.must_be_port(faults);
            if end.is_set() && end.number() < port.number() {
                faults.push(end.invalid("must be greater than or equal to `port`"));
            }
            if end.is_set() {
                end.must_be_port(faults);
            }
        }
    }
}

fn check_peer(peer: &Place<'_, '_>, faults: &mut Faults) {
    let selectors = ["podSelector", "namespaceSelector"].map(|name| peer.field(name));
    let selects = selectors.iter().any(Place::is_set);
    for selector in selectors {
        selector.must_select(faults);
    }
    let block = peer.field("ipBlock");
    if block.is_set() {
        check_block(&block, faults);
    }
    match (selects, block.is_set()) {
        (false, false) => faults.push(peer.required("must specify a peer")),
        (true, true) => faults.push(peer.forbidden("may not specify both ipBlock and another peer")),
        _ => {}
    }
}

fn check_block(block: &Place<'_, '_>, faults: &mut Faults) {
    let cidr = block.field("cidr");
    if cidr.text().is_empty() {
        faults.push(cidr.required(""));
        return;
    }
    let Some(range) = cidr.must_be_cidr(faults) else {
        return;
    };
    for except in block.field("except").items() {
        if let Some(inner) = except.must_be_cidr(faults)
            && !inner.is_strictly_within(&range)
        {
            faults.push(except.invalid("must be a strict subset of `cidr`"));
        }
    }
}
