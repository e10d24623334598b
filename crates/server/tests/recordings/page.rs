//! The page `docs/fidelity.md`: the measured fidelity. `--write-page` writes it; every full run checks that it is
//! current.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use serde_json::Value;
use watchkeeper_server::Server;

use crate::known::Known;
use crate::replay::fetch;
use crate::report::Report;

/// The path of the page, from the root of the repository.
pub(crate) const PAGE: &str = "docs/fidelity.md";

/// The start of the page, with the command that writes it.
const HEAD: &str = "<!-- Written by `cargo test -p watchkeeper-server --test recordings -- --write-page`. -->

# Fidelity

How this server differs from kube-apiserver v1.37. Everything below is measured or read from the code by the test that
replays recordings of a real kube-apiserver; the test fails if this page is stale.

## Recordings

Each case has a server of its own. A *step* is a request whose whole answer is compared: status, headers that matter,
every field of the body, the texts of errors, and the frames of watches. What may differ (uids, times, versions, names
made by the server) is renamed consistently.

";

/// The page of this run.
pub(crate) fn page(root: &Path, report: &Report<'_>, known: &Known) -> io::Result<String> {
    let mut page = HEAD.to_owned();
    report.write_table(&mut page);
    page.push_str("\n## Known differences\n\n");
    known.write_lists(&mut page);
    page.push_str("\n## What is served\n\n");
    page.push_str("| group and version | resources |\n|---|---|\n");
    for (version, resources) in served() {
        writeln!(page, "| {version} | {} |", resources.join(", ")).expect("a text grows");
    }
    page.push_str("\n## Not implemented\n\n");
    page.push_str(&left_out(root)?);
    Ok(page)
}

/// The section `Limits` of the registry's documentation.
fn left_out(root: &Path) -> io::Result<String> {
    const TITLE: &str = "//! # Limits";
    let source = std::fs::read_to_string(root.join("crates/registry/src/lib.rs"))?;
    let lines = source.lines().skip_while(|line| *line != TITLE).skip(2);
    let lines = lines.map_while(|line| line.strip_prefix("//!"));
    let text = lines
        .map(|line| format!("{}\n", line.trim_start_matches(' ')))
        .collect::<String>();
    // Links of the code's documentation lead nowhere here.
    Ok(text.replace("[`watchkeeper_kinds`]", "`crates/kinds`"))
}

/// The resources of a new server by group and version, with their subresources.
fn served() -> Vec<(String, Vec<String>)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let server = Server::builder().start().await.expect("a server");
        let mut versions = vec![("v1".to_owned(), "/api/v1".to_owned())];
        let groups = fetch(&server, "/apis").await;
        for version in list(&groups["groups"]).flat_map(|group| list(&group["versions"])) {
            let version = text(&version["groupVersion"]);
            versions.push((version.to_owned(), format!("/apis/{version}")));
        }
        let mut served = Vec::new();
        for (version, path) in versions {
            let resources = fetch(&server, &path).await;
            served.push((version, shown(&resources["resources"])));
        }
        server.shutdown().await;
        served
    })
}

/// `pods (attach, binding, …)`.
fn shown(resources: &Value) -> Vec<String> {
    let names = || list(resources).map(|resource| text(&resource["name"]));
    let main = names().filter(|name| !name.contains('/'));
    main.map(|name| {
        let own = |other: &str| other.strip_prefix(name)?.strip_prefix('/').map(str::to_owned);
        let below: Vec<String> = names().filter_map(own).collect();
        match below.is_empty() {
            true => name.to_owned(),
            false => format!("{name} ({})", below.join(", ")),
        }
    })
    .collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
