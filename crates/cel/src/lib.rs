//! The Common Expression Language as used by Kubernetes.
//!
//! ```text
//! text ─▶ lexer ─▶ parser (macros) ─▶ check (types, names, signatures) ─▶ Program
//! Program + JSON, borrowed ─▶ eval, against a budget ─▶ value or error
//! ```
//!
//! Error texts are cel-go's, because users and tests search for them. Costs are in cel-go's units, because Kubernetes
//! accepts and refuses definitions by them. Everything that could grow has a limit in [`limits`], patterns take
//! linear time, and an evaluation stops when its budget is used up. This crate knows the language and Kubernetes'
//! function libraries; it knows nothing of schemas, objects or requests.
//!
//! Existing crates have no type checker and no budget: a definition that Kubernetes refuses would be accepted, and an
//! expression could keep a server busy.
//!
//! ```
//! use serde_json::json;
//! use watchkeeper_cel::{Declared, Environment, Shape, Value};
//!
//! let environment = Environment::new().declare("self", Declared::plain(Shape::Int));
//! let rule = environment.compile("self > 1 && self < 10")?;
//! let object = json!(5);
//! let evaluation = rule.evaluate(&[Value::dynamic(&object)], 100);
//! assert_eq!(evaluation.result?.as_bool(), Some(true));
//! assert_eq!(environment.compile("self.b").unwrap_err().to_string(), "\
//! ERROR: <input>:1:5: type 'int' does not support field selection
//!  | self.b
//!  | ....^");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod ast;
pub mod authorizer;
mod check;
mod declared;
mod error;
mod estimate;
mod eval;
mod functions;
mod lexer;
pub mod limits;
mod parser;
pub mod patch_types;
pub mod pattern;
mod print;
mod program;
mod types;
mod value;

pub use declared::{Declared, Field, Identity, List, Object, Shape, escape};
pub use error::{CompileError, EvalError};
pub use eval::Evaluation;
pub use program::{Environment, Program};
pub use types::Type;
pub use value::{Message, Text, Value};

/// Parses an expression and prints it with every operator in parentheses.
pub fn normalize(source: &str) -> Result<String, CompileError> {
    let (ast, root) = parser::parse(source).map_err(|issue| CompileError::new(source, vec![issue]))?;
    Ok(print::print(&ast, root))
}

/// Runs the program of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
