//! Compares answers: values that vary between runs must vary consistently, everything else must be equal.
//!
//! Uids, generated names, addresses and ports are mapped consistently; versions keep their order; times keep their
//! form. Bookmarks may come at any time, unless a stream has a deadline.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use crate::case::{Answer, Case, Step, Stream, is_periodic_bookmark};
use crate::protobuf::{Tree, decode_base64};
use crate::replay::{Replayed, SeenStream};

/// Headers that may be absent in the recording.
const INFORMATIVE_HEADERS: [&str; 6] = [
    "Cache-Control",
    "Vary",
    "X-Content-Type-Options",
    "Audit-Id",
    "ETag",
    "Last-Modified",
];

/// Texts that name the answering program.
const OPAQUE: [&str; 8] = [
    "gitVersion",
    "gitCommit",
    "gitTreeState",
    "buildDate",
    "goVersion",
    "compiler",
    "platform",
    "serverAddress",
];

/// Values allocated by the server.
const ALLOCATED: [&str; 3] = ["clusterIP", "nodePort", "healthCheckNodePort"];

/// Uids and times within a text.
static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
    let uid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
    let time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)";
    Regex::new(&format!("{uid}|{time}")).expect("a pattern")
});

/// Numbers within texts that only the server knows.
static NUMBERS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r"(too old resource version: \d+ \()\d+(\))",
        r"(Too large resource version: \d+, current: )\d+()",
        r#"(resourceVersion: ")\d+(")"#,
        r#"("resourceVersion": ?")\d+(")"#,
        r#"(resourceVersion\\+":\\+")\d+(\\+")"#,
        r"(ResourceVersion in the precondition \()\d+(\))",
        r"(ResourceVersion in record \()\d+(\))",
        r"(ResourceVersion in (?:object meta|precondition): )\d+()",
    ]
    .map(|pattern| Regex::new(pattern).expect("a pattern"))
    .into()
});

static AGE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(\d+ \()?(\d+(ms|s|m|h|d|y))+( ago)?(\))?$").expect("a pattern"));

/// One difference from the recording.
#[derive(Debug)]
pub(crate) struct Difference {
    /// The id of the step, stream or setup step.
    pub step: String,
    /// Only the text of an error differs; its code, reason and fields are as recorded.
    pub wording: bool,
    pub text: String,
}

/// All differences of a replay from its recording.
pub(crate) fn differences(case: &Case, seen: &Replayed) -> Vec<Difference> {
    let mut compare = Compare::default();
    for step in &case.setup {
        compare.current.clone_from(&step.id);
        compare.setup(step, &seen.setup[&step.id]);
    }
    for step in case.steps.iter().filter(|step| step.external.is_none()) {
        compare.current.clone_from(&step.id);
        compare.step(step, &seen.steps[&step.id]);
    }
    for stream in &case.streams {
        compare.current.clone_from(&stream.id);
        match seen.streams.get(&stream.id) {
            Some(seen) => compare.stream(stream, seen),
            None => compare.say(&format!("stream {}: not opened", stream.id)),
        }
    }
    compare.versions();
    compare.found
}

#[derive(Default)]
struct Compare {
    found: Vec<Difference>,
    /// The step being compared.
    current: String,
    /// Recorded names to those of this run, and back.
    names: HashMap<(String, String), String>,
    back: HashMap<(String, String), String>,
    /// Texts of this run that stand for recorded ones.
    renamed: Vec<(String, String)>,
    /// Recorded version, version of this run, and path.
    versions: Vec<Version>,
}

/// A version of an object: as recorded, in this run, and its path.
struct Version {
    expected: u64,
    got: u64,
    step: String,
    path: String,
}

impl Compare {
    fn say(&mut self, difference: &str) {
        self.found.push(Difference {
            step: self.current.clone(),
            wording: false,
            text: difference.to_owned(),
        });
    }

    fn differ(&mut self, path: &str, expected: impl std::fmt::Display, got: impl std::fmt::Display) {
        let short = |text: String| -> String { text.chars().take(400).collect() };
        let (expected, got) = (short(expected.to_string()), short(got.to_string()));
        self.say(&format!("{path}: expected {expected}, got {got}"));
    }

