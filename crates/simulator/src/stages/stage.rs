//! One stage, as its file states it.

use std::time::Duration;

use serde_json::Value;
use watchkeeper_meta::{LabelSelector, Resource};
use watchkeeper_wire::schema::resources;
use watchkeeper_wire::values;

use super::expression::Expression;
use super::functions::text;
use super::template::{Template, TemplateError, refused};
use crate::item::Item;
use crate::time;

/// A change that objects undergo after a while, if they match.
#[derive(Clone, Debug)]
pub struct Stage {
    pub(super) name: String,
    pub(super) resource: Resource,
    selector: Selector,
    weight: Amount,
    delay: Delay,
    pub(super) next: Next,
}

/// The stage cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stage {name:?}: {why}")]
pub struct StageError {
    /// The name of the stage.
    pub name: String,
    /// The reason.
    pub why: TemplateError,
}

#[derive(Clone, Debug)]
struct Selector {
    labels: LabelSelector,
    annotations: LabelSelector,
    expressions: Vec<Requirement>,
}

#[derive(Clone, Debug)]
struct Requirement {
    key: Expression,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

/// A number, or that of an expression where the object has it.
#[derive(Clone, Debug, Default)]
struct Amount {
    usual: u64,
    from: Option<Expression>,
}

/// The least and, with jitter, the greatest delay in milliseconds.
#[derive(Clone, Debug, Default)]
struct Delay {
    least: Amount,
    greatest: Option<Amount>,
}

/// The effects of a stage.
#[derive(Clone, Debug, Default)]
pub(super) struct Next {
    pub(super) event: Option<Notice>,
    pub(super) add_finalizers: Vec<String>,
    pub(super) remove_finalizers: Vec<String>,
    pub(super) empty_finalizers: bool,
    pub(super) patches: Vec<Patch>,
    pub(super) delete: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Notice {
    pub(super) is_warning: bool,
    pub(super) reason: String,
    pub(super) message: String,
}

#[derive(Clone, Debug)]
pub(super) struct Patch {
    pub(super) subresource: Option<String>,
    /// The field below which the template's value stands.
    pub(super) root: Option<String>,
    pub(super) template: Template,
    pub(super) is_strategic: bool,
}

impl Stage {
    /// Reads a `Stage` of `kwok.x-k8s.io/v1alpha1`.
    pub fn read(stage: &Value) -> Result<Self, StageError> {
        let name = text(&stage["metadata"]["name"]);
        Self::parse(&name, &stage["spec"]).map_err(|why| StageError {
            name: name.clone(),
            why,
        })
    }

    fn parse(name: &str, spec: &Value) -> Result<Self, TemplateError> {
        fields(
            spec,
            &[
                "resourceRef",
                "selector",
                "weight",
                "weightFrom",
                "delay",
                "next",
                // Saves KWOK the wait for the event of its own write. Stages here always go on with that event.
                "immediateNextStage",
            ],
        )?;
        Ok(Self {
            name: name.to_owned(),
            resource: resource(&spec["resourceRef"])?,
            selector: Selector::parse(&spec["selector"])?,
            weight: Amount::parse(&spec["weight"], &spec["weightFrom"])?,
            delay: Delay::parse(&spec["delay"])?,
            next: Next::parse(&spec["next"])?,
        })
    }

    /// The kind of its objects.
    pub fn kind(&self) -> &str {
        &self.resource.kind
    }

    pub(super) fn matches(&self, item: &Item) -> bool {
        let annotations: Vec<_> = item.annotations();
        self.selector.labels.matches(&item.header())
            && self.selector.annotations.matches(annotations.as_slice())
            && self
                .selector
                .expressions
                .iter()
                .all(|requirement| requirement.holds(item.value()))
    }

    pub(super) fn weight(&self, item: &Item) -> u64 {
        self.weight.of(item.value(), |text| text.parse().ok())
    }

    /// The delay for an object; `chance` is from 0 to 1.
    pub(super) fn delay(&self, item: &Item, chance: f64) -> Duration {
        let least = self.delay.least.of(item.value(), milliseconds);
        let greatest = self
            .delay
            .greatest
            .as_ref()
            .map_or(least, |amount| amount.of(item.value(), milliseconds));
        // As in KWOK, a greatest delay below the least one replaces it.
        let (least, span) = (least.min(greatest), greatest.saturating_sub(least));
        Duration::from_millis(least + (span as f64 * chance) as u64)
    }
}

/// Refuses fields that would be ignored.
fn fields(value: &Value, known: &[&str]) -> Result<(), TemplateError> {
    let unknown = value.as_object().into_iter().flatten().map(|(name, _)| name);
    match unknown.into_iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(refused(format!("field {name:?} is not supported"))),
        None => Ok(()),
    }
}

fn resource(reference: &Value) -> Result<Resource, TemplateError> {
    let (group, kind) = (text(&reference["apiGroup"]), text(&reference["kind"]));
    let (group, version) = match group.split_once('/') {
        Some((group, version)) => (group, version),
        None if group == "null" || group.is_empty() || group == "v1" => ("", "v1"),
        None => (group.as_str(), "v1"),
    };
    let known = resources::by_kind(group, version, &kind);
    let known = known.ok_or_else(|| refused(format!("there is no built-in kind {kind:?} in {group:?}")))?;
    Ok(known.resource.clone())
}

impl Selector {
    fn parse(selector: &Value) -> Result<Self, TemplateError> {
        fields(selector, &["matchLabels", "matchAnnotations", "matchExpressions"])?;
        let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
        Ok(Self {
            labels: pairs(&selector["matchLabels"])?,
            annotations: pairs(&selector["matchAnnotations"])?,
            expressions: expressions.map(Requirement::parse).collect::<Result<_, _>>()?,
        })
    }
}

fn pairs(map: &Value) -> Result<LabelSelector, TemplateError> {
    let pairs = map
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.clone(), text(value)));
    LabelSelector::from_labels(pairs).map_err(|error| refused(error.to_string()))
}

