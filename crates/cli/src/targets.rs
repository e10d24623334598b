//! The objects a command acts on: those of its words or manifests, or all that `-l` or `--all` selects.

use clap::Args;
use watchkeeper_client::DynamicApi;
use watchkeeper_client::discovery::ApiResource;

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::manifests::{Filenames, of_manifests};
use crate::selection::{Selected, Selectors, select};
use crate::session::Session;

/// The ways to say which objects, besides words.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Targets {
    #[command(flatten)]
    pub(crate) files: Filenames,

    #[command(flatten)]
    selectors: Selectors,

    /// All objects of the kinds
    #[arg(long)]
    all: bool,

    /// In all namespaces, with -l or --all
    #[arg(short = 'A', long)]
    all_namespaces: bool,
}

/// The meaning of a kind without a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KindAlone {
    /// All its objects, as kubectl's rollouts take it.
    All,
    /// An error, unless there is a selector or `--all`.
    Refused,
}

/// One object.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) resource: ApiResource,
    /// In the object's namespace.
    pub(crate) api: DynamicApi,
    pub(crate) name: String,
}

impl Targets {
    /// The objects, in the order they were named or listed.
    pub(crate) async fn find(
        &self,
        words: &[String],
        kind_alone: KindAlone,
        cluster: &Cluster,
        session: &mut Session,
    ) -> Result<Vec<Target>, Failure> {
        let mut found = Vec::new();
        for selected in named(words, &self.files, cluster, session).await? {
            check_selection(&selected, self.selects(), self.all_namespaces)?;
            match selected.names.is_empty() {
                false => found.extend(of_names(selected, cluster)),
                true if self.selects() || kind_alone == KindAlone::All => {
                    found.extend(self.listed(&selected, cluster).await?);
                }
                true => {
                    return Err(Failure::text(
                        "resource(s) were provided, but no name was specified; -l or --all selects several",
                    ));
                }
            }
        }
        Ok(found)
    }

    /// The words for a selection that matches nothing.
    pub(crate) fn nothing(&self, cluster: &Cluster) -> String {
        match self.all_namespaces {
            true => "No resources found".to_owned(),
            false => format!("No resources found in {} namespace.", cluster.namespace),
        }
    }

    fn selects(&self) -> bool {
        self.all || !self.selectors.is_empty()
    }

    async fn listed(&self, selected: &Selected, cluster: &Cluster) -> Result<Vec<Target>, Failure> {
        let api = selected.api(cluster, self.all_namespaces);
        let keys = self.selectors.keys(&api).await?;
        let target = |(namespace, name): (String, String)| Target {
            resource: selected.resource.clone(),
            api: api.clone().namespace(namespace),
            name,
        };
        Ok(keys.into_iter().map(target).collect())
    }
}

/// The objects of the words, or those of the manifests.
pub(crate) async fn named(
    words: &[String],
    files: &Filenames,
    cluster: &Cluster,
    session: &mut Session,
) -> Result<Vec<Selected>, Failure> {
    match (words.is_empty(), files.is_empty()) {
        (false, false) => Err(Failure::text("name objects or files with -f, not both")),
        (true, false) => of_manifests(files, cluster, session).await,
        _ => select(cluster, words).await,
    }
}

/// Refuses names together with a selection of several objects, which would be ignored.
pub(crate) fn check_selection(
    selected: &Selected,
    selects: bool,
    all_namespaces: bool,
) -> Result<(), Failure> {
    match (selected.names.is_empty(), selects, all_namespaces) {
        (false, true, _) => Err(Failure::text("name objects or select them, not both")),
        (false, false, true) => Err(Failure::text(
            "a resource cannot be retrieved by name across all namespaces",
        )),
        _ => Ok(()),
    }
}

fn of_names(selected: Selected, cluster: &Cluster) -> impl Iterator<Item = Target> {
    let api = selected.api(cluster, false);
    let Selected { resource, names, .. } = selected;
    names.into_iter().map(move |name| Target {
        resource: resource.clone(),
        api: api.clone(),
        name,
    })
}