    /// For setup only the status is compared, but its names are learnt.
    fn setup(&mut self, step: &Step, got: &Answer) {
        let path = format!("setup {}", step.id);
        if step.response.status != got.status {
            self.differ(&format!("{path}.status"), step.response.status, got.status);
            return;
        }
        let mut learning = Self {
            names: std::mem::take(&mut self.names),
            back: std::mem::take(&mut self.back),
            renamed: std::mem::take(&mut self.renamed),
            ..Self::default()
        };
        learning.value(&body(&step.response), &body(got), &path, Place::default());
        self.names = learning.names;
        self.back = learning.back;
        self.renamed = learning.renamed;
    }

    fn step(&mut self, step: &Step, got: &Answer) {
        let path = format!("step {}", step.id);
        self.learn_refused_name(step, got);
        if step.response.status != got.status {
            self.differ(&format!("{path}.status"), step.response.status, got.status);
            self.say(&format!("{path}: there: {}", body(got)["message"]));
            if (step.response.status < 300) != (got.status < 300) {
                return;
            }
        }
        self.headers(&step.response, got, &path);
        self.value(
            &body(&step.response),
            &body(got),
            &format!("{path}.body"),
            Place::default(),
        );
    }

    /// The error of a failed create may contain the generated name.
    fn learn_refused_name(&mut self, step: &Step, got: &Answer) {
        let request = step.request.as_ref().and_then(|request| request.body.as_ref());
        let request: Option<Value> = request.and_then(|body| serde_json::from_str(body.get()).ok());
        let prefix = request
            .as_ref()
            .and_then(|body| body["metadata"]["generateName"].as_str());
        let (expected, got) = (body(&step.response), body(got));
        let names = (
            expected["details"]["name"].as_str(),
            got["details"]["name"].as_str(),
        );
        if let (Some(prefix), (Some(expected), Some(got))) = (prefix, names)
            && expected != got
            && expected.starts_with(prefix)
            && got.starts_with(prefix)
        {
            self.rename("name", expected, got, "details.name");
        }
    }

    fn stream(&mut self, stream: &Stream, seen: &SeenStream) {
        let path = format!("stream {}", stream.id);
        if stream.response.status != seen.response.status {
            self.differ(
                &format!("{path}.status"),
                stream.response.status,
                seen.response.status,
            );
            return;
        }
        self.headers(&stream.response, &seen.response, &path);
        self.value(
            &body(&stream.response),
            &body(&seen.response),
            &format!("{path}.body"),
            Place::default(),
        );
        let deadline = stream.request.path.contains("timeoutSeconds=");
        let counts = deadline && stream.frames.iter().any(is_periodic_bookmark);
        let (expected, got) = (counted(&stream.frames, counts), counted(&seen.frames, counts));
        if expected.len() != got.len() {
            let brief = |frames: &[&Value]| -> Vec<String> {
                frames
                    .iter()
                    .map(|frame| format!("{}:{}", frame["type"], frame["object"]["metadata"]["name"]))
                    .collect()
            };
            self.differ(
                &format!("{path}.frames"),
                brief(&expected).join(" "),
                brief(&got).join(" "),
            );
        }
        for (index, (expected, got)) in expected.iter().zip(&got).enumerate() {
            self.value(
                expected,
                got,
                &format!("{path}.frames[{index}]"),
                Place::default(),
            );
        }
        if stream.ended != seen.ended {
            self.differ(&format!("{path}.ended"), &stream.ended, seen.ended);
        }
    }

    fn headers(&mut self, expected: &Answer, got: &Answer, path: &str) {
        let mut names: Vec<&String> = expected.headers.keys().chain(got.headers.keys()).collect();
        names.sort();
        names.dedup();
        for name in names {
            let path = format!("{path}.headers.{name}");
            match (expected.headers.get(name), got.headers.get(name)) {
                (None, Some(_)) if INFORMATIVE_HEADERS.contains(&name.as_str()) => {}
                (Some(Value::String(expected)), Some(Value::String(got))) => {
                    self.text(
                        &expected.replace("; ", ";"),
                        &got.replace("; ", ";"),
                        &path,
                        false,
                    );
                }
                (expected, got) => {
                    let absent = Value::from("<absent>");
                    self.value(
                        expected.unwrap_or(&absent),
                        got.unwrap_or(&absent),
                        &path,
                        Place::default(),
                    );
                }
            }
        }
    }

