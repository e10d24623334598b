//! Prints objects as Go prints its own structs: every field by its Go name, unset ones included. Some error texts
//! quote such structs, and Kubernetes shows the change of a pod as the difference of two of them.
//!
//! The layout is data. A line is a struct and its fields in order, continued by indented lines. A field without a
//! mark is a text; the marks are:
//!
//! ```text
//! Name?        a pointer, list or map of plain values: null if unset
//! Name#        a number     Name!  a boolean     Name%  a number or a text
//! Name=Struct  a struct     Name?Struct  a pointer to one     Name*Struct  a list of them
//! +Struct      the fields of another struct, inlined
//! ```
//!
//! Metadata and selectors have JSON names even in Go's own structs. Such a field starts with a small letter, and is
//! omitted if it has a mark and is unset.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Value, json};
use watchkeeper_meta::go_json;
use watchkeeper_wire::schema::{Schema, Shape};

/// The structs that error texts quote, and those within them, in the order of Go's declarations.
const LAYOUT: &str = include_str!("go_structs.txt");

/// A struct of many kinds.
pub(crate) const LABEL_SELECTOR: &str = "LabelSelector";

/// Fields whose JSON names do not follow from their Go names.
const RENAMED: &[(&str, &str)] = &[
    ("CephFS", "cephfs"),
    ("CephMonitors", "monitors"),
    ("DataDiskURI", "diskURI"),
    ("DeprecatedServiceAccount", "serviceAccount"),
    ("DiscoveryCHAPAuth", "chapAuthDiscovery"),
    ("EndpointsName", "endpoints"),
    ("RBDImage", "image"),
    ("RBDPool", "pool"),
    ("RadosUser", "user"),
    ("SessionCHAPAuth", "chapAuthSession"),
    ("StorageOS", "storageos"),
    ("WWIDs", "wwids"),
];

/// Marks of fields.
const MARKS: [char; 6] = ['?', '#', '!', '%', '=', '*'];

/// The structs by name; each token is a field.
static STRUCTS: LazyLock<HashMap<&str, Vec<&str>>> = LazyLock::new(|| {
    let mut structs = HashMap::new();
    let mut current = "";
    for line in LAYOUT.lines() {
        let mut words = line.split_whitespace();
        if !line.starts_with(' ') {
            current = words.next().unwrap_or_default();
        }
        structs.entry(current).or_insert_with(Vec::new).extend(words);
    }
    structs
});

/// An object on one line, as a struct of the layout.
pub(crate) fn structure(name: &str, object: &Value) -> String {
    let mut printer = Printer {
        compact: true,
        ..Printer::default()
    };
    printer.structure(name, object, 0);
    printer.out
}

/// Objects on one line, as structs of the layout.
pub(crate) fn list(name: &str, objects: &Value) -> String {
    let objects = objects.as_array().into_iter().flatten();
    let printed: Vec<String> = objects.map(|object| structure(name, object)).collect();
    format!("[{}]", printed.join(","))
}

/// An object, line by line.
pub(crate) fn lines(name: &str, object: &Value) -> Vec<String> {
    let mut printer = Printer::default();
    printer.structure(name, object, 0);
    printer.out.lines().map(str::to_owned).collect()
}

/// A value of an API type as JSON, with its fields in Go's order.
pub(crate) fn json_of(type_name: &str, value: &Value) -> String {
    let schema = Schema::builtin();
    let Some(id) = schema.type_named(type_name) else {
        return go_json(value);
    };
    let mut out = String::new();
    write_in_order(schema, &Shape::Struct(id), value, &mut out);
    out
}

fn write_in_order(schema: &Schema, shape: &Shape, value: &Value, out: &mut String) {
    match (shape, value) {
        (Shape::Struct(id), Value::Object(members)) => {
            let fields = schema.fields(*id).into_iter();
            let set = fields.filter_map(|field| Some((field, members.get(&*field.name)?)));
            out.push('{');
            for (index, (field, value)) in set.enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                out.push_str(&go_json(&json!(&*field.name)));
                out.push(':');
                write_in_order(schema, &field.shape, value, out);
            }
            out.push('}');
        }
        (Shape::List(item), Value::Array(items)) => {
            out.push('[');
            for (index, value) in items.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                write_in_order(schema, item, value, out);
            }
            out.push(']');
        }
        (_, value) => out.push_str(&go_json(value)),
    }
}

#[derive(Default)]
struct Printer {
    out: String,
    compact: bool,
}

impl Printer {
    fn structure(&mut self, name: &str, value: &Value, depth: usize) {
        self.out.push('{');
        let mut first = true;
        self.members(name, value, depth + 1, &mut first);
        if !first {
            self.new_line(depth);
        }
        self.out.push('}');
    }

    fn members(&mut self, name: &str, value: &Value, depth: usize, first: &mut bool) {
        for token in STRUCTS.get(name).into_iter().flatten() {
            if let Some(inner) = token.strip_prefix('+') {
                self.members(inner, value, depth, first);
                continue;
            }
            let (field, mark) = token.split_at(token.find(MARKS).unwrap_or(token.len()));
            let inner = member(value, field);
            if is_left_out(field, mark, inner) {
                continue;
            }
            if !std::mem::replace(first, false) {
                self.out.push(',');
            }
            self.new_line(depth);
            self.key(field);
            self.member(mark, inner, depth);
        }
    }

