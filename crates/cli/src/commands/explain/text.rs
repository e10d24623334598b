//! A schema as text, in the layout of `kubectl explain`.

use serde_json::Value;
use watchkeeper_meta::GroupVersionKind;

use super::schemas::{Schemas, within};
use crate::json_path::plain;

/// The line width, as in kubectl, whatever the terminal.
const WIDTH: usize = 80;

/// The number of enum values shown in a list of fields.
const SHOWN_VALUES: usize = 4;

/// The text under construction.
pub(super) struct Explanation<'s> {
    schemas: &'s Schemas,
    recursive: bool,
    text: String,
}

impl<'s> Explanation<'s> {
    pub(super) fn new(schemas: &'s Schemas, recursive: bool) -> Self {
        Self {
            schemas,
            recursive,
            text: String::new(),
        }
    }

    /// The kind and its version.
    pub(super) fn heading(&mut self, kind: &GroupVersionKind) {
        let group = (!kind.group.is_empty()).then_some(("GROUP:", &*kind.group));
        let rest = [("KIND:", &*kind.kind), ("VERSION:", &*kind.version)];
        for (name, value) in group.into_iter().chain(rest) {
            self.line(&format!("{name:<12}{value}"));
        }
        self.line("");
    }

    /// The requested field.
    pub(super) fn field(&mut self, name: &str, schema: &Value) {
        self.line(&format!("FIELD: {name} <{}>", self.schemas.type_name(schema)));
        let values = values(schema);
        if !values.is_empty() {
            self.line("ENUM:");
            values.iter().for_each(|value| self.line(&format!("    {value}")));
        } else {
            self.line("");
        }
        self.line("");
    }

    /// Its description and its fields.
    pub(super) fn body(&mut self, schema: &'s Value) {
        self.line("DESCRIPTION:");
        let description = self.schemas.description(schema);
        self.paragraph(or(&description, "<empty>"), 4);
        let before = self.text.len();
        self.fields(schema, 1, &mut Vec::new());
        if self.text.len() > before {
            self.text.insert_str(before, "FIELDS:\n");
        }
    }

    pub(super) fn finish(mut self) -> String {
        self.line("");
        self.text
    }

    /// The fields of an object, or of its items or values. `above` has the enclosing schemas: a recursive one is not
    /// shown again.
    fn fields(&mut self, schema: &'s Value, level: usize, above: &mut Vec<&'s str>) {
        let name = Schemas::reference(schema);
        if name.is_some_and(|name| above.contains(&name)) {
            return;
        }
        above.extend(name);
        let schema = self.schemas.resolve(schema);
        for (field, of_field) in schema["properties"].as_object().into_iter().flatten() {
            self.detail(field, of_field, is_required(schema, field), level);
            if self.recursive {
                self.fields(of_field, level + 1, above);
            }
        }
        for inner in within(schema) {
            self.fields(inner, level, above);
        }
        if name.is_some() {
            above.pop();
        }
    }

    fn detail(&mut self, name: &str, schema: &Value, required: bool, level: usize) {
        let indent = 2 * level;
        let required = if required { " -required-" } else { "" };
        let type_name = self.schemas.type_name(schema);
        self.line(&format!("{:indent$}{name}\t<{type_name}>{required}", ""));
        let values = values(schema);
        if !values.is_empty() {
            let shown = &values[..values.len().min(SHOWN_VALUES)];
            let more = if shown.len() < values.len() { ", ...." } else { "" };
            self.line(&format!("{:indent$}enum: {}{more}", "", shown.join(", ")));
        }
        if !self.recursive {
            let description = schema["description"].as_str().unwrap_or_default();
            self.paragraph(or(description, "<no description>"), indent + 2);
            self.line("");
        }
    }

    /// Text between the indent and the width, with its own line breaks.
    fn paragraph(&mut self, text: &str, indent: usize) {
        for line in text.split('\n').flat_map(|line| wrap(line, WIDTH - indent)) {
            let indent = if line.is_empty() { 0 } else { indent };
            self.line(&format!("{:indent$}{line}", ""));
        }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }
}

/// Wraps a line at `width` characters; a longer word gets its own line.
fn wrap(line: &str, width: usize) -> Vec<&str> {
    let (mut lines, mut rest) = (Vec::new(), line);
    while let Some((end, _)) = rest.char_indices().nth(width) {
        let blank = match rest[..end].rfind(' ').filter(|_| !rest[end..].starts_with(' ')) {
            Some(at) => Some(at),
            None => rest[end..].find(' ').map(|at| end + at),
        };
        let Some(at) = blank else { break };
        lines.push(rest[..at].trim_end());
        rest = rest[at..].trim_start();
    }
    lines.push(rest);
    lines
}

fn or<'t>(text: &'t str, otherwise: &'t str) -> &'t str {
    if text.is_empty() { otherwise } else { text }
}

fn is_required(schema: &Value, field: &str) -> bool {
    let required = schema["required"].as_array();
    required.is_some_and(|names| names.iter().any(|name| name == field))
}