    fn value(&mut self, expected: &Value, got: &Value, path: &str, place: Place) {
        match (expected, got) {
            (Value::Object(expected), Value::Object(got)) => self.object(expected, got, path, place),
            (Value::Array(expected), Value::Array(got)) if expected.len() == got.len() => {
                for (index, (expected, got)) in expected.iter().zip(got).enumerate() {
                    let place = Place { list: false, ..place };
                    self.value(expected, got, &format!("{path}[{index}]"), place);
                }
            }
            (Value::String(expected), Value::String(got)) => self.text(expected, got, path, place.cells),
            (expected, got) if expected != got => self.differ(path, expected, got),
            _ => {}
        }
    }

    fn object(&mut self, expected: &Map<String, Value>, got: &Map<String, Value>, path: &str, place: Place) {
        if let (Some(Value::String(expected)), Some(Value::String(got)), 1) =
            (expected.get("base64"), got.get("base64"), expected.len())
        {
            self.protobuf(
                &Tree::of(&decode_base64(expected)),
                &Tree::of(&decode_base64(got)),
                path,
            );
            return;
        }
        self.learn_generated_name(expected, got, path);
        let bookmark = expected.get("type").is_some_and(|word| word == "BOOKMARK");
        let is_error =
            expected.contains_key("reason") || expected.get("kind").is_some_and(|kind| kind == "Status");
        let is_list = ["items", "columnDefinitions", "rows"]
            .iter()
            .any(|name| expected.contains_key(*name));
        let mut names: Vec<&String> = expected.keys().chain(got.keys()).collect();
        names.sort();
        names.dedup();
        for name in names {
            let path = format!("{path}.{name}");
            let (Some(expected), Some(got)) = (expected.get(name), got.get(name)) else {
                let show = |value: Option<&Value>| value.map_or("<absent>".to_owned(), Value::to_string);
                self.differ(&path, show(expected.get(name)), show(got.get(name)));
                continue;
            };
            let inner = Place {
                list: name == "metadata" && (is_list || place.list) || name == "object" && bookmark,
                cells: place.cells || name == "cells",
            };
            let before = self.found.len();
            match name.as_str() {
                "resourceVersion" => self.version(expected, got, &path, place),
                name => self.member(name, expected, got, &path, inner),
            }
            if name == "message" && is_error {
                self.found[before..].iter_mut().for_each(|it| it.wording = true);
            }
        }
    }

    /// The order of versions is checked at the end; those of lists and bookmarks move with unrelated writes.
    fn version(&mut self, expected: &Value, got: &Value, path: &str, place: Place) {
        let number = |value: &Value| value.as_str()?.parse::<u64>().ok().filter(|number| *number > 0);
        match (number(expected), number(got)) {
            (Some(_), Some(_)) if place.list => {}
            (Some(expected), Some(got)) => self.versions.push(Version {
                expected,
                got,
                step: self.current.clone(),
                path: path.to_owned(),
            }),
            _ => self.value(expected, got, path, Place::default()),
        }
    }

    fn member(&mut self, name: &str, expected: &Value, got: &Value, path: &str, place: Place) {
        match (name, expected, got) {
            ("continue", Value::String(expected), Value::String(got))
                if expected.is_empty() == got.is_empty() => {}
            (name, Value::String(_), Value::String(_)) if OPAQUE.contains(&name) => {}
            (name, expected, got) if ALLOCATED.contains(&name) && is_set(expected) && is_set(got) => {
                self.rename(name, &printed(expected), &printed(got), path);
            }
            ("token", Value::String(expected), Value::String(got)) if expected.matches('.').count() == 2 => {
                if got.matches('.').count() != 2 {
                    self.differ(path, expected, got);
                }
            }
            ("managedFields" | "resourceRules" | "nonResourceRules", expected, got) => {
                self.value(&sorted(expected), &sorted(got), path, place);
            }
            ("causes", expected, got) if printed(expected).contains("FieldManagerConflict") => {
                self.value(&sorted(expected), &sorted(got), path, place);
            }
            (_, expected, got) => self.value(expected, got, path, place),
        }
    }

