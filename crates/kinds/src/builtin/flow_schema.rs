//! FlowSchema: assigns requests to priority levels.

pub(crate) mod suggested;

use serde_json::json;
use watchkeeper_meta::FieldError;
use watchkeeper_meta::validation::{dns1123_label, dns1123_subdomain};

use crate::Part;
use crate::kind::{Generation, Hooks, Kind, PLAIN};
use crate::rules::defaulting::fill_zero;
use crate::rules::flow_control::check_status;
use crate::rules::place::{Errors, Place};
use crate::table::Column;
use crate::table::cells::{condition, or};

const MAX_PRECEDENCE: i64 = 10_000;
/// The only schema that may have the first precedence.
const EXEMPT: &str = "exempt";
const DISTINGUISHERS: &[&str] = &["ByNamespace", "ByUser"];
const VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "proxy",
    "update",
    "watch",
];
const SUBJECTS: &[&str] = &["Group", "ServiceAccount", "User"];

/// The kind served as `flowschemas`.
pub static KIND: Kind = Kind {
    group: "flowcontrol.apiserver.k8s.io",
    name: "FlowSchema",
    plural: "flowschemas",
    status_keeps_metadata: true,
    generation: Generation::Spec,
    columns: COLUMNS,
    row_order: Some(|schema| schema["spec"]["matchingPrecedence"].as_i64().unwrap_or_default()),
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("PriorityLevel", |row| {
        row.text_or_none("/spec/priorityLevelConfiguration/name")
    }),
    Column::text("MatchingPrecedence", |row| row.count("/spec/matchingPrecedence")),
    Column::text("DistinguisherMethod", |row| {
        row.text_or_none("/spec/distinguisherMethod/type")
    }),
    Column::AGE,
    Column::text("MissingPL", |row| {
        json!(or(condition(row.object, "Dangling"), "?"))
    }),
];

const HOOKS: Hooks = Hooks {
    default: |schema| fill_zero(&mut schema["spec"], "matchingPrecedence", 1000),
    check: |schema, errors| {
        let metadata = schema.field("metadata");
        check(&schema.field("spec"), metadata.field("name").text(), errors);
    },
    check_change: |change, errors| {
        if change.part == Part::Status {
            check_status(&change.new.field("status"), errors);
        }
    },
    ..PLAIN
};

fn check(spec: &Place<'_, '_>, name: &str, errors: &mut Errors) {
    let precedence = spec.field("matchingPrecedence");
    match precedence.number() {
        ..=0 => errors.push(precedence.invalid("must be a positive value")),
        number if number > MAX_PRECEDENCE => {
            errors.push(precedence.invalid(format!("must not be greater than {MAX_PRECEDENCE}")));
        }
        1 if name != EXEMPT => {
            let why = "only the schema named 'exempt' may have matchingPrecedence 1";
            errors.push(precedence.invalid(why));
        }
        _ => {}
    }
    let method = spec.field("distinguisherMethod");
    if method.is_set() {
        method.field("type").is_one_of(DISTINGUISHERS, errors);
    }
    let level = spec.field("priorityLevelConfiguration");
    let level = level.field("name");
    match level.text() {
        "" => errors.push(level.required("must reference a priority level")),
        _ => level.must_keep(dns1123_subdomain, errors),
    }
    spec.field("rules")
        .items()
        .for_each(|rule| check_rule(&rule, errors));
}

/// Checks a rule: its subjects, and the requests it matches.
fn check_rule(rule: &Place<'_, '_>, errors: &mut Errors) {
    let subjects = rule.field("subjects");
    if subjects.len() == 0 {
        errors.push(subjects.required("subjects must contain at least one value"));
    }
    subjects
        .items()
        .for_each(|subject| check_subject(&subject, errors));
    let (resources, urls) = (rule.field("resourceRules"), rule.field("nonResourceRules"));
    if resources.len() == 0 && urls.len() == 0 {
        let why = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.push(rule.required(why));
    }
    resources.items().for_each(|rule| check_resources(&rule, errors));
    urls.items().for_each(|rule| check_urls(&rule, errors));
}

