//! Admission: plugins, policies and webhooks that complete or reject a write. The first check is that the namespace
//! exists and is not terminating.

mod classes;
pub(crate) mod limit_range;
mod matching;
mod mutation;
mod pod_priority;
mod pod_security;
pub(crate) mod policies;
pub(crate) mod quota;
pub(crate) mod request;
mod runtime_class;
mod service_account;
mod signers;
mod topology;
pub(crate) mod webhooks;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use watchkeeper_kinds::{Part, builtin};
use watchkeeper_meta::{Status, StatusCause};

use self::request::{Action, AdmissionRequest, GROUP, PartKind};
use crate::context::WriteContext;
use crate::definition::Definition;
use crate::metrics::Step;
use crate::subresources::scale::scale_of;
use crate::{Registry, metadata};

impl Registry {
    /// Checks once if policies or webhooks are stored. With a shared store they are always assumed: another server
    /// may write them.
    pub(crate) async fn look_for_admission_configuration(&self) -> Result<(), Status> {
        let mut may_have = self.store().is_shared();
        for kind in [
            &builtin::MUTATING_ADMISSION_POLICY_BINDING,
            &builtin::MUTATING_WEBHOOK_CONFIGURATION,
            &builtin::VALIDATING_ADMISSION_POLICY_BINDING,
            &builtin::VALIDATING_WEBHOOK_CONFIGURATION,
        ] {
            may_have = may_have || !self.all_values(&*self.builtin(kind)?).await?.is_empty();
        }
        if may_have {
            self.note_admission_configuration();
        }
        Ok(())
    }

