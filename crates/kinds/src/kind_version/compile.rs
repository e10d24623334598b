//! Compiles a stored definition into the resources it defines.

use std::cmp::Reverse;
use std::sync::Arc;

use serde_json::Value;
use watchkeeper_meta::{ApiResource, ApiSubresource, GroupVersion, Resource, Scope};
use watchkeeper_wire::schema::structural::Compiler;
use watchkeeper_wire::schema::{SchemaError, Text};

use super::KindVersion;
use crate::custom::expressions::Expressions;
use crate::custom::json_path::JsonPath;
use crate::custom::rules::Rules;
use crate::custom::table::{Column, MAX_COLUMNS};
use crate::custom::versions::Versions;
use crate::custom::{CustomVersion, ScalePaths};

/// In the order of discovery.
const VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];
const SUBRESOURCE_VERBS: [&str; 3] = ["get", "patch", "update"];

impl KindVersion {
    /// All versions of a custom kind, the preferred one first. Unserved ones are included, for clean-up.
    pub fn compile(definition: &Value) -> Result<Vec<Self>, SchemaError> {
        let kind = Defined::read(definition);
        let mut compiler = Compiler::new();
        let mut types = Versions::default();
        for version in &kind.versions {
            let api_version = kind.api_version(version);
            let id = compiler.version(&api_version, &kind.name, open_api(version))?;
            types.0.insert(api_version, id);
        }
        let schema = Arc::new(compiler.finish()?);
        let compiled = kind.versions.iter().zip(0..).filter_map(|(version, number)| {
            let id = *types.0.get(&kind.api_version(version))?;
            let custom = CustomVersion {
                number,
                versions: types.clone(),
                ..kind.custom(version)
            };
            let (listing, list_kind) = (kind.listing(version), kind.list_kind());
            Some(KindVersion::custom(
                listing,
                list_kind,
                schema.clone(),
                id,
                custom,
            ))
        });
        Ok(compiled.collect())
    }
}

/// The content of a definition.
struct Defined<'d> {
    spec: &'d Value,
    names: &'d Value,
    name: String,
    /// The preferred one first.
    versions: Vec<&'d Value>,
}

impl<'d> Defined<'d> {
    fn read(definition: &'d Value) -> Self {
        let (spec, names) = (&definition["spec"], &definition["status"]["acceptedNames"]);
        let mut versions: Vec<&Value> = spec["versions"].as_array().into_iter().flatten().collect();
        versions.sort_by_key(|version| Reverse(priority(version["name"].as_str().unwrap_or_default())));
        Self {
            spec,
            names,
            name: text(&names["kind"]),
            versions,
        }
    }

    /// `example.com/v1`.
    fn api_version(&self, version: &Value) -> String {
        format!("{}/{}", text(&self.spec["group"]), text(&version["name"]))
    }

    fn list_kind(&self) -> String {
        text(&self.names["listKind"])
    }

    /// The parts of one version.
    fn custom(&self, version: &Value) -> CustomVersion {
        let stored = self.versions.iter().find(|version| version["storage"] == true);
        CustomVersion {
            number: 0,
            is_served: version["served"] == true,
            stored_api_version: stored.map(|stored| self.api_version(stored)).unwrap_or_default(),
            rules: Rules::compile(open_api(version)),
            expressions: Expressions::compile(open_api(version)),
            open_api: open_api(version).clone(),
            columns: columns(version),
            selectable: selectable(version),
            scale: scale(version),
            deprecation: self.deprecation(version),
            conversion_webhook: self.conversion_webhook(),
            versions: Versions::default(),
        }
    }

    fn conversion_webhook(&self) -> Option<Value> {
        let conversion = &self.spec["conversion"];
        (conversion["strategy"] == "Webhook").then(|| conversion["webhook"].clone())
    }

    fn deprecation(&self, version: &Value) -> Option<String> {
        if version["deprecated"] != true {
            return None;
        }
        if let Some(stated) = version["deprecationWarning"].as_str() {
            return Some(stated.to_owned());
        }
        let better = self
            .versions
            .iter()
            .take_while(|it| it["name"] != version["name"]);
        let mut better = better.filter(|it| it["served"] == true && it["deprecated"] != true);
        let (own, kind) = (self.api_version(version), &self.name);
        Some(match better.next() {
            Some(newer) => format!(
                "{own} {kind} is deprecated; use {} {kind}",
                self.api_version(newer)
            ),
            None => format!("{own} {kind} is deprecated"),
        })
    }

    fn listing(&self, version: &Value) -> ApiResource {
        listing(self.spec, self.names, version)
    }
}

