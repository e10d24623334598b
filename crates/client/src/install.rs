//! Installs CustomResourceDefinitions: applies them and waits until their kinds can be used.
//!
//! After a definition is applied, the server checks its names, then serves it, and discovery shows it a little later.
//! A client that does not wait gets a 404.

use std::time::Duration;

use futures_util::FutureExt;
use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use watchkeeper_meta::{ApplyOptions, FieldSelector, ListOptions, Resource, WatchOptions};
use watchkeeper_wire::Object;

use crate::call::Call;
use crate::client::Client;
use crate::discovery::Discovery;
use crate::dynamic::DynamicApi;
use crate::error::Error;
use crate::watch::WatchEvent;

/// The initial pause between requests of discovery, which cannot be watched; it grows to [`MAX_PAUSE`]. Also the
/// pause between two watches.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Options of an installation.
#[derive(Clone, Debug)]
pub struct InstallOptions {
    /// The manager that owns the fields of the definitions.
    pub field_manager: String,
    /// True to take fields from other managers, such as an earlier installer.
    pub force: bool,
    /// The time limit of the whole installation.
    pub timeout: Duration,
}

impl Default for InstallOptions {
    /// Takes over fields of others, with a time limit of 30 seconds.
    fn default() -> Self {
        Self {
            field_manager: "watchkeeper".into(),
            force: true,
            timeout: Duration::from_secs(30),
        }
    }
}

/// A definition that could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// It has no name, group, names or versions.
    #[error("the definition has no {0}")]
    Incomplete(&'static str),
    /// The server refused it.
    #[error("{crd} cannot be applied")]
    Apply {
        /// The definition.
        crd: String,
        /// The error.
        source: Error,
    },
    /// Its state cannot be read.
    #[error("{crd} cannot be waited for")]
    Wait {
        /// The definition.
        crd: String,
        /// The error.
        source: Error,
    },
    /// Its names are used by another definition.
    #[error("{crd} is refused: condition {condition} is False: {message}")]
    Refused {
        /// The definition.
        crd: String,
        /// `NamesAccepted`.
        condition: String,
        /// The server's message.
        message: String,
    },
    /// The time limit passed.
    #[error("{crd} is not ready after {timeout:?}: waited for {condition}")]
    Timeout {
        /// The definition.
        crd: String,
        /// The condition that was not met: `Established`, or `discovery of example.com/v1 websites`.
        condition: String,
        /// The time limit.
        timeout: Duration,
    },
}

/// Applies definitions, and waits until the server serves all of their versions.
///
/// All are applied before any is waited for. Idempotent, so requests that fail transiently are retried until the timeout.
/// Requires permission to `create`, `patch`, `list` and `watch` customresourcedefinitions.
///
/// ```no_run
/// # use watchkeeper_client::{Client, InstallError, install_crds};
/// # async fn example(client: Client, crd: serde_json::Value) -> Result<(), InstallError> {
/// install_crds(&client, &[crd]).await
/// # }
/// ```
pub fn install_crds<'a>(client: &'a Client, crds: &'a [Value]) -> Call<'a, InstallOptions, (), InstallError> {
    Call::new(move |options: &InstallOptions| install(client, crds, options.clone()).boxed())
}

async fn install(client: &Client, crds: &[Value], options: InstallOptions) -> Result<(), InstallError> {
    let options = &options;
    let deadline = Instant::now() + options.timeout;
    let crds: Vec<Definition<'_>> = crds.iter().map(Definition::read).collect::<Result<_, _>>()?;
    let api = client.dynamic(Resource::cluster(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    ));
    for crd in &crds {
        let late = |_| crd.late("its answer".into(), options);
        timeout_at(deadline, crd.apply(&api, options))
            .await
            .map_err(late)??;
    }
    for crd in &crds {
        let late = |_| crd.late("Established".into(), options);
        timeout_at(deadline, crd.established(&api))
            .await
            .map_err(late)??;
    }
    for crd in &crds {
        crd.discovered(client, deadline, options).await?;
    }
    Ok(())
}

/// Retries a request while its error is transient. The caller has a deadline.
///
/// Not an `AsyncFn`: rustc cannot prove the future of its caller `Send`.
async fn retry_transient<T, F>(ask: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut pause = FIRST_PAUSE;
    loop {
        match ask().await {
            Err(error) if error.is_transient() => {
                sleep(error.retry_after().unwrap_or(pause)).await;
                pause = (pause * 2).min(MAX_PAUSE);
            }
            answer => return answer,
        }
    }
}

/// The parts of a definition that are needed.
struct Definition<'a> {
    object: &'a Value,
    name: &'a str,
    group: &'a str,
    plural: &'a str,
    /// The served versions.
    versions: Vec<&'a str>,
}

