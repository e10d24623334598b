//! CustomResourceDefinition: validation and defaults. [`custom`](crate::custom) compiles valid definitions.

pub(crate) mod approval;
mod patterns;
mod schema;
mod versions;

use std::collections::HashSet;

use serde_json::{Value, json};
use watchkeeper_meta::validation::{FinalizerRule, NameRule, dns1035_label, dns1123_subdomain};

use crate::kind::{Change, Generation, Hooks, Kind, PLAIN};
use crate::rules::admission::{HTTPS, check_versions};
use crate::rules::defaulting::{fill, fill_empty, object_mut};
use crate::rules::place::{Errors, Place};
use crate::rules::webhook_client;
use crate::table::Column;
use crate::table::cells::{condition, joined, list_of, plain};
use crate::{Condition, Part, Warnings, metadata};

/// The finalizer that keeps a definition until its objects are deleted.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The kind served as `customresourcedefinitions`.
pub static KIND: Kind = Kind {
    group: "apiextensions.k8s.io",
    name: "CustomResourceDefinition",
    plural: "customresourcedefinitions",
    names: NameRule::OfKind,
    key_has_group: true,
    uid_precondition: Some("precondition failed"),
    deletion_mark: Some(terminating),
    finalizers: FinalizerRule::AnyQualifiedName,
    updates_unconditionally: false,
    generation: Generation::Spec,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Scope", |row| json!(row.text("/spec/scope"))),
    Column::text("Versions", |row| json!(shown_versions(row.object))),
    Column::CREATED_AT,
    Column::text("Group", |row| json!(row.text("/spec/group"))).wide(),
    Column::text("Kind", |row| json!(row.text("/spec/names/kind"))).wide(),
    Column::text("ShortNames", |row| {
        json!(joined(row.at("/spec/names/shortNames"), ","))
    })
    .wide(),
    Column::boolean("Established", |row| {
        json!(condition(row.object, "Established") == "True")
    })
    .wide(),
];

const HOOKS: Hooks = Hooks {
    default,
    prepare_for_create: |definition, _| prepare_for_create(definition),
    prepare_for_update,
    check_new: |definition, errors| {
        check_name(definition, errors);
        check(definition, errors);
    },
    check_change,
    warn: warn_of_formats,
    ..PLAIN
};

/// A definition that is being deleted. Its objects are deleted first.
fn terminating(live: &Value, now: &str) -> Value {
    let mut new = live.clone();
    let fields = metadata::of(&mut new);
    if !fields.get("deletionTimestamp").is_none_or(Value::is_null) {
        return new;
    }
    let finalizers = fields.entry("finalizers").or_insert_with(|| json!([]));
    if let Value::Array(finalizers) = finalizers
        && !finalizers.iter().any(|name| name == FINALIZER)
    {
        finalizers.push(json!(FINALIZER));
    }
    fields.insert("deletionTimestamp".to_owned(), json!(now));
    let condition = Condition {
        kind: "Terminating",
        status: "True",
        reason: "InstanceDeletionPending",
        message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    };
    new["status"] = condition.added_to(&new["status"], now);
    new
}

/// Warns about unrecognized formats, except those the live definition already has.
fn warn_of_formats(definition: &Value, live: Option<&Value>, warnings: &Warnings) {
    let named = |definition: &Value| -> Vec<String> {
        let mut found = Vec::new();
        for version in definition["spec"]["versions"].as_array().into_iter().flatten() {
            schema::unknown_formats(&version["schema"]["openAPIV3Schema"], &mut found);
        }
        found.into_iter().map(str::to_owned).collect()
    };
    let mut known: HashSet<String> = live.map(named).into_iter().flatten().collect();
    for format in named(definition) {
        if known.insert(format.clone()) {
            warnings.add(format!("unrecognized format {format:?}"));
        }
    }
}

fn default(definition: &mut Value) {
    let Some(spec) = object_mut(definition, "spec") else {
        return;
    };
    if let Some(names) = object_mut(spec, "names") {
        let kind = names["kind"].as_str().unwrap_or_default().to_owned();
        fill_empty(names, "singular", kind.to_lowercase());
        if !kind.is_empty() {
            fill_empty(names, "listKind", format!("{kind}List"));
        }
    }
    fill(spec, "conversion", json!({"strategy": "None"}));
    let service = spec.pointer_mut("/conversion/webhook/clientConfig/service");
    if let Some(service) = service.filter(|service| service.is_object()) {
        fill(service, "port", HTTPS);
    }
}