fn open_api(version: &Value) -> &Value {
    &version["schema"]["openAPIV3Schema"]
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn listing(spec: &Value, names: &Value, version: &Value) -> ApiResource {
    let texts = |value: &Value| -> Vec<Text> {
        let list = value.as_array().into_iter().flatten();
        list.map(|item| Text::from(text(item))).collect()
    };
    let kind = text(&names["kind"]);
    let subresource = |name: &'static str, kind: Text, group_version: Option<GroupVersion>| {
        let is_there = version["subresources"].get(name).is_some_and(|it| !it.is_null());
        is_there.then(|| ApiSubresource {
            name: name.into(),
            kind,
            group_version,
            verbs: SUBRESOURCE_VERBS.map(Text::from).into(),
        })
    };
    let subresources = [
        subresource("status", kind.clone().into(), None),
        subresource(
            "scale",
            "Scale".into(),
            Some(GroupVersion::new("autoscaling", "v1")),
        ),
    ];
    ApiResource {
        resource: Resource {
            group: text(&spec["group"]).into(),
            version: text(&version["name"]).into(),
            kind: kind.into(),
            plural: text(&names["plural"]).into(),
            scope: match spec["scope"].as_str() {
                Some("Cluster") => Scope::Cluster,
                _ => Scope::Namespaced,
            },
        },
        singular: text(&names["singular"]).into(),
        verbs: VERBS.map(Text::from).into(),
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        subresources: subresources.into_iter().flatten().collect(),
    }
}

/// The printer columns. As in Kubernetes, a path that cannot be followed ends the list: it is no error of the
/// definition, and only its Tables have less. So do those of a definition with very many columns.
fn columns(version: &Value) -> Vec<Column> {
    match version["additionalPrinterColumns"].as_array() {
        Some(listed) if !listed.is_empty() => {
            listed.iter().map_while(Column::read).take(MAX_COLUMNS).collect()
        }
        _ => vec![Column::age()],
    }
}

fn selectable(version: &Value) -> Vec<(String, JsonPath)> {
    let listed = version["selectableFields"].as_array().into_iter().flatten();
    let paths = listed.filter_map(|field| field["jsonPath"].as_str());
    let named = paths.filter_map(|path| Some((path.strip_prefix('.')?.to_owned(), JsonPath::parse(path)?)));
    named.collect()
}

fn scale(version: &Value) -> Option<ScalePaths> {
    let scale = version["subresources"].get("scale")?;
    let path = |name: &str| scale[name].as_str().and_then(JsonPath::of_names);
    Some(ScalePaths {
        wanted: path("specReplicasPath")?,
        found: path("statusReplicasPath")?,
        selector: path("labelSelectorPath").filter(JsonPath::is_simple),
    })
}

/// Kubernetes' order of versions, the highest first: `v2`, `v1`, `v1beta2`, `v1alpha1`, then others by name.
fn priority(version: &str) -> (u8, u64, u64, Reverse<String>) {
    let other = (0, 0, 0, Reverse(version.to_owned()));
    let Some(rest) = version.strip_prefix('v') else {
        return other;
    };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (major, rest) = rest.split_at(digits);
    let Ok(major) = major.parse() else { return other };
    let (stability, minor) = match rest {
        "" => (3, Ok(0)),
        rest => match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
            (Some(minor), _) => (2, minor.parse()),
            (_, Some(minor)) => (1, minor.parse()),
            _ => return other,
        },
    };
    match minor {
        Ok(minor) => (stability, major, minor, Reverse(String::new())),
        Err(_) => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn versions_are_ordered_as_kubernetes_orders_them() {
        let mut versions = [
            "foo10", "v1alpha1", "v2", "v1", "v1beta2", "v10", "foo1", "v1beta10", "vx",
        ];
        versions.sort_by_key(|version| Reverse(priority(version)));
        assert_eq!(
            versions,
            [
                "v10", "v2", "v1", "v1beta10", "v1beta2", "v1alpha1", "foo1", "foo10", "vx"
            ]
        );
    }

    #[test]
    fn a_path_that_cannot_be_followed_ends_the_columns() {
        let column = |path: &str| json!({"name": path, "type": "string", "jsonPath": path});
        let names = |columns: &[&str]| {
            let stated: Vec<Value> = columns.iter().map(|path| column(path)).collect();
            let columns = super::columns(&json!({"additionalPrinterColumns": stated}));
            columns.into_iter().map(|column| column.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&[]), ["Age"]);
        assert_eq!(names(&[".a", ".b"]), [".a", ".b"]);
        assert_eq!(names(&[".a", ".b[", ".c"]), [".a"]);
        assert!(names(&[".b["]).is_empty());
    }
}
