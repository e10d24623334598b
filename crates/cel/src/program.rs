//! A parsed and checked expression: compiled once, evaluated often, from any thread.

use crate::ast::{Ast, Id};
use crate::check::{Checked, check};
use crate::declared::Declared;
use crate::error::CompileError;
use crate::estimate::estimate;
use crate::eval::{Evaluation, evaluate};
use crate::parser::parse;
use crate::types::Type;
use crate::value::Value;

/// The variables of expressions, with their declarations.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: Vec<(String, Declared)>,
    makes_patches: bool,
}

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    ast: Ast,
    root: Id,
    checked: Checked,
    max_cost: u64,
}

impl Environment {
    /// An environment without variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares a variable. Evaluations get values in the order of declarations.
    pub fn declare(mut self, name: &str, declared: Declared) -> Self {
        self.variables.push((name.to_owned(), declared));
        self
    }

    /// Declares the types of patches: `Object{…}` and `JSONPatch{…}`.
    pub fn with_patch_types(mut self) -> Self {
        self.makes_patches = true;
        self
    }

    /// Compiles an expression, or returns all its errors.
    pub fn compile(&self, source: &str) -> Result<Program, CompileError> {
        let (ast, root) = parse(source).map_err(|issue| CompileError::new(source, vec![issue]))?;
        let checked = check(&ast, root, &self.variables, self.makes_patches)
            .map_err(|issues| CompileError::new(source, issues))?;
        let max_cost = estimate(&ast, root, &checked, &self.variables);
        Ok(Program {
            ast,
            root,
            checked,
            max_cost,
        })
    }
}

impl Program {
    /// The type of the result.
    pub fn result_type(&self) -> &Type {
        &self.checked.result
    }

    /// True if it uses the variable of this index.
    pub fn uses(&self, variable: usize) -> bool {
        self.checked.used.get(variable).copied().unwrap_or(false)
    }

    /// The maximum cost of an evaluation, from the declared sizes of its variables.
    pub fn max_cost(&self) -> u64 {
        self.max_cost
    }

    /// Evaluates it with a value for each variable, in the order of declaration.
    pub fn evaluate<'a>(&'a self, variables: &[Value<'a>], budget: u64) -> Evaluation<'a> {
        evaluate(self, variables, budget)
    }

    pub(crate) fn ast(&self) -> &Ast {
        &self.ast
    }

    pub(crate) fn root(&self) -> Id {
        self.root
    }

    pub(crate) fn checked(&self) -> &Checked {
        &self.checked
    }
}
