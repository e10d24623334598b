//! Prints a tree as an expression with the same tree, for tests and debugging.

use std::fmt::Write;

use crate::ast::{Ast, Expr, FoldKind, Id, Literal, Select};

/// Prints a tree with every call and operator in parentheses.
pub(crate) fn print(ast: &Ast, root: Id) -> String {
    let mut out = String::new();
    write_expr(ast, root, &mut out);
    out
}

fn write_expr(ast: &Ast, id: Id, out: &mut String) {
    match ast.expr(id) {
        Expr::Literal(literal) => write_literal(literal, out),
        Expr::Ident(name) => out.push_str(name),
        Expr::Select { operand, field, mode } => {
            let (open, dot, close) = match mode {
                Select::Plain => ("", ".", ""),
                Select::Test => ("has(", ".", ")"),
                Select::Optional => ("", ".?", ""),
            };
            out.push_str(open);
            write_expr(ast, *operand, out);
            let is_plain = field.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            let quote = if is_plain { "" } else { "`" };
            let _ = write!(out, "{dot}{quote}{field}{quote}{close}");
        }
        Expr::Call {
            function,
            target,
            arguments,
        } => write_call(ast, function, *target, arguments, out),
        Expr::List(items) => {
            let optional = |is: bool| if is { "?" } else { "" };
            write_all(out, "[", "]", items, |item, out| {
                out.push_str(optional(item.is_optional));
                write_expr(ast, item.value, out);
            });
        }
        Expr::Map(entries) => write_all(out, "{", "}", entries, |entry, out| {
            out.push_str(if entry.is_optional { "?" } else { "" });
            write_expr(ast, entry.key, out);
            out.push_str(": ");
            write_expr(ast, entry.value, out);
        }),
        Expr::Message { name, fields } => {
            out.push_str(name);
            write_all(out, "{", "}", fields, |field, out| {
                let optional = if field.is_optional { "?" } else { "" };
                let _ = write!(out, "{optional}{}: ", field.name);
                write_expr(ast, field.value, out);
            });
        }
        Expr::Fold(fold) => {
            write_expr(ast, fold.range, out);
            let second = fold.second.iter().map(|name| format!(", {name}"));
            let _ = write!(
                out,
                ".{}({}{}",
                fold_name(fold.kind),
                fold.name,
                second.collect::<String>()
            );
            for body in [fold.condition, fold.transform].into_iter().flatten() {
                out.push_str(", ");
                write_expr(ast, body, out);
            }
            out.push(')');
        }
        Expr::OptionalMap {
            target,
            name,
            body,
            is_flat,
        } => {
            write_expr(ast, *target, out);
            let function = if *is_flat { "optFlatMap" } else { "optMap" };
            let _ = write!(out, ".{function}({name}, ");
            write_expr(ast, *body, out);
            out.push(')');
        }
    }
}

fn fold_name(kind: FoldKind) -> &'static str {
    match kind {
        FoldKind::All => "all",
        FoldKind::Exists => "exists",
        FoldKind::ExistsOne => "exists_one",
        FoldKind::Map => "map",
        FoldKind::Filter => "filter",
        FoldKind::TransformList => "transformList",
        FoldKind::TransformMap => "transformMap",
        FoldKind::TransformMapEntry => "transformMapEntry",
    }
}

fn write_call(ast: &Ast, function: &str, target: Option<Id>, arguments: &[Id], out: &mut String) {
    match (function, arguments) {
        ("_?_:_", [condition, yes, no]) => {
            write_all(out, "(", ")", &[()], |(), out| {
                write_expr(ast, *condition, out);
                out.push_str(" ? ");
                write_expr(ast, *yes, out);
                out.push_str(" : ");
                write_expr(ast, *no, out);
            });
        }
        ("_[_]" | "_[?_]", [operand, index]) => {
            write_expr(ast, *operand, out);
            out.push_str(if function == "_[_]" { "[" } else { "[?" });
            write_expr(ast, *index, out);
            out.push(']');
        }
        ("!_" | "-_", [operand]) => {
            // The operand is in parentheses: two signs in a row would cancel out.
            let _ = write!(out, "({}(", &function[..1]);
            write_expr(ast, *operand, out);
            out.push_str("))");
        }
        (_, [left, right]) if target.is_none() && is_operator(function) => {
            let operator = function.trim_matches(['_', '@']);
            out.push('(');
            write_expr(ast, *left, out);
            let _ = write!(out, " {operator} ");
            write_expr(ast, *right, out);
            out.push(')');
        }
        _ => {
            if let Some(target) = target {
                write_expr(ast, target, out);
                out.push('.');
            }
            out.push_str(function);
            write_all(out, "(", ")", arguments, |argument, out| {
                write_expr(ast, *argument, out)
            });
        }
    }
}

/// `_+_` and `@in`, not `_name`, which is an ordinary function.
fn is_operator(function: &str) -> bool {
    let symbol = function.trim_matches('_');
    let is_symbol = !symbol.is_empty() && symbol.chars().all(|c| c.is_ascii_punctuation() && c != '_');
    function == "@in" || (function.starts_with('_') && is_symbol)
}

fn write_all<T>(
    out: &mut String,
    open: &str,
    close: &str,
    items: &[T],
    mut write: impl FnMut(&T, &mut String),
) {
    out.push_str(open);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        write(item, out);
    }
    out.push_str(close);
}

fn write_literal(literal: &Literal, out: &mut String) {
    let _ = match literal {
        Literal::Null => write!(out, "null"),
        Literal::Bool(value) => write!(out, "{value}"),
        // In parentheses, so that a negative number is not read as a sign.
        Literal::Int(value) if *value < 0 => write!(out, "({value})"),
        Literal::Int(value) => write!(out, "{value}"),
        Literal::Uint(value) => write!(out, "{value}u"),
        Literal::Double(value) if value.is_sign_negative() => write!(out, "({value:e})"),
        Literal::Double(value) => write!(out, "{value:e}"),
        Literal::String(text) => write!(out, "\"{}\"", escaped(text.chars())),
        Literal::Bytes(bytes) => {
            let hex: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
            write!(out, "b\"{hex}\"")
        }
    };
}

fn escaped(text: impl Iterator<Item = char>) -> String {
    text.map(|c| match c {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        c if c.is_control() => format!("\\U{:08x}", c as u32),
        c => c.to_string(),
    })
    .collect()
}
