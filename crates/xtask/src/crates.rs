//! Dependencies between crates. Libraries, and their tests, depend only on crates below them.

use crate::limits::LAYERS;
use crate::sources::Crate;

/// The section of a manifest that lists a dependency.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Normal,
    Dev,
    Other,
}

/// Reports dependencies that point upwards.
pub(crate) fn report(workspace: &[Crate], complaints: &mut Vec<String>) {
    for krate in workspace {
        let Some(own) = layer(&krate.name) else {
            complaints.push(format!("crates/{} has no layer in xtask::limits", krate.name));
            continue;
        };
        for (section, dependency) in dependencies(&krate.manifest) {
            let is_upward = layer(&dependency).is_none_or(|other| other >= own);
            let who = match section {
                Section::Normal => "",
                Section::Dev => "a test of ",
                Section::Other => continue,
            };
            if is_upward {
                complaints.push(format!(
                    "{who}{} depends on {dependency}, which is above it",
                    krate.name
                ));
            }
        }
    }
}

fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| *layer == name)
}

/// The workspace crates that a manifest names.
fn dependencies(manifest: &str) -> Vec<(Section, String)> {
    let (mut section, mut found) = (Section::Other, Vec::new());
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = match line.trim() {
                "[dependencies]" | "[build-dependencies]" => Section::Normal,
                "[dev-dependencies]" => Section::Dev,
                _ => Section::Other,
            };
        }
        let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
        if section != Section::Other
            && let Some(name) = own_name(name)
        {
            found.push((section, name));
        }
    }
    found
}

fn own_name(dependency: &str) -> Option<String> {
    match dependency {
        "watchkeeper" => Some(dependency.to_owned()),
        _ => dependency.strip_prefix("watchkeeper-").map(str::to_owned),
    }
}
