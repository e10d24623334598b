//! `oneOf`, `anyOf` and `allOf`: makes enums structural.
//!
//! The fields of all variants move to the schema around them; each variant keeps its required fields and allowed
//! values. `#[serde(tag = "type")] enum Source { Git { url: String }, Image { name: String } }` arrives as two
//! objects and becomes
//!
//! ```text
//! type: object
//! properties: {type: {type: string, enum: [Git, Image]}, url: {type: string}, name: {type: string}}
//! required: [type]
//! oneOf:
//! - {properties: {type: {enum: [Git]}}, required: [url]}
//! - {properties: {type: {enum: [Image]}}, required: [name]}
//! ```
//!
//! A field of several variants must have the same type in all of them, but may have different restrictions. A default
//! is kept only if all variants share it, because the server would apply it to every variant.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::descriptions::{describe_field, described_tag, described_values, joined};
use super::keywords::{is_restriction, set_type, types_of};
use super::{CLOSED, INT_OR_STRING, Node, PRESERVE, Reader, SchemaError};

impl Reader {
    /// Adds the content of `oneOf`, `anyOf` or `allOf` to the schema around it.
    pub(super) fn junctor(
        &mut self,
        word: &str,
        schemas: &[Value],
        node: &mut Node,
    ) -> Result<(), SchemaError> {
        let mut variants = Vec::new();
        for schema in schemas {
            let variant = self.schema(schema)?;
            match is_null(&variant) {
                true => drop(node.insert("nullable".into(), true.into())),
                false => variants.push(variant),
            }
        }
        if word == "allOf" || variants.len() == 1 {
            for variant in variants {
                self.conjoin(node, variant)?;
            }
            return Ok(());
        }
        close(word, &mut variants, node);
        // The only field of an untagged variant has its own description.
        if word == "oneOf" {
            variants.iter_mut().for_each(describe_field);
        }
        let (described, tag) = (described_values(&variants), described_tag(&variants));
        let (mut shared, rests) = self.hoist(variants)?;
        if let Some((name, text)) = tag {
            let field = &mut shared["properties"][name];
            field["description"] = joined(field.get("description"), &text).into();
        }
        if let Some(text) = described {
            let before = node.remove("description").or(shared.remove("description"));
            node.insert("description".into(), joined(before.as_ref(), &text).into());
        }
        let is_open = rests.iter().any(Node::is_empty);
        let only_values = rests.iter().all(|rest| rest.keys().eq(["enum"]));
        if !is_open && !only_values {
            shared.insert(word.to_owned(), rests.into_iter().map(Value::Object).collect());
        }
        self.conjoin(node, shared)
    }

    /// Splits schemas into their common part, including all structure, and the restrictions left to each of them.
    fn hoist(&mut self, variants: Vec<Node>) -> Result<(Node, Vec<Node>), SchemaError> {
        let mut rests = vec![Node::new(); variants.len()];
        if variants.windows(2).all(|pair| pair[0] == pair[1]) {
            return Ok((variants.into_iter().next().unwrap_or_default(), rests));
        }
        let mut shared = Node::new();
        let types: Vec<&str> = variants.iter().flat_map(types_of).collect();
        set_type(&mut shared, &types).map_err(|problem| self.error(problem))?;
        let mut variants = variants;
        if shared.contains_key(INT_OR_STRING) {
            share_bounds(&mut variants, &mut shared);
        }
        let words: BTreeSet<&String> = variants.iter().flat_map(Node::keys).collect();
        for word in words {
            match word.as_str() {
                "type" | INT_OR_STRING | CLOSED => {}
                "properties" => self.hoist_properties(&variants, &mut shared, &mut rests)?,
                "items" => self.hoist_items(&variants, &mut shared, &mut rests)?,
                "required" => hoist_required(&variants, &mut shared, &mut rests),
                "description" | "default" => {
                    if let Some(value) = in_all(&variants, word) {
                        shared.insert(word.clone(), value.clone());
                    }
                }
                "nullable" | PRESERVE => drop(shared.insert(word.clone(), true.into())),
                word if is_restriction(word) => hoist_restriction(word, &variants, &mut shared, &mut rests),
                word => {
                    let Some(value) = in_all_that_have(&variants, word) else {
                        return Err(self.error(format!("`{word}` differs between the variants")));
                    };
                    if word == "x-kubernetes-validations" && in_all(&variants, word).is_none() {
                        return Err(self.error("a CEL rule on one variant cannot be expressed"));
                    }
                    shared.insert(word.to_owned(), value.clone());
                }
            }
        }
        if shared.contains_key("properties") && shared.contains_key("additionalProperties") {
            return Err(self.error("one variant has named fields and another is a map"));
        }
        Ok((shared, rests))
    }

    fn hoist_properties(
        &mut self,
        variants: &[Node],
        shared: &mut Node,
        rests: &mut [Node],
    ) -> Result<(), SchemaError> {
        let fields = |variant: &Node| variant.get("properties").and_then(Value::as_object).cloned();
        let fields: Vec<Node> = variants
            .iter()
            .map(|variant| fields(variant).unwrap_or_default())
            .collect();
        let names: BTreeSet<&String> = fields.iter().flat_map(Node::keys).collect();
        let mut properties = Node::new();
        for name in names {
            let place =
                |(index, fields): (usize, &Node)| Some((index, fields.get(name)?.as_object()?.clone()));
            let (places, found): (Vec<usize>, Vec<Node>) =
                fields.iter().enumerate().filter_map(place).unzip();
            let (mut field, left) = self.within(&format!(".{name}"), |reader| reader.hoist(found))?;
            if places.len() < variants.len() {
                field.remove("default");
            }
            properties.insert(name.clone(), field.into());
            for (index, left) in places.into_iter().zip(left).filter(|(_, left)| !left.is_empty()) {
                let rest = rests[index].entry("properties").or_insert_with(|| json!({}));
                rest[name] = left.into();
            }
        }
        shared.insert("properties".into(), properties.into());
        Ok(())
    }

