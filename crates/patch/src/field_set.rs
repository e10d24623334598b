//! A set of field paths: the fields a manager owns.
//!
//! The wire form is a tree of JSON objects. A worked example, a container's image and the keys of a map:
//!
//! ```json
//! {"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}}}},
//!  "f:data": {".": {}, "f:k": {}}}
//! ```
//!
//! `f:` names a field or a map key, `k:` an item of a keyed list, `v:` an item of a set, `i:` an index. An empty
//! object is a path in the set; `"."` marks a path in the set that has others below it. The example holds four paths:
//! the container, its image, `data`, and `data`'s `k`.
//!
//! A step is kept in its wire form: two steps are equal exactly if their texts are.

use std::cmp::Ordering;
use std::fmt::{self, Write as _};

use serde_json::{Map, Value};
use smol_str::{SmolStr, SmolStrBuilder};

mod text;

pub(crate) use text::{write_field, write_text};

/// The deepest tree that is read: far deeper than any schema, far from the end of the stack.
const MAX_DEPTH: usize = 128;

/// Initial capacity for the keys of an item.
const KEY_BYTES: usize = 64;

/// One step of a path. Most are short enough to be stored inline.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathElement(SmolStr);

/// The meaning of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Step<'a> {
    /// A field of a struct, or a key of a map.
    Field(&'a str),
    /// The item of a list with these key fields.
    Key(Map<String, Value>),
    /// An item of a set.
    Value(Value),
    /// An index of a list.
    Index(i64),
}

/// A set of paths.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Sorted by step, without duplicates and empty nodes.
    children: Vec<(PathElement, Node)>,
}

/// The paths of a set that end here or below.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Node {
    /// True if the path that ends here is in the set.
    pub(crate) member: bool,
    pub(crate) below: FieldSet,
}

/// An invalid wire form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldSetError {
    /// Neither `.` nor a valid step.
    #[error("{0:?} is not a step of a field path")]
    Step(String),
    /// Something other than an object in the tree.
    #[error("a field set consists of objects")]
    NotAnObject,
    /// Nested deeper than any real object.
    #[error("field set nested deeper than {MAX_DEPTH} steps")]
    TooDeep,
}

impl PathElement {
    /// A field of a struct, or a key of a map.
    pub fn field(name: &str) -> Self {
        let mut text = SmolStrBuilder::new();
        text.push_str("f:");
        text.push_str(name);
        Self(text.finish())
    }

