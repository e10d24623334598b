//! Server-side apply.
//!
//! 1. The configuration is merged into the live object.
//! 2. Fields the manager applied last time, does not apply now, and no other manager owns, are removed.
//! 3. A change to a field that another manager owns is a conflict, unless the apply is forced or the field is
//!    inherited from client-side apply ([`last_applied`]); then the manager becomes its owner.
//!
//! The result is the merged object with its managers, or the list of conflicts. Defaulting, validation and storing are
//! left to the caller.

use std::fmt;

use serde_json::Value;
use watchkeeper_meta::Time;
use watchkeeper_wire::difference::Difference;
use watchkeeper_wire::schema::{Schema, TypeId};

use crate::compare::compare;
use crate::configuration::{ConfigurationError, LeftOut, field_set, field_text};
use crate::endpoint::{Changes, Endpoint};
use crate::field_set::FieldSet;
use crate::last_applied;
use crate::managed_fields::{
    Manager, Managers, Operation, OwnedFields, UNMANAGED_FIELDS, Writer, empty_object, managed_change,
};
use crate::typed::{ensure_named_fields, merge, remove};

/// The manager of fields that were set before managed fields were tracked.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The reason a configuration cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// It does not match the schema.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// Other managers own fields it would change.
    #[error(transparent)]
    Conflicts(#[from] Conflicts),
}

/// Fields that other managers own and the configuration would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts(Vec<Conflict>);

impl std::error::Error for Conflicts {}

/// One field in conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The owner: `"kubectl-scale" using apps/v1`.
    pub manager: String,
    /// The field: `.spec.replicas`.
    pub field: String,
}

/// An object to which a configuration was applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The merged object, still with the live object's `managedFields`.
    pub object: Value,
    /// The managers that replace them.
    pub managers: Managers,
    /// The difference from the live object.
    pub difference: Difference,
}

/// Applies configurations to objects of one type, for one manager.
#[derive(Clone, Copy)]
pub struct Applier<'a> {
    /// The schema of the objects.
    pub schema: &'a Schema,
    /// The type of the objects.
    pub root: TypeId,
    /// The endpoint that receives the configuration.
    pub endpoint: &'a Endpoint<'a>,
    /// The manager that applies.
    pub writer: &'a Writer<'a>,
    /// True to take fields from other managers.
    pub force: bool,
}

