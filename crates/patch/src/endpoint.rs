//! The endpoint of a write: the fields its writers cannot set, and the versions of the kind.
//!
//! A manager's fields are named in the version it used. The changes of a write are therefore computed in every
//! version a manager uses: the owner of `targetCPUUtilizationPercentage` in `autoscaling/v1` conflicts with a change
//! of `metrics` in `autoscaling/v2`.

use std::fmt;

use serde_json::Value;
use watchkeeper_wire::difference::Difference;
use watchkeeper_wire::schema::{Schema, TypeId};

use crate::compare::Comparison;
use crate::field_set::FieldSet;
use crate::managed_fields::{Managers, managed_change};

/// The versions of a kind.
pub trait Versions: fmt::Debug + Sync {
    /// Converts an object to a version (possibly its own) and returns its type there; `None` if there is no such
    /// version.
    fn convert(&self, object: &Value, api_version: &str) -> Option<(TypeId, Value)>;
}

/// The properties of the endpoint that receives a write.
#[derive(Clone, Debug, Default)]
pub struct Endpoint<'a> {
    /// Fields at or below these paths, such as the status, are not the writer's to set: it does not own them and they
    /// cause no conflicts.
    pub reset: FieldSet,
    /// The versions of the kind, if it has several.
    pub versions: Option<&'a dyn Versions>,
}

/// The changes of an object, in each version one of its managers uses.
#[derive(Debug)]
pub(crate) struct Changes {
    /// In the version of the write.
    pub(crate) own: Comparison,
    /// In other versions; `None` if the object cannot be converted.
    others: Vec<(String, Option<Comparison>)>,
}

impl Endpoint<'_> {
    /// The changes between two states with a known difference, in the version of the write and in those of the
    /// managers.
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

    /// Converts an object to another version.
    pub(crate) fn convert(&self, object: &Value, api_version: &str) -> Option<(TypeId, Value)> {
        self.versions?.convert(object, api_version)
    }
}

impl Changes {
    /// The changes in a version; `None` if the object cannot be converted to it.
    pub(crate) fn in_version(&self, api_version: &str) -> Option<&Comparison> {
        let other = self.others.iter().find(|(version, _)| version == api_version);
        match other {
            Some((_, change)) => change.as_ref(),
            None => Some(&self.own),
        }
    }
}
