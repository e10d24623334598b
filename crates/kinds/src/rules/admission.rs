//! Validation of admission webhooks and policies. The registry calls and evaluates them.

use std::collections::HashSet;

use serde_json::{Value, json};
use watchkeeper_cel::Type;
use watchkeeper_meta::validation::{dns1035_label, dns1123_subdomain, path_segment_name, qualified_name};

use crate::expressions::Environments;
use crate::rules::defaulting::{fill, items_mut, object_mut};
use crate::rules::place::{Errors, Place};
use crate::rules::webhook_client;
use crate::table::Column;
use crate::table::cells::param_ref;

/// The columns of both kinds of bindings.
pub(crate) const BINDING_COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("PolicyName", |row| json!(row.text("/spec/policyName"))),
    Column::text("ParamRef", |row| json!(param_ref(row.at("/spec/paramRef")))),
    Column::AGE,
];

pub(crate) const HTTPS: i64 = 443;
/// The default timeout of a webhook, in seconds.
pub(crate) const TIMEOUT_SECONDS: i64 = 10;
pub(crate) const MAX_TIMEOUT_SECONDS: i64 = 30;
pub(crate) const ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];
pub(crate) const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
/// The supported versions of admission reviews.
pub(crate) const REVIEW_VERSIONS: &[&str] = &["v1", "v1beta1"];
/// The largest number of match conditions.
pub(crate) const MAX_CONDITIONS: usize = 64;
const MATCH_POLICIES: &[&str] = &["Equivalent", "Exact"];
/// Names that variables cannot have.
const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];
pub(crate) const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

pub(crate) fn default_policy(policy: &mut Value) {
    let Some(spec) = policy.get_mut("spec") else {
        return;
    };
    fill(spec, "failurePolicy", "Fail");
    if let Some(constraints) = object_mut(spec, "matchConstraints") {
        default_match(constraints, &["resourceRules", "excludeResourceRules"]);
    }
}

pub(crate) fn default_binding(binding: &mut Value) {
    let spec = binding.get_mut("spec");
    if let Some(resources) = spec.and_then(|spec| object_mut(spec, "matchResources")) {
        default_match(resources, &["resourceRules", "excludeResourceRules"]);
    }
}

pub(crate) fn default_webhook(webhook: &mut Value) {
    fill(webhook, "failurePolicy", "Fail");
    fill(webhook, "timeoutSeconds", TIMEOUT_SECONDS);
    default_match(webhook, &["rules"]);
    let service = webhook
        .get_mut("clientConfig")
        .and_then(|config| config.get_mut("service"));
    if let Some(service) = service {
        fill(service, "port", HTTPS);
    }
}

/// Sets the defaults of match rules, which webhooks and policies share.
pub(crate) fn default_match(matching: &mut Value, rules: &[&str]) {
    fill(matching, "matchPolicy", "Equivalent");
    fill(matching, "namespaceSelector", json!({}));
    fill(matching, "objectSelector", json!({}));
    for name in rules {
        for rule in items_mut(matching, name) {
            fill(rule, "scope", "*");
        }
    }
}

pub(crate) fn check_webhooks(configuration: &Place<'_, '_>, errors: &mut Errors) {
    let mut names = HashSet::new();
    for webhook in configuration.field("webhooks").items() {
        check_webhook(&webhook, errors);
        let name = webhook.field("name");
        if !name.text().is_empty() && !names.insert(name.text()) {
            errors.push(name.duplicate());
        }
    }
}

pub(crate) fn check_webhook(webhook: &Place<'_, '_>, errors: &mut Errors) {
    check_name(&webhook.field("name"), errors);
    for rule in webhook.field("rules").items() {
        check_rule(&rule, errors);
    }
    webhook
        .field("failurePolicy")
        .may_be_one_of(FAILURE_POLICIES, errors);
    webhook.field("matchPolicy").may_be_one_of(MATCH_POLICIES, errors);
    let effects = webhook.field("sideEffects");
    match effects.is_set() {
        false => errors.push(effects.required("must specify one of None, NoneOnDryRun")),
        true => effects.is_one_of(&["None", "NoneOnDryRun"], errors),
    }
    let timeout = webhook.field("timeoutSeconds");
    if timeout.is_set() && !(1..=MAX_TIMEOUT_SECONDS).contains(&timeout.number()) {
        errors.push(timeout.invalid("the timeout value must be between 1 and 30 seconds"));
    }
    check_selectors(webhook, errors);
    webhook
        .field("reinvocationPolicy")
        .may_be_one_of(&["IfNeeded", "Never"], errors);
    webhook_client::check(&webhook.field("clientConfig"), errors);
    check_conditions(webhook, errors);
    check_versions(&webhook.field("admissionReviewVersions"), errors);
}

