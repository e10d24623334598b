//! The text of a description: lines of cells, aligned as Go's `text/tabwriter` does it, so that they read as kubectl's.
//!
//! A tab ends a cell. Cells of consecutive lines that begin in the same place form a column; a line without such a cell
//! ends it. The last cell of a line belongs to no column.

use jiff::Timestamp;
use jiff::fmt::strtime;
use serde_json::{Map, Value};
use unicode_width::UnicodeWidthStr as _;
use watchkeeper_meta::Time;

use crate::age;
use crate::json_path::plain;

/// The space between two columns.
const PADDING: usize = 2;

/// Longer annotations are on lines of their own, and cut.
const MAX_ANNOTATION: usize = 140;

/// A copy of the whole object, secrets included: not shown.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A description that is being written.
#[derive(Debug, Default)]
pub(super) struct Page(String);

impl Page {
    /// A line; each level is two spaces.
    pub(super) fn line(&mut self, level: usize, text: impl AsRef<str>) {
        self.0.extend(std::iter::repeat_n("  ", level));
        self.0.push_str(text.as_ref());
        self.0.push('\n');
    }

    /// `title:` and a value.
    pub(super) fn field(&mut self, level: usize, title: &str, value: impl std::fmt::Display) {
        self.line(level, format!("{title}:\t{value}"));
    }

    /// The same, unless there is no value.
    pub(super) fn field_if(&mut self, level: usize, title: &str, value: &Value) {
        if !text(value).is_empty() {
            self.field(level, title, text(value));
        }
    }

    /// `title:` and values, one per line.
    pub(super) fn lines(&mut self, level: usize, title: &str, values: &[String]) {
        let indent = "  ".repeat(level);
        let Some((first, rest)) = values.split_first() else {
            return self.field(level, title, "<none>");
        };
        self.field(level, title, first);
        for value in rest {
            self.line(0, format!("{indent}\t{value}"));
        }
    }

    /// `key=value` per line.
    pub(super) fn labels(&mut self, level: usize, title: &str, labels: &Value) {
        self.lines(level, title, &pairs(labels, "="));
    }

    /// `key: value` per line; a long value is below its key.
    pub(super) fn annotations(&mut self, level: usize, annotations: &Value) {
        let mut lines = Vec::new();
        for (key, value) in fields(annotations).filter(|(key, _)| *key != LAST_APPLIED) {
            let value = plain(value);
            if key.len() + value.len() + 2 <= MAX_ANNOTATION && !value.contains('\n') {
                lines.push(format!("{key}: {value}"));
                continue;
            }
            lines.push(format!("{key}:"));
            let short: String = value.chars().take(MAX_ANNOTATION - 2).collect();
            let dots = if short.len() < value.len() { "..." } else { "" };
            lines.extend(format!("{short}{dots}").lines().map(|line| format!("  {line}")));
        }
        self.lines(level, "Annotations", &lines);
    }

    /// A table below a title: the header, a rule of dashes, the rows.
    pub(super) fn table(
        &mut self,
        level: usize,
        header: &[&str],
        rows: impl IntoIterator<Item = Vec<String>>,
    ) {
        let rule: Vec<_> = header.iter().map(|name| "-".repeat(name.len())).collect();
        self.line(level, header.join("\t"));
        self.line(level, rule.join("\t"));
        for row in rows {
            self.line(level, row.join("\t"));
        }
    }

    /// The aligned text.
    pub(super) fn into_text(self) -> String {
        align(&self.0)
    }
}

/// A field's text: nothing if it is absent.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        value => plain(value),
    }
}

/// The text, or another one if it is absent or empty.
pub(super) fn text_or(value: &Value, absent: &str) -> String {
    Some(text(value))
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| absent.to_owned())
}

/// The items of a list; none if it is absent.
pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The fields of an object; none if it is absent.
pub(super) fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

/// `key=value` texts.
pub(super) fn pairs(values: &Value, sign: &str) -> Vec<String> {
    let pairs = fields(values);
    pairs
        .map(|(key, value)| format!("{key}{sign}{}", plain(value)))
        .collect()
}

/// A list of texts with commas, or `<none>`.
pub(super) fn joined(texts: &[String], absent: &str) -> String {
    match texts.is_empty() {
        true => absent.to_owned(),
        false => texts.join(","),
    }
}

/// `True` and `False`, as conditions have them.
pub(super) fn capital(value: &Value) -> &'static str {
    match value.as_bool() {
        Some(true) => "True",
        _ => "False",
    }
}

/// `Wed, 31 Jan 2026 12:00:00 +0000`; `<unset>` if it is absent.
pub(super) fn moment(value: &Value) -> String {
    let Some(time) = value.as_str().and_then(|text| text.parse::<Timestamp>().ok()) else {
        return "<unset>".to_owned();
    };
    strtime::format("%a, %d %b %Y %H:%M:%S +0000", time).unwrap_or_else(|_| time.to_string())
}

/// The age of a time.
pub(super) fn ago(value: &Value) -> String {
    age::since(time(value), age::now())
}

pub(super) fn time(value: &Value) -> Option<Time> {
    value.as_str()?.parse().ok()
}

/// The selector of a workload: `a=b,c in (d,e)`.
pub(super) fn selector(selector: &Value) -> String {
    let mut parts = pairs(&selector["matchLabels"], "=");
    for rule in items(&selector["matchExpressions"]) {
        let values: Vec<_> = items(&rule["values"]).iter().map(plain).collect();
        let (key, values) = (text(&rule["key"]), values.join(","));
        parts.push(match text(&rule["operator"]).as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key,
        });
    }
    joined(&parts, "<none>")
}

fn align(text: &str) -> String {
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    let mut widths: Vec<Vec<usize>> = lines.iter().map(|line| vec![0; line.len() - 1]).collect();
    align_column(&lines, &mut widths, 0, 0..lines.len());
    let mut aligned = String::new();
    for (line, widths) in lines.iter().zip(&widths) {
        for (at, cell) in line.iter().enumerate() {
            aligned.push_str(cell);
            let width = widths.get(at).map_or(0, |width| width - cell.width());
            aligned.extend(std::iter::repeat_n(' ', width));
        }
        aligned.push('\n');
    }
    aligned
}

/// Sets the widths of a column within some lines, and of those to its right. A line has few columns.
fn align_column(
    lines: &[Vec<&str>],
    widths: &mut [Vec<usize>],
    column: usize,
    range: std::ops::Range<usize>,
) {
    let mut at = range.start;
    while at < range.end {
        let begin = at;
        while at < range.end && widths[at].len() > column {
            at += 1;
        }
        let width = lines[begin..at]
            .iter()
            .map(|line| line[column].width() + PADDING)
            .max();
        for widths in &mut widths[begin..at] {
            widths[column] = width.unwrap_or_default();
        }
        if begin < at {
            align_column(lines, widths, column + 1, begin..at);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn columns_end_with_the_first_line_that_has_none() {
        let mut page = Page::default();
        page.field(0, "Name", "web");
        page.field(0, "Service Account", "default");
        page.line(0, "Containers:");
        page.field(2, "Image", "web");
        page.lines(2, "Mounts", &["a".to_owned(), "b".to_owned()]);
        expect![[r#"
            Name:             web
            Service Account:  default
            Containers:
                Image:   web
                Mounts:  a
                         b
        "#]]
        .assert_eq(&page.into_text());
    }
}
