//! The `fieldPath` of a rule: `.spec.name`, `['a key']`, resolved in the schema.

use serde_json::Value;

/// The path as errors show it; `None` if the schema has no such field.
pub(crate) fn normalize(path: &str, schema: &Value) -> Option<String> {
    let (mut rest, mut schema, mut shown) = (path, schema, String::new());
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let name;
        (name, rest) = step(rest)?;
        let additional = &schema["additionalProperties"];
        if additional.is_object() {
            shown.push_str(&format!("[{name}]"));
            schema = additional;
        } else {
            shown.push_str(if shown.is_empty() { "" } else { "." });
            shown.push_str(&name);
            schema = schema["properties"].get(&name)?;
        }
    }
    Some(shown)
}

/// The next name of a path and what follows it.
fn step(path: &str) -> Option<(String, &str)> {
    if let Some(rest) = path.strip_prefix("['") {
        let mut name = String::new();
        let mut characters = rest.char_indices();
        while let Some((at, c)) = characters.next() {
            match c {
                '\\' => name.push(characters.next()?.1),
                '\'' => return Some((name, rest[at + 1..].strip_prefix(']')?)),
                c => name.push(c),
            }
        }
        return None;
    }
    let rest = path.strip_prefix('.')?;
    let end = rest.find(['.', '[']).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    (!name.is_empty()).then(|| (name.to_owned(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_follow_the_schema() {
        let schema = json!({"properties": {
            "a": {"properties": {"b.c": {"type": "string"}}},
            "map": {"additionalProperties": {"type": "string"}},
        }});
        for (path, shown) in [
            (".a", Some("a")),
            (".a['b.c']", Some("a.b.c")),
            (".map['k']", Some("map[k]")),
            (".map", Some("map")),
            ("a", None),
            (".x", None),
            (".a.", None),
            (".a['b.c'", None),
            ("", None),
        ] {
            assert_eq!(normalize(path, &schema).as_deref(), shown, "{path}");
        }
    }
}