    fn learn_generated_name(&mut self, expected: &Map<String, Value>, got: &Map<String, Value>, path: &str) {
        let text = |object: &Map<String, Value>, name: &str| -> Option<String> {
            object.get(name).and_then(Value::as_str).map(str::to_owned)
        };
        let names = (
            text(expected, "generateName"),
            text(expected, "name"),
            text(got, "name"),
        );
        if let (Some(prefix), Some(expected), Some(got)) = names
            && expected != got
            && got.len() == expected.len()
            && got.get(..got.len() - 5) == expected.get(..expected.len() - 5)
            && !prefix.is_empty()
        {
            self.rename("name", &expected, &got, path);
        }
    }

    /// Recorded and new names must correspond one to one.
    fn rename(&mut self, kind: &str, expected: &str, got: &str, path: &str) {
        let (forth, back) = (
            (kind.to_owned(), expected.to_owned()),
            (kind.to_owned(), got.to_owned()),
        );
        let known = self.names.get(&forth).is_none_or(|it| it == got);
        let known_back = self.back.get(&back).is_none_or(|it| it == expected);
        if !known || !known_back {
            self.differ(&format!("{path} ({kind} is not renamed alike)"), expected, got);
            return;
        }
        self.names.insert(forth, got.to_owned());
        self.back.insert(back, expected.to_owned());
        if kind != "uid" && expected != got && expected != "None" {
            self.renamed.push((got.to_owned(), expected.to_owned()));
        }
    }

    fn text(&mut self, expected: &str, got: &str, path: &str, cell: bool) {
        if cell && timeless(expected) == timeless(got) {
            return;
        }
        let mut got = got.to_owned();
        for (new, recorded) in &self.renamed {
            if expected.contains(recorded.as_str()) {
                got = got.replace(new, recorded);
            }
        }
        let (expected, got) = (without_numbers(expected), without_numbers(&got));
        if TOKEN.replace_all(&expected, "#") != TOKEN.replace_all(&got, "#") {
            return self.differ(path, format!("{expected:?}"), format!("{got:?}"));
        }
        let pairs: Vec<(String, String)> = TOKEN
            .find_iter(&expected)
            .zip(TOKEN.find_iter(&got))
            .map(|(expected, got)| (expected.as_str().to_owned(), got.as_str().to_owned()))
            .collect();
        for (expected, got) in pairs {
            self.token(&expected, &got, path);
        }
    }

    fn token(&mut self, expected: &str, got: &str, path: &str) {
        let is_time = |text: &str| text.contains('T');
        let shape = |text: &str| text.replace(|char: char| char.is_ascii_digit(), "0");
        match (is_time(expected), is_time(got)) {
            (false, false) => self.rename("uid", expected, got, path),
            // Times up to 2021 were sent by the client.
            (true, true) if expected[..4] > *"2021" && shape(expected) == shape(got) => {}
            (true, true) if expected == got => {}
            _ => self.differ(path, expected, got),
        }
    }

    fn protobuf(&mut self, expected: &Tree, got: &Tree, path: &str) {
        match (expected, got) {
            (Tree::Message(expected), Tree::Message(got)) => self.message(expected, got, path),
            (Tree::Text(expected), Tree::Text(got)) => {
                let is_number =
                    |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                let is_continue = expected.starts_with("eyJ2IjoibWV0YS5rOHMuaW8vdjEi") && !got.is_empty();
                let is_version = is_number(expected) && is_number(got);
                if !is_continue && !is_version {
                    self.text(expected, got, path, false);
                }
            }
            (Tree::Number(expected), Tree::Number(got)) => {
                let is_time = |number: &u64| (1_640_995_200..4_102_444_800).contains(number);
                if expected != got && !(is_time(expected) && is_time(got)) {
                    self.differ(path, expected, got);
                }
            }
            (expected, got) if expected != got => {
                self.differ(path, format!("{expected:?}"), format!("{got:?}"));
            }
            _ => {}
        }
    }

