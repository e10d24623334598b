//! Composes events into a value: maps, lists, anchors, aliases and merge keys.
//!
//! An anchor keeps a copy of its value; an alias copies it again. Both count towards [`ALIAS_LIMIT`], by text and
//! nodes, before the copy is made.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use libyaml_safer::{Encoding, ErrorKind, Event, EventData, Parser, ScalarStyle};
use serde_json::{Map, Value};

use super::{ALIAS_LIMIT, DuplicateKey, Mode, TAG_LIMIT, YamlError, YamlErrorKind, float, scalar};
use crate::limits::NESTING_LIMIT;
use crate::tree_size::{ITEM, MEMBER, OBJECT, TREE_LIMIT};

/// The weight of a node, in addition to its text, when it is copied.
const NODE_WEIGHT: usize = 32;

/// What ends a line in YAML 1.1.
const LINE_BREAKS: [char; 5] = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];

/// The treatment of a second document in the same text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    Ignored,
    Refused,
}

/// An error and its line within the text, from 0.
pub(super) struct LineError {
    line: u64,
    kind: YamlErrorKind,
}

impl LineError {
    fn new(line: u64, kind: YamlErrorKind) -> Self {
        Self { line, kind }
    }

    pub(super) fn is_about_duplicates(&self) -> bool {
        matches!(self.kind, YamlErrorKind::Duplicates(_))
    }

    /// The error in document `index`, whose text starts at line `first`.
    pub(super) fn at(self, index: usize, first: usize) -> YamlError {
        YamlError::new(index, first + self.line as usize, self.kind)
    }
}

/// The first document of a text, with its duplicate keys; `None` if there is none.
pub(super) fn document(
    text: &str,
    mode: Mode,
    rest: Rest,
) -> Result<Option<(Value, Vec<DuplicateKey>)>, LineError> {
    check_tags(text)?;
    let ended = end_last_line(text);
    let mut composer = Composer::new(&ended);
    composer.has_added_break = ended.len() > text.len();
    let value = composer.document()?;
    if rest == Rest::Refused && value.is_some() {
        composer.end()?;
    }
    match composer.duplicates.first() {
        Some(first) if mode == Mode::Strict => Err(LineError::new(
            first.line as u64 - 1,
            YamlErrorKind::Duplicates(composer.duplicates),
        )),
        _ => Ok(value.map(|value| (value, composer.duplicates))),
    }
}

/// Refuses a text with too many `%TAG` lines.
fn check_tags(text: &str) -> Result<(), LineError> {
    const TAG: &str = "%TAG";
    // Nearly every text.
    if !text.contains(TAG) {
        return Ok(());
    }
    let lines = text.split(LINE_BREAKS).enumerate();
    match lines.filter(|(_, line)| line.starts_with(TAG)).nth(TAG_LIMIT) {
        Some((line, _)) => Err(LineError::new(line as u64, YamlErrorKind::TooManyTags)),
        None => Ok(()),
    }
}

/// The text with its last line terminated: the scanner panics if a block scalar runs into the end of the input.
///
/// A last line of spaces is left alone, because an added line break would count in a block scalar above it.
fn end_last_line(text: &str) -> Cow<'_, str> {
    let last = text.rsplit(['\n', '\r']).next().unwrap_or_default();
    match last.trim_matches(' ').is_empty() {
        true => Cow::Borrowed(text),
        false => Cow::Owned(format!("{text}\n")),
    }
}

struct Composer<'a> {
    parser: Parser<&'a [u8]>,
    /// The last line break of the text was added; it is not part of a block scalar.
    has_added_break: bool,
    /// Bytes of the text.
    length: usize,
    anchors: HashMap<String, Anchor>,
    duplicates: Vec<DuplicateKey>,
    /// Open maps and lists.
    depth: u32,
    /// Text and nodes copied so far.
    copied: usize,
    /// The size of the tree, in the units of [`tree_size`](crate::tree_size).
    size: usize,
    /// The line of the end of the last event, from 0.
    line: u64,
}

enum Anchor {
    /// Its value is being read: an alias here would contain itself.
    Open,
    Closed(Node),
}

/// A value and the cost of copying it.
#[derive(Clone)]
struct Node {
    value: Value,
    /// Text and nodes.
    weight: usize,
    /// The nesting of maps and lists; 0 for a scalar.
    height: u32,
}

impl<'a> Composer<'a> {
    fn new(text: &'a str) -> Self {
        let mut parser = Parser::new();
        // Set explicitly: detection takes any text that starts with byte EF for a broken byte order mark.
        parser.set_encoding(Encoding::Utf8);
        parser.set_input(text.as_bytes());
        Self {
            parser,
            has_added_break: false,
            length: text.len(),
            anchors: HashMap::new(),
            duplicates: Vec::new(),
            depth: 0,
            copied: 0,
            size: 0,
            line: 0,
        }
    }

