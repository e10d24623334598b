//! `api-resources`: the kinds the server serves, with their names.

use std::io::Write as _;

use clap::{Args, ValueEnum};
use watchkeeper_client::discovery::{ApiResource, Discovery};

use crate::cluster::{Cluster, is_namespaced};
use crate::failure::Failure;
use crate::session::Session;
use crate::table::print_aligned;

/// Print the resources of the server
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper api-resources
  watchkeeper api-resources --namespaced=false
  watchkeeper api-resources --api-group apps -o wide")]
pub(crate) struct ApiResources {
    /// Only namespaced resources, or with =false only cluster-scoped ones
    #[arg(long, value_name = "BOOL", require_equals = true, num_args = 0..=1, default_missing_value = "true")]
    namespaced: Option<bool>,

    /// Only resources of this group; "" is the core group
    #[arg(long, value_name = "GROUP")]
    api_group: Option<String>,

    /// Only resources with all of these verbs
    #[arg(long, value_name = "VERBS", value_delimiter = ',')]
    verbs: Vec<String>,

    /// Only resources of all of these categories
    #[arg(long, value_name = "CATEGORIES", value_delimiter = ',')]
    categories: Vec<String>,

    /// Order; by default by group, then name
    #[arg(long, value_name = "FIELD")]
    sort_by: Option<Order>,

    /// Output format
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,

    /// Print no headers
    #[arg(long)]
    no_headers: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// With verbs and categories
    Wide,
    /// Only names
    Name,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Order {
    Name,
    Kind,
}

/// Prints them sorted by group and name; versions that could not be read are reported last.
pub(crate) async fn run(
    asked: ApiResources,
    cluster: &Cluster,
    session: &mut Session,
) -> Result<(), Failure> {
    let discovery = cluster.discovery.get().await?;
    let mut found: Vec<&ApiResource> = discovery
        .preferred_resources()
        .filter(|found| asked.wants(found))
        .collect();
    found.sort_by_key(|found| (&found.resource.group, &found.resource.plural));
    match asked.sort_by {
        None => {}
        Some(Order::Name) => found.sort_by_key(|found| &found.resource.plural),
        Some(Order::Kind) => found.sort_by_key(|found| &found.resource.kind),
    }
    if asked.output == Some(Format::Name) {
        for found in found {
            writeln!(session.out, "{}", found.resource.group_resource())?;
        }
    } else {
        let header = (!asked.no_headers).then(|| asked.header());
        let lines: Vec<_> = header
            .into_iter()
            .chain(found.iter().map(|found| asked.line(found)))
            .collect();
        print_aligned(&lines, &mut Vec::new(), &mut session.out)?;
    }
    Failure::all(failures(&discovery))
}

fn failures(discovery: &Discovery) -> Vec<Failure> {
    let told = |failure: &watchkeeper_client::discovery::DiscoveryFailure| {
        Failure::text(format!(
            "unable to retrieve the resources of {}: {}",
            failure.group_version, failure.reason
        ))
    };
    discovery.failures.iter().map(told).collect()
}

impl ApiResources {
    fn wants(&self, found: &ApiResource) -> bool {
        let resource = &found.resource;
        self.namespaced
            .is_none_or(|wanted| wanted == is_namespaced(resource))
            && self
                .api_group
                .as_ref()
                .is_none_or(|group| resource.group == **group)
            && self.verbs.iter().all(|verb| found.has_verb(verb))
            && self
                .categories
                .iter()
                .all(|wanted| found.categories.iter().any(|has| has == wanted))
            && !found.verbs.is_empty()
    }

    fn header(&self) -> Vec<String> {
        let mut header = vec!["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"];
        if self.output == Some(Format::Wide) {
            header.extend(["VERBS", "CATEGORIES"]);
        }
        header.into_iter().map(str::to_owned).collect()
    }

    fn line(&self, found: &ApiResource) -> Vec<String> {
        let resource = &found.resource;
        let mut line = vec![
            resource.plural.to_string(),
            found.short_names.join(","),
            resource.group_version_kind().api_version(),
            is_namespaced(resource).to_string(),
            resource.kind.to_string(),
        ];
        if self.output == Some(Format::Wide) {
            line.extend([found.verbs.join(","), found.categories.join(",")]);
        }
        line
    }
}