/// Validates match conditions.
pub(crate) fn check_conditions(asked: &Place<'_, '_>, errors: &mut Errors) {
    let conditions = asked.field("matchConditions");
    if conditions.len() > MAX_CONDITIONS {
        errors.push(conditions.too_many(MAX_CONDITIONS));
    }
    let environments = Environments::of(asked.value()).without_variables();
    let mut names = HashSet::new();
    for condition in conditions.items() {
        let (name, expression) = (condition.field("name"), condition.field("expression"));
        match expression.text().trim() {
            "" => errors.push(expression.required("")),
            _ => environments.check(&expression, &[Type::Bool], errors),
        }
        name.must_be_set_and_keep(qualified_name, errors);
        if !name.text().is_empty() && !names.insert(name.text()) {
            errors.push(name.duplicate());
        }
    }
}

pub(crate) fn check_versions(versions: &Place<'_, '_>, errors: &mut Errors) {
    let known = REVIEW_VERSIONS.join(", ");
    if versions.len() == 0 {
        return errors.push(versions.required(&format!("must specify one of {known}")));
    }
    let mut seen = HashSet::new();
    for version in versions.items() {
        match seen.insert(version.text()) {
            true => version.must_keep(dns1035_label, errors),
            false => errors.push(version.invalid("duplicate version")),
        }
    }
    if !REVIEW_VERSIONS.iter().any(|known| seen.contains(known)) {
        errors.push(versions.invalid(format!("must include at least one of {known}")));
    }
}

pub(crate) fn check_name(name: &Place<'_, '_>, errors: &mut Errors) {
    let problems = dns1123_subdomain(name.text());
    errors.extend(if name.text().is_empty() {
        Some(name.required(""))
    } else if !problems.is_empty() {
        Some(name.invalid(problems.join(",")))
    } else if name.text().split('.').count() < 3 {
        Some(name.invalid("should be a domain with at least three segments separated by dots"))
    } else {
        None
    });
}

pub(crate) fn check_selectors(matching: &Place<'_, '_>, errors: &mut Errors) {
    for name in ["namespaceSelector", "objectSelector"] {
        matching.field(name).must_select(errors);
    }
}

/// Validates the match resources of a policy or a binding.
pub(crate) fn check_match_resources(matching: &Place<'_, '_>, errors: &mut Errors) {
    matching
        .field("matchPolicy")
        .may_be_one_of(MATCH_POLICIES, errors);
    check_selectors(matching, errors);
    for name in ["resourceRules", "excludeResourceRules"] {
        for rule in matching.field(name).items() {
            check_resource_names(&rule.field("resourceNames"), errors);
            check_rule(&rule, errors);
        }
    }
}

fn check_resource_names(names: &Place<'_, '_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for name in names.items() {
        name.must_keep(path_segment_name, errors);
        if !seen.insert(name.text()) {
            errors.push(name.duplicate());
        }
    }
}

/// Validates a match rule.
pub(crate) fn check_rule(rule: &Place<'_, '_>, errors: &mut Errors) {
    let operations = rule.field("operations");
    check_wildcard(&operations, "operations", errors);
    operations
        .items()
        .for_each(|operation| operation.is_one_of(OPERATIONS, errors));
    check_wildcard(&rule.field("apiGroups"), "API groups", errors);
    let versions = rule.field("apiVersions");
    check_wildcard(&versions, "API versions", errors);
    versions.items().for_each(|version| version.must_be_set(errors));
    check_resources(&rule.field("resources"), errors);
    rule.field("scope")
        .may_be_one_of(&["*", "Cluster", "Namespaced"], errors);
}

/// Refuses an empty list, and `*` together with others.
fn check_wildcard(list: &Place<'_, '_>, what: &str, errors: &mut Errors) {
    if list.len() == 0 {
        errors.push(list.required(""));
    }
    if list.len() > 1 && list.texts().any(|text| text == "*") {
        errors.push(list.invalid(format!("if '*' is present, must not specify other {what}")));
    }
}

/// Validates resources and subresources, which must not overlap.
fn check_resources(resources: &Place<'_, '_>, errors: &mut Errors) {
    if resources.len() == 0 {
        errors.push(resources.required(""));
    }
    let (mut all_of, mut everywhere) = (HashSet::new(), HashSet::new());
    for resource in resources.items() {
        let text = resource.text();
        let Some((name, sub)) = text.split_once('/') else {
            resource.must_be_set(errors);
            continue;
        };
        if all_of.contains(name) {
            errors.push(resource.invalid(format!("if '{name}/*' is present, must not specify {text}")));
        }
        if everywhere.contains(sub) {
            errors.push(resource.invalid(format!("if '*/{sub}' is present, must not specify {text}")));
        }
        if sub == "*" {
            all_of.insert(name);
        }
        if name == "*" {
            everywhere.insert(sub);
        }
    }
    let has = |wanted: &str| resources.texts().any(|text| text == wanted);
    if resources.len() > 1 && has("*/*") {
        errors.push(resources.invalid("if '*/*' is present, must not specify other resources"));
    }
    // Of those without a subresource, Kubernetes keeps the last.
    let plain = resources
        .texts()
        .filter(|text| !text.is_empty() && !text.contains('/'));
    if has("*") && plain.last().is_some_and(|last| last != "*") {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.push(resources.invalid(why));
    }
}