/// The enum values of a field.
fn values(schema: &Value) -> Vec<String> {
    let show = |value: &Value| match plain(value) {
        empty if empty.is_empty() => "\"\"".to_owned(),
        text => text,
    };
    schema["enum"]
        .as_array()
        .into_iter()
        .flatten()
        .map(show)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use serde_json::json;

    /// As in a real server's document: descriptions, and references within `allOf`.
    fn schemas() -> Schemas {
        let document = json!({"components": {"schemas": {
            "io.acme.v1.Ship": {
                "description": "Ship is what goes to sea.",
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string", "description": "The name that is painted on the bow, in letters large enough to be read from the next ship or from the pier."},
                    "rig": {"type": "string", "enum": ["", "Sloop", "Ketch", "Yawl", "Schooner"]},
                    "escort": {"description": "Who sails along.", "allOf": [{"$ref": "#/components/schemas/io.acme.v1.Ship"}]},
                    "crew": {"type": "array", "items": {"default": {}, "allOf": [{"$ref": "#/components/schemas/io.acme.v1.Sailor"}]}},
                    "cargo": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/io.acme.Weight"}},
                },
                "x-kubernetes-group-version-kind": [{"group": "acme.io", "version": "v1", "kind": "Ship"}],
            },
            "io.acme.v1.Sailor": {"description": "Sailor works on a ship.", "type": "object", "properties": {"rank": {"type": "integer"}}},
            "io.acme.Weight": {"type": "string"},
        }}});
        Schemas::parse(document.to_string().as_bytes()).unwrap()
    }

    fn check(path: &[&str], recursive: bool, expected: Expect) {
        let schemas = schemas();
        let kind = GroupVersionKind::new("acme.io", "v1", "Ship");
        let schema = schemas.follow(schemas.of_kind(&kind).unwrap(), path).unwrap();
        let mut explanation = Explanation::new(&schemas, recursive);
        explanation.heading(&kind);
        if let Some(field) = path.last() {
            explanation.field(field, schema);
        }
        explanation.body(schema);
        expected.assert_eq(&explanation.finish());
    }

    #[test]
    fn descriptions_are_wrapped_and_values_cut() {
        check(
            &[],
            false,
            expect![[r#"
            GROUP:      acme.io
            KIND:       Ship
            VERSION:    v1

            DESCRIPTION:
                Ship is what goes to sea.
    
            FIELDS:
              cargo	<map[string]string>
                <no description>

              crew	<[]Sailor>
                <no description>

              escort	<Ship>
                Who sails along.

              name	<string> -required-
                The name that is painted on the bow, in letters large enough to be read from
                the next ship or from the pier.

              rig	<string>
              enum: "", Sloop, Ketch, Yawl, ....
                <no description>


        "#]],
        );
    }

    #[test]
    fn a_field_tells_what_it_is_made_of() {
        check(
            &["crew"],
            false,
            expect![[r#"
            GROUP:      acme.io
            KIND:       Ship
            VERSION:    v1

            FIELD: crew <[]Sailor>


            DESCRIPTION:
                Sailor works on a ship.
    
            FIELDS:
              rank	<integer>
                <no description>


        "#]],
        );
        check(
            &["crew", "rank"],
            false,
            expect![[r#"
            GROUP:      acme.io
            KIND:       Ship
            VERSION:    v1

            FIELD: rank <integer>


            DESCRIPTION:
                <empty>

        "#]],
        );
        check(
            &["rig"],
            false,
            expect![[r#"
            GROUP:      acme.io
            KIND:       Ship
            VERSION:    v1

            FIELD: rig <string>
            ENUM:
                ""
                Sloop
                Ketch
                Yawl
                Schooner

            DESCRIPTION:
                <empty>

        "#]],
        );
    }

    #[test]
    fn a_kind_within_itself_is_shown_once() {
        check(
            &[],
            true,
            expect![[r#"
            GROUP:      acme.io
            KIND:       Ship
            VERSION:    v1

            DESCRIPTION:
                Ship is what goes to sea.
    
            FIELDS:
              cargo	<map[string]string>
              crew	<[]Sailor>
                rank	<integer>
              escort	<Ship>
                cargo	<map[string]string>
                crew	<[]Sailor>
                  rank	<integer>
                escort	<Ship>
                name	<string> -required-
                rig	<string>
                enum: "", Sloop, Ketch, Yawl, ....
              name	<string> -required-
              rig	<string>
              enum: "", Sloop, Ketch, Yawl, ....

        "#]],
        );
        check(
            &["escort", "escort", "cargo"],
            true,
            expect![[r#"
            GROUP:      acme.io
            KIND:       Ship
            VERSION:    v1

            FIELD: cargo <map[string]string>


            DESCRIPTION:
                <empty>

        "#]],
        );
    }

    #[test]
    fn a_field_that_is_not_there_is_named() {
        let schemas = schemas();
        let root = schemas
            .of_kind(&GroupVersionKind::new("acme.io", "v1", "Ship"))
            .unwrap();
        assert_eq!(schemas.follow(root, &["crew", "wage"]), Err("wage"));
    }

    #[test]
    fn long_words_stand_alone() {
        assert_eq!(wrap("a bb ccc", 4), ["a bb", "ccc"]);
        assert_eq!(wrap("aaaaaa bb", 4), ["aaaaaa", "bb"]);
        assert_eq!(wrap("a bbbbbb c", 4), ["a", "bbbbbb", "c"]);
        assert_eq!(wrap("aaaa b", 4), ["aaaa", "b"]);
        assert_eq!(wrap("", 4), [""]);
    }
}