    fn message(&mut self, expected: &BTreeMap<u64, Vec<Tree>>, got: &BTreeMap<u64, Vec<Tree>>, path: &str) {
        let mut numbers: Vec<u64> = expected.keys().chain(got.keys()).copied().collect();
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            let values = |fields: &BTreeMap<u64, Vec<Tree>>| fields.get(&number).cloned().unwrap_or_default();
            let (expected, got, path) = (values(expected), values(got), format!("{path}.{number}"));
            if expected.len() != got.len() {
                self.differ(&path, format!("{expected:?}"), format!("{got:?}"));
                continue;
            }
            for (expected, got) in expected.iter().zip(&got) {
                self.protobuf(expected, got, &path);
            }
        }
    }

    /// Versions of objects keep equality and order over the whole case.
    fn versions(&mut self) {
        let mut seen: BTreeMap<u64, Version> = BTreeMap::new();
        for version in std::mem::take(&mut self.versions) {
            let Version { got, step, path, .. } = &version;
            match seen.get(&version.expected) {
                Some(first) if first.got != *got => {
                    self.current.clone_from(step);
                    let (other, at) = (first.got, &first.path);
                    let text = format!("{path}: resourceVersion {got} should be that of {at}, {other}");
                    self.say(&text);
                }
                Some(_) => {}
                None => drop(seen.insert(version.expected, version)),
            }
        }
        let mut before: Option<Version> = None;
        for version in seen.into_values() {
            let Version { got, step, path, .. } = &version;
            if let Some(earlier) = before.filter(|earlier| earlier.got >= *got) {
                self.current.clone_from(step);
                let (earlier, at) = (earlier.got, earlier.path);
                self.say(&format!(
                    "{path}: resourceVersion {got} should be newer than {earlier} of {at}"
                ));
            }
            before = Some(version);
        }
    }
}

/// The context of a value in a document.
#[derive(Clone, Copy, Default)]
struct Place {
    /// In the metadata of a list, a Table or a bookmark.
    list: bool,
    /// In the cells of a Table.
    cells: bool,
}

/// A cell without its age: `5m` becomes empty, `4 (5m ago)` becomes the count.
fn timeless(cell: &str) -> &str {
    match AGE.captures(cell) {
        Some(age) => age.get(1).map_or("", |count| count.as_str()),
        None => cell,
    }
}

fn body(answer: &Answer) -> Value {
    answer.body.clone().unwrap_or_default()
}

/// The compared frames: without periodic bookmarks, or with the first of each run of them.
fn counted(frames: &[Value], bookmarks: bool) -> Vec<&Value> {
    let mut counted: Vec<&Value> = Vec::new();
    for frame in frames {
        let again = counted.last().is_some_and(|last| is_periodic_bookmark(last));
        if !is_periodic_bookmark(frame) || bookmarks && !again {
            counted.push(frame);
        }
    }
    counted
}

fn without_numbers(text: &str) -> String {
    NUMBERS.iter().fold(text.to_owned(), |text, pattern| {
        pattern.replace_all(&text, "${1}#${2}").into_owned()
    })
}

/// Sorts lists whose order has no meaning.
fn sorted(value: &Value) -> Value {
    let Some(items) = value.as_array() else {
        return value.clone();
    };
    let mut items = items.clone();
    items.sort_by_key(|item| {
        let text = |name: &str| printed(&item[name]);
        [
            "operation",
            "manager",
            "subresource",
            "apiVersion",
            "field",
            "message",
            "fieldsV1",
            "verbs",
            "resources",
            "nonResourceURLs",
        ]
        .map(text)
    });
    Value::Array(items)
}

fn printed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn is_set(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Array(_) | Value::Object(_)) && value != "" && value != 0
}