impl Applier<'_> {
    /// Merges `config` into `live`. For a new object, `live` is [`empty_object`], without managers.
    ///
    /// Fields the endpoint resets are still in the merged object; the caller leaves them out.
    pub fn apply(&self, live: &Value, managers: Managers, config: &Value) -> Result<Applied, ApplyError> {
        let Self {
            schema,
            root,
            endpoint,
            writer,
            force,
        } = *self;
        let left_out = LeftOut {
            paths: &UNMANAGED_FIELDS,
            subtrees: &endpoint.reset,
        };
        let wanted = field_text(schema, root, config, left_out)?;
        let mut managers = with_history(schema, root, live, managers, writer.time);
        let entry = managers.entry(Operation::Apply, writer);
        let version_before = std::mem::replace(&mut entry.api_version, writer.api_version.into());
        let wanted_before = match version_before == writer.api_version {
            true => entry.fields.replace(&wanted),
            // In another version the same names may have another meaning.
            false => Some(std::mem::replace(&mut entry.fields, OwnedFields::stored(&wanted))),
        };

        let mut merged = live.clone();
        merge(schema, root, &mut merged, config);
        if let Some(wanted_before) = wanted_before.filter(|before| !before.is_empty()) {
            let before = Before {
                api_version: &version_before,
                fields: &wanted_before.to_set(),
            };
            self.prune(&mut merged, &managers, config, &before)?;
        }

        let difference = Difference::between(live, &merged);
        let states = (live, &merged, &difference);
        let changes = endpoint.changes(schema, root, states, &managers, writer.api_version);
        if !force {
            refuse_conflicts(schema, root, live, &managers, writer, &changes)?;
        }
        // An apply that changes nothing does not update the time. Fields the endpoint resets count as changes here.
        if !difference.is_nowhere() {
            managers.entry(Operation::Apply, writer).set_time(writer);
        }
        managers.forget(&changes, Operation::Apply, writer);
        managers.put_in_order();
        Ok(Applied {
            object: merged,
            managers,
            difference,
        })
    }

    /// Removes the fields a manager applied last time, does not apply now, and no other manager owns.
    fn prune(
        &self,
        merged: &mut Value,
        managers: &Managers,
        config: &Value,
        before: &Before<'_>,
    ) -> Result<(), ConfigurationError> {
        let Self {
            schema,
            root,
            endpoint,
            writer,
            ..
        } = *self;
        // Unmanaged fields count here: because `metadata.name` is set, `metadata` stays.
        let stated = field_set(schema, root, config)?;
        if endpoint.versions.is_none() {
            let needed = managers.all_fields(None).union(&stated);
            remove(
                schema,
                root,
                merged,
                &superfluous(schema, root, before.fields, &needed),
            );
            return Ok(());
        }
        let needed = |version: &str| {
            let managed = managers.all_fields(Some(version));
            if version == writer.api_version {
                managed.union(&stated)
            } else {
                managed
            }
        };
        let Some((root_before, mut pruned)) = endpoint.convert(merged, before.api_version) else {
            return Ok(());
        };
        let dropped = superfluous(schema, root_before, before.fields, &needed(before.api_version));
        remove(schema, root_before, &mut pruned, &dropped);
        // A field removed by conversion is restored if a manager still owns it in another version.
        for version in managers.other_versions(before.api_version) {
            let both = (
                endpoint.convert(merged, version),
                endpoint.convert(&pruned, version),
            );
            let (Some((root, mut kept)), Some((_, left))) = both else {
                continue;
            };
            let gone = compare(schema, root, &kept, &left).removed;
            let dropped = superfluous(schema, root, &gone, &needed(version));
            if dropped != gone {
                remove(schema, root, &mut kept, &dropped);
                if let Some((_, kept)) = endpoint.convert(&kept, before.api_version) {
                    pruned = kept;
                }
            }
        }
        if let Some((_, pruned)) = endpoint.convert(&pruned, writer.api_version) {
            *merged = pruned;
        }
        Ok(())
    }
}

/// The fields a manager applied last time.
struct Before<'a> {
    api_version: &'a str,
    fields: &'a FieldSet,
}

/// The fields that are not needed, with the structs that only led to them.
fn superfluous(schema: &Schema, root: TypeId, fields: &FieldSet, needed: &FieldSet) -> FieldSet {
    let mut superfluous = ensure_named_fields(schema, root, fields);
    superfluous.subtract(&ensure_named_fields(schema, root, needed));
    superfluous
}

/// Gives an object without managers one that owns every field, so that the first apply meets conflicts instead of
/// silently taking everything over.
fn with_history(
    schema: &Schema,
    root: TypeId,
    live: &Value,
    mut managers: Managers,
    time: Option<Time>,
) -> Managers {
    let is_new = live
        .pointer("/metadata/creationTimestamp")
        .is_none_or(Value::is_null);
    if managers.is_empty() && !is_new {
        let empty = empty_object(schema, root);
        let all = managed_change(schema, root, &empty, live, &Difference::between(&empty, live));
        let api_version = live.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        managers.push(Manager {
            name: BEFORE_FIRST_APPLY.into(),
            operation: Operation::Update,
            api_version: api_version.into(),
            // The time of this apply; when the fields were written is unknown.
            time: time.map(|time| Time::from_seconds(time.seconds)),
            subresource: Default::default(),
            fields: all.changed.into(),
        });
    }
    managers
}

/// Refuses changes to fields other managers own, except for those the writer inherits.
fn refuse_conflicts(
    schema: &Schema,
    root: TypeId,
    live: &Value,
    managers: &Managers,
    writer: &Writer<'_>,
    changes: &Changes,
) -> Result<(), Conflicts> {
    let mut found = conflicts(managers, writer, changes, &FieldSet::new());
    if !found.0.is_empty() && writer.manager == last_applied::INHERITOR {
        let inherited = last_applied::unchanged_fields(schema, root, live);
        found = conflicts(managers, writer, changes, &inherited);
    }
    if found.0.is_empty() { Ok(()) } else { Err(found) }
}

