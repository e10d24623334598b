//! The environment variables of a container.

use serde_json::Value;
use watchkeeper_wire::values::Quantity;

use super::super::page::{Page, items, text, text_or};

/// The variables of a container of a pod, or of a template: then there is no pod.
pub(super) fn environment(container: &Value, pod: &Value, page: &mut Page) {
    if !items(&container["envFrom"]).is_empty() {
        page.line(2, "Environment Variables from:");
    }
    for source in items(&container["envFrom"]) {
        for (kind, field) in [("ConfigMap", "configMapRef"), ("Secret", "secretRef")] {
            let from = &source[field];
            if !from.is_null() {
                let optional = from["optional"].as_bool().unwrap_or_default();
                let prefix = match text(&source["prefix"]) {
                    prefix if prefix.is_empty() => prefix,
                    prefix => format!(" with prefix '{prefix}'"),
                };
                page.line(
                    3,
                    format!("{}\t{kind}{prefix}\tOptional: {optional}", text(&from["name"])),
                );
            }
        }
    }
    match items(&container["env"]) {
        [] => page.field(2, "Environment", "<none>"),
        variables => {
            page.line(2, "Environment:");
            for variable in variables {
                let text = self::variable(variable, container, pod);
                let mut lines = text.split('\n');
                page.line(3, lines.next().unwrap_or_default());
                lines.for_each(|line| page.line(3, format!("\t{line}")));
            }
        }
    }
}

fn variable(variable: &Value, container: &Value, pod: &Value) -> String {
    let (name, from) = (text(&variable["name"]), &variable["valueFrom"]);
    let key = |from: &Value, what: &str| {
        let optional = from["optional"].as_bool().unwrap_or_default();
        let (key, owner) = (text(&from["key"]), text(&from["name"]));
        format!("{name}:\t<set to the key '{key}' {what} '{owner}'>\tOptional: {optional}")
    };
    let (field, resource) = (&from["fieldRef"], &from["resourceFieldRef"]);
    if !from["secretKeyRef"].is_null() {
        key(&from["secretKeyRef"], "in secret")
    } else if !from["configMapKeyRef"].is_null() {
        key(&from["configMapKeyRef"], "of config map")
    } else if !field.is_null() {
        let path = text(&field["fieldPath"]);
        let version = text_or(&field["apiVersion"], "v1");
        format!("{name}:\t{} ({version}:{path})", value_at(pod, &path))
    } else if !resource.is_null() {
        let amount = amount(container, resource);
        format!("{name}:\t{amount} ({})", text(&resource["resource"]))
    } else {
        format!("{name}:\t{}", text(&variable["value"]))
    }
}

/// The field of a pod that a variable names: kubectl knows these two. Nothing in a template.
fn value_at(pod: &Value, path: &str) -> String {
    match path {
        "metadata.name" => text(&pod["metadata"]["name"]),
        "metadata.namespace" => text(&pod["metadata"]["namespace"]),
        _ => String::new(),
    }
}

/// The amount of a resource of the container, such as `limits.cpu`, in units of the divisor.
fn amount(container: &Value, wanted: &Value) -> String {
    let resource = text(&wanted["resource"]);
    let (list, name) = resource.split_once('.').unwrap_or_default();
    let in_units = |value: &Value, absent: &str| {
        let quantity = text_or(value, absent).parse::<Quantity>().ok()?;
        match name {
            "cpu" => quantity.to_milli(),
            _ => quantity.to_i64(),
        }
    };
    let divisor = in_units(&wanted["divisor"], "0").filter(|divisor| *divisor > 0);
    let divisor = divisor.or_else(|| in_units(&Value::Null, "1")).unwrap_or(1);
    let amount = in_units(&container["resources"][list][name], "0");
    amount.map_or(String::new(), |amount| {
        amount.unsigned_abs().div_ceil(divisor.unsigned_abs()).to_string()
    })
}