impl Requirement {
    fn parse(requirement: &Value) -> Result<Self, TemplateError> {
        fields(requirement, &["key", "operator", "values"])?;
        let operator = match &*text(&requirement["operator"]) {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => return Err(refused(format!("operator {other:?} is not supported"))),
        };
        Ok(Self {
            key: Expression::parse(&text(&requirement["key"]))?,
            operator,
            values: requirement["values"]
                .as_array()
                .into_iter()
                .flatten()
                .map(text)
                .collect(),
        })
    }

    fn holds(&self, object: &Value) -> bool {
        let found = self.key.values(object);
        let is_in = || found.iter().any(|value| self.values.contains(&text(value)));
        match self.operator {
            Operator::In => is_in(),
            Operator::NotIn => !is_in(),
            Operator::Exists => !found.is_empty(),
            Operator::DoesNotExist => found.is_empty(),
        }
    }
}

impl Amount {
    fn parse(usual: &Value, from: &Value) -> Result<Self, TemplateError> {
        fields(from, &["expressionFrom"])?;
        let from = from["expressionFrom"].as_str();
        let usual = match usual {
            Value::Null => 0,
            usual => usual
                .as_u64()
                .ok_or_else(|| refused(format!("{usual} is not a count")))?,
        };
        Ok(Self {
            usual,
            from: from.map(Expression::parse).transpose()?,
        })
    }

    fn of(&self, object: &Value, read: impl Fn(&str) -> Option<u64>) -> u64 {
        let stated = self.from.as_ref().and_then(|from| from.text(object));
        stated.and_then(|text| read(&text)).unwrap_or(self.usual)
    }
}

/// A duration (`1m30s`), or the time until a moment.
fn milliseconds(text: &str) -> Option<u64> {
    if let Ok(moment) = text.parse::<watchkeeper_meta::Time>() {
        let left = time::left(moment, 0).unwrap_or_default();
        return u64::try_from(left.as_millis()).ok();
    }
    let duration: values::Duration = text.parse().ok()?;
    u64::try_from(duration.to_std()?.as_millis()).ok()
}

impl Delay {
    fn parse(delay: &Value) -> Result<Self, TemplateError> {
        fields(
            delay,
            &[
                "durationMilliseconds",
                "durationFrom",
                "jitterDurationMilliseconds",
                "jitterDurationFrom",
            ],
        )?;
        let (jitter, jitter_from) = (&delay["jitterDurationMilliseconds"], &delay["jitterDurationFrom"]);
        let least = Amount::parse(&delay["durationMilliseconds"], &delay["durationFrom"])?;
        let greatest = match jitter.is_null() && jitter_from.is_null() {
            true => None,
            false => Some(Amount {
                // Without a number of its own, the jitter is that of the expression only.
                usual: jitter.as_u64().unwrap_or(least.usual),
                ..Amount::parse(jitter, jitter_from)?
            }),
        };
        Ok(Self { least, greatest })
    }
}

impl Next {
    fn parse(next: &Value) -> Result<Self, TemplateError> {
        fields(
            next,
            &[
                "event",
                "finalizers",
                "statusTemplate",
                "statusSubresource",
                "patches",
                "delete",
            ],
        )?;
        let finalizers = &next["finalizers"];
        fields(finalizers, &["add", "remove", "empty"])?;
        let values = |list: &Value| -> Vec<String> {
            list.as_array()
                .into_iter()
                .flatten()
                .map(|entry| text(&entry["value"]))
                .collect()
        };
        let mut patches = Vec::new();
        if let Some(template) = next["statusTemplate"].as_str() {
            let subresource = next["statusSubresource"].as_str().unwrap_or("status");
            patches.push(Patch {
                subresource: Some(subresource.to_owned()),
                root: Some("status".to_owned()),
                template: Template::parse(template)?,
                is_strategic: true,
            });
        }
        for patch in next["patches"].as_array().into_iter().flatten() {
            patches.push(Patch::parse(patch)?);
        }
        Ok(Self {
            event: Notice::parse(&next["event"])?,
            add_finalizers: values(&finalizers["add"]),
            remove_finalizers: values(&finalizers["remove"]),
            empty_finalizers: finalizers["empty"] == true,
            patches,
            delete: next["delete"] == true,
        })
    }
}

