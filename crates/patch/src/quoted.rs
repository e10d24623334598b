//! Prints the result of a patch as a Kubernetes server quotes it in an error, if the result does not match the kind.
//!
//! Go patches JSON text and parses only the objects on the path of the patch. Those are printed with sorted keys, all
//! others unchanged: with the fields of structs in the order of the schema.
//!
//! ```text
//! {"metadata":{"name":"a","uid":"…","labels":{"b":"1"}},"data":{"k":"v"}}  patched with {"data":{"k":5}}
//! ⇒ {"data":{"k":5},"metadata":{"name":"a","uid":"…","labels":{"b":"1"}}}
//! ```

use serde_json::{Map, Value};
use watchkeeper_meta::go_json;
use watchkeeper_wire::schema::{Schema, Shape, TypeId};

/// The result of a merge patch.
pub fn merged(schema: &Schema, root: TypeId, result: &Value, patch: &Value) -> String {
    let shape = Shape::Struct(root);
    let mut printer = Printer {
        schema,
        out: String::new(),
    };
    printer.value(Some(&shape), result, Opened::By(patch));
    printer.out
}

/// The result of a JSON patch.
pub fn patched(schema: &Schema, root: TypeId, result: &Value, patch: &Value) -> String {
    let mut opened = Value::Object(Map::new());
    for operation in patch.as_array().into_iter().flatten() {
        for path in ["path", "from"] {
            if let Some(path) = operation.get(path).and_then(Value::as_str) {
                open(&mut opened, path);
            }
        }
    }
    merged(schema, root, result, &opened)
}

/// Marks everything on a path.
fn open(opened: &mut Value, path: &str) {
    let mut place = opened;
    for segment in path.split('/').skip(1).map(crate::json_patch::unescape) {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[segment];
    }
}

/// The effect of a patch on a value.
#[derive(Clone, Copy)]
enum Opened<'p> {
    Not,
    /// It descended into the value, as this object says, or replaced it.
    By(&'p Value),
}

impl<'p> Opened<'p> {
    fn child(self, name: &str) -> Self {
        match self {
            Self::Not => Self::Not,
            Self::By(Value::Object(fields)) => fields.get(name).map_or(Self::Not, Self::By),
            Self::By(replaced) => Self::By(replaced),
        }
    }
}

struct Printer<'s> {
    schema: &'s Schema,
    out: String,
}

impl<'s> Printer<'s> {
    fn value(&mut self, shape: Option<&'s Shape>, value: &Value, opened: Opened<'_>) {
        match value {
            Value::Object(fields) => self.object(shape, fields, opened),
            Value::Array(items) => {
                let item_shape = match shape {
                    Some(Shape::List(item)) => Some(&**item),
                    _ => None,
                };
                self.list('[', ']', items.iter().enumerate(), |printer, (index, item)| {
                    printer.value(item_shape, item, opened.child(&index.to_string()));
                });
            }
            scalar => self.out.push_str(&go_json(scalar)),
        }
    }

    fn object(&mut self, shape: Option<&'s Shape>, fields: &Map<String, Value>, opened: Opened<'_>) {
        let schema = self.schema;
        let mut names: Vec<&str> = fields.keys().map(String::as_str).collect();
        if let (Some(Shape::Struct(id)), Opened::Not) = (shape, opened) {
            let declared = schema.fields(*id);
            let place = |name: &str| declared.iter().position(|field| field.name == name);
            names.sort_by_key(|name| place(name).unwrap_or(usize::MAX));
        }
        self.list('{', '}', names.into_iter(), |printer, name| {
            let shape = match shape {
                Some(Shape::Struct(id)) => schema.field(*id, name).map(|field| &field.shape),
                Some(Shape::Map(value)) => Some(&**value),
                _ => None,
            };
            printer.out.push_str(&go_json(&name.into()));
            printer.out.push(':');
            printer.value(shape, &fields[name], opened.child(name));
        });
    }

    fn list<T>(
        &mut self,
        open: char,
        close: char,
        items: impl Iterator<Item = T>,
        mut print: impl FnMut(&mut Self, T),
    ) {
        self.out.push(open);
        for (index, item) in items.enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            print(self, item);
        }
        self.out.push(close);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Value {
        json!({
            "kind": "Pod",
            "metadata": {"uid": "u", "name": "p", "labels": {"b": "<", "a": "1"}},
            "spec": {"containers": [{"image": "i", "name": "c"}], "nodeName": "n"},
        })
    }

    #[test]
    fn what_a_patch_opened_is_sorted() {
        let schema = Schema::builtin();
        let root = schema.kind("v1", "Pod").unwrap();
        let metadata = r#""metadata":{"name":"p","uid":"u","labels":{"a":"1","b":"\u003c"}}"#;
        assert_eq!(
            merged(schema, root, &pod(), &json!({"spec": {"nodeName": "n"}})),
            format!(
                r#"{{"kind":"Pod",{metadata},"spec":{{"containers":[{{"name":"c","image":"i"}}],"nodeName":"n"}}}}"#
            )
        );
        assert_eq!(
            patched(
                schema,
                root,
                &pod(),
                &json!([{"path": "/spec/containers/0/image"}])
            ),
            format!(
                r#"{{"kind":"Pod",{metadata},"spec":{{"containers":[{{"image":"i","name":"c"}}],"nodeName":"n"}}}}"#
            )
        );
        assert_eq!(
            merged(
                schema,
                root,
                &pod(),
                &json!({"metadata": {"labels": null}, "spec": null})
            ),
            r#"{"kind":"Pod","metadata":{"labels":{"a":"1","b":"\u003c"},"name":"p","uid":"u"},"spec":{"containers":[{"image":"i","name":"c"}],"nodeName":"n"}}"#
        );
    }
}
