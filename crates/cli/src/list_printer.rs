//! Prints a list as a document while it arrives.
//!
//! It takes objects one by one and prints kubectl's `List`. Each object is dropped after it was printed, so a list of
//! any length takes the memory of one object. Only formats that need all objects keep something: whole objects for
//! `jsonpath`, cells for `custom-columns`.

use std::io::Write;

use serde_json::{Map, Value, json};
use watchkeeper_wire::yaml;

use crate::failure::Failure;
use crate::format::{Format, cells, headings, pretty_json};
use crate::json_path::{Path, Template};
use crate::table::print_aligned;

/// The indentation of items.
const ITEM_INDENT: &[u8] = b"        ";

/// Prints the objects of a list in one format.
pub(crate) struct ListPrinter<'f>(Printed<'f>);

/// The state of a format.
enum Printed<'f> {
    /// Names and tables are printed line by line elsewhere.
    Nothing,
    /// True if there was an object.
    Json(bool),
    /// True if there was an object.
    Yaml(bool),
    JsonPath(&'f Template, Vec<Value>),
    CustomColumns(&'f [(String, Path)], Vec<Vec<String>>),
}

impl<'f> ListPrinter<'f> {
    pub(crate) fn new(format: &'f Format, no_headers: bool) -> Self {
        Self(match format {
            Format::Table | Format::Wide | Format::Name => Printed::Nothing,
            Format::Json => Printed::Json(false),
            Format::Yaml => Printed::Yaml(false),
            Format::JsonPath(template) => Printed::JsonPath(template, Vec::new()),
            Format::CustomColumns(columns) => {
                let header = (!no_headers).then(|| headings(columns));
                Printed::CustomColumns(columns, header.into_iter().collect())
            }
        })
    }

    /// Prints an object, or keeps the part that can only be printed at the end.
    pub(crate) fn object(&mut self, object: Value, out: &mut impl Write) -> Result<(), Failure> {
        match &mut self.0 {
            Printed::Nothing => Ok(()),
            Printed::Json(has_begun) => {
                let text = match std::mem::replace(has_begun, true) {
                    false => JSON_BEGIN,
                    true => ",",
                };
                let mut text = Vec::from(text);
                for line in pretty_json(&object)?.split(|byte| *byte == b'\n') {
                    text.push(b'\n');
                    text.extend_from_slice(ITEM_INDENT);
                    text.extend_from_slice(line);
                }
                Ok(out.write_all(&text)?)
            }
            Printed::Yaml(has_begun) => {
                if !std::mem::replace(has_begun, true) {
                    out.write_all(b"apiVersion: v1\nitems:\n")?;
                }
                // A list at the top level is not indented.
                let item = Value::Array(vec![object]);
                Ok(out.write_all(yaml::to_string(&item).as_bytes())?)
            }
            Printed::JsonPath(_, items) => {
                items.push(object);
                Ok(())
            }
            Printed::CustomColumns(columns, lines) => {
                lines.push(cells(columns, &object));
                Ok(())
            }
        }
    }

    /// Prints what comes after the last object.
    pub(crate) fn finish(self, out: &mut impl Write) -> Result<(), Failure> {
        match self.0 {
            Printed::Nothing => {}
            Printed::Json(true) => write!(out, "\n    ]{JSON_END}")?,
            Printed::Json(false) => write!(out, "{JSON_BEGIN}]{JSON_END}")?,
            Printed::Yaml(true) => out.write_all(YAML_END.as_bytes())?,
            Printed::Yaml(false) => write!(out, "apiVersion: v1\nitems: []\n{YAML_END}")?,
            Printed::JsonPath(template, items) => {
                let text = template.render(&list(items)).map_err(Failure::text)?;
                write!(out, "{text}")?;
            }
            Printed::CustomColumns(_, lines) => print_aligned(&lines, &mut Vec::new(), out)?,
        }
        Ok(())
    }
}

const JSON_BEGIN: &str = "{\n    \"apiVersion\": \"v1\",\n    \"items\": [";

const JSON_END: &str =
    ",\n    \"kind\": \"List\",\n    \"metadata\": {\n        \"resourceVersion\": \"\"\n    }\n}\n";

const YAML_END: &str = "kind: List\nmetadata:\n  resourceVersion: \"\"\n";

/// The list as one document.
fn list(items: Vec<Value>) -> Value {
    let mut list = Map::new();
    list.insert("apiVersion".to_owned(), "v1".into());
    // Moved: `json!` would copy every object.
    list.insert("items".to_owned(), items.into());
    list.insert("kind".to_owned(), "List".into());
    list.insert("metadata".to_owned(), json!({"resourceVersion": ""}));
    list.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(format: &str, items: &[Value]) -> String {
        let format = Format::parse(format).unwrap();
        let mut out = Vec::new();
        let mut printer = ListPrinter::new(&format, false);
        for item in items {
            printer.object(item.clone(), &mut out).unwrap();
        }
        printer.finish(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn object_by_object_is_what_the_list_is_as_a_whole() {
        let object = json!({
            "metadata": {"name": "a", "labels": {}, "finalizers": []},
            "data": {
                "lines": "one\ntwo\n\n  three", "long": "word ".repeat(40), "quoted": "\"yes\" \\ \u{1F600}",
                "empty": "", "on": "no",
            },
            "list": [[], [1, [2.5, null]], {"deep": [{"deeper": true}]}],
        });
        for items in [
            vec![],
            vec![object.clone()],
            vec![object.clone(), json!({}), object],
        ] {
            let whole = list(items.clone());
            let json = String::from_utf8(pretty_json(&whole).unwrap()).unwrap() + "\n";
            assert_eq!(printed("json", &items), json);
            assert_eq!(printed("yaml", &items), yaml::to_string(&whole));
        }
    }
}