/// Records the storage version in `status.storedVersions`.
fn prepare_for_create(definition: &mut Value) {
    if let Some(version) = storage_version(definition) {
        definition["status"] = json!({"storedVersions": [version]});
    }
}

/// Adds the storage version to `status.storedVersions`. Versions leave that list only by an explicit status write.
fn prepare_for_update(part: Part, definition: &mut Value, _: &Value, _: &str) {
    let Some(version) = storage_version(definition).filter(|_| part != Part::Status) else {
        return;
    };
    let stored = &mut definition["status"]["storedVersions"];
    // A status write may have emptied the list.
    if !stored.is_array() {
        *stored = json!([]);
    }
    if let Some(stored) = stored.as_array_mut()
        && !stored.contains(&version)
    {
        stored.push(version);
    }
}

fn storage_version(definition: &Value) -> Option<Value> {
    let versions = definition["spec"]["versions"].as_array()?;
    let stored = versions.iter().find(|version| version["storage"] == true)?;
    Some(stored["name"].clone())
}

fn check(definition: &Place<'_, '_>, errors: &mut Errors) {
    let spec = definition.field("spec");
    check_group(&spec, errors);
    spec.field("scope")
        .must_be_one_of(&["Cluster", "Namespaced"], errors);
    if spec.field("preserveUnknownFields").is_true() {
        errors.push(spec.field("preserveUnknownFields").invalid(
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ));
    }
    versions::check(&spec, errors);
    check_names(&spec.field("names"), errors);
    check_conversion(&spec.field("conversion"), errors);
    check_stored_versions(definition, errors);
    approval::check(definition, errors);
}

/// Checks that the name is `<plural>.<group>`. Both are immutable.
fn check_name(definition: &Place<'_, '_>, errors: &mut Errors) {
    let spec = definition.field("spec");
    let (plural, group) = (
        spec.field("names").field("plural").text(),
        spec.field("group").text(),
    );
    let wanted = format!("{plural}.{group}");
    let rule = |name: &str, is_prefix: bool| {
        let mut reasons = match is_prefix {
            true => NameRule::Dns1123Subdomain.check_prefix(name),
            false => NameRule::Dns1123Subdomain.check(name),
        };
        if name != wanted {
            reasons.push("must be spec.names.plural+\".\"+spec.group".to_owned());
        }
        reasons
    };
    definition.must_be_named(rule, errors);
}

fn check_group(spec: &Place<'_, '_>, errors: &mut Errors) {
    let group = spec.field("group");
    let text = group.text();
    if text.is_empty() {
        return errors.push(group.required(""));
    }
    let problems = dns1123_subdomain(text);
    if !problems.is_empty() {
        errors.push(group.invalid(problems.join(",")));
    } else if !text.contains('.') {
        errors.push(group.invalid("should be a domain with at least one dot"));
    }
}

fn check_names(names: &Place<'_, '_>, errors: &mut Errors) {
    let check_label = |name: &Place<'_, '_>, errors: &mut Errors| {
        let problems = dns1035_label(name.text());
        if !problems.is_empty() {
            errors.push(name.invalid(problems.join(",")));
        }
    };
    let check_kind = |kind: &Place<'_, '_>, errors: &mut Errors| {
        let problems = dns1035_label(&kind.text().to_lowercase());
        if !problems.is_empty() {
            let why = format!(
                "may have mixed case, but should otherwise match: {}",
                problems.join(",")
            );
            errors.push(kind.invalid(why));
        }
    };
    let field = |name| names.field(name);
    match field("plural").text() {
        "" => errors.push(field("plural").required("")),
        _ => check_label(&field("plural"), errors),
    }
    match field("singular").text() {
        "" => errors.push(field("singular").required("")),
        _ => check_label(&field("singular"), errors),
    }
    match field("kind").text() {
        "" => errors.push(field("kind").required("")),
        _ => check_kind(&field("kind"), errors),
    }
    match field("listKind").text() {
        "" => errors.push(field("listKind").required("")),
        _ => check_kind(&field("listKind"), errors),
    }
    for list in ["shortNames", "categories"] {
        field(list).items().for_each(|name| check_label(&name, errors));
    }
    let (kind, list_kind) = (field("kind"), field("listKind"));
    if !kind.text().is_empty() && kind.text() == list_kind.text() {
        errors.push(list_kind.invalid("kind and listKind may not be the same"));
    }
}

