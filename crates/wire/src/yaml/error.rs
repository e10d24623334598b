//! Errors in YAML, with their line.

use super::{ALIAS_LIMIT, DuplicateKey, OBJECT_LIMIT, TAG_LIMIT};
use crate::limits::NESTING_LIMIT;
use crate::tree_size::TREE_LIMIT;

/// A document that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("document {}, line {line}: {kind}", index + 1)]
pub struct YamlError {
    /// The document within the stream, from 0.
    pub index: usize,
    /// The line within the whole stream, from 1.
    pub line: usize,
    /// The kind of error.
    pub kind: YamlErrorKind,
}

/// The kinds of error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum YamlErrorKind {
    /// It is not YAML.
    #[error("{problem}")]
    Syntax {
        /// The scanner's or parser's message.
        problem: &'static str,
        /// The line as kubectl counts it: within the document, and often one too low.
        go_line: Option<u64>,
    },
    /// The document is not UTF-8.
    #[error("invalid UTF-8")]
    Utf8,
    /// Larger than [`OBJECT_LIMIT`].
    #[error("longer than {OBJECT_LIMIT} bytes")]
    TooLarge,
    /// Nested deeper than [`NESTING_LIMIT`].
    #[error("nested deeper than {NESTING_LIMIT} levels")]
    TooDeep,
    /// Its aliases expand beyond [`ALIAS_LIMIT`].
    #[error("aliases expand to more than {ALIAS_LIMIT} bytes")]
    TooManyAliases,
    /// More `%TAG` lines than [`TAG_LIMIT`].
    #[error("more than {TAG_LIMIT} %TAG directives")]
    TooManyTags,
    /// It becomes a larger tree than [`TREE_LIMIT`].
    #[error("more than {TREE_LIMIT} values")]
    TooManyValues,
    /// An alias without its anchor.
    #[error("unknown anchor '{0}' referenced")]
    UnknownAnchor(String),
    /// An alias within its own anchor.
    #[error("anchor '{0}' value contains itself")]
    RecursiveAnchor(String),
    /// `<<` with a value that is not a map.
    #[error("map merge requires map or sequence of maps as the value")]
    Merge,
    /// A key that cannot be a JSON key.
    #[error("unsupported map key of type {0}")]
    Key(&'static str),
    /// A tag that does not match its value.
    #[error("cannot decode {found} `{text}` as a {tag}")]
    Tag {
        /// The type of the value.
        found: &'static str,
        /// Its text.
        text: String,
        /// The tag.
        tag: &'static str,
    },
    /// `!!binary` that is not base64.
    #[error("!!binary value contains invalid base64 data")]
    Base64,
    /// A number JSON cannot represent.
    #[error("unsupported value: {0}")]
    Number(&'static str),
    /// Duplicate keys in strict mode.
    #[error("keys set more than once: {}", keys(.0))]
    Duplicates(Vec<DuplicateKey>),
    /// An invalid separator: text after the dashes.
    #[error("invalid Yaml document separator: {0}")]
    Separator(String),
    /// A second document without a separator line, which kubectl would silently skip.
    #[error("a second document without a '---' line before it")]
    SecondDocument,
    /// Valid YAML that does not match the requested type.
    #[error("{0}")]
    Decode(String),
}

impl YamlError {
    pub(super) fn new(index: usize, line: usize, kind: YamlErrorKind) -> Self {
        Self { index, line, kind }
    }

    /// The text of Kubernetes' own YAML library, for answers that must equal the API server's.
    pub fn to_go_string(&self) -> String {
        match &self.kind {
            YamlErrorKind::Syntax {
                problem,
                go_line: Some(line),
            } => format!("yaml: line {line}: {problem}"),
            YamlErrorKind::Duplicates(duplicates) => {
                let lines: String = duplicates
                    .iter()
                    .map(|duplicate| format!("\n  {duplicate}"))
                    .collect();
                format!("yaml: unmarshal errors:{lines}")
            }
            kind => format!("yaml: {kind}"),
        }
    }
}

fn keys(duplicates: &[DuplicateKey]) -> String {
    let keys: Vec<_> = duplicates
        .iter()
        .map(|duplicate| duplicate.key.as_str())
        .collect();
    keys.join(", ")
}
