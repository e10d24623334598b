//! The type checker. It resolves every name and call before anything is evaluated and reports errors with their
//! position, so that evaluation needs no look-ups.

mod folds;
mod unify;

use std::collections::HashMap;
use std::sync::Arc;

use regex::Regex;

use self::unify::Bindings;
use crate::ast::{Ast, Expr, Id, Literal, MessageField, Select};
use crate::declared::Declared;
use crate::error::Issue;
use crate::functions::time::{parse_duration, parse_timestamp};
use crate::functions::{self, Declaration, Function};
use crate::patch_types;
use crate::pattern;
use crate::types::{Signature, Type};

/// The namespace of the functions only patches may use.
const JSON_POINTERS: &str = "jsonpatch";

/// The results of checking a tree.
#[derive(Debug)]
pub(crate) struct Checked {
    /// The type of each node.
    pub(crate) types: Vec<Type>,
    /// The meaning of each node's name.
    pub(crate) meanings: Vec<Meaning>,
    /// Compiled literal patterns, by the calls that use them.
    pub(crate) patterns: HashMap<Id, Regex>,
    /// True for each variable that is used.
    pub(crate) used: Vec<bool>,
    pub(crate) result: Type,
}

/// The meaning of a name.
#[derive(Clone, Copy)]
pub(crate) enum Meaning {
    None,
    /// A variable, by its index.
    Variable(usize),
    /// A macro variable, counted from the outermost.
    Local(usize),
    /// A type.
    Type,
    /// A function, and true if it is called on a target that is not part of its name.
    Function(&'static Function, bool),
}

impl std::fmt::Debug for Meaning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Variable(number) => write!(f, "Variable({number})"),
            Self::Local(number) => write!(f, "Local({number})"),
            Self::Type => f.write_str("Type"),
            Self::Function(function, _) => f.write_str(function.name),
        }
    }
}

/// Checks a tree against the declared variables.
pub(crate) fn check(
    ast: &Ast,
    root: Id,
    variables: &[(String, Declared)],
    makes_patches: bool,
) -> Result<Checked, Vec<Issue>> {
    let mut checker = Checker {
        ast,
        variables,
        locals: Vec::new(),
        bindings: Bindings::default(),
        issues: Vec::new(),
        may_mix: false,
        makes_patches,
        checked: Checked {
            types: vec![Type::Error; ast.len()],
            meanings: vec![Meaning::None; ast.len()],
            patterns: HashMap::new(),
            used: vec![false; variables.len()],
            result: Type::Error,
        },
    };
    let result = checker.expr(root);
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    let Checker {
        bindings,
        mut checked,
        ..
    } = checker;
    for found in &mut checked.types {
        *found = bindings.settled(found);
    }
    checked.result = bindings.settled(&result);
    Ok(checked)
}

struct Checker<'c> {
    ast: &'c Ast,
    variables: &'c [(String, Declared)],
    locals: Vec<(&'c str, Type)>,
    bindings: Bindings,
    issues: Vec<Issue>,
    /// True if lists may mix types, as the argument of `format` may.
    may_mix: bool,
    /// True if the types of patches are declared.
    makes_patches: bool,
    checked: Checked,
}

impl<'c> Checker<'c> {
    fn expr(&mut self, id: Id) -> Type {
        let ast = self.ast;
        let found = match ast.expr(id) {
            Expr::Literal(literal) => literal_type(literal),
            Expr::Ident(name) => self.name(id, name),
            Expr::Select { operand, field, mode } => self.select(id, *operand, field, *mode),
            Expr::Call {
                function,
                target,
                arguments,
            } => self.call(id, function, *target, arguments),
            Expr::List(items) => {
                let mut of = None;
                for item in items {
                    let found = self.element(item.value, item.is_optional);
                    of = Some(self.joined(of, found, item.value));
                }
                Type::list(of.unwrap_or_else(|| self.bindings.fresh()))
            }
            Expr::Map(entries) => {
                let (mut keys, mut values) = (None, None);
                for entry in entries {
                    let key = self.key(entry.key);
                    keys = Some(self.joined(keys, key, entry.key));
                    let value = self.element(entry.value, entry.is_optional);
                    values = Some(self.joined(values, value, entry.value));
                }
                let keys = keys.unwrap_or_else(|| self.bindings.fresh());
                Type::map(keys, values.unwrap_or_else(|| self.bindings.fresh()))
            }
            Expr::Message { name, fields } => self.message(id, name, fields),
            Expr::Fold(fold) => self.fold(fold),
            Expr::OptionalMap {
                target,
                name,
                body,
                is_flat,
            } => self.optional_map(*target, name, *body, *is_flat),
        };
        self.checked.types[id as usize] = found.clone();
        found
    }