    /// The item of a list with these key fields, sorted by name.
    pub(crate) fn key<'a>(fields: impl Iterator<Item = (&'a str, &'a Value)>) -> Self {
        let mut text = String::with_capacity(KEY_BYTES);
        text.push_str("k:{");
        for (index, (name, value)) in fields.enumerate() {
            if index > 0 {
                text.push(',');
            }
            text::push_text(&mut text, name);
            text.push(':');
            text::push_value(&mut text, value);
        }
        text.push('}');
        Self(text.into())
    }

    /// An item of a set.
    pub fn value(value: &Value) -> Self {
        let mut text = String::with_capacity(KEY_BYTES);
        text.push_str("v:");
        text::push_value(&mut text, value);
        Self(text.into())
    }

    /// An index of a list.
    pub fn index(index: i64) -> Self {
        let mut text = SmolStrBuilder::new();
        // Writing to a builder cannot fail.
        let _ = write!(text, "i:{index}");
        Self(text.finish())
    }

    /// Parses the wire form; the JSON in `k:` and `v:` is canonicalized.
    pub fn parse(text: &str) -> Result<Self, FieldSetError> {
        let bad = || FieldSetError::Step(text.to_owned());
        let (kind, rest) = text.split_once(':').ok_or_else(bad)?;
        match kind {
            "f" => Ok(Self(text.into())),
            "k" => serde_json::from_str::<Map<String, Value>>(rest)
                .map(|fields| Self::key(fields.iter().map(|(name, value)| (name.as_str(), value))))
                .map_err(|_| bad()),
            "v" => serde_json::from_str(rest)
                .map(|value| Self::value(&value))
                .map_err(|_| bad()),
            "i" => rest.parse().map(Self::index).map_err(|_| bad()),
            _ => Err(bad()),
        }
    }

    /// The meaning of the step.
    pub fn step(&self) -> Step<'_> {
        let rest = &self.0[2..];
        match self.0.as_bytes()[0] {
            b'k' => Step::Key(serde_json::from_str(rest).unwrap_or_default()),
            b'v' => Step::Value(serde_json::from_str(rest).unwrap_or_default()),
            b'i' => Step::Index(rest.parse().unwrap_or_default()),
            _ => Step::Field(rest),
        }
    }

    /// The wire form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PathElement {
    /// As conflict messages print it: `.spec`, `[name="c"]`, `[="x"]`, `[0]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step() {
            Step::Field(name) => write!(f, ".{name}"),
            Step::Key(fields) => {
                let fields: Vec<String> = fields.iter().map(|(name, v)| format!("{name}={v}")).collect();
                write!(f, "[{}]", fields.join(","))
            }
            Step::Value(value) => write!(f, "[={value}]"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl fmt::Debug for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FieldSet {
    /// The empty set.
    pub const fn new() -> Self {
        Self { children: Vec::new() }
    }

    /// True if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// Adds one path. The empty path is the object itself, which nobody owns, and is ignored.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        let node = self.node_mut(first);
        match rest {
            [] => node.member = true,
            rest => node.below.insert(rest),
        }
    }

    /// Adds a step with everything below it, unless that is empty. Cheapest if steps come in order.
    pub(crate) fn add(&mut self, element: impl FnOnce() -> PathElement, node: Node) {
        if node.is_empty() {
            return;
        }
        let element = element();
        if self.children.last().is_none_or(|(last, _)| *last < element) {
            self.children.push((element, node));
        } else {
            let ours = self.node_mut(&element);
            ours.member |= node.member;
            ours.below.absorb(node.below);
        }
    }

    /// True if the path is in the set.
    pub fn contains(&self, path: &[PathElement]) -> bool {
        let Some((first, rest)) = path.split_first() else {
            return false;
        };
        self.node(first).is_some_and(|node| match rest {
            [] => node.member,
            rest => node.below.contains(rest),
        })
    }

    /// Returns whether the path of this step is in the set, and the set of paths below it.
    pub fn descend(&self, element: &PathElement) -> Option<(bool, &FieldSet)> {
        self.node(element).map(|node| (node.member, &node.below))
    }

    /// Like [`descend`](Self::descend), for a step in its wire form.
    pub(crate) fn find(&self, step: &str) -> Option<(bool, &FieldSet)> {
        let place = self
            .children
            .binary_search_by(|(other, _)| other.as_str().cmp(step));
        let (_, node) = &self.children[place.ok()?];
        Some((node.member, &node.below))
    }

    /// The number of paths.
    pub fn len(&self) -> usize {
        let counts = self
            .children
            .iter()
            .map(|(_, node)| usize::from(node.member) + node.below.len());
        counts.sum()
    }

    /// The first steps of the paths.
    pub fn elements(&self) -> impl ExactSizeIterator<Item = &PathElement> {
        self.children.iter().map(|(element, _)| element)
    }

    /// The first steps of the paths, with what is below them.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&PathElement, &Node)> {
        self.children.iter().map(|(element, node)| (element, node))
    }

    /// The union of both.
    pub fn union(mut self, other: &Self) -> Self {
        self.absorb_ref(other);
        self
    }

    fn absorb_ref(&mut self, other: &Self) {
        if self.is_empty() {
            self.clone_from(other);
            return;
        }
        for (element, theirs) in &other.children {
            let ours = self.node_mut(element);
            ours.member |= theirs.member;
            ours.below.absorb_ref(&theirs.below);
        }
    }

    /// Adds the paths of `other`.
    pub(crate) fn absorb(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
            return;
        }
        // Both are sorted: each child is moved once.
        let mut ours = std::mem::take(&mut self.children).into_iter().peekable();
        let mut theirs = other.children.into_iter().peekable();
        self.children.reserve(ours.len().max(theirs.len()));
        while let (Some((our, _)), Some((their, _))) = (ours.peek(), theirs.peek()) {
            let child = match our.cmp(their) {
                Ordering::Less => ours.next(),
                Ordering::Greater => theirs.next(),
                Ordering::Equal => ours.next().map(|(element, mut node)| {
                    if let Some((_, theirs)) = theirs.next() {
                        node.member |= theirs.member;
                        node.below.absorb(theirs.below);
                    }
                    (element, node)
                }),
            };
            self.children.extend(child);
        }
        self.children.extend(ours);
        self.children.extend(theirs);
    }

    /// Removes the paths of `other`. The cost depends on the smaller set only.
    pub fn subtract(&mut self, other: &Self) {
        if self.children.len() < other.children.len() {
            return self.children.retain_mut(|(element, ours)| {
                if let Some(theirs) = other.node(element) {
                    ours.member &= !theirs.member;
                    ours.below.subtract(&theirs.below);
                }
                !ours.is_empty()
            });
        }
        for (element, theirs) in &other.children {
            let Ok(place) = self.place(element) else {
                continue;
            };
            let ours = &mut self.children[place].1;
            ours.member &= !theirs.member;
            ours.below.subtract(&theirs.below);
            if ours.is_empty() {
                self.children.remove(place);
            }
        }
    }

    /// True if every path is in `other` too.
    pub fn is_within(&self, other: &Self) -> bool {
        self.children.iter().all(|(element, ours)| {
            other
                .node(element)
                .is_some_and(|theirs| (!ours.member || theirs.member) && ours.below.is_within(&theirs.below))
        })
    }

    /// The paths that are not in `other`.
    pub fn difference(&self, other: &Self) -> Self {
        let mut left = self.clone();
        left.subtract(other);
        left
    }

    /// The paths in both.
    pub fn intersection(&self, other: &Self) -> Self {
        let mut both = Self::new();
        for (element, ours) in &self.children {
            if let Some(theirs) = other.node(element) {
                let node = Node {
                    member: ours.member && theirs.member,
                    below: ours.below.intersection(&theirs.below),
                };
                both.add(|| element.clone(), node);
            }
        }
        both
    }

    /// The paths that are neither in `other` nor below a path of `other`.
    pub fn without_subtrees(&self, other: &Self) -> Self {
        let mut left = Self::new();
        for (element, ours) in &self.children {
            let node = match other.node(element) {
                Some(theirs) if theirs.member => continue,
                Some(theirs) => Node {
                    member: ours.member,
                    below: ours.below.without_subtrees(&theirs.below),
                },
                None => ours.clone(),
            };
            left.add(|| element.clone(), node);
        }
        left
    }

    /// Calls `visit` with every path, in Kubernetes' order: the paths that end at a level, then those below it.
    pub fn for_each(&self, visit: &mut dyn FnMut(&[PathElement])) {
        self.walk(&mut Vec::new(), visit);
    }

    /// Every path, as conflict messages print it.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.for_each(&mut |path| paths.push(path.iter().map(PathElement::to_string).collect()));
        paths
    }

    /// Reads the wire form.
    pub fn from_value(value: &Value) -> Result<Self, FieldSetError> {
        Self::read(value, MAX_DEPTH).map(|node| node.below)
    }

    /// The wire form.
    pub fn to_value(&self) -> Value {
        let entries = self.children.iter().map(|(element, node)| {
            let mut below = node.below.to_value();
            if node.member
                && !node.below.is_empty()
                && let Value::Object(below) = &mut below
            {
                below.insert(".".to_owned(), Value::Object(Map::new()));
            }
            (element.as_str().to_owned(), below)
        });
        Value::Object(entries.collect())
    }

    fn read(value: &Value, depth: usize) -> Result<Node, FieldSetError> {
        let entries = value.as_object().ok_or(FieldSetError::NotAnObject)?;
        if depth == 0 {
            return Err(FieldSetError::TooDeep);
        }
        let mut node = Node {
            member: entries.is_empty(),
            below: Self::new(),
        };
        for (text, below) in entries {
            if text == "." {
                node.member = true;
            } else {
                let (element, below) = (PathElement::parse(text)?, Self::read(below, depth - 1)?);
                node.below.add(|| element, below);
            }
        }
        Ok(node)
    }

    fn place(&self, element: &PathElement) -> Result<usize, usize> {
        self.children.binary_search_by(|(other, _)| other.cmp(element))
    }

    fn node(&self, element: &PathElement) -> Option<&Node> {
        self.place(element).ok().map(|place| &self.children[place].1)
    }

    /// The node of a step, created if missing.
    fn node_mut(&mut self, element: &PathElement) -> &mut Node {
        let place = self.place(element).unwrap_or_else(|place| {
            self.children.insert(place, (element.clone(), Node::default()));
            place
        });
        &mut self.children[place].1
    }

    fn walk(&self, path: &mut Vec<PathElement>, visit: &mut dyn FnMut(&[PathElement])) {
        for (element, _) in self.children.iter().filter(|(_, node)| node.member) {
            path.push(element.clone());
            visit(path);
            path.pop();
        }
        for (element, node) in self.children.iter().filter(|(_, node)| !node.below.is_empty()) {
            path.push(element.clone());
            node.below.walk(path, visit);
            path.pop();
        }
    }
}

