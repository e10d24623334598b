//! `wait`: waits until objects meet a condition.

use std::io::Write as _;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use watchkeeper_client::DynamicApi;
use watchkeeper_meta::GroupResource;

use crate::cluster::Cluster;
use crate::duration;
use crate::failure::Failure;
use crate::json_path::{Path, plain};
use crate::object_state::condition;
use crate::session::Session;
use crate::targets::{KindAlone, Target, Targets};
use crate::waiting::until;

/// Wait until objects meet a condition
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper wait --for=condition=Available deployment/web
  watchkeeper wait --for=delete pod/web-0 --timeout 60s
  watchkeeper wait --for=jsonpath='{.status.phase}'=Running pod -l app=web
  watchkeeper wait --for=condition=Ready pods --all -A --timeout 5m
  watchkeeper wait --for=create configmap/settings
  watchkeeper wait --for=delete -f web.yaml")]
pub(crate) struct Wait {
    /// Objects: kind/name …, or a kind and -l
    #[arg(value_name = "RESOURCE", required_unless_present_any = ["filename", "kustomize"])]
    words: Vec<String>,

    #[command(flatten)]
    targets: Targets,

    /// Condition: delete, create, condition=NAME[=VALUE] or jsonpath={PATH}[=VALUE]
    #[arg(long = "for", value_name = "WHAT")]
    wanted: String,

    /// How long to wait; 0 is no limit
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration::parse)]
    timeout: Duration,
}

/// The condition.
#[derive(Debug, PartialEq)]
enum Wanted {
    Deleted,
    Created,
    Condition(String, String),
    Field(Path, Option<String>),
}

/// Waits for all objects, one after the other.
pub(crate) async fn run(wait: Wait, cluster: &Cluster, session: &mut Session) -> Result<(), Failure> {
    let wanted = Wanted::parse(&wait.wanted)?;
    let (mut found, mut failures) = (0, Vec::new());
    let deadline = tokio::time::Instant::now() + wait.timeout;
    let targets = wait
        .targets
        .find(&wait.words, KindAlone::Refused, cluster, session);
    for Target { api, name, .. } in targets.await? {
        found += 1;
        let met = met(&wanted, &api, &name);
        let result = match wait.timeout.is_zero() {
            true => met.await,
            false => tokio::time::timeout_at(deadline, met).await.unwrap_or_else(|_| {
                let plural = &api.resource().plural;
                Err(Failure::text(format!(
                    "timed out waiting for the condition on {plural}/{name}"
                )))
            }),
        };
        match result {
            Ok(Outcome::Waited) => {
                let name = api.resource().display_name(&name);
                writeln!(session.out, "{name} condition met")?;
                session.out.flush()?;
            }
            Ok(Outcome::NothingThere) => {}
            Err(failure) => failures.push(failure),
        }
    }
    // For a deletion, having no objects is success.
    if found == 0 && wanted != Wanted::Deleted {
        return Err(Failure::text("no matching resources found"));
    }
    Failure::all(failures)
}

/// The result of waiting for one object.
enum Outcome {
    Waited,
    /// It did not exist: there is nothing to wait for or to print.
    NothingThere,
}

/// Waits for one object, which must exist unless its creation or deletion is waited for.
async fn met(wanted: &Wanted, api: &DynamicApi, name: &str) -> Result<Outcome, Failure> {
    if *wanted != Wanted::Created {
        match api.get(name).await {
            Err(error) if error.is_not_found() && *wanted == Wanted::Deleted => {
                return Ok(Outcome::NothingThere);
            }
            result => drop(result?),
        }
    }
    let resource = api.resource().group_resource();
    until(api, name, |object| wanted.is_met(object, &resource, name)).await?;
    Ok(Outcome::Waited)
}

impl Wanted {
    fn parse(text: &str) -> Result<Self, Failure> {
        let (what, rest) = text.split_once('=').unwrap_or((text, ""));
        match (what.to_lowercase().as_str(), rest) {
            ("delete", "") => Ok(Self::Deleted),
            ("create", "") => Ok(Self::Created),
            ("condition", rest) if !rest.is_empty() => {
                let (name, value) = rest.split_once('=').unwrap_or((rest, "True"));
                Ok(Self::Condition(name.to_owned(), value.to_owned()))
            }
            ("jsonpath", rest) if rest.starts_with('{') => {
                let (path, rest) = rest[1..].split_once('}').unwrap_or((&rest[1..], ""));
                let path = Path::parse(path).map_err(Failure::text)?;
                Ok(Self::Field(path, rest.strip_prefix('=').map(str::to_owned)))
            }
            _ => Err(Failure::text(format!(
                "unrecognized condition: {text:?}; use delete, create, condition=NAME or jsonpath={{PATH}}=VALUE"
            ))),
        }
    }

    fn is_met(&self, object: Option<&Value>, resource: &GroupResource, name: &str) -> Result<bool, Failure> {
        let Some(object) = object else {
            return match self {
                Self::Deleted => Ok(true),
                Self::Created => Ok(false),
                _ => Err(Failure::text(format!(
                    "{resource} {name:?} was deleted meanwhile"
                ))),
            };
        };
        Ok(match self {
            Self::Deleted => false,
            Self::Created => true,
            Self::Condition(kind, value) => {
                condition(object, kind).is_some_and(|status| status.eq_ignore_ascii_case(value))
            }
            Self::Field(path, value) => {
                let found = path.find(object);
                found
                    .iter()
                    .any(|found| value.as_ref().is_none_or(|value| plain(found) == *value))
            }
        })
    }
}