    fn issue(&mut self, id: Id, message: String) {
        self.issues.push(Issue::at(self.ast.offset(id), message));
    }

    fn undeclared(&mut self, id: Id, name: &str) {
        self.issue(id, format!("undeclared reference to '{name}' (in container '')"));
    }

    fn means(&mut self, id: Id, meaning: Meaning) {
        self.checked.meanings[id as usize] = meaning;
    }

    fn is_local_or_variable(&self, name: &str) -> bool {
        self.locals.iter().any(|(it, _)| *it == name) || self.variables.iter().any(|(it, _)| it == name)
    }

    fn name(&mut self, id: Id, name: &str) -> Type {
        if let Some(index) = self.locals.iter().rposition(|(it, _)| *it == name) {
            self.means(id, Meaning::Local(index));
            return self.locals[index].1.clone();
        }
        if let Some(index) = self.variables.iter().position(|(it, _)| it == name) {
            self.means(id, Meaning::Variable(index));
            self.checked.used[index] = true;
            return self.variables[index].1.to_type();
        }
        match self.named_type(name) {
            Some(named) => {
                self.means(id, Meaning::Type);
                Type::Type(Arc::new(named))
            }
            None => {
                self.undeclared(id, name);
                Type::Error
            }
        }
    }

    /// The type a name denotes.
    fn named_type(&self, name: &str) -> Option<Type> {
        let of_patches = || self.makes_patches.then(|| patch_types::named(name)).flatten();
        Type::named(name).or_else(of_patches)
    }

    /// A variable whose own name has a dot: `authorizer.requestResource`.
    fn dotted_variable(&mut self, id: Id) -> Option<Type> {
        let name = self.ast.qualified_name(id)?;
        let index = self.variables.iter().position(|(it, _)| *it == name)?;
        let root = self.root_name(id);
        if self.locals.iter().any(|(it, _)| Some(*it) == root) {
            return None;
        }
        self.means(id, Meaning::Variable(index));
        self.checked.used[index] = true;
        Some(self.variables[index].1.to_type())
    }

    /// A value of a named type. Each field must have its declared type.
    fn message(&mut self, id: Id, name: &str, fields: &[MessageField]) -> Type {
        let declared = self.named_type(name).filter(|it| matches!(it, Type::Message(_)));
        if declared.is_none() {
            self.undeclared(id, name);
        }
        for field in fields {
            let found = self.element(field.value, field.is_optional);
            let wanted = declared.as_ref().map(|_| patch_types::field(name, &field.name));
            let Some(wanted) = wanted else { continue };
            if !wanted
                .as_ref()
                .is_some_and(|wanted| self.bindings.assign(&found, wanted))
            {
                let wanted = wanted.map_or_else(String::new, |wanted| wanted.to_string());
                let (name, found) = (&field.name, self.bindings.settled(&found));
                let why =
                    format!("expected type of field '{name}' is '{wanted}' but provided type is '{found}'");
                self.issues.push(Issue::at(field.offset, why));
            }
        }
        declared.unwrap_or(Type::Error)
    }