/// Checks that a subject sets the field of its kind and no other.
fn check_subject(subject: &Place<'_, '_>, errors: &mut Errors) {
    let kind = subject.field("kind");
    let fields = [
        ("serviceAccount", "ServiceAccount"),
        ("user", "User"),
        ("group", "Group"),
    ];
    let Some((own, name)) = fields.into_iter().find(|(_, name)| *name == kind.text()) else {
        return kind.is_one_of(SUBJECTS, errors);
    };
    let named = subject.field(own);
    match named.is_set() {
        false => errors.push(named.required(&format!("{own} is required when subject kind is '{name}'"))),
        true if own == "serviceAccount" => check_account(&named, errors),
        true => named.field("name").must_be_set(errors),
    }
    for (other, name) in fields.into_iter().filter(|(field, _)| *field != own) {
        let field = subject.field(other);
        if field.is_set() {
            let why = format!("{other} is forbidden when subject kind is not '{name}'");
            errors.push(field.forbidden(why));
        }
    }
}

fn check_account(account: &Place<'_, '_>, errors: &mut Errors) {
    let (name, namespace) = (account.field("name"), account.field("namespace"));
    if name.text() != "*" {
        name.must_be_set_and_keep(dns1123_subdomain, errors);
    }
    match namespace.text() {
        "" => errors.push(namespace.required("must specify namespace for service account")),
        _ => namespace.must_keep(dns1123_label, errors),
    }
}

fn check_resources(rule: &Place<'_, '_>, errors: &mut Errors) {
    check_verbs(&rule.field("verbs"), errors);
    for (name, one, others) in [
        ("apiGroups", "api group", "api groups"),
        ("resources", "resource", "resources"),
    ] {
        let list = rule.field(name);
        if list.len() == 0 {
            errors.push(list.required(&format!("resource rules must supply at least one {one}")));
        }
        check_wildcard(&list, others, errors);
    }
    let namespaces = rule.field("namespaces");
    if namespaces.len() == 0 && !rule.field("clusterScope").is_true() {
        let why = "resource rules that are not cluster scoped must supply at least one namespace";
        errors.push(namespaces.required(why));
    }
    if check_wildcard(&namespaces, "namespaces", errors) {
        return;
    }
    for namespace in namespaces.items() {
        let reasons = dns1123_label(namespace.text()).into_iter();
        errors.extend(reasons.map(|why| {
            namespace.invalid(format!(
                "each member of this list must be '*' or a DNS-1123 label; {why}"
            ))
        }));
    }
}

fn check_verbs(verbs: &Place<'_, '_>, errors: &mut Errors) {
    if verbs.len() == 0 {
        errors.push(verbs.required("verbs must contain at least one value"));
    }
    let has_all = check_wildcard(verbs, "verbs", errors);
    if !has_all && verbs.texts().any(|verb| !VERBS.contains(&verb)) {
        let error = FieldError::not_supported(&verbs.path(), verbs.value().clone(), VERBS);
        errors.push(error);
    }
}

/// Returns true if a list contains `*`, and checks that it then contains nothing else.
fn check_wildcard(list: &Place<'_, '_>, others: &str, errors: &mut Errors) -> bool {
    let has_all = list.texts().any(|text| text == "*");
    if has_all && list.len() > 1 {
        errors.push(list.invalid(format!("if '*' is present, must not specify other {others}")));
    }
    has_all
}

fn check_urls(rule: &Place<'_, '_>, errors: &mut Errors) {
    check_verbs(&rule.field("verbs"), errors);
    let urls = rule.field("nonResourceURLs");
    if urls.len() == 0 {
        errors.push(urls.required("nonResourceURLs must contain at least one value"));
    }
    if check_wildcard(&urls, "non-resource URLs", errors) {
        return;
    }
    for url in urls.items() {
        let (text, stars) = (url.text(), url.text().matches('*').count());
        let why = match text {
            "" => "must not be empty",
            "/" => continue,
            _ if !text.starts_with('/') => "must start with slash",
            _ if text.contains(' ') => "must not contain white-space",
            _ if text.contains("//") => "must not contain double slash",
            _ if stars > 1 || (stars == 1 && !text.ends_with("/*")) => "wildcard can only do suffix matching",
            _ => continue,
        };
        errors.push(url.invalid_for(text, why));
    }
}