impl<'a> Definition<'a> {
    fn read(object: &'a Value) -> Result<Self, InstallError> {
        let text = |pointer: &str, field| {
            let found = object.pointer(pointer).and_then(Value::as_str);
            found.ok_or(InstallError::Incomplete(field))
        };
        let versions = object["spec"]["versions"].as_array();
        let served = versions
            .ok_or(InstallError::Incomplete("spec.versions"))?
            .iter()
            .filter(|version| version["served"] == true);
        Ok(Self {
            object,
            name: text("/metadata/name", "metadata.name")?,
            group: text("/spec/group", "spec.group")?,
            plural: text("/spec/names/plural", "spec.names.plural")?,
            versions: served.filter_map(|version| version["name"].as_str()).collect(),
        })
    }

    async fn apply(&self, api: &DynamicApi, options: &InstallOptions) -> Result<(), InstallError> {
        let force = ApplyOptions {
            force: options.force,
            ..Default::default()
        };
        let manager = &options.field_manager;
        let applied = retry_transient(|| api.apply(self.name, self.object, manager).with(&force));
        applied.await.map(drop).map_err(|source| InstallError::Apply {
            crd: self.name.to_owned(),
            source,
        })
    }

    /// Waits until the server has established the definition, or refused its names.
    async fn established(&self, api: &DynamicApi) -> Result<(), InstallError> {
        loop {
            let found = retry_transient(|| self.follow(api))
                .await
                .map_err(|source| InstallError::Wait {
                    crd: self.name.to_owned(),
                    source,
                })?;
            if let Some(verdict) = found {
                return verdict;
            }
            // A watch may end at any time.
            sleep(FIRST_PAUSE).await;
        }
    }

    /// Reads the definition, then watches it; `None` if the watch ends without a result.
    async fn follow(&self, api: &DynamicApi) -> Result<Option<Result<(), InstallError>>, Error> {
        let selector = FieldSelector::name(self.name);
        let list = ListOptions {
            field_selector: selector.clone(),
            ..Default::default()
        };
        let list = api.list().with(&list).await?;
        for object in &list.items {
            if let Some(verdict) = self.verdict(object) {
                return Ok(Some(verdict));
            }
        }
        let options = WatchOptions {
            field_selector: selector,
            resource_version: list.head.resource_version.clone(),
            ..Default::default()
        };
        let mut watch = api.watch().with(&options).await?;
        while let Some(event) = watch.next().await {
            if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event?
                && let Some(verdict) = self.verdict(&object)
            {
                return Ok(Some(verdict));
            }
        }
        Ok(None)
    }

    fn verdict(&self, object: &Object) -> Option<Result<(), InstallError>> {
        let object = object.to_value().ok()?;
        let conditions = object["status"]["conditions"].as_array()?;
        let find = |name: &str| conditions.iter().find(|condition| condition["type"] == name);
        if let Some(refused) = find("NamesAccepted").filter(|condition| condition["status"] == "False") {
            return Some(Err(InstallError::Refused {
                crd: self.name.to_owned(),
                condition: "NamesAccepted".into(),
                message: refused["message"].as_str().unwrap_or_default().to_owned(),
            }));
        }
        (find("Established")?["status"] == "True").then_some(Ok(()))
    }

    /// Repeats discovery until it has the versions.
    async fn discovered(
        &self,
        client: &Client,
        deadline: Instant,
        options: &InstallOptions,
    ) -> Result<(), InstallError> {
        let mut pause = FIRST_PAUSE;
        let mut missing = self.versions.first().copied();
        while let Some(version) = missing {
            let late = || {
                self.late(
                    format!("discovery of {}/{version} {}", self.group, self.plural),
                    options,
                )
            };
            let found = timeout_at(deadline, retry_transient(|| client.discover()))
                .await
                .map_err(|_| late())?;
            let found = found.map_err(|source| InstallError::Wait {
                crd: self.name.to_owned(),
                source,
            })?;
            missing = self
                .versions
                .iter()
                .copied()
                .find(|version| !self.is_in(&found, version));
            if missing.is_some() {
                let next = Instant::now() + pause;
                if next >= deadline {
                    return Err(late());
                }
                sleep_until(next).await;
                pause = (pause * 2).min(MAX_PAUSE);
            }
        }
        Ok(())
    }

    fn is_in(&self, discovery: &Discovery, version: &str) -> bool {
        discovery.resources().any(|found| {
            let found = &found.resource;
            found.group == self.group && found.version == version && found.plural == self.plural
        })
    }

    fn late(&self, condition: String, options: &InstallOptions) -> InstallError {
        InstallError::Timeout {
            crd: self.name.to_owned(),
            condition,
            timeout: options.timeout,
        }
    }
}
