//! What can be wrong with YAML, and where.

use super::{ALIAS_LIMIT, DuplicateKey, OBJECT_LIMIT};
use crate::limits::NESTING_LIMIT;
use crate::tree_size::TREE_LIMIT;

/// A document that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("document {}, line {line}: {kind}", index + 1)]
pub struct YamlError {
    /// Which document of the stream, from 0.
    pub index: usize,
    /// The line within the whole stream, from 1.
    pub line: usize,
    /// What is wrong there.
    pub kind: YamlErrorKind,
}

/// What can be wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum YamlErrorKind {
    /// It is not YAML.
    #[error("{problem}")]
    Syntax {
        /// What the scanner or the parser missed.
        problem: &'static str,
        /// The line as kubectl counts it: within the document, and often one too few.
        go_line: Option<u64>,
    },
    /// Its bytes are not text.
    #[error("invalid UTF-8")]
    Utf8,
    /// Longer than any object.
    #[error("longer than {OBJECT_LIMIT} bytes")]
    TooLarge,
    /// Nested deeper than any object.
    #[error("nested deeper than {NESTING_LIMIT} levels")]
    TooDeep,
    /// Its aliases stand for more than a document may hold.
    #[error("aliases expand to more than {ALIAS_LIMIT} bytes")]
    TooManyAliases,
    /// It becomes a larger tree of values than any object is.
    #[error("more than {TREE_LIMIT} values")]
    TooManyValues,
    /// An alias without its anchor.
    #[error("unknown anchor '{0}' referenced")]
    UnknownAnchor(String),
    /// An alias within its own anchor.
    #[error("anchor '{0}' value contains itself")]
    RecursiveAnchor(String),
    /// `<<` with something that has no keys.
    #[error("map merge requires map or sequence of maps as the value")]
    Merge,
    /// A key that no JSON text can stand for.
    #[error("unsupported map key of type {0}")]
    Key(&'static str),
    /// A tag that its value does not have.
    #[error("cannot decode {found} `{text}` as a {tag}")]
    Tag {
        /// What the value is.
        found: &'static str,
        /// How it is written.
        text: String,
        /// What it should be.
        tag: &'static str,
    },
    /// `!!binary` that is no base64.
    #[error("!!binary value contains invalid base64 data")]
    Base64,
    /// A number JSON does not have.
    #[error("unsupported value: {0}")]
    Number(&'static str),
    /// Keys set twice in a document that must not.
    #[error("keys set more than once: {}", keys(.0))]
    Duplicates(Vec<DuplicateKey>),
    /// A separator that is none: text after the dashes.
    #[error("invalid Yaml document separator: {0}")]
    Separator(String),
    /// A document without a separator line of its own, which kubectl would pass over in silence.
    #[error("a second document without a '---' line before it")]
    SecondDocument,
    /// Good YAML that does not fit the type it is read into.
    #[error("{0}")]
    Decode(String),
}

impl YamlError {
    pub(super) fn new(index: usize, line: usize, kind: YamlErrorKind) -> Self {
        Self { index, line, kind }
    }

    /// The words of Kubernetes' own YAML library, for answers that must read as the API server's.
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
