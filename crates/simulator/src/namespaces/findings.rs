//! The reasons that delay the deletion of a namespace, and the conditions that report them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use watchkeeper_client::discovery::DiscoveryFailure;
use watchkeeper_meta::Resource;
use watchkeeper_wire::Object;

use crate::conditions::{self, Condition};

/// Type, reason and message of each condition without a problem.
const ALL_IS_WELL: [(&str, &str, &str); 5] = [
    (
        "NamespaceDeletionDiscoveryFailure",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    (
        "NamespaceContentRemaining",
        "ContentRemoved",
        "All content successfully removed",
    ),
    (
        "NamespaceFinalizersRemaining",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
];

/// The findings after everything in a namespace was deleted.
#[derive(Debug, Default)]
pub(super) struct Findings {
    discovery: Option<String>,
    failures: BTreeSet<String>,
    remaining: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
}

impl Findings {
    /// True if the namespace is known to be empty.
    pub(super) fn is_empty(&self) -> bool {
        self.discovery.is_none() && self.failures.is_empty() && self.remaining.is_empty()
    }

    /// Discovery failed.
    pub(super) fn undiscovered(&mut self, error: String) {
        self.discovery = Some(error);
    }

    /// Discovery failed for some groups.
    pub(super) fn undiscovered_groups(&mut self, failures: &[DiscoveryFailure]) {
        if failures.is_empty() {
            return;
        }
        let groups = failures
            .iter()
            .map(|failure| format!("{}: {}", failure.group_version, failure.reason));
        let groups: Vec<String> = groups.collect();
        self.discovery = Some(format!(
            "Discovery failed for some groups, {} failing: unable to retrieve the complete list of server APIs: {}",
            groups.len(),
            groups.join(", ")
        ));
    }

    /// The objects of a resource could not be deleted or listed.
    pub(super) fn failed(&mut self, error: String) {
        self.failures.insert(error);
    }

    /// These objects remain.
    pub(super) fn remaining(&mut self, resource: &Resource, objects: &[Object]) {
        if objects.is_empty() {
            return;
        }
        let name = format!("{}.{}", resource.plural, resource.group);
        self.remaining.insert(name, objects.len());
        for finalizer in objects.iter().flat_map(Object::finalizers) {
            *self.finalizers.entry(finalizer.into_owned()).or_default() += 1;
        }
    }

    /// The conditions of the namespace, given the existing ones.
    pub(super) fn conditions(&self, known: &[Value]) -> Vec<Value> {
        let mut all = known.to_vec();
        for (kind, reason, message) in ALL_IS_WELL {
            let problem = self.problem(kind);
            let (reason, message) = match &problem {
                Some((reason, message)) => (*reason, message.as_str()),
                None => (reason, message),
            };
            let condition = Condition {
                kind,
                holds: Some(problem.is_some()),
                reason,
                message,
            };
            all = conditions::with(&all, condition);
        }
        all
    }

    /// The reason and the message of a condition that is true.
    fn problem(&self, kind: &str) -> Option<(&'static str, String)> {
        let list = |counts: &BTreeMap<String, usize>, verb: &str| -> String {
            let counts = counts
                .iter()
                .map(|(name, count)| format!("{name} {verb} {count} resource instances"));
            counts.collect::<Vec<_>>().join(", ")
        };
        match kind {
            "NamespaceDeletionDiscoveryFailure" => {
                let error = self.discovery.clone()?;
                Some(("DiscoveryFailed", error))
            }
            "NamespaceDeletionContentFailure" if !self.failures.is_empty() => {
                let errors: Vec<&str> = self.failures.iter().map(String::as_str).collect();
                let message = format!(
                    "Failed to delete all resource types, {} remaining: {}",
                    errors.len(),
                    errors.join(", ")
                );
                Some(("ContentDeletionFailed", message))
            }
            "NamespaceContentRemaining" if !self.remaining.is_empty() => {
                let resources = list(&self.remaining, "has");
                Some((
                    "SomeResourcesRemain",
                    format!("Some resources are remaining: {resources}"),
                ))
            }
            "NamespaceFinalizersRemaining" if !self.finalizers.is_empty() => {
                let finalizers = list(&self.finalizers, "in");
                let message = format!("Some content in the namespace has finalizers remaining: {finalizers}");
                Some(("SomeFinalizersRemain", message))
            }
            _ => None,
        }
    }
}
