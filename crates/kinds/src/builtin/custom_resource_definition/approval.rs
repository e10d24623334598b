//! API approval: a definition in a protected group (`*.k8s.io`, `*.kubernetes.io`) names the pull request that approved
//! it, or states that it is unapproved.

use serde_json::Value;
use watchkeeper_meta::{FieldError, FieldPath};

use crate::rules::place::{Errors, Place};

const ANNOTATION: &str = "api-approved.kubernetes.io";

/// The value of the approval annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval<'d> {
    /// The group is protected and the annotation is missing.
    Missing,
    /// The URL of the approval.
    Approved(&'d str),
    /// The text after `unapproved`.
    Unapproved(&'d str),
    /// Neither a URL nor `unapproved`.
    Invalid(&'d str),
}

impl<'d> Approval<'d> {
    /// Reads the annotation of a definition. `None` if the group is not protected.
    pub fn of(definition: &'d Value) -> Option<Self> {
        let group = definition["spec"]["group"].as_str().unwrap_or_default();
        let mut domains = ["k8s.io", "kubernetes.io"].iter();
        let is_within = |domain: &&str| {
            let parent = group.strip_suffix(*domain);
            parent.is_some_and(|parent| parent.is_empty() || parent.ends_with('.'))
        };
        domains.any(is_within).then(|| {
            let said = &definition["metadata"]["annotations"][ANNOTATION];
            Self::read(said.as_str().unwrap_or_default())
        })
    }

    fn read(said: &'d str) -> Self {
        match said {
            "" => Self::Missing,
            reason if reason.starts_with("unapproved") => Self::Unapproved(reason),
            place if is_url(place) => Self::Approved(place),
            other => Self::Invalid(other),
        }
    }

    /// The status, reason and message of the `KubernetesAPIApprovalPolicyConformant` condition.
    pub fn condition(self) -> (&'static str, &'static str, String) {
        let (state, reason) = match self {
            Self::Missing => ("False", "MissingAnnotation"),
            Self::Approved(_) => ("True", "ApprovedAnnotation"),
            Self::Unapproved(_) => ("False", "UnapprovedAnnotation"),
            Self::Invalid(_) => ("False", "InvalidAnnotation"),
        };
        (state, reason, self.explained())
    }

    fn explained(self) -> String {
        const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
        match self {
            Self::Missing => format!("protected groups must have approval annotation {ANNOTATION:?}, {SEE}"),
            Self::Approved(place) => format!("approved in {place}"),
            Self::Unapproved(reason) => format!("not approved: {reason:?}"),
            Self::Invalid(_) => format!(
                "protected groups must have approval annotation {ANNOTATION:?} with either a URL or a reason starting \
                 with \"unapproved\", {SEE}"
            ),
        }
    }
}

/// Rejects a definition in a protected group whose annotation is missing or invalid.
pub(crate) fn check(definition: &Place<'_, '_>, errors: &mut Errors) {
    let path = || FieldPath::new("metadata").child("annotations").key(ANNOTATION);
    match Approval::of(definition.value()) {
        Some(missing @ Approval::Missing) => {
            errors.push(FieldError::required(&path(), missing.explained()));
        }
        Some(invalid @ Approval::Invalid(said)) => {
            errors.push(FieldError::invalid(&path(), said, invalid.explained()));
        }
        Some(Approval::Approved(_) | Approval::Unapproved(_)) | None => {}
    }
}

/// True if a text has the scheme and host of a URL.
fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else {
        return false;
    };
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_scheme && !rest.is_empty() && !rest.starts_with(['/', '?', '#'])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_protected_group_needs_a_url_or_unapproved() {
        let check = |group: &str, said: &str, expected: Option<&str>| {
            let definition =
                json!({"metadata": {"annotations": {ANNOTATION: said}}, "spec": {"group": group}});
            let condition = Approval::of(&definition).map(Approval::condition);
            let shown = condition.map(|(state, reason, _)| format!("{state} {reason}"));
            assert_eq!(shown.as_deref(), expected, "{group} {said:?}");
        };
        check("example.com", "", None);
        check("myk8s.io", "", None);
        check("k8s.io", "", Some("False MissingAnnotation"));
        check(
            "a.k8s.io",
            "https://example.com/1",
            Some("True ApprovedAnnotation"),
        );
        check(
            "a.kubernetes.io",
            "http://example.com",
            Some("True ApprovedAnnotation"),
        );
        check(
            "a.k8s.io",
            "unapproved, for a test",
            Some("False UnapprovedAnnotation"),
        );
        check("a.k8s.io", "https:///1", Some("False InvalidAnnotation"));
        check("a.k8s.io", "yes", Some("False InvalidAnnotation"));
    }
}
