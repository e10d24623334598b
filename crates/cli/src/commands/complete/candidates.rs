//! Candidates at the cursor: commands, flags, values, and kinds, names, namespaces and contexts of the cluster.

use clap::Arg;
use watchkeeper_client::config::{Environment, Kubeconfig};
use watchkeeper_client::discovery::Discovery;
use watchkeeper_client::{DynamicApi, LoadOptions};

use super::line::{Line, Place};
use crate::cluster::Cluster;
use crate::cluster_arguments::ClusterArguments;
use crate::format::FORMATS;
use crate::selection::Selectors;

/// A candidate.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) word: String,
    pub(super) description: String,
}

/// The source of candidates.
pub(super) struct Candidates {
    /// `None` if no cluster is configured.
    pub(super) cluster: Option<Cluster>,
    pub(super) arguments: ClusterArguments,
    pub(super) environment: Environment,
}

impl Candidates {
    /// All candidates, sorted; none from a cluster that does not answer.
    pub(super) async fn find(&self, line: &Line<'_>) -> Vec<Candidate> {
        let (kept, found) = match line.place {
            Place::Command => (0, commands(line)),
            Place::Flag => (0, flags(line)),
            Place::Value(flag, begin) => {
                let kept = begin + begin_of_item(flag, &line.unfinished[begin..]);
                (kept, self.values(flag).await.unwrap_or_default())
            }
            Place::Word => self.words(line).await.unwrap_or_default(),
        };
        let (before, typed) = line.unfinished.split_at(kept);
        let fits = found
            .into_iter()
            .filter(|candidate| candidate.word.starts_with(typed));
        fits.map(|candidate| Candidate {
            word: format!("{before}{}", candidate.word),
            ..candidate
        })
        .collect()
    }

    async fn values(&self, flag: &Arg) -> Option<Vec<Candidate>> {
        match flag.get_id().as_str() {
            "namespace" => {
                let namespaces = self.cluster.as_ref()?.resource("namespaces").await.ok()?;
                names(&self.cluster.as_ref()?.objects(&namespaces.resource, true)).await
            }
            "context" => self.contexts(),
            "output" if flag.get_possible_values().is_empty() => Some(FORMATS.map(plain).into()),
            _ => Some(declared(flag)),
        }
    }

    fn contexts(&self) -> Option<Vec<Candidate>> {
        let files = Kubeconfig::load(&LoadOptions {
            path: self.arguments.kubeconfig.clone(),
            environment: self.environment.clone(),
            ..Default::default()
        });
        let contexts = files.ok()?.contexts;
        Some(contexts.into_iter().map(|context| plain(context.name)).collect())
    }

    /// A kind first, then names of that kind; or `kind/name` any number of times. Also returns the length of the
    /// prefix of the unfinished word that stays.
    async fn words(&self, line: &Line<'_>) -> Option<(usize, Vec<Candidate>)> {
        let argument = line.word_argument()?;
        let declared = declared(argument);
        if !declared.is_empty() {
            return line.words.is_empty().then_some((0, declared));
        }
        let only_kinds = line.command.is_some_and(|command| command.get_name() == "watch");
        match (line.unfinished.split_once('/'), line.words.first()) {
            (Some((kind, _)), _) => Some((kind.len() + 1, self.names_of(kind, &[]).await?)),
            (None, Some(kind)) if !only_kinds && !kind.contains('/') => {
                Some((0, self.names_of(kind, &line.words[1..]).await?))
            }
            (None, first) => {
                let kinds = self.kinds().await?;
                // `pod/a` is followed by more of that form.
                let slash = if first.is_some_and(|word| word.contains('/')) {
                    "/"
                } else {
                    ""
                };
                let kinds = kinds.into_iter().map(|kind| Candidate {
                    word: kind.word + slash,
                    ..kind
                });
                let begin = line.unfinished.rfind(',').map_or(0, |comma| comma + 1);
                Some((begin, kinds.collect()))
            }
        }
    }

    async fn kinds(&self) -> Option<Vec<Candidate>> {
        let discovery = self.cluster.as_ref()?.discovery.get().await.ok()?;
        let mut found: Vec<_> = kind_names(&discovery).map(plain).collect();
        found.sort_by(|a, b| a.word.cmp(&b.word));
        found.dedup_by(|a, b| a.word == b.word);
        Some(found)
    }

    /// The names of a kind's objects, without those already typed.
    async fn names_of(&self, kind: &str, taken: &[&str]) -> Option<Vec<Candidate>> {
        let cluster = self.cluster.as_ref()?;
        let found = cluster.discovery.get().await.ok()?.resource(kind)?.clone();
        let mut names = names(&cluster.objects(&found.resource, false)).await?;
        names.retain(|name| !taken.contains(&name.word.as_str()));
        Some(names)
    }
}

/// The plural, with the group if two groups have the same one: `events.events.k8s.io`.
fn kind_names(discovery: &Discovery) -> impl Iterator<Item = String> {
    discovery.preferred_resources().map(|found| {
        let resource = &found.resource;
        let first = discovery.resource(&resource.plural);
        match first.is_some_and(|first| first.resource.group == resource.group) {
            true => resource.plural.to_string(),
            false => resource.group_resource().to_string(),
        }
    })
}

async fn names(api: &DynamicApi) -> Option<Vec<Candidate>> {
    let keys = Selectors::default().keys(api).await.ok()?;
    Some(keys.into_iter().map(|(_, name)| plain(name)).collect())
}

fn commands(line: &Line<'_>) -> Vec<Candidate> {
    let candidate = |command: &clap::Command| Candidate {
        word: command.get_name().to_owned(),
        description: command.get_about().map(ToString::to_string).unwrap_or_default(),
    };
    line.commands().map(candidate).collect()
}

fn flags(line: &Line<'_>) -> Vec<Candidate> {
    let candidate = |flag: &Arg| {
        Some(Candidate {
            word: format!("--{}", flag.get_long()?),
            description: flag.get_help().map(ToString::to_string).unwrap_or_default(),
        })
    };
    line.arguments().filter_map(candidate).collect()
}

/// The declared values of a flag or argument.
fn declared(argument: &Arg) -> Vec<Candidate> {
    let values = argument.get_possible_values().into_iter();
    let candidate = |value: clap::builder::PossibleValue| Candidate {
        word: value.get_name().to_owned(),
        description: value.get_help().map(ToString::to_string).unwrap_or_default(),
    };
    values
        .filter(|value| !value.is_hide_set())
        .map(candidate)
        .collect()
}

/// The start of the last of several namespaces: `shop,kube-`.
fn begin_of_item(flag: &Arg, value: &str) -> usize {
    match flag.get_id().as_str() {
        "namespace" => value.rfind(',').map_or(0, |comma| comma + 1),
        _ => 0,
    }
}

fn plain(word: impl Into<String>) -> Candidate {
    Candidate {
        word: word.into(),
        description: String::new(),
    }
}