impl fmt::Debug for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_value().fmt(f)
    }
}

impl Node {
    /// A path with nothing below it.
    pub(crate) const MEMBER: Self = Self {
        member: true,
        below: FieldSet { children: Vec::new() },
    };

    /// True if no path ends here or below.
    pub(crate) fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn set(value: Value) -> FieldSet {
        FieldSet::from_value(&value).unwrap()
    }

    #[test]
    fn the_wire_form_reads_back() {
        let wire = json!({
            "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}}}},
            "f:data": {".": {}, "f:k": {}},
            "f:finalizers": {"v:\"a/b\"": {}, "i:3": {}},
        });
        let set = set(wire.clone());
        assert_eq!(set.to_value(), wire);
        assert_eq!(
            set.paths(),
            [
                ".data",
                ".data.k",
                ".finalizers[3]",
                ".finalizers[=\"a/b\"]",
                ".spec.containers[name=\"c\"]",
                ".spec.containers[name=\"c\"].image",
            ]
        );
    }

    #[test]
    fn keys_have_one_text() {
        let set = set(json!({"k:{\"protocol\":\"TCP\", \"containerPort\":80}": {}}));
        assert_eq!(
            set.to_value(),
            json!({"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {}})
        );
    }

    #[test]
    fn bad_forms_are_refused() {
        let check = |value, text: &str| {
            assert_eq!(FieldSet::from_value(&value).unwrap_err().to_string(), text);
        };
        check(json!({"spec": {}}), "\"spec\" is not a step of a field path");
        check(json!({"k:{": {}}), "\"k:{\" is not a step of a field path");
        check(json!({"f:a": 1}), "a field set consists of objects");
        let deep = (0..200).fold(json!({}), |below, _| json!({"f:a": below}));
        check(deep, "field set nested deeper than 128 steps");
    }

    #[test]
    fn whole_subtrees_can_be_left_out() {
        let all = set(json!({"f:a": {".": {}, "f:b": {}}, "f:c": {"f:d": {}, "f:e": {}}}));
        let reset = set(json!({"f:a": {}, "f:c": {"f:d": {}}}));
        assert_eq!(all.without_subtrees(&reset), set(json!({"f:c": {"f:e": {}}})));
    }

    fn any_set() -> impl Strategy<Value = FieldSet> {
        let path = prop::collection::vec("[ab]".prop_map(|name| PathElement::field(&name)), 1..4);
        prop::collection::vec(path, 0..8).prop_map(|paths| {
            let mut set = FieldSet::new();
            paths.iter().for_each(|path| set.insert(path));
            set
        })
    }

    fn as_paths(set: &FieldSet) -> std::collections::BTreeSet<String> {
        set.paths().into_iter().collect()
    }

    proptest! {
        #[test]
        fn sets_behave_as_sets_of_paths(a in any_set(), b in any_set()) {
            let (pa, pb) = (as_paths(&a), as_paths(&b));
            prop_assert_eq!(as_paths(&a.clone().union(&b)), &pa | &pb);
            prop_assert_eq!(as_paths(&a.difference(&b)), &pa - &pb);
            prop_assert_eq!(as_paths(&a.intersection(&b)), &pa & &pb);
            prop_assert_eq!(a.is_within(&b), pa.is_subset(&pb));
            let mut left = a.clone();
            left.subtract(&b);
            prop_assert_eq!(left, a.difference(&b));
            prop_assert_eq!(&set(a.to_value()), &a);
            let mut text = Vec::new();
            a.write_json(&mut text);
            prop_assert_eq!(String::from_utf8(text.clone()).unwrap(), a.to_value().to_string());
            prop_assert_eq!(&FieldSet::read_json(&text).unwrap(), &a);
        }
    }
}