    /// Runs mutating plugins on a create.
    pub(crate) fn admit_create<'a>(
        &'a self,
        definition: &'a Arc<Definition>,
        namespace: &'a str,
        object: &'a mut Value,
        context: &'a WriteContext,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            if definition.resource.group == GROUP {
                self.note_admission_configuration();
            }
            definition.sign(object, context.requester.as_ref());
            let mut laps = self.durations().laps(Step::Admit, "CREATE");
            if definition.is_namespaced() {
                let name = metadata::text(object, "name");
                let checked = self.check_namespace(definition, namespace, name).await;
                laps.plugin("NamespaceLifecycle", checked)?;
            }
            if let Some(plugin) = classes::plugin(definition) {
                laps.plugin(plugin, self.take_default_class(definition, object).await)?;
            }
            if definition.is(&builtin::POD) {
                let account = self.take_from_service_account(definition, namespace, object);
                laps.plugin("ServiceAccount", account.await)?;
                let limits = self.limits(namespace).await;
                limit_range::complete(&laps.plugin("LimitRanger", limits)?, object);
                laps.plugin("Priority", self.prioritize(definition, object).await)?;
                laps.plugin("PodTopologyLabels", self.take_topology(object).await)?;
                let class = self.take_from_runtime_class(definition, object);
                laps.plugin("RuntimeClass", class.await)?;
            }
            Ok(())
        })
    }

    /// Runs validating plugins on a valid new object.
    pub(crate) async fn admit_created(
        &self,
        definition: &Definition,
        namespace: &str,
        object: &Value,
        context: &WriteContext,
    ) -> Result<(), Status> {
        self.check_signer(definition, Part::Object, None, object, context)
            .await?;
        let mut laps = self.durations().laps(Step::Validate, "CREATE");
        let subject = self.check_subject(definition, object);
        laps.plugin("CertificateSubjectRestriction", subject)?;
        self.check_claim_limits(definition, object).await?;
        self.check_default_class(definition, object, true).await?;
        if definition.is(&builtin::POD) {
            let forbidden = |why| {
                let name = metadata::text(object, "name");
                Status::forbidden(&definition.group_resource(), name, why)
            };
            let limited = self.check_pod_limits(definition, namespace, object).await;
            laps.plugin("LimitRanger", limited)?;
            let refused = self.check_pod_security(namespace, object, context).await?;
            laps.plugin("PodSecurity", refused.map(forbidden).map_or(Ok(()), Err))?;
        }
        self.check_template_security(definition, namespace, object, context)
            .await?;
        self.check_policies(AdmissionRequest {
            action: Action::create(definition),
            object: Some(object),
            old: None,
            context,
        })
        .await
    }

    /// Refuses a pod beyond the limits of its namespace.
    async fn check_pod_limits(
        &self,
        definition: &Definition,
        namespace: &str,
        pod: &Value,
    ) -> Result<(), Status> {
        match limit_range::refusal(&self.limits(namespace).await?, pod) {
            Some(why) => {
                let name = metadata::text(pod, "name");
                Err(Status::forbidden(&definition.group_resource(), name, why))
            }
            None => Ok(()),
        }
    }

    /// Refuses a claim beyond the limits of its namespace, unless it is being deleted.
    async fn check_claim_limits(&self, definition: &Definition, claim: &Value) -> Result<(), Status> {
        let is_deleted = !claim["metadata"]["deletionTimestamp"].is_null();
        if !definition.is(&builtin::PERSISTENT_VOLUME_CLAIM) || is_deleted {
            return Ok(());
        }
        let limits = self.limits(metadata::text(claim, "namespace")).await?;
        match limit_range::claim_refusal(&limits, claim) {
            Some(why) => {
                let name = metadata::text(claim, "name");
                Err(Status::forbidden(&definition.group_resource(), name, why))
            }
            None => Ok(()),
        }
    }

    /// The namespace of an object; a Namespace is in itself.
    async fn namespace_of(&self, write: &AdmissionRequest<'_>) -> Result<Option<Value>, Status> {
        match write.namespace() {
            _ if write.is_of_namespace() => Ok(Some(write.shown().clone())),
            "" => Ok(None),
            namespace => self.find_namespace(namespace).await,
        }
    }

    async fn find_namespace(&self, namespace: &str) -> Result<Option<Value>, Status> {
        let namespaces = self.builtin(&builtin::NAMESPACE)?;
        let found = self.find(&namespaces, "", namespace).await?;
        found.map(|found| found.to_value(&namespaces)).transpose()
    }

    /// Runs mutating plugins on an update.
    pub(crate) async fn admit_update(&self, part: Part, live: &Value, new: &mut Value) -> Result<(), Status> {
        if is_limited_resize(part, live) {
            let limits = self.limits(metadata::text(new, "namespace")).await?;
            limit_range::complete(&limits, new);
        }
        Ok(())
    }

    /// Runs validating plugins on a valid changed object.
    pub(crate) async fn admit_updated(
        &self,
        definition: &Definition,
        part: Part,
        live: &Value,
        new: &Value,
        context: &WriteContext,
    ) -> Result<(), Status> {
        self.check_signer(definition, part, Some(live), new, context)
            .await?;
        self.check_growth(definition, part, live, new).await?;
        if part == Part::Whole {
            return Ok(());
        }
        if part == Part::Object {
            self.check_claim_limits(definition, new).await?;
            self.check_default_class(definition, new, false).await?;
            let namespace = metadata::text(new, "namespace");
            self.check_template_security(definition, namespace, new, context)
                .await?;
            if definition.is(&builtin::NAMESPACE) {
                self.warn_of_violating_pods(live, new, context).await?;
            }
        }
        if is_limited_resize(part, live) {
            self.check_pod_limits(definition, metadata::text(new, "namespace"), new)
                .await?;
        }
        if definition.is(&builtin::POD) && pod_security::concerns(part) {
            self.check_pod_security_of_update(definition, live, new, context)
                .await?;
        }
        let scales = match part {
            Part::Scale => Some((scale_of(definition, new)?, scale_of(definition, live)?)),
            _ => None,
        };
        let (new, live) = scales.as_ref().map_or((new, live), |(new, live)| (new, live));
        self.check_policies(AdmissionRequest {
            action: Action::update(definition, part),
            object: Some(new),
            old: Some(live),
            context,
        })
        .await
    }

    /// Runs admission on an object posted to a subresource. Webhooks may change it.
    pub(crate) fn admit_posted<'a>(
        &'a self,
        definition: &'a Definition,
        kind: &'static PartKind,
        object: &'a mut Value,
        context: &'a WriteContext,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let action = Action::post(definition, kind);
            let may_call_webhooks = self.may_call_webhooks(definition, context);
            if may_call_webhooks {
                self.mutate_posted(action, object, context).await?;
            }
            self.check_policies(AdmissionRequest {
                action,
                object: Some(object),
                old: None,
                context,
            })
            .await?;
            match may_call_webhooks {
                true => self.ask_about_posted(action, object, context).await,
                false => Ok(()),
            }
        })
    }

    /// Runs admission plugins on a delete.
    pub(crate) fn admit_delete(&self, definition: &Definition, name: &str) -> Result<(), Status> {
        match (definition.kind.undeletable)(name) {
            Some(why) => Err(Status::forbidden(&definition.group_resource(), name, why)),
            None => Ok(()),
        }
    }

    /// The namespace must exist and must not be terminating.
    pub(crate) async fn check_namespace(
        &self,
        definition: &Definition,
        namespace: &str,
        name: &str,
    ) -> Result<(), Status> {
        let namespaces = self.builtin(&builtin::NAMESPACE)?;
        let missing = || Status::not_found(&namespaces.group_resource(), namespace);
        let found = self.find(&namespaces, "", namespace).await?.ok_or_else(missing)?;
        if found.header(&namespaces)?.deletion_timestamp.is_none() {
            return Ok(());
        }
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let cause = StatusCause {
            reason: "NamespaceTerminating".into(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".to_owned(),
        };
        Err(Status::forbidden(&definition.group_resource(), name, why).with_cause(cause))
    }
}

/// True for a resize of a pod that is not being deleted: LimitRanges apply to it.
fn is_limited_resize(part: Part, live: &Value) -> bool {
    part == Part::Resize && live["metadata"]["deletionTimestamp"].is_null()
}