fn check_conversion(conversion: &Place<'_, '_>, errors: &mut Errors) {
    let strategy = conversion.field("strategy");
    let webhook = conversion.field("webhook");
    match strategy.text() {
        "None" => {
            for (name, called) in [
                ("clientConfig", "webhookClientConfig"),
                ("conversionReviewVersions", "conversionReviewVersions"),
            ] {
                let part = webhook.field(name);
                if part.is_set() && (part.len() > 0 || name == "clientConfig") {
                    let why = "should not be set when strategy is not set to Webhook";
                    errors.push(conversion.field(called).forbidden(why));
                }
            }
        }
        "Webhook" => {
            let config = webhook.field("clientConfig");
            let versions = webhook.field("conversionReviewVersions");
            // Errors name the v1beta1 fields, as in Kubernetes.
            let client = conversion.field("webhookClientConfig");
            match config.is_set() {
                true => webhook_client::check(&client.with_value(config.value()), errors),
                false => errors.push(client.required("required when strategy is set to Webhook")),
            }
            let reviews = conversion.field("conversionReviewVersions");
            match versions.len() {
                0 => errors.push(reviews.required("")),
                _ => check_versions(&reviews.with_value(versions.value()), errors),
            }
        }
        "" => errors.push(strategy.required("")),
        _ => errors.push(strategy.unsupported(&["None", "Webhook"])),
    }
}

fn check_stored_versions(definition: &Place<'_, '_>, errors: &mut Errors) {
    let status = definition.field("status");
    let stored = status.field("storedVersions");
    if stored.len() == 0 {
        return errors.push(stored.invalid_for(Value::Null, "must have at least one stored version"));
    }
    let versions = definition.value()["spec"]["versions"].as_array();
    let versions = || versions.into_iter().flatten();
    let known: Vec<&str> = versions().filter_map(|it| it["name"].as_str()).collect();
    for version in stored.items() {
        let text = version.text();
        if !known.contains(&text) {
            errors.push(version.invalid(format!(
                "missing from spec.versions; {text} was previously a storage version, and must remain in \
                 spec.versions until a storage migration ensures no data remains persisted in {text} and removes \
                 {text} from status.storedVersions"
            )));
        }
    }
    let texts: Vec<&str> = stored.texts().collect();
    let storage = versions().filter(|it| it["storage"] == true);
    // If several versions are marked as storage, Kubernetes checks the last.
    if let Some(name) = storage.filter_map(|it| it["name"].as_str()).next_back()
        && !texts.contains(&name)
    {
        errors.push(stored.invalid(format!("must have the storage version {name}")));
    }
}

fn check_change(change: &Change<'_>, errors: &mut Errors) {
    if change.part == Part::Status {
        return;
    }
    check(&change.new, errors);
    let (new, live) = (change.new.field("spec"), change.live.field("spec"));
    let mut must_stay = |path: &[&str]| {
        let (new, live) = match path {
            [outer, inner] => {
                let (new, live) = (new.field(outer), live.field(outer));
                return new.field(inner).must_stay(&live.field(inner), errors);
            }
            path => (new.field(path[0]), live.field(path[0])),
        };
        new.must_stay(&live, errors);
    };
    let conditions = change.live.value()["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    if conditions.any(|it| it["type"] == "Established" && it["status"] == "True") {
        must_stay(&["scope"]);
        must_stay(&["names", "kind"]);
    }
    must_stay(&["group"]);
    must_stay(&["names", "plural"]);
}

fn shown_versions(definition: &Value) -> String {
    let versions = list_of(&definition["spec"]["versions"], |version| {
        let mut name = plain(&version["name"]);
        if version["storage"] == true {
            name += "(storage)";
        }
        name
    });
    versions.join(",")
}