impl Notice {
    fn parse(event: &Value) -> Result<Option<Self>, TemplateError> {
        fields(event, &["type", "reason", "message"])?;
        Ok((!event.is_null()).then(|| Self {
            is_warning: event["type"] == "Warning",
            reason: event["reason"].as_str().unwrap_or_default().to_owned(),
            message: event["message"].as_str().unwrap_or_default().to_owned(),
        }))
    }
}

impl Patch {
    fn parse(patch: &Value) -> Result<Self, TemplateError> {
        fields(patch, &["subresource", "root", "template", "type"])?;
        let is_strategic = match patch["type"].as_str().unwrap_or("strategic") {
            "strategic" => true,
            "merge" => false,
            other => return Err(refused(format!("patches of type {other:?} are not supported"))),
        };
        Ok(Self {
            subresource: patch["subresource"].as_str().map(str::to_owned),
            root: patch["root"].as_str().map(str::to_owned),
            template: Template::parse(patch["template"].as_str().unwrap_or_default())?,
            is_strategic,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::item::tests::item;

    fn stage(spec: Value) -> Result<Stage, StageError> {
        Stage::read(&json!({"metadata": {"name": "s"}, "spec": spec}))
    }

    fn pod(status: Value) -> Item {
        item(
            &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"app": "web"},
            "annotations": {"delay": "1m", "team": "Shop Window"}}, "status": status}),
        )
    }

    #[test]
    fn objects_are_selected_by_labels_annotations_and_expressions() {
        let check = |selector: Value, expected: bool| {
            let stage =
                stage(json!({"resourceRef": {"apiGroup": "v1", "kind": "Pod"}, "selector": selector}))
                    .unwrap();
            assert_eq!(
                stage.matches(&pod(json!({"phase": "Pending"}))),
                expected,
                "{selector}"
            );
        };
        let expression = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        check(json!({}), true);
        check(json!({"matchLabels": {"app": "web"}}), true);
        check(json!({"matchLabels": {"app": "db"}}), false);
        check(json!({"matchAnnotations": {"delay": "1m"}}), true);
        check(
            expression(".status.phase", "In", json!(["Pending", "Running"])),
            true,
        );
        check(expression(".status.phase", "NotIn", json!(["Pending"])), false);
        check(
            expression(".metadata.deletionTimestamp", "DoesNotExist", Value::Null),
            true,
        );
        check(
            expression(".metadata.deletionTimestamp", "Exists", Value::Null),
            false,
        );
    }

    #[test]
    fn a_delay_is_between_its_bounds_and_may_come_from_the_object() {
        let check = |delay: Value, chance: f64, expected: u64| {
            let stage = stage(json!({"resourceRef": {"kind": "Pod"}, "delay": delay})).unwrap();
            assert_eq!(
                stage.delay(&pod(Value::Null), chance).as_millis(),
                u128::from(expected),
                "{delay}"
            );
        };
        check(Value::Null, 0.5, 0);
        check(json!({"durationMilliseconds": 1000}), 0.5, 1000);
        check(
            json!({"durationMilliseconds": 1000, "jitterDurationMilliseconds": 5000}),
            0.5,
            3000,
        );
        check(
            json!({"durationMilliseconds": 1000, "jitterDurationMilliseconds": 500}),
            0.5,
            500,
        );
        check(
            json!({"durationMilliseconds": 1, "durationFrom": {"expressionFrom": ".metadata.annotations.delay"}}),
            0.0,
            60_000,
        );
        check(
            json!({"durationMilliseconds": 7, "durationFrom": {"expressionFrom": ".metadata.annotations.none"}}),
            0.0,
            7,
        );
    }

    #[test]
    fn what_would_be_ignored_is_refused() {
        let check = |spec: Value, expected: &str| {
            assert_eq!(
                stage(spec).unwrap_err().to_string(),
                format!("stage \"s\": {expected}")
            );
        };
        let with = |name: &str, value: Value| {
            let mut spec = json!({"resourceRef": {"apiGroup": "v1", "kind": "Pod"}});
            spec[name] = value;
            spec
        };
        check(
            json!({"resourceRef": {"apiGroup": "v1", "kind": "Pot"}}),
            "there is no built-in kind \"Pot\" in \"\"",
        );
        check(with("after", json!(1)), "field \"after\" is not supported");
        check(with("weight", json!("x")), "\"x\" is not a count");
        check(
            with("next", json!({"statusTemplate": "{{ env }}"})),
            "function \"env\" is not supported",
        );
        check(
            with("next", json!({"statusPatchAs": {}})),
            "field \"statusPatchAs\" is not supported",
        );
        check(
            with("next", json!({"patches": [{"type": "json"}]})),
            "patches of type \"json\" are not supported",
        );
        check(
            with(
                "selector",
                json!({"matchExpressions": [{"key": ".a", "operator": "Gt"}]}),
            ),
            "operator \"Gt\" is not supported",
        );
    }
}
