//! Output formats: `-o json`, `yaml`, `name`, `wide`, `jsonpath=…`, `custom-columns=…`.

use std::io::Write;

use serde::Serialize as _;
use serde_json::Value;
use watchkeeper_meta::Resource;
use watchkeeper_wire::yaml;

use crate::failure::Failure;
use crate::json_path::{Path, Template, plain};
use crate::table::print_aligned;

/// The output formats, sorted.
pub(crate) const FORMATS: [&str; 6] = ["custom-columns", "json", "jsonpath", "name", "wide", "yaml"];

/// The output format.
#[derive(Debug, Default, PartialEq)]
pub(crate) enum Format {
    /// The server's table.
    #[default]
    Table,
    /// The server's table with all columns.
    Wide,
    Json,
    Yaml,
    Name,
    JsonPath(Template),
    CustomColumns(Vec<(String, Path)>),
}

impl Format {
    /// Parses an output format.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let (name, rest) = text.split_once('=').unwrap_or((text, ""));
        Ok(match name {
            "wide" => Self::Wide,
            "json" => Self::Json,
            "yaml" => Self::Yaml,
            "name" => Self::Name,
            "jsonpath" => Self::JsonPath(Template::parse(rest).map_err(|problem| bad("jsonpath", &problem))?),
            "custom-columns" => Self::CustomColumns(columns(rest)?),
            "go-template" | "go-template-file" | "template" | "templatefile" => {
                return Err(Failure::text(format!(
                    "{name} is not supported: use jsonpath=…, custom-columns=… or json, or kubectl"
                )));
            }
            _ => {
                return Err(Failure::text(format!(
                    "unable to match a printer suitable for the output format {text:?}, allowed formats are: {}",
                    FORMATS.join(",")
                )));
            }
        })
    }

    /// True if the server makes the rows.
    pub(crate) fn is_table(&self) -> bool {
        matches!(self, Self::Table | Self::Wide)
    }

    /// Prints a single object.
    pub(crate) fn print(
        &self,
        resource: &Resource,
        object: &Value,
        no_headers: bool,
        out: &mut impl Write,
    ) -> Result<(), Failure> {
        match self {
            Self::Table | Self::Wide => Ok(()),
            Self::Json => {
                let mut text = pretty_json(object)?;
                text.push(b'\n');
                Ok(out.write_all(&text)?)
            }
            Self::Yaml => Ok(write!(out, "{}", yaml::to_string(object))?),
            Self::Name => {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                Ok(writeln!(out, "{}", resource.display_name(name))?)
            }
            Self::JsonPath(template) => {
                let text = template.render(object).map_err(Failure::text)?;
                Ok(write!(out, "{text}")?)
            }
            Self::CustomColumns(columns) => {
                let header = (!no_headers).then(|| headings(columns));
                let lines: Vec<_> = header.into_iter().chain([cells(columns, object)]).collect();
                Ok(print_aligned(&lines, &mut Vec::new(), out)?)
            }
        }
    }
}

/// Adds the type of an object from a list, and removes managed fields.
pub(crate) fn complete(object: &mut Value, resource: &Resource, keep_managed_fields: bool) {
    if object["kind"].is_null() {
        let kind = resource.group_version_kind();
        object["kind"] = kind.kind.to_string().into();
        object["apiVersion"] = kind.api_version().into();
    }
    if let (false, Some(metadata)) = (keep_managed_fields, object["metadata"].as_object_mut()) {
        metadata.remove("managedFields");
    }
}

/// Four spaces, as in kubectl; no newline at the end.
pub(crate) fn pretty_json(value: &Value) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, formatter);
    value.serialize(&mut serializer).map_err(Failure::other)?;
    Ok(text)
}

/// The header of custom columns.
pub(crate) fn headings(columns: &[(String, Path)]) -> Vec<String> {
    columns.iter().map(|(name, _)| name.clone()).collect()
}

/// The row of an object in custom columns.
pub(crate) fn cells(columns: &[(String, Path)], object: &Value) -> Vec<String> {
    let cell = |path: &Path| {
        let found: Vec<_> = path.find(object).into_iter().map(plain).collect();
        match found.is_empty() {
            true => "<none>".to_owned(),
            false => found.join(","),
        }
    };
    columns.iter().map(|(_, path)| cell(path)).collect()
}

fn columns(text: &str) -> Result<Vec<(String, Path)>, Failure> {
    if text.is_empty() {
        return Err(bad(
            "custom-columns",
            "name columns, as in NAME:.metadata.name,AGE:.metadata.creationTimestamp",
        ));
    }
    let column = |column: &str| {
        let (name, path) = column
            .split_once(':')
            .ok_or_else(|| bad("custom-columns", &format!("{column:?} is not NAME:PATH")))?;
        let path = path.trim_start_matches('{').trim_end_matches('}');
        let path = Path::parse(path).map_err(|problem| bad("custom-columns", &problem))?;
        Ok((name.to_owned(), path))
    };
    text.split(',').map(column).collect()
}

fn bad(format: &str, problem: &str) -> Failure {
    Failure::text(format!("bad {format}: {problem}"))
}