fn conflicts(managers: &Managers, writer: &Writer<'_>, changes: &Changes, inherited: &FieldSet) -> Conflicts {
    let others = managers.entries().iter().filter(|manager| {
        managers
            .find(Operation::Apply, writer)
            .is_none_or(|mine| !std::ptr::eq(mine, *manager))
    });
    let mut found: Vec<Conflict> = others
        .flat_map(|manager| {
            let name = described(manager);
            let fields = contested(manager, changes, inherited);
            fields.into_iter().map(move |field| Conflict {
                manager: name.clone(),
                field,
            })
        })
        .collect();
    found.sort_by(|a, b| a.manager.cmp(&b.manager));
    Conflicts(found)
}

/// The changed fields a manager owns.
fn contested(manager: &Manager, changes: &Changes, inherited: &FieldSet) -> Vec<String> {
    match changes.in_version(&manager.api_version) {
        Some(change) if manager.fields.count(&change.changed) > 0 => {
            let fields = manager.fields.to_set().intersection(&change.changed);
            fields.difference(inherited).paths()
        }
        _ => Vec::new(),
    }
}

/// `"m1"` for appliers; updaters are printed with version, subresource and time.
fn described(manager: &Manager) -> String {
    let mut text = format!("{:?}", manager.name);
    if !manager.subresource.is_empty() {
        text += &format!(" with subresource {:?}", manager.subresource);
    }
    if manager.operation == Operation::Update {
        text += &format!(" using {}", manager.api_version);
    }
    text
}

impl Conflicts {
    /// Every field in conflict, ordered by manager, then in the order of its field set.
    pub fn entries(&self) -> &[Conflict] {
        &self.0
    }

    /// The fields, without their managers.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|conflict| conflict.field.as_str())
    }
}

impl Conflict {
    /// The message of the cause in a `Status`.
    pub fn message(&self) -> String {
        format!("conflict with {}", self.manager)
    }
}