    fn document(&mut self) -> Result<Option<Value>, LineError> {
        loop {
            let event = self.event()?;
            match event.data {
                EventData::StreamStart { .. } => {}
                EventData::DocumentStart { .. } => {
                    let root = self.event()?;
                    return Ok(Some(self.node(root)?.value));
                }
                _ => return Ok(None),
            }
        }
    }

    /// Only the end may follow.
    fn end(&mut self) -> Result<(), LineError> {
        loop {
            let event = self.event()?;
            match event.data {
                EventData::StreamEnd => return Ok(()),
                EventData::DocumentStart { .. } => {
                    return Err(LineError::new(
                        event.start_mark.line,
                        YamlErrorKind::SecondDocument,
                    ));
                }
                _ => {}
            }
        }
    }

    fn event(&mut self) -> Result<Event, LineError> {
        // The scanner panics at a tag before a comma, as in `[!a,b]`. Its state is not used after that.
        let parsed = catch_unwind(AssertUnwindSafe(|| self.parser.parse()));
        let event = match parsed {
            Ok(event) => event.map_err(|error| scanner_error(&error))?,
            Err(_) => {
                let problem = "did not find expected ',' or ']'";
                return Err(LineError::new(
                    self.line,
                    YamlErrorKind::Syntax {
                        problem,
                        go_line: Some(self.line + 1),
                    },
                ));
            }
        };
        self.line = event.end_mark.line;
        Ok(self.without_added_break(event))
    }

    fn without_added_break(&self, mut event: Event) -> Event {
        if self.has_added_break
            && event.end_mark.index as usize == self.length
            && let EventData::Scalar { value, style, .. } = &mut event.data
            && matches!(style, ScalarStyle::Literal | ScalarStyle::Folded)
            && value.ends_with('\n')
        {
            value.pop();
        }
        event
    }

    fn node(&mut self, event: Event) -> Result<Node, LineError> {
        let line = event.start_mark.line;
        match event.data {
            EventData::Alias { anchor } => self.alias(&anchor, line),
            EventData::Scalar {
                anchor,
                tag,
                value,
                plain_implicit,
                ..
            } => {
                let weight = NODE_WEIGHT + value.len();
                let value = scalar::resolve(tag.as_deref(), plain_implicit, value)
                    .map_err(|kind| LineError::new(line, kind))?;
                self.anchored(anchor, line, |_| {
                    Ok(Node {
                        value,
                        weight,
                        height: 0,
                    })
                })
            }
            EventData::SequenceStart { anchor, .. } => self.anchored(anchor, line, Self::sequence),
            EventData::MappingStart { anchor, .. } => self.anchored(anchor, line, Self::mapping),
            _ => Err(LineError::new(
                line,
                YamlErrorKind::Syntax {
                    problem: "did not find expected node content",
                    go_line: Some(line),
                },
            )),
        }
    }

    /// Reads a node and keeps a copy if it has an anchor.
    fn anchored(
        &mut self,
        anchor: Option<String>,
        line: u64,
        read: impl FnOnce(&mut Self) -> Result<Node, LineError>,
    ) -> Result<Node, LineError> {
        let Some(name) = anchor else {
            return read(self);
        };
        self.anchors.insert(name.clone(), Anchor::Open);
        let node = read(self)?;
        if self.copied + node.weight > ALIAS_LIMIT {
            return Err(LineError::new(line, YamlErrorKind::TooManyAliases));
        }
        self.copied += node.weight;
        self.anchors.insert(name, Anchor::Closed(node.clone()));
        Ok(node)
    }

    fn alias(&mut self, name: &str, line: u64) -> Result<Node, LineError> {
        let fail = |kind| Err(LineError::new(line, kind));
        let node = match self.anchors.get(name) {
            Some(Anchor::Closed(node)) => node,
            Some(Anchor::Open) => return fail(YamlErrorKind::RecursiveAnchor(name.to_owned())),
            None => return fail(YamlErrorKind::UnknownAnchor(name.to_owned())),
        };
        if self.depth + node.height > NESTING_LIMIT {
            return fail(YamlErrorKind::TooDeep);
        }
        if self.copied + node.weight > ALIAS_LIMIT {
            return fail(YamlErrorKind::TooManyAliases);
        }
        self.copied += node.weight;
        Ok(node.clone())
    }

    fn sequence(&mut self) -> Result<Node, LineError> {
        let mut items = Vec::new();
        let (mut weight, mut height) = (NODE_WEIGHT, 1);
        loop {
            let event = self.event()?;
            if event.data == EventData::SequenceEnd {
                return Ok(Node {
                    value: Value::Array(items),
                    weight,
                    height,
                });
            }
            let item = self.nested(event)?;
            weight += item.weight;
            height = height.max(1 + item.height);
            items.push(item.value);
        }
    }

