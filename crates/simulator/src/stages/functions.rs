//! The functions of templates: those of Go that stages use, and KWOK's.

use serde_json::{Value, json};
use watchkeeper_wire::yaml;

use super::template::{TemplateError, refused};

/// The facts about the cluster that templates can use.
pub(super) trait Surroundings {
    /// The current time, RFC 3339.
    fn now(&self) -> String;
    /// The address of a node.
    fn node_address(&self, node: &str) -> String;
    /// The address of a pod, by its uid.
    fn pod_address(&self, uid: &str) -> String;
}

const KNOWN: [&str; 23] = [
    "Now",
    "Quote",
    "YAML",
    "NodeIP",
    "NodeIPWith",
    "NodeName",
    "NodePort",
    "PodIP",
    "PodIPWith",
    "NodeConditions",
    "Version",
    "or",
    "and",
    "not",
    "eq",
    "ne",
    "index",
    "len",
    "printf",
    "print",
    "default",
    "now",
    "quote",
];

pub(super) fn is_known(name: &str) -> bool {
    KNOWN.contains(&name)
}

/// Calls a function. A piped value is its last argument.
pub(super) fn call(
    name: &str,
    arguments: Vec<Value>,
    surroundings: &dyn Surroundings,
) -> Result<Value, TemplateError> {
    let first = || arguments.first().cloned().unwrap_or_default();
    Ok(match (name, arguments.as_slice()) {
        ("Now" | "now", []) => surroundings.now().into(),
        ("Quote" | "quote", [value]) => Value::from(text(value)).to_string().into(),
        ("YAML", [value]) => yaml_block(value, 0).into(),
        ("YAML", [value, indent]) => yaml_block(value, indent.as_u64().unwrap_or_default()).into(),
        ("NodeIP", []) => surroundings.node_address("").into(),
        // The name under which KWOK's own process is reached, which is empty unless it has one.
        ("NodeName", []) => "".into(),
        ("NodePort", []) => 10250.into(),
        ("NodeIPWith", [node]) => surroundings.node_address(&text(node)).into(),
        ("PodIP", []) => surroundings.pod_address("").into(),
        ("PodIPWith", [_, _, uid, ..]) => surroundings.pod_address(&text(uid)).into(),
        ("NodeConditions", []) => node_conditions(),
        ("Version", []) => "v1.37.0".into(),
        ("or", [_, ..]) => arguments
            .iter()
            .find(|value| holds(value))
            .or(arguments.last())
            .cloned()
            .unwrap_or_default(),
        ("and", [_, ..]) => arguments
            .iter()
            .find(|value| !holds(value))
            .or(arguments.last())
            .cloned()
            .unwrap_or_default(),
        ("not", [value]) => Value::from(!holds(value)),
        ("eq", [one, others @ ..]) if !others.is_empty() => Value::from(others.contains(one)),
        ("ne", [one, other]) => Value::from(one != other),
        ("index", [value, path @ ..]) => path.iter().fold(value.clone(), |value, key| element(&value, key)),
        ("len", [value]) => length(value)?.into(),
        ("print", _) => arguments.iter().map(text).collect::<String>().into(),
        ("printf", [_, rest @ ..]) => formatted(&text(&first()), rest)?.into(),
        ("default", [usual, value]) => {
            if holds(value) {
                value.clone()
            } else {
                usual.clone()
            }
        }
        _ => {
            return Err(refused(format!(
                "{name} cannot be called with {} arguments",
                arguments.len()
            )));
        }
    })
}

/// True unless a value is empty, as in Go.
pub(super) fn holds(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

/// A value as a template prints it. A missing one is `null`, which YAML reads as nothing.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A value as YAML on lines of its own, indented by two spaces per level.
fn yaml_block(value: &Value, indent: u64) -> String {
    let indent = "  ".repeat(indent.min(16) as usize);
    let written = yaml::to_string(value);
    written
        .trim_end()
        .lines()
        .map(|line| format!("\n{indent}{line}"))
        .collect()
}

fn element(value: &Value, key: &Value) -> Value {
    let found = match key {
        Value::String(name) => value.get(name),
        key => key
            .as_u64()
            .and_then(|index| value.get(usize::try_from(index).ok()?)),
    };
    found.cloned().unwrap_or_default()
}

fn length(value: &Value) -> Result<usize, TemplateError> {
    match value {
        Value::String(text) => Ok(text.len()),
        Value::Array(items) => Ok(items.len()),
        Value::Object(members) => Ok(members.len()),
        other => Err(refused(format!("len of {other}"))),
    }
}

/// `%s`, `%d`, `%v`, `%q` and `%%`.
fn formatted(format: &str, arguments: &[Value]) -> Result<String, TemplateError> {
    let mut arguments = arguments.iter();
    let mut out = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        let mut next = || {
            arguments
                .next()
                .ok_or_else(|| refused(format!("too few arguments for {format:?}")))
        };
        match letters.next() {
            Some('%') => out.push('%'),
            Some('s' | 'd' | 'v') => out.push_str(&text(next()?)),
            Some('q') => out.push_str(&Value::from(text(next()?)).to_string()),
            other => return Err(refused(format!("%{} is not supported", other.unwrap_or(' ')))),
        }
    }
    Ok(out)
}

/// The conditions of a healthy node.
fn node_conditions() -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| json!({"type": kind, "status": status, "reason": reason, "message": message});
    json!([
        condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        condition(
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available"
        ),
        condition(
            "DiskPressure",
            "False",
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure"
        ),
        condition(
            "PIDPressure",
            "False",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available"
        ),
        condition(
            "NetworkUnavailable",
            "False",
            "RouteCreated",
            "RouteController created a route"
        ),
    ])
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Always the same time and addresses.
    pub(in crate::stages) struct Fixed;

    impl Surroundings for Fixed {
        fn now(&self) -> String {
            "2026-01-01T00:00:00Z".to_owned()
        }

        fn node_address(&self, _: &str) -> String {
            "10.0.0.1".to_owned()
        }

        fn pod_address(&self, _: &str) -> String {
            "10.1.0.1".to_owned()
        }
    }

    #[test]
    fn functions_take_what_go_takes_and_refuse_the_rest() {
        let check = |name: &str, arguments: Value, expected: &str| {
            let arguments = arguments.as_array().unwrap().clone();
            let told = call(name, arguments, &Fixed)
                .map_or_else(|error| format!("! {error}"), |value| value.to_string());
            assert_eq!(told, expected, "{name}");
        };
        check("or", json!([null, "", "a"]), "\"a\"");
        check("and", json!([1, 0, 2]), "0");
        check("eq", json!([1, 2, 1]), "true");
        check("index", json!([{"a": [1, 2]}, "a", 1]), "2");
        check("len", json!(["abc"]), "3");
        check("default", json!(["x", ""]), "\"x\"");
        check("printf", json!(["%s-%d%%", "a", 3]), "\"a-3%\"");
        check("printf", json!(["%x", 3]), "! %x is not supported");
        check("Quote", json!([]), "! Quote cannot be called with 0 arguments");
    }
}