impl fmt::Display for Conflicts {
    /// One conflict on one line; several are grouped by manager.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return write!(f, "conflict with {}: {}", only.manager, only.field);
        }
        for (index, group) in self.0.chunk_by(|a, b| a.manager == b.manager).enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "conflicts with {}:", group[0].manager)?;
            for conflict in group {
                write!(f, "\n- {}", conflict.field)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use watchkeeper_wire::schema::structural::Compiler;

    use super::*;
    use crate::field_set::PathElement;

    fn service() -> (&'static Schema, TypeId) {
        let schema = Schema::builtin();
        (schema, schema.kind("v1", "Service").unwrap())
    }

    fn writer(manager: &str) -> Writer<'_> {
        Writer {
            manager,
            api_version: "v1",
            subresource: "",
            time: Some(Time::from_seconds(1_767_225_600)),
        }
    }

    /// The object and its managers after an apply at an endpoint that resets nothing.
    fn apply(
        live: &Value,
        managers: Managers,
        config: &Value,
        manager: &str,
        force: bool,
    ) -> Result<(Value, Managers), ApplyError> {
        apply_but(&FieldSet::new(), live, managers, config, manager, force)
    }

    /// The object and its managers after an apply at an endpoint that resets some fields.
    fn apply_but(
        reset: &FieldSet,
        live: &Value,
        managers: Managers,
        config: &Value,
        manager: &str,
        force: bool,
    ) -> Result<(Value, Managers), ApplyError> {
        let (schema, root) = service();
        let writer = writer(manager);
        let endpoint = Endpoint {
            reset: reset.clone(),
            ..Default::default()
        };
        let applier = Applier {
            schema,
            root,
            endpoint: &endpoint,
            writer: &writer,
            force,
        };
        let applied = applier.apply(live, managers, config)?;
        let difference = Difference::between(live, &applied.object);
        assert_eq!(applied.difference, difference);
        Ok((applied.object, applied.managers))
    }

    /// Applies one after the other, starting without an object.
    fn apply_all(configs: &[(&str, Value)]) -> Result<(Value, Managers), ApplyError> {
        let (schema, root) = service();
        let start = (empty_object(schema, root), Managers::new());
        configs
            .iter()
            .try_fold(start, |(live, managers), (manager, config)| {
                apply(&live, managers, config, manager, false)
            })
    }

    fn ports(object: &Value) -> String {
        let ports = object["spec"]["ports"].as_array().into_iter().flatten();
        ports
            .map(|port| port["port"].to_string())
            .collect::<Vec<_>>()
            .join(" ")
    }

    fn with_ports(numbers: &[u16]) -> Value {
        let ports: Vec<Value> = numbers.iter().map(|port| json!({"port": port})).collect();
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": ports}})
    }

    #[test]
    fn what_is_reset_is_nobodys_and_in_nobodys_way() {
        let status = |name: &str| {
            json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
                "spec": {"type": "ClusterIP"}, "status": {"conditions": [{"type": name, "status": "True"}]},
            })
        };
        let mut reset = FieldSet::new();
        reset.insert(&[PathElement::field("status")]);
        let (live, managers) = apply_all(&[("controller", status("a"))]).unwrap();
        let (_, managers) = apply_but(&reset, &live, managers, &status("b"), "user", false).unwrap();
        let user = managers.find(Operation::Apply, &writer("user")).unwrap();
        assert_eq!(user.fields.to_set().paths(), [".spec.type"]);
    }

    #[test]
    fn managers_share_a_keyed_list() {
        let (object, managers) = apply_all(&[("m1", with_ports(&[80])), ("m2", with_ports(&[81]))]).unwrap();
        assert_eq!(ports(&object), "80 81");
        let (object, managers) = apply(&object, managers, &with_ports(&[]), "m1", false).unwrap();
        assert_eq!(ports(&object), "81");
        // m1 owns nothing any more.
        assert_eq!(managers.entries().len(), 1);
    }

    #[test]
    fn lists_and_maps_within_others_merge_by_their_own_markers() {
        let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
        let keyed = json!({
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "at": {"type": "integer"}}},
        });
        let unit = json!({
            "type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"},
        });
        let map_of = |value: &Value| json!({"type": "object", "additionalProperties": value});
        let properties = json!({
            "sets": map_of(&set), "keyed": map_of(&map_of(&keyed)), "units": map_of(&unit),
        });
        let mut compiler = Compiler::new();
        let kind =
            json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
        let root = compiler.version("example.com/v1", "Widget", &kind).unwrap();
        let schema = compiler.finish().unwrap();
        let apply = |(live, managers): (Value, Managers), manager: &str, spec: Value| {
            let (endpoint, writer) = (Endpoint::default(), writer(manager));
            let applier = Applier {
                schema: &schema,
                root,
                endpoint: &endpoint,
                writer: &writer,
                force: false,
            };
            let config = json!({"apiVersion": "example.com/v1", "kind": "Widget", "spec": spec});
            let applied = applier.apply(&live, managers, &config)?;
            Ok::<_, ApplyError>((applied.object, applied.managers))
        };
        let mine = json!({
            "sets": {"s": ["a"]},
            "keyed": {"k": {"l": [{"name": "x", "at": 1}]}},
            "units": {"u": {"a": "1"}},
        });
        let start = (empty_object(&schema, root), Managers::new());
        let state = apply(start, "m1", mine.clone()).unwrap();
        let others = json!({"sets": {"s": ["b"]}, "keyed": {"k": {"l": [{"name": "y", "at": 2}]}}});
        let state = apply(state, "m2", others).unwrap();
        let merged = json!({
            "sets": {"s": ["a", "b"]},
            "keyed": {"k": {"l": [{"name": "x", "at": 1}, {"name": "y", "at": 2}]}},
            "units": {"u": {"a": "1"}},
        });
        assert_eq!(state.0["spec"], merged);

        let refused = apply(
            state.clone(),
            "m2",
            json!({"keyed": {"k": {"l": [{"name": "x", "at": 3}]}}}),
        );
        let text = "conflict with \"m1\": .spec.keyed.k.l[name=\"x\"].at";
        assert_eq!(refused.unwrap_err().to_string(), text);
        let refused = apply(state.clone(), "m2", json!({"units": {"u": {"b": "2"}}}));
        let text = "conflict with \"m1\": .spec.units.u";
        assert_eq!(refused.unwrap_err().to_string(), text);

        let state = apply(state, "m2", json!({})).unwrap();
        assert_eq!(state.0["spec"], mine);
    }

    #[test]
    fn a_field_of_another_manager_is_a_conflict() {
        let typed = |kind: &str| json!({"spec": {"type": kind, "externalName": kind}});
        let error = apply_all(&[("m1", typed("ClusterIP")), ("m2", typed("NodePort"))]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "conflicts with \"m1\":\n- .spec.externalName\n- .spec.type"
        );
        // Equal values are co-owned, not in conflict.
        let (_, managers) = apply_all(&[("m1", typed("ClusterIP")), ("m2", typed("ClusterIP"))]).unwrap();
        assert_eq!(managers.entries().len(), 2);
    }

    #[test]
    fn configurations_that_do_not_fit_are_named() {
        let check = |config: Value, text: &str| {
            assert_eq!(apply_all(&[("m1", config)]).unwrap_err().to_string(), text);
        };
        check(json!({"nope": 1}), ".nope: field not declared in schema");
        check(
            with_ports(&[90, 90]),
            ".spec.ports: duplicate entries for key [port=90,protocol=\"TCP\"]",
        );
        check(
            json!({"spec": {"ports": "x"}}),
            ".spec.ports: expected list, got &{x}",
        );
        check(
            json!({"spec": {"type": 5}}),
            ".spec.type: expected string, got &value.valueUnstructured{Value:5}",
        );
        check(
            json!({"spec": {"publishNotReadyAddresses": "x"}}),
            ".spec.publishNotReadyAddresses: expected boolean, got &{x}",
        );
        check(
            json!({"spec": {"healthCheckNodePort": ["x"]}}),
            ".spec.healthCheckNodePort: expected numeric (int or float), got []interface {}",
        );
    }

    #[test]
    fn lists_keep_both_orders() {
        let (schema, root) = service();
        let mut merged = with_ports(&[1, 7, 2, 8]);
        crate::typed::merge(schema, root, &mut merged, &with_ports(&[5, 1, 2, 6]));
        assert_eq!(ports(&merged), "5 1 7 2 8 6");
    }

    fn config() -> impl Strategy<Value = Value> {
        let ports = prop::collection::btree_map(1..6u16, prop::option::of("[a-c]"), 0..4);
        let labels = prop::collection::btree_map("[a-d]", "[x-z]", 0..3);
        (ports, labels, prop::option::of("[a-c]")).prop_map(|(ports, labels, name)| {
            let ports: Vec<Value> = ports
                .into_iter()
                .map(|(port, name)| match name {
                    Some(name) => json!({"port": port, "name": name}),
                    None => json!({"port": port}),
                })
                .collect();
            let mut spec = json!({"ports": ports});
            if let Some(name) = name {
                spec["externalName"] = json!(name);
            }
            json!({"metadata": {"name": "s", "labels": labels}, "spec": spec})
        })
    }

    /// The object without empty structs and lists, which have no effect, and with lists sorted: apply does not define
    /// the order among items of different managers.
    fn meaning(object: Value) -> Value {
        let is_empty = |value: &Value| match value {
            Value::Object(fields) => fields.is_empty(),
            Value::Array(items) => items.is_empty(),
            value => value.is_null(),
        };
        match object {
            Value::Object(fields) => {
                let fields = fields.into_iter().map(|(name, value)| (name, meaning(value)));
                Value::Object(fields.filter(|(_, value)| !is_empty(value)).collect())
            }
            Value::Array(mut items) => {
                items.sort_by_key(Value::to_string);
                Value::Array(items)
            }
            scalar => scalar,
        }
    }

    proptest! {
        #[test]
        fn applying_twice_changes_nothing(first in config(), second in config()) {
            let (live, managers) = apply_all(&[("m1", first)]).unwrap();
            let (live, managers) =
                apply(&live, managers, &second, "m2", true).unwrap();
            let again = apply(&live, managers.clone(), &second, "m2", false);
            prop_assert_eq!(again, Ok((live, managers)));
        }

        #[test]
        fn what_others_own_survives_a_removal(mine in config(), others in config()) {
            let nothing = json!({"metadata": {"name": "s"}});
            let (alone, _) = apply_all(&[("m1", others.clone())]).unwrap();
            let (live, managers) = apply_all(&[("m1", others)]).unwrap();
            let Ok((live, managers)) = apply(&live, managers, &mine, "m2", false) else {
                return Ok(());
            };
            let (left, _) = apply(&live, managers, &nothing, "m2", false).unwrap();
            prop_assert_eq!(meaning(left), meaning(alone));
        }
    }
}