    fn hoist_items(
        &mut self,
        variants: &[Node],
        shared: &mut Node,
        rests: &mut [Node],
    ) -> Result<(), SchemaError> {
        let place =
            |(index, variant): (usize, &Node)| Some((index, variant.get("items")?.as_object()?.clone()));
        let (places, found): (Vec<usize>, Vec<Node>) = variants.iter().enumerate().filter_map(place).unzip();
        let (items, left) = self.within("[]", |reader| reader.hoist(found))?;
        shared.insert("items".into(), items.into());
        for (index, left) in places.into_iter().zip(left).filter(|(_, left)| !left.is_empty()) {
            rests[index].insert("items".into(), left.into());
        }
        Ok(())
    }
}

/// Moves the bounds of numbers and texts to the outer schema: neither restricts the other type.
fn share_bounds(variants: &mut [Node], shared: &mut Node) {
    const BOUNDS: [&str; 8] = [
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
    ];
    for variant in variants {
        if variant.remove("format").is_some_and(|format| format == "int32") {
            variant.entry("minimum").or_insert(i32::MIN.into());
            variant.entry("maximum").or_insert(i32::MAX.into());
        }
        for word in BOUNDS {
            shared.extend(variant.remove_entry(word));
        }
    }
}

/// A restriction shared by all variants moves to the outer schema. Differing `enum` values stay with the variants;
/// their union becomes that of the outer schema.
fn hoist_restriction(word: &str, variants: &[Node], shared: &mut Node, rests: &mut [Node]) {
    if let Some(value) = in_all(variants, word) {
        shared.insert(word.to_owned(), value.clone());
        return;
    }
    for (variant, rest) in variants.iter().zip(rests) {
        if let Some(value) = variant.get(word) {
            rest.insert(word.to_owned(), value.clone());
        }
    }
    if word == "enum" && variants.iter().all(|variant| variant.contains_key(word)) {
        let mut values: Vec<Value> = Vec::new();
        for value in variants
            .iter()
            .filter_map(|variant| variant[word].as_array())
            .flatten()
        {
            if !values.contains(value) {
                values.push(value.clone());
            }
        }
        shared.insert(word.to_owned(), values.into());
    }
}

/// Fields required by all variants are required by the outer schema.
fn hoist_required(variants: &[Node], shared: &mut Node, rests: &mut [Node]) {
    let in_every = |name: &Value| variants.iter().all(|variant| required(variant).contains(name));
    let (common, _): (Vec<Value>, Vec<Value>) = required(&variants[0]).iter().cloned().partition(in_every);
    for (variant, rest) in variants.iter().zip(rests) {
        let own: Vec<Value> = required(variant)
            .iter()
            .filter(|name| !common.contains(name))
            .cloned()
            .collect();
        if !own.is_empty() {
            rest.insert("required".into(), own.into());
        }
    }
    if !common.is_empty() {
        shared.insert("required".into(), common.into());
    }
}

/// Variants that allow only their own fields forbid those of the others, unless `oneOf` already does: each variant
/// then requires a field no other has.
fn close(word: &str, variants: &mut [Node], around: &Node) {
    let all: BTreeSet<String> = variants.iter().flat_map(names).cloned().collect();
    let is_own = |index: usize, name: &Value| {
        let has = |other: &Node| names(other).any(|field| *name == **field);
        !variants
            .iter()
            .enumerate()
            .any(|(other, variant)| other != index && has(variant))
    };
    let mut indexed = variants.iter().enumerate();
    if word == "oneOf"
        && indexed.all(|(index, variant)| required(variant).iter().any(|name| is_own(index, name)))
    {
        return;
    }
    for variant in variants.iter_mut().filter(|variant| variant.contains_key(CLOSED)) {
        let is_foreign = |name: &&String| !names(variant).chain(names(around)).any(|own| own == *name);
        let foreign: Vec<Value> = all
            .iter()
            .filter(is_foreign)
            .map(|name| json!({"required": [name]}))
            .collect();
        match &foreign[..] {
            [] => {}
            [one] => drop(variant.insert("not".into(), one.clone())),
            _ => drop(variant.insert("not".into(), json!({"anyOf": foreign}))),
        }
    }
}

fn is_null(node: &Node) -> bool {
    let is_unit = match node.get("enum") {
        Some(values) => *values == json!([null]),
        None => node.contains_key("nullable"),
    };
    is_unit
        && node
            .keys()
            .all(|word| matches!(word.as_str(), "nullable" | "description" | "enum"))
}

/// The value of a keyword that all schemas agree on.
fn in_all<'a>(variants: &'a [Node], word: &str) -> Option<&'a Value> {
    let first = variants.first()?.get(word)?;
    variants
        .iter()
        .all(|variant| variant.get(word) == Some(first))
        .then_some(first)
}

fn in_all_that_have<'a>(variants: &'a [Node], word: &str) -> Option<&'a Value> {
    let mut values = variants.iter().filter_map(|variant| variant.get(word));
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

fn required(node: &Node) -> &[Value] {
    node.get("required")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn names(node: &Node) -> impl Iterator<Item = &String> {
    node.get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(Node::keys)
}
