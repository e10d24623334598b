//! Checks manifests with a private API server in this process.
//!
//! ```text
//! texts ▶ cases (object, place, expectation) ▶ sorted by dependency ▶ strict create ▶ problems with file and line
//! ```
//! The errors are a server's: schemas, defaults, validation, CEL rules of custom kinds and admission policies are
//! those of `watchkeeper up`. Namespaces, priority classes and runtime classes that manifests refer to are assumed to
//! exist. Webhooks, including conversion webhooks, are not called; quotas are not counted, because controllers count
//! them.
//!
//! A manifest may state what it expects ([`expectation`](super::expectation)), which makes it a test of the policies
//! and rules beside it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use watchkeeper_client::{Client, Discovery, DynamicApi, Error};
use watchkeeper_meta::{CreateOptions, FieldValidation, GroupVersionKind, Resource, UpdateOptions};
use watchkeeper_server::{Handle, Server};
use watchkeeper_wire::schema::resources;

use super::case::{self, Case};
use super::expectation::{Answer, Expectation};
use super::problem::{self, Problem, Severity};
use super::{assumed, order};
use crate::embedded::{not_started, quiet_options};
use crate::failure::Failure;
use crate::manifests::Text;
use crate::session::Session;

/// The field manager.
const MANAGER: &str = "watchkeeper-check";

/// The result of checking a set of manifests.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) files: usize,
    pub(super) objects: usize,
    pub(super) valid: usize,
    pub(super) tests_passed: usize,
    pub(super) tests_failed: usize,
    /// Objects assumed to exist in the cluster: `namespace/shop`.
    pub(super) assumed: Vec<String>,
    /// Sorted by file and line.
    pub(super) problems: Vec<Problem>,
}

/// Checks manifests; those without a namespace go to this one.
pub(super) async fn check(
    texts: &[Text],
    namespace: &str,
    verbosity: i32,
    session: &Session,
) -> Result<Verdict, Failure> {
    let mut verdict = Verdict {
        files: texts.len(),
        ..Verdict::default()
    };
    let mut cases = case::read(texts, &mut verdict.problems);
    order::sort(&mut cases);
    let mut judge = Judge::start(verbosity, session).await?;
    verdict.assumed = judge.assume(&cases, namespace).await?;
    for case in &cases {
        judge.case(case, namespace, &mut verdict).await?;
    }
    judge.server.shutdown().await;
    problem::sort(&mut verdict.problems, texts);
    Ok(verdict)
}

impl Verdict {
    pub(super) fn tests(&self) -> usize {
        self.tests_passed + self.tests_failed
    }

    /// True if there are no errors. Warnings are not errors.
    pub(super) fn passed(&self) -> bool {
        self.problems
            .iter()
            .all(|problem| problem.severity == Severity::Warning)
    }
}

/// The server, and the objects it has been given.
struct Judge {
    server: Handle,
    client: Client,
    warnings: Arc<Mutex<Vec<String>>>,
    /// Discovery of custom kinds; requested with the first custom object.
    custom: Option<Discovery>,
    /// The objects of the set, by identity, with their positions.
    given: BTreeMap<Identity, String>,
}

/// Group, kind, namespace and name.
type Identity = (String, String, String, String);

impl Judge {
    async fn start(verbosity: i32, session: &Session) -> Result<Self, Failure> {
        let server = Server::builder().in_memory().start().await.map_err(not_started)?;
        let warnings = Arc::new(Mutex::new(Vec::new()));
        let heard = warnings.clone();
        let mut options = quiet_options(verbosity, session);
        options.warnings = Arc::new(move |warning| {
            heard
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(warning.text.clone());
        });
        let client = watchkeeper_testing::client_of(&server, options)?;
        Ok(Self {
            server,
            client,
            warnings,
            custom: None,
            given: BTreeMap::new(),
        })
    }

