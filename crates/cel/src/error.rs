//! Compile and evaluation errors, with the texts of cel-go, because users and tools search for them.

use std::fmt;

use crate::limits::MAX_ISSUES;

/// The errors of an expression, with their positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    source: String,
    issues: Vec<Issue>,
}

/// One error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Issue {
    /// In characters from the beginning of the expression; `None` if it concerns the whole.
    pub(crate) offset: Option<u32>,
    pub(crate) message: String,
}

impl Issue {
    pub(crate) fn at(offset: u32, message: impl Into<String>) -> Self {
        Self {
            offset: Some(offset),
            message: message.into(),
        }
    }

    pub(crate) fn of_the_whole(message: impl Into<String>) -> Self {
        Self {
            offset: None,
            message: message.into(),
        }
    }
}

impl CompileError {
    pub(crate) fn new(source: &str, mut issues: Vec<Issue>) -> Self {
        issues.sort_by_key(|issue| issue.offset);
        issues.dedup();
        issues.truncate(MAX_ISSUES);
        Self {
            source: source.to_owned(),
            issues,
        }
    }
}

impl std::error::Error for CompileError {}

impl fmt::Display for CompileError {
    /// Each error with its line and a pointer to the position:
    ///
    /// ```text
    /// ERROR: <input>:1:5: undefined field 'b'
    ///  | self.b == 1
    ///  | ....^
    /// ```
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, issue) in self.issues.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            let Some(offset) = issue.offset else {
                write!(f, "ERROR: <input>:-1:0: {}", issue.message)?;
                continue;
            };
            if self.source.is_empty() {
                write!(f, "ERROR: <input>:1:0: {}", issue.message)?;
                continue;
            }
            let (line, column, text) = self.place(offset);
            let (text, dots) = (text.replace('\t', " "), ".".repeat(column));
            let number = column + 1;
            write!(
                f,
                "ERROR: <input>:{line}:{number}: {}\n | {text}\n | {dots}^",
                issue.message
            )?;
        }
        Ok(())
    }
}

impl CompileError {
    /// The line of an offset (from one), the column in it (from zero), and its text.
    fn place(&self, offset: u32) -> (usize, usize, &str) {
        let mut start = 0;
        for (number, line) in self.source.split('\n').enumerate() {
            let (length, wanted) = (line.chars().count(), offset as usize);
            if wanted <= start + length {
                return (number + 1, wanted - start, line);
            }
            start += length + 1;
        }
        (1, 0, "")
    }
}

/// The reason an evaluation has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// The cost budget is used up. No operator absorbs this error.
    #[error("operation cancelled: actual cost limit exceeded")]
    CostExceeded,
    /// The function does not accept values of these types.
    #[error("no such overload")]
    NoSuchOverload,
    /// A map or an object has no such key.
    #[error("no such key: {0}")]
    NoSuchKey(String),
    /// A list has no such index.
    #[error("index out of bounds: {0}")]
    IndexOutOfBounds(i64),
    /// Division by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// Modulus by zero.
    #[error("modulus by zero")]
    ModulusByZero,
    /// A number does not fit its type.
    #[error("{0} overflow")]
    Overflow(&'static str),
    /// An error of the function.
    #[error("{0}")]
    Failed(String),
}

impl EvalError {
    pub(crate) fn failed(why: impl Into<String>) -> Self {
        Self::Failed(why.into())
    }
}
