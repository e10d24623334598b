//! NetworkPolicy: the traffic that pods accept and send.

use serde_json::{Value, json};

use crate::kind::{Generation, Hooks, Kind, PLAIN};
use crate::rules::defaulting::{fill, items_mut};
use crate::rules::formats::warn_of_cidr;
use crate::rules::place::{Errors, Place};
use crate::table::Column;
use crate::table::cells::selector;

/// The directions of traffic with the lists of their peers.
const PEERS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];
const TYPES: &[&str] = &["Ingress", "Egress"];
const PROTOCOLS: &[&str] = &["TCP", "UDP", "SCTP"];

/// The kind served as `networkpolicies`.
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
    check: |policy, errors| check(&policy.field("spec"), errors),
    warn: |policy, _, warnings| {
        let policy = Place::object(policy);
        let spec = policy.field("spec");
        for (direction, peers) in PEERS {
            for rule in spec.field(direction).items() {
                for peer in rule.field(peers).items() {
                    let block = peer.field("ipBlock");
                    warn_of_cidr(&block.field("cidr"), warnings);
                    let except = block.field("except");
                    except.items().for_each(|range| warn_of_cidr(&range, warnings));
                }
            }
        }
    },
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

fn check(spec: &Place<'_, '_>, errors: &mut Errors) {
    spec.field("podSelector").must_select(errors);
    for (direction, peers) in PEERS {
        for rule in spec.field(direction).items() {
            for port in rule.field("ports").items() {
                check_port(&port, errors);
            }
            for peer in rule.field(peers).items() {
                check_peer(&peer, errors);
            }
        }
    }
    let types = spec.field("policyTypes");
    if types.len() > TYPES.len() {
        errors.push(types.invalid("may not specify more than two policyTypes"));
        return;
    }
    types.items().for_each(|kind| kind.is_one_of(TYPES, errors));
}

fn check_port(entry: &Place<'_, '_>, errors: &mut Errors) {
    entry.field("protocol").may_be_one_of(PROTOCOLS, errors);
    let (port, end) = (entry.field("port"), entry.field("endPort"));
    let refusal = match port.value() {
        Value::Null => Some("may not be specified when `port` is not specified"),
        Value::String(_) => Some("may not be specified when `port` is non-numeric"),
        _ => None,
    };
    match refusal {
        Some(why) => {
            if end.is_set() {
                errors.push(end.invalid(why));
            }
            if port.is_set() {
                port.must_be_port_or_name(errors);
            }
        }
        None => {
            port.must_be_port(errors);
            if end.is_set() && end.number() < port.number() {
                // Kubernetes shows the port here, not the end of the range.
                errors.push(end.invalid_for(port.value().clone(), "must be greater than or equal to `port`"));
            }
            if end.is_set() {
                end.must_be_port(errors);
            }
        }
    }
}

fn check_peer(peer: &Place<'_, '_>, errors: &mut Errors) {
    let selectors = ["podSelector", "namespaceSelector"].map(|name| peer.field(name));
    let selects = selectors.iter().any(Place::is_set);
    for selector in selectors {
        selector.must_select(errors);
    }
    let block = peer.field("ipBlock");
    if block.is_set() {
        check_block(&block, errors);
    }
    match (selects, block.is_set()) {
        (false, false) => errors.push(peer.required("must specify a peer")),
        (true, true) => errors.push(peer.forbidden("may not specify both ipBlock and another peer")),
        _ => {}
    }
}

fn check_block(block: &Place<'_, '_>, errors: &mut Errors) {
    let cidr = block.field("cidr");
    if cidr.text().is_empty() {
        errors.push(cidr.required(""));
        return;
    }
    let Some(range) = cidr.must_be_cidr(errors) else {
        return;
    };
    for except in block.field("except").items() {
        if let Some(inner) = except.must_be_cidr(errors)
            && !inner.is_strictly_within(&range)
        {
            errors.push(except.invalid("must be a strict subset of `cidr`"));
        }
    }
}
