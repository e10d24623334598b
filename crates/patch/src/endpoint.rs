//! Where a write arrives, and what is special there: what its writers do not say, and which other versions there are.
//!
//! A manager's fields are named in the version that it spoke. What a write changes is therefore worked out in each
//! version that a manager speaks: who set `targetCPUUtilizationPercentage` in `autoscaling/v1` is in the way of whoever
//! changes `metrics` in `autoscaling/v2`.

use std::fmt;

use serde_json::Value;
use watchkeeper_wire::difference::Difference;
use watchkeeper_wire::schema::{Schema, TypeId};

use crate::compare::Comparison;
use crate::field_set::FieldSet;
use crate::managed_fields::{Managers, managed_change};

/// The versions of a kind.
pub trait Versions: fmt::Debug + Sync {
    /// An object in another version, or in its own, with the type it has there; `None` if there is no such version.
    fn convert(&self, object: &Value, api_version: &str) -> Option<(TypeId, Value)>;
}

/// What is special about where a write arrives. By default nothing is.
#[derive(Clone, Debug, Default)]
pub struct Endpoint<'a> {
    /// What stands at or below these paths is not the writer's to say, the status for instance: it becomes nobody's and
    /// is in nobody's way.
    pub reset: FieldSet,
    /// The versions of the kind, if it has several.
    pub versions: Option<&'a dyn Versions>,
}

/// How an object changes, in each version that one of its managers speaks.
#[derive(Debug)]
pub(crate) struct Changes {
    /// In the version of the write.
    pub(crate) own: Comparison,
    /// In others; `None` if the object cannot be converted to it.
    others: Vec<(String, Option<Comparison>)>,
}

impl Endpoint<'_> {
    /// How an object of the version that is written changes: from one state to another, which differ as is known.
    pub(crate) fn changes(
        &self,
        schema: &Schema,
        root: TypeId,
        states: (&Value, &Value, &Difference),
        managers: &Managers,
        api_version: &str,
    ) -> Changes {
        let (live, new, difference) = states;
        let changed = |root, live: &Value, new: &Value, difference: &Difference| {
            let mut change = managed_change(schema, root, live, new, difference);
            change.leave_out_subtrees(&self.reset);
            change
        };
        let others = managers.other_versions(api_version);
        let others = others.filter(|_| self.versions.is_some()).map(|version| {
            let converted = (self.convert(live, version), self.convert(new, version));
            let change = match converted {
                (Some((root, live)), Some((_, new))) => {
                    Some(changed(root, &live, &new, &Difference::between(&live, &new)))
                }
                _ => None,
            };
            (version.to_owned(), change)
        });
        Changes {
            others: others.collect(),
            own: changed(root, live, new, difference),
        }
    }

    /// An object in another version.
    pub(crate) fn convert(&self, object: &Value, api_version: &str) -> Option<(TypeId, Value)> {
        self.versions?.convert(object, api_version)
    }
}

impl Changes {
    /// The change in a version; `None` if nothing can be said in it.
    pub(crate) fn in_version(&self, api_version: &str) -> Option<&Comparison> {
        let other = self.others.iter().find(|(version, _)| version == api_version);
        match other {
            Some((_, change)) => change.as_ref(),
            None => Some(&self.own),
        }
    }
}
