//! `cargo xtask sbom`: the components of the `watchkeeper` program, as a CycloneDX document on standard output.
//!
//! Reads `cargo metadata`, writes JSON. The same sources produce the same bytes: it has no time or serial number, and
//! everything is sorted. It lists what is linked or runs in a build, not dependencies of tests.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::process::Command;

use serde_json::{Value, json};

/// The package of the program.
const PROGRAM: &str = "watchkeeper-cli";

/// The document.
pub(crate) fn document() -> io::Result<String> {
    let packages = Packages::read()?;
    let ids = packages.needed_by(PROGRAM)?;
    let mut components: Vec<_> = ids.iter().map(|id| packages.component(id)).collect();
    components.sort_by_key(|component| component["bom-ref"].to_string());
    let mut dependencies: Vec<_> = ids.iter().map(|id| packages.dependencies(id)).collect();
    dependencies.sort_by_key(|entry| entry["ref"].to_string());
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": packages.component(&packages.id_of(PROGRAM)?)},
        "components": components,
        "dependencies": dependencies,
    });
    serde_json::to_string_pretty(&document).map_err(io::Error::other)
}

/// All packages of `cargo metadata`.
struct Packages {
    /// Packages and nodes of the resolved graph, by id.
    packages: BTreeMap<String, Value>,
    nodes: BTreeMap<String, Value>,
    /// Checksums of `Cargo.lock`, by name and version.
    checksums: BTreeMap<(String, String), String>,
}

impl Packages {
    fn read() -> io::Result<Self> {
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1", "--locked"])
            .output()?;
        if !output.status.success() {
            return Err(io::Error::other(
                String::from_utf8_lossy(&output.stderr).into_owned(),
            ));
        }
        let metadata: Value = serde_json::from_slice(&output.stdout)?;
        let by_id = |list: &Value| {
            let items = list.as_array().into_iter().flatten();
            items.map(|item| (text(&item["id"]), item.clone())).collect()
        };
        let root = text(&metadata["workspace_root"]);
        Ok(Self {
            packages: by_id(&metadata["packages"]),
            nodes: by_id(&metadata["resolve"]["nodes"]),
            checksums: checksums(&std::fs::read_to_string(format!("{root}/Cargo.lock"))?),
        })
    }

    fn id_of(&self, name: &str) -> io::Result<String> {
        let found = self.packages.iter().find(|(_, package)| package["name"] == name);
        let found = found.map(|(id, _)| id.clone());
        found.ok_or_else(|| io::Error::other(format!("there is no package {name}")))
    }

    /// A package with its transitive dependencies, except those of tests.
    fn needed_by(&self, name: &str) -> io::Result<BTreeSet<String>> {
        let mut waiting = vec![self.id_of(name)?];
        let mut found = BTreeSet::new();
        while let Some(id) = waiting.pop() {
            if found.insert(id.clone()) {
                waiting.extend(self.direct(&id));
            }
        }
        Ok(found)
    }

    /// The direct dependencies of a package.
    fn direct(&self, id: &str) -> BTreeSet<String> {
        let node = &self.nodes.get(id).unwrap_or(&Value::Null)["deps"];
        let is_used = |dependency: &&Value| {
            let mut kinds = dependency["dep_kinds"].as_array().into_iter().flatten();
            kinds.any(|kind| kind["kind"] != "dev")
        };
        let dependencies = node.as_array().into_iter().flatten().filter(is_used);
        dependencies.map(|dependency| text(&dependency["pkg"])).collect()
    }

    fn component(&self, id: &str) -> Value {
        let package = self.packages.get(id).unwrap_or(&Value::Null);
        let (name, version) = (text(&package["name"]), text(&package["version"]));
        let mut component = json!({
            "type": if name == PROGRAM { "application" } else { "library" },
            "bom-ref": purl(package),
            "purl": purl(package),
            "name": name,
            "version": version,
        });
        if let Some(license) = package["license"].as_str() {
            // CycloneDX requires SPDX; old crates have a slash instead of OR.
            let expression = license.replace('/', " OR ");
            component["licenses"] = json!([{"expression": expression}]);
        }
        if let Some(checksum) = self.checksums.get(&(name, version)) {
            component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
        }
        component
    }

    fn dependencies(&self, id: &str) -> Value {
        let none = Value::Null;
        let package = |id: &String| purl(self.packages.get(id).unwrap_or(&none));
        let needed: BTreeSet<_> = self.direct(id).iter().map(package).collect();
        json!({"ref": package(&id.to_owned()), "dependsOn": needed})
    }
}

/// The package URL.
fn purl(package: &Value) -> String {
    format!(
        "pkg:cargo/{}@{}",
        text(&package["name"]),
        text(&package["version"])
    )
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The checksums of a lock file: TOML with one `name = "value"` per line.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut checksums = BTreeMap::new();
    for package in lock.split("[[package]]") {
        let field = |name: &str| {
            let mut lines = package.lines();
            let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""));
            value.map(|value| value.trim_end_matches('"').to_owned())
        };
        if let (Some(name), Some(version), Some(checksum)) =
            (field("name"), field("version"), field("checksum"))
        {
            checksums.insert((name, version), checksum);
        }
    }
    checksums
}
