//! The selected objects: `pods`, `pods a b`, `pods,services`, `pod/a service/b`, with `-l` and `--field-selector`.

use clap::Args;
use watchkeeper_client::DynamicApi;
use watchkeeper_client::discovery::ApiResource;
use watchkeeper_meta::{FieldSelector, LabelSelector, ListOptions};
use watchkeeper_wire::Object;

use crate::cluster::Cluster;
use crate::failure::Failure;

/// Objects of one resource.
#[derive(Clone, Debug)]
pub(crate) struct Selected {
    pub(crate) resource: ApiResource,
    /// Their names; empty for all that match the selectors.
    pub(crate) names: Vec<String>,
    /// The namespace that a manifest states; `None` is the request's.
    pub(crate) namespace: Option<String>,
}

impl Selected {
    /// True if another selection names more objects of the same resource and namespace.
    fn goes_on_with(&self, other: &Self) -> bool {
        !self.names.is_empty()
            && !other.names.is_empty()
            && self.namespace == other.namespace
            && self.resource.resource == other.resource.resource
    }

    /// The API of these objects.
    pub(crate) fn api(&self, cluster: &Cluster, all_namespaces: bool) -> DynamicApi {
        let api = cluster.objects(&self.resource.resource, all_namespaces);
        match &self.namespace {
            Some(namespace) => api.namespace(namespace),
            None => api,
        }
    }
}

/// Selectors on the command line.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Selectors {
    /// Only objects with these labels: app=web,tier!=cache
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub(crate) selector: Option<String>,

    /// Only objects with these fields: metadata.name=web
    #[arg(long, value_name = "FIELDS")]
    pub(crate) field_selector: Option<String>,
}

impl Selectors {
    /// As list options.
    pub(crate) fn list_options(&self) -> Result<ListOptions, Failure> {
        Ok(ListOptions {
            label_selector: self.labels()?,
            field_selector: self.fields()?,
            ..Default::default()
        })
    }

    pub(crate) fn labels(&self) -> Result<LabelSelector, Failure> {
        let text = self.selector.as_deref().unwrap_or_default();
        text.parse().map_err(Failure::text)
    }

    pub(crate) fn fields(&self) -> Result<FieldSelector, Failure> {
        let text = self.field_selector.as_deref().unwrap_or_default();
        text.parse().map_err(Failure::text)
    }

    /// Namespace and name of the matching objects.
    pub(crate) async fn keys(&self, api: &DynamicApi) -> Result<Vec<(String, String)>, Failure> {
        let metadata = api.clone().metadata_only();
        let list = metadata.pages().with(&self.list_options()?).collect().await?;
        let key = |object: &Object| (object.namespace().to_owned(), object.name().to_owned());
        Ok(list.items.iter().map(key).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.selector.is_none() && self.field_selector.is_none()
    }
}

/// Resolves words to resources and names.
pub(crate) async fn select(cluster: &Cluster, words: &[String]) -> Result<Vec<Selected>, Failure> {
    let mut selected = Vec::new();
    for (kind, names) in pairs(words)? {
        for resource in cluster.discovery.resources(&kind).await? {
            let names = names.clone();
            selected.push(Selected {
                resource,
                names,
                namespace: None,
            });
        }
    }
    Ok(joined(selected))
}

/// Neighbours of one resource and namespace as one selection: they share a table.
pub(crate) fn joined(selected: Vec<Selected>) -> Vec<Selected> {
    let mut found: Vec<Selected> = Vec::new();
    for one in selected {
        match found.last_mut() {
            Some(last) if last.goes_on_with(&one) => last.names.extend(one.names),
            _ => found.push(one),
        }
    }
    found
}

/// One object: `deployment/web` or `deployment web`.
pub(crate) async fn select_one(
    cluster: &Cluster,
    words: &[String],
) -> Result<(ApiResource, String), Failure> {
    let pairs = pairs(words)?;
    match pairs.as_slice() {
        [(kind, names)] if names.len() == 1 => Ok((cluster.resource(kind).await?, names[0].clone())),
        _ => Err(Failure::text("name one object: deployment/web or deployment web")),
    }
}

/// Words as kinds with their names.
fn pairs(words: &[String]) -> Result<Vec<(String, Vec<String>)>, Failure> {
    let Some((first, rest)) = words.split_first() else {
        return Err(Failure::text(
            "name a kind of resource, as in `pods` or `pod/web`; `watchkeeper api-resources` lists them",
        ));
    };
    if !words.iter().any(|word| word.contains('/')) {
        let kinds = first.split(',').filter(|kind| !kind.is_empty());
        return Ok(kinds.map(|kind| (kind.to_owned(), rest.to_vec())).collect());
    }
    let split = |word: &String| match word.split_once('/') {
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok((kind.to_owned(), vec![name.to_owned()]))
        }
        Some((_, name)) if name.contains('/') => Err(Failure::text(
            "arguments in resource/name form may not have more than one slash",
        )),
        Some((kind, _)) => Err(Failure::text(format!(
            "{word:?} is not kind/name; for all of a kind: {kind:?}"
        ))),
        None => Err(Failure::text(format!(
            "{word:?} is not kind/name, as the other words are"
        ))),
    };
    words.iter().map(split).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &[&str], expected: &str) {
        let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
        let printed = match pairs(&words) {
            Ok(pairs) => format!("{pairs:?}"),
            Err(failure) => failure.to_string(),
        };
        assert_eq!(printed, expected);
    }

    #[test]
    fn words_are_kinds_and_names() {
        check(&["pods"], r#"[("pods", [])]"#);
        check(&["pods", "a", "b"], r#"[("pods", ["a", "b"])]"#);
        check(&["pods,svc"], r#"[("pods", []), ("svc", [])]"#);
        check(&["pod/a", "svc/b"], r#"[("pod", ["a"]), ("svc", ["b"])]"#);
        check(
            &["pod/a", "b"],
            r#"error: "b" is not kind/name, as the other words are"#,
        );
        check(
            &["pod/"],
            r#"error: "pod/" is not kind/name; for all of a kind: "pod""#,
        );
    }
}