    fn mapping(&mut self) -> Result<Node, LineError> {
        self.grow(OBJECT)?;
        let mut map = Map::new();
        let (mut weight, mut height) = (NODE_WEIGHT * OBJECT, 1);
        loop {
            let event = self.event()?;
            if event.data == EventData::MappingEnd {
                return Ok(Node {
                    value: Value::Object(map),
                    weight,
                    height,
                });
            }
            self.grow(MEMBER)?;
            let merges = is_merge(&event.data);
            let (key, name) = self.key(event)?;
            let event = self.event()?;
            let line = event.start_mark.line;
            let node = self.nested(event)?;
            weight += key + node.weight;
            height = height.max(1 + node.height);
            if merges {
                self.merge(&mut map, node.value, line)?;
            } else {
                self.insert(&mut map, name, node.value, line);
            }
        }
    }

    /// The weight and the text of a key.
    fn key(&mut self, event: Event) -> Result<(usize, Key), LineError> {
        let line = event.start_mark.line;
        if let EventData::Scalar {
            anchor: None,
            tag: None,
            value,
            plain_implicit: true,
            ..
        } = &event.data
            && let Some(name) = scalar::float_key(value)
        {
            return Ok((NODE_WEIGHT, Key::bare(name)));
        }
        let node = self.nested(event)?;
        let name = Key::of(node.value).map_err(|kind| LineError::new(line, kind))?;
        Ok((node.weight, name))
    }

    fn grow(&mut self, size: usize) -> Result<(), LineError> {
        self.size += size;
        match self.size > TREE_LIMIT {
            true => Err(LineError::new(self.line, YamlErrorKind::TooManyValues)),
            false => Ok(()),
        }
    }

    fn nested(&mut self, event: Event) -> Result<Node, LineError> {
        self.grow(ITEM)?;
        if self.depth == NESTING_LIMIT {
            return Err(LineError::new(event.start_mark.line, YamlErrorKind::TooDeep));
        }
        self.depth += 1;
        let node = self.node(event);
        self.depth -= 1;
        node
    }

    fn insert(&mut self, map: &mut Map<String, Value>, key: Key, value: Value, line: u64) {
        if map.contains_key(&key.name) {
            self.duplicates.push(DuplicateKey {
                line: line as usize + 1,
                key: key.to_string(),
            });
        }
        map.insert(key.name, value);
    }

    /// Merges the keys of a map, or of several, of which the first takes precedence.
    fn merge(&mut self, map: &mut Map<String, Value>, value: Value, line: u64) -> Result<(), LineError> {
        let sources = match value {
            Value::Object(_) => vec![value],
            Value::Array(items) => items,
            _ => return Err(LineError::new(line, YamlErrorKind::Merge)),
        };
        for source in sources.into_iter().rev() {
            let Value::Object(source) = source else {
                return Err(LineError::new(line, YamlErrorKind::Merge));
            };
            for (name, value) in source {
                self.insert(map, Key { name, is_text: true }, value, line);
            }
        }
        Ok(())
    }
}

fn is_merge(key: &EventData) -> bool {
    match key {
        EventData::Scalar {
            value,
            tag,
            plain_implicit,
            ..
        } => value == "<<" && (*plain_implicit || tag.as_deref() == Some(scalar::MERGE_TAG)),
        _ => false,
    }
}

/// A key as JSON has it.
struct Key {
    name: String,
    is_text: bool,
}

impl Key {
    fn bare(name: String) -> Self {
        Self { name, is_text: false }
    }

    fn of(value: Value) -> Result<Self, YamlErrorKind> {
        match value {
            Value::String(name) => Ok(Self { name, is_text: true }),
            Value::Bool(value) => Ok(Self::bare(value.to_string())),
            Value::Number(number) if number.is_i64() => Ok(Self::bare(number.to_string())),
            Value::Number(number) if number.is_u64() => Err(YamlErrorKind::Key("uint64")),
            Value::Number(number) => Ok(Self::bare(float::key_text(number.as_f64().unwrap_or(0.0)))),
            Value::Null => Err(YamlErrorKind::Key("null")),
            Value::Array(_) => Err(YamlErrorKind::Key("sequence")),
            Value::Object(_) => Err(YamlErrorKind::Key("map")),
        }
    }
}

impl fmt::Display for Key {
    /// As in messages: text in quotes, anything else bare.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_text {
            true => write!(f, "{:?}", self.name),
            false => f.write_str(&self.name),
        }
    }
}

/// The real line and the one kubectl reports: except in the scanner, kubectl is one too low.
fn scanner_error(error: &libyaml_safer::Error) -> LineError {
    let line = |mark: Option<libyaml_safer::Mark>| mark.map_or(0, |mark| mark.line);
    let (problem_line, context_line) = (line(error.problem_mark()), line(error.context_mark()));
    let go_line = match problem_line {
        0 => context_line,
        line if error.kind() == ErrorKind::Scanner => line + 1,
        line => line,
    };
    LineError::new(
        problem_line,
        YamlErrorKind::Syntax {
            problem: error.problem(),
            go_line: (go_line != 0).then_some(go_line),
        },
    )
}