    fn member(&mut self, mark: &str, value: &Value, depth: usize) {
        let (mark, inner) = mark.split_at(usize::from(!mark.is_empty()));
        match (mark, value) {
            ("=", value) => self.structure(inner, value, depth),
            ("*" | "?", Value::Null) => self.out.push_str("null"),
            ("*", value) => {
                let items = value.as_array().into_iter().flatten();
                self.list(['[', ']'], items, depth, |printer, item| {
                    printer.structure(inner, item, depth + 1);
                });
            }
            ("?", value) if !inner.is_empty() => self.structure(inner, value, depth),
            ("#" | "%", Value::Null) => self.out.push('0'),
            ("!", Value::Null) => self.out.push_str("false"),
            ("", Value::Null) => self.out.push_str("\"\""),
            (_, value) => self.plain(value, depth),
        }
    }

    /// A value that is not a Go struct.
    fn plain(&mut self, value: &Value, depth: usize) {
        match value {
            Value::Array(items) if !items.is_empty() => {
                self.list(['[', ']'], items.iter(), depth, |printer, item| {
                    printer.plain(item, depth + 1);
                });
            }
            Value::Object(fields) if !fields.is_empty() => {
                self.list(['{', '}'], fields.iter(), depth, |printer, (name, value)| {
                    printer.key(name);
                    printer.plain(value, depth + 1);
                });
            }
            scalar => self.out.push_str(&go_json(scalar)),
        }
    }

    fn list<T>(
        &mut self,
        [open, close]: [char; 2],
        items: impl Iterator<Item = T>,
        depth: usize,
        print: impl Fn(&mut Self, T),
    ) {
        self.out.push(open);
        for (index, item) in items.enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            self.new_line(depth + 1);
            print(self, item);
        }
        self.new_line(depth);
        self.out.push(close);
    }

    fn key(&mut self, name: &str) {
        self.out.push_str(&go_json(&json!(name)));
        self.out.push_str(if self.compact { ":" } else { ": " });
    }

    fn new_line(&mut self, depth: usize) {
        if !self.compact {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n(' ', depth));
        }
    }
}

/// The value of a field. The metadata of a template are inlined.
fn member<'v>(object: &'v Value, field: &str) -> &'v Value {
    let name = json_name(field);
    match &object[&name] {
        Value::Null if name == field => &object["metadata"][name],
        value => value,
    }
}

/// True for a field with a JSON name that Go omits if it is empty.
fn is_left_out(field: &str, mark: &str, value: &Value) -> bool {
    let is_empty = match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    is_empty && !mark.is_empty() && field.starts_with(|letter: char| letter.is_ascii_lowercase())
}

/// `DNSPolicy` is `dnsPolicy`, `TTY` is `tty`.
fn json_name(field: &str) -> String {
    if let Some((_, name)) = RENAMED.iter().find(|(renamed, _)| *renamed == field) {
        return (*name).to_owned();
    }
    let capitals = field.bytes().take_while(u8::is_ascii_uppercase).count();
    let lowered = match capitals {
        all if all == field.len() => all,
        0 | 1 => capitals,
        // The last capital starts the next word.
        capitals => capitals - 1,
    };
    field[..lowered].to_ascii_lowercase() + &field[lowered..]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The JSON names of a struct, including inlined ones.
    fn names(of: &str) -> Vec<String> {
        let name = |token: &&str| match token.strip_prefix('+') {
            Some("ObjectMeta") => vec!["metadata".to_owned()],
            Some(inner) => names(inner),
            None => vec![json_name(token.split(MARKS).next().unwrap_or_default())],
        };
        STRUCTS[of].iter().flat_map(name).collect()
    }

    /// Structs with the name of an API type have its fields, in its order.
    #[test]
    fn the_layout_has_every_field_of_the_schema() {
        let schema = watchkeeper_wire::schema::Schema::builtin();
        for name in STRUCTS.keys() {
            let Some(known) = schema.type_named(&format!("core/v1.{name}")) else {
                continue;
            };
            let laid_out = names(name);
            let is_shown =
                |field: &String| !matches!(field.as_str(), "kind" | "apiVersion") || laid_out.contains(field);
            let fields = schema.fields(known);
            let fields = fields.iter().map(|field| field.name.to_string());
            let fields: Vec<String> = fields.filter(is_shown).collect();
            assert_eq!(laid_out, fields, "{name}");
        }
    }

    #[test]
    fn every_struct_is_laid_out() {
        for token in STRUCTS.values().flatten() {
            let inner = match token.strip_prefix('+') {
                Some(name) => Some(name),
                None => token.split_once(['=', '*', '?']).map(|(_, inner)| inner),
            };
            if let Some(inner) = inner.filter(|inner| !inner.is_empty()) {
                assert!(STRUCTS.contains_key(inner), "{inner}");
            }
        }
    }

    #[test]
    fn go_names_become_json_names() {
        for (field, name) in [
            ("DNSPolicy", "dnsPolicy"),
            ("TTY", "tty"),
            ("HostIP", "hostIP"),
            ("SELinuxOptions", "seLinuxOptions"),
            ("HTTPGet", "httpGet"),
            ("Name", "name"),
            ("APIVersion", "apiVersion"),
        ] {
            assert_eq!(json_name(field), name);
        }
    }
}