/// Validates the common part of both kinds of policies: failure policy, parameter kind, match constraints.
pub(crate) fn check_policy(spec: &Place<'_, '_>, errors: &mut Errors) {
    spec.field("failurePolicy")
        .may_be_one_of(FAILURE_POLICIES, errors);
    let kind = spec.field("paramKind");
    if kind.is_set() {
        check_param_kind(&kind, errors);
    }
    let constraints = spec.field("matchConstraints");
    if !constraints.is_set() {
        return errors.push(constraints.required(""));
    }
    check_match_resources(&constraints, errors);
    let rules = constraints.field("resourceRules");
    if rules.len() == 0 {
        errors.push(rules.required(""));
    }
}

fn check_param_kind(kind: &Place<'_, '_>, errors: &mut Errors) {
    let (version, name) = (kind.field("apiVersion"), kind.field("kind"));
    let text = version.text();
    match text.split('/').collect::<Vec<_>>()[..] {
        _ if text.is_empty() => errors.push(version.required("")),
        [only] => check_version(&version, only, errors),
        [group, rest] => {
            let problems = dns1123_subdomain(group);
            if !group.is_empty() && !problems.is_empty() {
                errors.push(version.invalid_for(group, problems.join(",")));
            }
            check_version(&version, rest, errors);
        }
        _ => errors.push(version.invalid(format!("unexpected GroupVersion string: {text}"))),
    }
    let problems = dns1035_label(&name.text().to_lowercase());
    if name.text().is_empty() {
        errors.push(name.required(""));
    } else if !problems.is_empty() {
        errors.push(name.invalid(format!(
            "may have mixed case, but should otherwise match: {}",
            problems.join(",")
        )));
    }
}

fn check_version(at: &Place<'_, '_>, version: &str, errors: &mut Errors) {
    let problems = dns1035_label(version);
    if version.is_empty() {
        errors.push(at.invalid("version must be specified"));
    } else if !problems.is_empty() {
        errors.push(at.invalid_for(version, problems.join(",")));
    }
}

/// The most variables of a policy. Each compiled expression knows the types of all variables before it, so memory grows with
/// the square of their number. Kubernetes has no limit of its own.
const MAX_VARIABLES: usize = 256;

/// Validates the variables of a policy; later expressions can use them.
pub(crate) fn check_variables(spec: &Place<'_, '_>, errors: &mut Errors) -> Environments {
    let mut environments = Environments::of(spec.value());
    let variables = spec.field("variables");
    if variables.len() > MAX_VARIABLES {
        errors.push(variables.too_many(MAX_VARIABLES));
        return environments;
    }
    for variable in variables.items() {
        let (name, expression) = (variable.field("name"), variable.field("expression"));
        if name.text().trim().is_empty() {
            errors.push(name.required("name is not specified"));
        } else if !is_identifier(name.text()) {
            errors.push(name.invalid("must be a valid CEL identifier"));
        }
        match expression.text().trim() {
            "" => errors.push(expression.required("expression is not specified")),
            _ => environments.check(&expression, &[], errors),
        }
        let compiled = environments.compile(expression.text(), &[]);
        environments.add(name.text(), &compiled);
    }
    environments
}

fn is_identifier(name: &str) -> bool {
    let is_first = |first: char| first.is_ascii_alphabetic() || first == '_';
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.starts_with(is_first) && name.bytes().all(fits) && !RESERVED.contains(&name)
}

/// Validates the common part of both kinds of bindings: policy name, parameters, match resources.
pub(crate) fn check_binding(spec: &Place<'_, '_>, errors: &mut Errors) {
    spec.field("policyName")
        .must_be_set_and_keep(dns1123_subdomain, errors);
    let parameters = spec.field("paramRef");
    if parameters.is_set() {
        check_param_ref(&parameters, errors);
    }
    let matching = spec.field("matchResources");
    if matching.is_set() {
        check_match_resources(&matching, errors);
    }
}

fn check_param_ref(parameters: &Place<'_, '_>, errors: &mut Errors) {
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    let (name, selector) = (parameters.field("name"), parameters.field("selector"));
    let has_both = !name.text().is_empty() && selector.is_set();
    name.may_keep(path_segment_name, errors);
    if has_both {
        errors.push(name.forbidden(EXCLUSIVE));
    }
    selector.must_select(errors);
    if has_both {
        errors.push(selector.forbidden(EXCLUSIVE));
    }
    if name.text().is_empty() && !selector.is_set() {
        errors.push(parameters.required("one of name or selector must be specified"));
    }
    parameters
        .field("parameterNotFoundAction")
        .must_be_one_of(&["Deny", "Allow"], errors);
}
