//! `/version`: the emulated Kubernetes version, and the actual program.

use serde::Serialize;

/// The Kubernetes version whose behaviour is followed.
pub(crate) const KUBERNETES_MINOR: &str = "37";

/// The reported version, a semantic version; the build metadata names the actual server.
pub const KUBERNETES_VERSION: &str = concat!("v1.37.0+watchkeeper-", env!("CARGO_PKG_VERSION"));

/// The body of `/version`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Version {
    major: &'static str,
    minor: &'static str,
    emulation_major: &'static str,
    emulation_minor: &'static str,
    min_compatibility_major: &'static str,
    min_compatibility_minor: &'static str,
    git_version: &'static str,
    git_commit: &'static str,
    git_tree_state: &'static str,
    build_date: &'static str,
    go_version: &'static str,
    compiler: &'static str,
    platform: String,
}

impl Version {
    pub(crate) fn current() -> Self {
        Self {
            major: "1",
            minor: KUBERNETES_MINOR,
            emulation_major: "1",
            emulation_minor: KUBERNETES_MINOR,
            min_compatibility_major: "1",
            min_compatibility_minor: "36",
            git_version: KUBERNETES_VERSION,
            git_commit: "",
            git_tree_state: "",
            build_date: "1970-01-01T00:00:00Z",
            go_version: "",
            compiler: "rustc",
            platform: format!("{}/{}", std::env::consts::OS, platform_name()),
        }
    }
}

/// Go's name of the processor architecture.
fn platform_name() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