    /// The first name of `a.b.c`.
    fn root_name(&self, mut id: Id) -> Option<&'c str> {
        loop {
            match self.ast.expr(id) {
                Expr::Ident(name) => return Some(name),
                Expr::Select { operand, .. } => id = *operand,
                _ => return None,
            }
        }
    }

    fn select(&mut self, id: Id, operand: Id, field: &str, mode: Select) -> Type {
        let is_free = self
            .root_name(id)
            .is_some_and(|name| !self.is_local_or_variable(name));
        if mode == Select::Plain
            && is_free
            && let Some(name) = self.ast.qualified_name(id)
            && let Some(named) = self.named_type(&name)
        {
            self.means(id, Meaning::Type);
            return Type::Type(Arc::new(named));
        }
        if mode == Select::Plain
            && let Some(found) = self.dotted_variable(id)
        {
            return found;
        }
        let of = self.expr(operand);
        let of = self.bindings.settled(&of);
        let (of, was_optional) = match &of {
            Type::Optional(inner) => ((**inner).clone(), true),
            _ => (of, false),
        };
        let found = match &of {
            Type::Object(object) => match object.fields.get(field) {
                Some(field) => field.declared.to_type(),
                None => {
                    self.issue(id, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Map(_, values) => (**values).clone(),
            Type::Message(name) => match patch_types::field(name, field) {
                Some(found) => found,
                None => {
                    self.issue(id, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Dyn | Type::Error | Type::Param(_) => Type::Dyn,
            other => {
                self.issue(id, format!("type '{other}' does not support field selection"));
                Type::Error
            }
        };
        match mode {
            Select::Test => Type::Bool,
            Select::Plain if !was_optional => found,
            _ => Type::optional(found),
        }
    }

    fn call(&mut self, id: Id, function: &str, target: Option<Id>, arguments: &[Id]) -> Type {
        // `ip.isCanonical(x)` is a function of that name, unless `ip` is a variable.
        if let Some(prefix) = target
            && let Some(name) = self.ast.qualified_name(prefix)
            && (self.makes_patches || name != JSON_POINTERS)
            && self
                .root_name(prefix)
                .is_some_and(|root| !self.is_local_or_variable(root))
            && let Some(declaration) = functions::find(&format!("{name}.{function}"))
        {
            return self.resolve(id, declaration, None, arguments);
        }
        match functions::find(function) {
            Some(declaration) => self.resolve(id, declaration, target, arguments),
            None => {
                let all = target.iter().chain(arguments);
                all.for_each(|argument| {
                    self.expr(*argument);
                });
                self.undeclared(id, function);
                Type::Error
            }
        }
    }

    /// The type of a call: that of the matching signatures.
    fn resolve(
        &mut self,
        id: Id,
        declaration: &'static Declaration,
        target: Option<Id>,
        arguments: &[Id],
    ) -> Type {
        let on = target.map(|target| self.expr(target));
        let could_mix = self.may_mix;
        self.may_mix |= declaration.function.name == "format";
        let taken: Vec<Type> = arguments.iter().map(|argument| self.expr(*argument)).collect();
        self.may_mix = could_mix;
        self.means(id, Meaning::Function(declaration.function, target.is_some()));
        let mut result: Option<Type> = None;
        for signature in &declaration.signatures {
            let Some(found) = self.fits(signature, on.as_ref(), &taken) else {
                continue;
            };
            result = Some(match result {
                None => found,
                Some(before) if before == found => found,
                Some(_) => Type::Dyn,
            });
        }
        self.check_literal(id, declaration.function.name, arguments, target.is_some());
        result.unwrap_or_else(|| {
            let taken: Vec<String> = taken
                .iter()
                .map(|it| self.bindings.settled(it).to_string())
                .collect();
            let taken = taken.join(", ");
            let signature = match &on {
                Some(on) => format!("{}.({taken})", self.bindings.settled(on)),
                None => format!("({taken})"),
            };
            let function = declaration.function.name;
            let why = format!("found no matching overload for '{function}' applied to '{signature}'");
            self.issue(id, why);
            Type::Error
        })
    }

    /// The result type of a signature for these argument types; its bindings are kept if it matches.
    fn fits(&mut self, signature: &Signature, on: Option<&Type>, taken: &[Type]) -> Option<Type> {
        if signature.arguments.len() != taken.len() || signature.target.is_some() != on.is_some() {
            return None;
        }
        let before = self.bindings.mark();
        let params = [self.bindings.fresh(), self.bindings.fresh()];
        let formals = signature.target.iter().chain(&signature.arguments);
        let actuals = on.into_iter().chain(taken);
        for (formal, actual) in formals.zip(actuals) {
            if !self.bindings.assign(actual, &instantiate(formal, &params)) {
                self.bindings.undo(before);
                return None;
            }
        }
        let result = instantiate(&signature.result, &params);
        Some(self.bindings.settled_or_open(&result))
    }

    /// Reports invalid literals at compile time. Literal patterns are compiled here, once.
    fn check_literal(&mut self, id: Id, function: &str, arguments: &[Id], is_member: bool) {
        let literal = match function {
            "matches" | "find" | "findAll" => arguments.get(usize::from(!is_member)),
            "duration" | "timestamp" => arguments.first(),
            _ => None,
        };
        let Some(literal) = literal else { return };
        let Expr::Literal(Literal::String(text)) = self.ast.expr(*literal) else {
            return;
        };
        let is_valid = match function {
            "duration" => parse_duration(text).is_ok(),
            "timestamp" => parse_timestamp(text).is_ok(),
            _ => match pattern::compile(text) {
                Ok(compiled) => {
                    self.checked.patterns.insert(id, compiled);
                    true
                }
                Err(_) => false,
            },
        };
        if !is_valid {
            self.issue(*literal, format!("invalid {function} argument"));
        }
    }

    /// An item of a list or map; for an optional one, the type it contains.
    fn element(&mut self, id: Id, is_optional: bool) -> Type {
        let found = self.expr(id);
        if !is_optional {
            return found;
        }
        match self.bindings.settled(&found) {
            Type::Optional(of) => (*of).clone(),
            other if other.is_dyn() => Type::Dyn,
            other => {
                let why = format!("expected type 'optional_type(dyn)' but found '{other}'");
                self.issue(id, why);
                Type::Error
            }
        }
    }

    /// A key of a map. Invalid key types are detected during evaluation; the type is not needed before.
    fn key(&mut self, id: Id) -> Type {
        let found = self.expr(id);
        match self.bindings.settled(&found) {
            Type::List(_) | Type::Map(..) | Type::Optional(_) | Type::Type(_) | Type::Object(_) => Type::Dyn,
            _ => found,
        }
    }

    /// The items of a list must have one type.
    fn joined(&mut self, before: Option<Type>, found: Type, id: Id) -> Type {
        let Some(before) = before else { return found };
        if self.bindings.assign(&found, &before) {
            return match found.is_dyn() {
                true => Type::Dyn,
                false => before,
            };
        }
        if self.may_mix {
            return Type::Dyn;
        }
        let (wanted, found) = (self.bindings.settled(&before), self.bindings.settled(&found));
        self.issue(id, format!("expected type '{wanted}' but found '{found}'"));
        Type::Error
    }

    fn expect(&mut self, id: Id, wanted: &Type) {
        let found = self.expr(id);
        if !self.bindings.assign(&found, wanted) {
            let found = self.bindings.settled(&found);
            self.issue(id, format!("expected type '{wanted}' but found '{found}'"));
        }
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

/// A signature's type with its type parameters replaced for one call.
fn instantiate(formal: &Type, params: &[Type; 2]) -> Type {
    match formal {
        Type::Param(number) => params[*number as usize].clone(),
        Type::List(of) => Type::list(instantiate(of, params)),
        Type::Optional(of) => Type::optional(instantiate(of, params)),
        Type::Type(of) => Type::Type(Arc::new(instantiate(of, params))),
        Type::Map(keys, values) => Type::map(instantiate(keys, params), instantiate(values, params)),
        other => other.clone(),
    }
}