    /// Creates the assumed objects, before any policy of the set can deny them.
    async fn assume(&mut self, cases: &[Case<'_>], namespace: &str) -> Result<Vec<String>, Failure> {
        let mut assumed = Vec::new();
        for wanted in assumed::missing(cases, namespace) {
            let api = self.client.dynamic(wanted.resource);
            match api.create(&wanted.object).await {
                Ok(created) => assumed.push(api.resource().display_name(created.name())),
                // Every cluster has it.
                Err(error) if error.is_already_exists() => {}
                // Invalid names are reported where they are used.
                Err(error) if error.is_invalid() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(assumed)
    }

    async fn case(&mut self, case: &Case<'_>, namespace: &str, verdict: &mut Verdict) -> Result<(), Failure> {
        let expectation = match &case.expectation {
            Ok(expectation) => expectation,
            Err(reason) => {
                verdict.tests_failed += 1;
                verdict.problems.push(Problem::of_expectation(case, reason));
                return Ok(());
            }
        };
        verdict.objects += usize::from(*expectation == Expectation::None);
        let Some(resource) = self.resource(&case.manifest.kind).await? else {
            verdict.problems.push(Problem::unknown_kind(case));
            verdict.tests_failed += usize::from(*expectation != Expectation::None);
            return Ok(());
        };
        let namespace = match case.manifest.namespace.is_empty() {
            true => namespace,
            false => &case.manifest.namespace,
        };
        let api = self.client.dynamic(resource).namespace(namespace);
        if *expectation == Expectation::None
            && let Some(first) = self.remember(case, &api)
        {
            verdict
                .problems
                .push(Problem::twice(case, api.resource(), &first));
            return Ok(());
        }
        let answer = self.ask(case, &api).await?;
        self.judge(case, expectation, answer, api.resource(), verdict);
        Ok(())
    }

    fn judge(
        &self,
        case: &Case<'_>,
        expectation: &Expectation,
        answer: Answer,
        resource: &Resource,
        verdict: &mut Verdict,
    ) {
        if *expectation != Expectation::None {
            match expectation.meets(&answer) {
                Ok(()) => verdict.tests_passed += 1,
                Err(reason) => {
                    verdict.tests_failed += 1;
                    verdict.problems.push(Problem::of_test(case, resource, reason));
                }
            }
            return;
        }
        for warning in &answer.warnings {
            verdict.problems.push(Problem::warning(case, resource, warning));
        }
        verdict.valid += usize::from(answer.refused.is_empty());
        for status in &answer.refused {
            verdict.problems.extend(Problem::refusals(case, resource, status));
        }
    }

    /// The position of the same object in the set, if there is one.
    fn remember(&mut self, case: &Case<'_>, api: &DynamicApi) -> Option<String> {
        let (resource, name) = (api.resource(), case.manifest.name.clone());
        if name.is_empty() {
            return None;
        }
        let (group, kind) = (resource.group.to_string(), resource.kind.to_string());
        let identity = (group, kind, api.namespace_name().to_owned(), name);
        self.given.insert(identity, case.position())
    }

    /// Creates the object, or replaces the existing one. A strict server reports only unknown fields; so the request
    /// is repeated without them.
    async fn ask(&self, case: &Case<'_>, api: &DynamicApi) -> Result<Answer, Failure> {
        self.take_warnings();
        let mut refused = Vec::new();
        for validation in [FieldValidation::Strict, FieldValidation::Ignore] {
            let Err(error) = self.install(case, api, validation).await else {
                break;
            };
            let Some(status) = error.status().cloned() else {
                return Err(error.into());
            };
            let is_strict = problem::is_strict(&status);
            refused.push(status);
            if !is_strict {
                break;
            }
        }
        Ok(Answer {
            refused,
            warnings: self.take_warnings(),
        })
    }

    async fn install(
        &self,
        case: &Case<'_>,
        api: &DynamicApi,
        validation: FieldValidation,
    ) -> Result<(), Error> {
        let options = |dry_run| CreateOptions {
            dry_run,
            field_manager: Some(MANAGER.to_owned()),
            field_validation: Some(validation),
        };
        match install(case) {
            Install::Kept(object) => self.write(api, &object, &options(false)).await,
            Install::Judged => self.write(api, &case.object, &options(true)).await,
        }
    }

    async fn write(&self, api: &DynamicApi, object: &Value, options: &CreateOptions) -> Result<(), Error> {
        match api.create(object).with(options).await {
            Err(error) if error.is_already_exists() => {}
            created => return created.map(drop),
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = api.get(name).await?.resource_version().into();
        let update = UpdateOptions {
            dry_run: options.dry_run,
            field_manager: options.field_manager.clone(),
            field_validation: options.field_validation,
        };
        api.update(name, &object).with(&update).await.map(drop)
    }

    fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn resource(&mut self, kind: &GroupVersionKind) -> Result<Option<Resource>, Failure> {
        if let Some(known) = resources::by_kind(&kind.group, &kind.version, &kind.kind) {
            return Ok(Some(known.resource.clone()));
        }
        if self.custom.is_none() {
            self.custom = Some(self.client.discover().await?);
        }
        let found = self
            .custom
            .as_ref()
            .and_then(|custom| custom.resource_of_kind(kind));
        Ok(found.map(|found| found.resource.clone()))
    }
}

/// The fate of an object after it was checked.
enum Install<'a> {
    /// It stays, for later objects.
    Kept(Cow<'a, Value>),
    /// It is removed: it would call a webhook that does not exist here.
    Judged,
}

fn install<'a>(case: &'a Case<'_>) -> Install<'a> {
    match &*case.manifest.kind.kind {
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" | "APIService" => Install::Judged,
        // The conversion webhook does not exist here; every object is validated by the schema of its own version.
        "CustomResourceDefinition" if case.object["spec"]["conversion"]["strategy"] == "Webhook" => {
            let mut installed = case.object.clone();
            installed["spec"]["conversion"] = serde_json::json!({"strategy": "None"});
            Install::Kept(Cow::Owned(installed))
        }
        _ => Install::Kept(Cow::Borrowed(&case.object)),
    }
}
