//! A subset of Go's text templates, as the stages of KWOK use them.
//!
//! Known are text, `{{ pipeline }}`, variables (`{{ $now := Now }}`), `if`/`else if`/`else`, `range`, `with`, comments and
//! trim markers; fields (`.spec.nodeName`), literals, parentheses and the functions of [`functions`](super::functions).
//! Anything else is refused when the template is read, with its place, so that a stage never does half of what it says.

use std::collections::HashMap;

use serde_json::Value;

use super::functions::{self, Surroundings};

/// The most text a template may produce; an object is not larger.
const MOST_TEXT: usize = 3 << 20;

/// The deepest nesting of blocks and parentheses.
const DEEPEST: usize = 32;

/// A template that cannot be read or executed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TemplateError(pub(super) String);

pub(super) fn refused(why: impl Into<String>) -> TemplateError {
    TemplateError(why.into())
}

/// A parsed template.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Template(Vec<Node>);

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Text(String),
    Print(Pipeline),
    /// `$name := pipeline` or `$name = pipeline`.
    Set(String, Pipeline),
    If(Pipeline, Vec<Node>, Vec<Node>),
    With(Pipeline, Vec<Node>, Vec<Node>),
    Range(Range),
}

#[derive(Clone, Debug, PartialEq)]
struct Range {
    /// The names of index and element, if they are given.
    names: Vec<String>,
    over: Pipeline,
    each: Vec<Node>,
    none: Vec<Node>,
}

/// Commands, each with the result of the previous one as its last argument.
#[derive(Clone, Debug, PartialEq)]
struct Pipeline(Vec<Command>);

#[derive(Clone, Debug, PartialEq)]
enum Command {
    Value(Operand),
    Call(String, Vec<Operand>),
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Literal(Value),
    /// A variable, or the dot if the name is empty, and fields below it.
    Path(String, Vec<String>),
    Group(Box<Pipeline>, Vec<String>),
    /// A function without arguments.
    Function(String),
}

/// A piece of a template: text, or an action with the text between its braces.
enum Piece<'a> {
    Text(&'a str),
    Action(&'a str),
}

impl Template {
    pub(super) fn parse(text: &str) -> Result<Self, TemplateError> {
        let pieces = pieces(text)?;
        let mut parser = Parser {
            pieces: &pieces,
            at: 0,
        };
        let (nodes, end) = parser.block(0)?;
        match end {
            None => Ok(Self(nodes)),
            Some(end) => Err(refused(format!("unexpected {{{{ {end} }}}}"))),
        }
    }

    /// The text for an object.
    pub(super) fn render(
        &self,
        object: &Value,
        surroundings: &dyn Surroundings,
    ) -> Result<String, TemplateError> {
        let mut writer = Writer {
            out: String::new(),
            variables: HashMap::from([("$".to_owned(), object.clone())]),
            surroundings,
        };
        writer.write(&self.0, object)?;
        Ok(writer.out)
    }
}

/// Cuts a template at its braces. Trim markers are applied.
fn pieces(text: &str) -> Result<Vec<Piece<'_>>, TemplateError> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut trims = false;
    while let Some(start) = rest.find("{{") {
        let (before, action) = (&rest[..start], &rest[start + 2..]);
        let end = action
            .find("}}")
            .ok_or_else(|| refused("unclosed action: {{ without }}"))?;
        let inner = &action[..end];
        let before = if trims { before.trim_start() } else { before };
        let trims_before = inner.starts_with("- ") || inner == "-";
        pieces.push(Piece::Text(if trims_before { before.trim_end() } else { before }));
        trims = inner.ends_with(" -");
        let inner = inner.strip_prefix('-').filter(|_| trims_before).unwrap_or(inner);
        let inner = inner.strip_suffix('-').filter(|_| trims).unwrap_or(inner).trim();
        if !inner.starts_with("/*") {
            pieces.push(Piece::Action(inner));
        }
        rest = &action[end + 2..];
    }
    pieces.push(Piece::Text(if trims { rest.trim_start() } else { rest }));
    Ok(pieces)
}

struct Parser<'a> {
    pieces: &'a [Piece<'a>],
    at: usize,
}

impl<'a> Parser<'a> {
    /// Nodes up to `else` or `end`, which is returned, or to the end of the template.
    fn block(&mut self, depth: usize) -> Result<(Vec<Node>, Option<&'a str>), TemplateError> {
        if depth > DEEPEST {
            return Err(refused("blocks are nested too deeply"));
        }
        let mut nodes = Vec::new();
        while let Some(piece) = self.pieces.get(self.at) {
            self.at += 1;
            let action = match piece {
                Piece::Text(text) => {
                    if !text.is_empty() {
                        nodes.push(Node::Text((*text).to_owned()));
                    }
                    continue;
                }
                Piece::Action(action) => *action,
            };
            let (word, rest) = action.split_once(char::is_whitespace).unwrap_or((action, ""));
            match word {
                "end" | "else" => return Ok((nodes, Some(action))),
                "if" | "with" | "range" => nodes.push(self.control(word, rest, depth)?),
                "block" | "define" | "template" | "break" | "continue" => {
                    return Err(refused(format!("{word:?} is not supported")));
                }
                _ => nodes.push(simple(action)?),
            }
        }
        Ok((nodes, None))
    }

    fn control(&mut self, word: &str, head: &str, depth: usize) -> Result<Node, TemplateError> {
        let (names, head) = match word {
            "range" => range_names(head)?,
            _ => (Vec::new(), head),
        };
        let pipeline = Pipeline::parse(head)?;
        let (then, end) = self.block(depth + 1)?;
        let otherwise = self.otherwise(end, depth)?;
        Ok(match word {
            "if" => Node::If(pipeline, then, otherwise),
            "with" => Node::With(pipeline, then, otherwise),
            _ => Node::Range(Range {
                names,
                over: pipeline,
                each: then,
                none: otherwise,
            }),
        })
    }

    fn otherwise(&mut self, end: Option<&str>, depth: usize) -> Result<Vec<Node>, TemplateError> {
        match end {
            Some("end") => Ok(Vec::new()),
            Some("else") => match self.block(depth + 1)? {
                (nodes, Some("end")) => Ok(nodes),
                _ => Err(refused("else without end")),
            },
            // `else if` needs no end of its own.
            Some(chained) if chained.starts_with("else if ") => Ok(vec![self.control(
                "if",
                &chained["else if ".len()..],
                depth + 1,
            )?]),
            Some(other) => Err(refused(format!("unexpected {{{{ {other} }}}}"))),
            None => Err(refused("a block without end")),
        }
    }
}

/// An action that prints or sets a variable.
fn simple(action: &str) -> Result<Node, TemplateError> {
    if let Some((name, value)) = action.split_once('=').filter(|_| action.starts_with('$')) {
        let name = name.strip_suffix(':').unwrap_or(name).trim();
        if is_variable(name) {
            return Ok(Node::Set(name.to_owned(), Pipeline::parse(value)?));
        }
    }
    Ok(Node::Print(Pipeline::parse(action)?))
}

/// `$index, $element := pipeline`, `$element := pipeline` or a pipeline.
fn range_names(head: &str) -> Result<(Vec<String>, &str), TemplateError> {
    let Some((names, over)) = head.split_once(":=") else {
        return Ok((Vec::new(), head));
    };
    let names: Vec<String> = names.split(',').map(|name| name.trim().to_owned()).collect();
    match names.len() <= 2 && names.iter().all(|name| is_variable(name)) {
        true => Ok((names, over)),
        false => Err(refused(format!("range {head:?} is not understood"))),
    }
}

fn is_variable(name: &str) -> bool {
    let word = name.strip_prefix('$').unwrap_or_default();
    !word.is_empty()
        && word
            .chars()
            .all(|letter| letter.is_alphanumeric() || letter == '_')
}

impl Pipeline {
    fn parse(text: &str) -> Result<Self, TemplateError> {
        let tokens = tokens(text)?;
        let mut at = 0;
        let pipeline = Self::read(&tokens, &mut at, 0)?;
        match tokens.get(at) {
            None => Ok(pipeline),
            Some(token) => Err(refused(format!("unexpected {token:?} in {text:?}"))),
        }
    }

    fn read(tokens: &[String], at: &mut usize, depth: usize) -> Result<Self, TemplateError> {
        if depth > DEEPEST {
            return Err(refused("parentheses are nested too deeply"));
        }
        let mut commands = vec![Command::read(tokens, at, depth)?];
        while tokens.get(*at).is_some_and(|token| token == "|") {
            *at += 1;
            commands.push(Command::read(tokens, at, depth)?);
        }
        Ok(Self(commands))
    }
}

impl Command {
    fn read(tokens: &[String], at: &mut usize, depth: usize) -> Result<Self, TemplateError> {
        let mut operands = Vec::new();
        while tokens.get(*at).is_some_and(|token| token != "|" && token != ")") {
            operands.push(Operand::read(tokens, at, depth)?);
        }
        let mut operands = operands.into_iter();
        match (operands.next(), operands.len()) {
            (None, _) => Err(refused("an empty command")),
            (Some(Operand::Function(name)), _) => Ok(Self::Call(name, operands.collect())),
            (Some(operand), 0) => Ok(Self::Value(operand)),
            (Some(_), _) => Err(refused("only a function takes arguments")),
        }
    }
}

impl Operand {
    fn read(tokens: &[String], at: &mut usize, depth: usize) -> Result<Self, TemplateError> {
        let token = &tokens[*at];
        *at += 1;
        if token == "(" {
            let group = Pipeline::read(tokens, at, depth + 1)?;
            if tokens.get(*at).is_none_or(|token| token != ")") {
                return Err(refused("( without )"));
            }
            *at += 1;
            return Ok(Self::Group(Box::new(group), Vec::new()));
        }
        if let Some(quoted) = token.strip_prefix('`') {
            return Ok(Self::Literal(quoted.trim_end_matches('`').into()));
        }
        if let Ok(literal) = serde_json::from_str::<Value>(token) {
            return Ok(Self::Literal(literal));
        }
        match token.as_str() {
            "nil" => Ok(Self::Literal(Value::Null)),
            path if path.starts_with(['.', '$']) => path_of(path),
            name if functions::is_known(name) => Ok(Self::Function(name.to_owned())),
            name => Err(refused(format!("function {name:?} is not supported"))),
        }
    }
}

fn path_of(token: &str) -> Result<Operand, TemplateError> {
    let (variable, path) = match token.strip_prefix('.') {
        Some(path) => ("", path),
        None => token.split_once('.').unwrap_or((token, "")),
    };
    let fields: Vec<String> = path
        .split('.')
        .filter(|field| !field.is_empty())
        .map(str::to_owned)
        .collect();
    let is_plain = |field: &String| {
        field
            .chars()
            .all(|letter| letter.is_alphanumeric() || letter == '_')
    };
    match fields.iter().all(is_plain) && (variable.is_empty() || variable == "$" || is_variable(variable)) {
        true => Ok(Operand::Path(variable.to_owned(), fields)),
        false => Err(refused(format!("{token:?} is not understood"))),
    }
}

/// Words, quoted texts, parentheses and bars.
fn tokens(text: &str) -> Result<Vec<String>, TemplateError> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '(' | ')' | '|' => 1,
            '"' => quoted_length(rest).ok_or_else(|| refused(format!("unclosed text in {text:?}")))?,
            '`' => {
                2 + rest[1..]
                    .find('`')
                    .ok_or_else(|| refused(format!("unclosed text in {text:?}")))?
            }
            _ => rest
                .find(|letter: char| letter.is_whitespace() || "()|\"`".contains(letter))
                .unwrap_or(rest.len()),
        };
        tokens.push(rest[..length].to_owned());
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

fn quoted_length(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (index, letter) in text.char_indices().skip(1) {
        match letter {
            '"' if !escaped => return Some(index + 1),
            letter => escaped = letter == '\\' && !escaped,
        }
    }
    None
}

struct Writer<'a> {
    out: String,
    variables: HashMap<String, Value>,
    surroundings: &'a dyn Surroundings,
}

impl Writer<'_> {
    fn write(&mut self, nodes: &[Node], dot: &Value) -> Result<(), TemplateError> {
        for node in nodes {
            match node {
                Node::Text(text) => self.out.push_str(text),
                Node::Print(pipeline) => {
                    let value = self.value(pipeline, dot)?;
                    self.out.push_str(&functions::text(&value));
                }
                Node::Set(name, pipeline) => {
                    let value = self.value(pipeline, dot)?;
                    self.variables.insert(name.clone(), value);
                }
                Node::If(condition, then, otherwise) => {
                    let holds = functions::holds(&self.value(condition, dot)?);
                    self.write(if holds { then } else { otherwise }, dot)?;
                }
                Node::With(pipeline, then, otherwise) => {
                    let value = self.value(pipeline, dot)?;
                    match functions::holds(&value) {
                        true => self.write(then, &value)?,
                        false => self.write(otherwise, dot)?,
                    }
                }
                Node::Range(range) => self.repeat(range, dot)?,
            }
            if self.out.len() > MOST_TEXT {
                return Err(refused("the template produces too much text"));
            }
        }
        Ok(())
    }

    fn repeat(&mut self, range: &Range, dot: &Value) -> Result<(), TemplateError> {
        let elements: Vec<(Value, Value)> = match self.value(&range.over, dot)? {
            Value::Array(items) => (0..).map(Value::from).zip(items).collect(),
            Value::Object(members) => members
                .into_iter()
                .map(|(key, value)| (key.into(), value))
                .collect(),
            Value::Null => Vec::new(),
            other => return Err(refused(format!("cannot range over {other}"))),
        };
        if elements.is_empty() {
            return self.write(&range.none, dot);
        }
        for (index, element) in elements {
            match range.names.as_slice() {
                [one] => drop(self.variables.insert(one.clone(), element.clone())),
                [first, second] => {
                    self.variables.insert(first.clone(), index);
                    self.variables.insert(second.clone(), element.clone());
                }
                _ => {}
            }
            self.write(&range.each, &element)?;
        }
        Ok(())
    }

    fn value(&self, pipeline: &Pipeline, dot: &Value) -> Result<Value, TemplateError> {
        let mut piped = None;
        for command in &pipeline.0 {
            piped = Some(match command {
                Command::Value(_) if piped.is_some() => return Err(refused("a value cannot be piped into")),
                Command::Value(operand) => self.operand(operand, dot)?,
                Command::Call(name, operands) => {
                    let arguments = operands.iter().map(|operand| self.operand(operand, dot));
                    let mut arguments = arguments.collect::<Result<Vec<_>, _>>()?;
                    arguments.extend(piped.take());
                    functions::call(name, arguments, self.surroundings)?
                }
            });
        }
        Ok(piped.unwrap_or_default())
    }

    fn operand(&self, operand: &Operand, dot: &Value) -> Result<Value, TemplateError> {
        let (root, fields) = match operand {
            Operand::Literal(value) => return Ok(value.clone()),
            Operand::Function(name) => return functions::call(name, Vec::new(), self.surroundings),
            Operand::Group(pipeline, fields) => (self.value(pipeline, dot)?, fields),
            Operand::Path(name, fields) if name.is_empty() => return Ok(below(dot, fields)),
            Operand::Path(name, fields) => {
                let value = self.variables.get(name);
                (
                    value
                        .cloned()
                        .ok_or_else(|| refused(format!("undefined variable {name}")))?,
                    fields,
                )
            }
        };
        Ok(below(&root, fields))
    }
}

/// A missing field is nothing, as in KWOK.
fn below(value: &Value, fields: &[String]) -> Value {
    let found = fields.iter().try_fold(value, |value, field| value.get(field));
    found.cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::functions::tests::Fixed;
    use super::*;

    #[track_caller]
    fn check(template: &str, expected: &str) {
        let pod = json!({"metadata": {"name": "a", "uid": "u"}, "spec": {"nodeName": "n1", "containers": [
            {"name": "one", "image": "i:1"}, {"name": "two", "image": "i:2"}]}, "status": {"addresses": [{"type": "IP"}]}});
        let told = match Template::parse(template) {
            Ok(template) => template
                .render(&pod, &Fixed)
                .unwrap_or_else(|error| format!("! {error}")),
            Err(error) => format!("refused: {error}"),
        };
        assert_eq!(told, expected, "{template}");
    }

    #[test]
    fn the_templates_of_stages_are_executed() {
        check("phase: Running", "phase: Running");
        check(
            "{{ $now := Now }}at: {{ $now | Quote }}",
            "at: \"2026-01-01T00:00:00Z\"",
        );
        check(
            "{{ range .spec.containers }}{{ .name }}={{ .image | Quote }};{{ end }}",
            "one=\"i:1\";two=\"i:2\";",
        );
        check(
            "{{ range $i, $c := .spec.containers }}{{ $i }}{{ $c.name }}{{ end }}",
            "0one1two",
        );
        check(
            "{{ if .spec.hostNetwork }}host{{ else if eq .spec.nodeName \"n1\" }}one{{ else }}none{{ end }}",
            "one",
        );
        check(
            "{{ with .status.addresses }}{{ YAML . 1 }}{{ else }}none{{ end }}",
            "\n  - type: IP",
        );
        check(
            "{{ with .status.none }}{{ . }}{{ else }}{{ $.metadata.name }}{{ end }}",
            "a",
        );
        check("{{ or .metadata.missing .metadata.name }}", "a");
        check("a  {{- /* nothing */ -}}  b", "ab");
        check(
            "{{ NodeIPWith .spec.nodeName }} {{ printf \"%s/%d\" .metadata.uid 7 }}",
            "10.0.0.1 u/7",
        );
        check("{{ range .spec.none }}x{{ else }}nothing{{ end }}", "nothing");
        check("{{ if and (eq 1 1) (not .spec.none) }}yes{{ end }}", "yes");
    }

    #[test]
    fn what_is_not_understood_is_refused_when_it_is_read() {
        check("{{ env \"HOME\" }}", "refused: function \"env\" is not supported");
        check("{{ template \"x\" }}", "refused: \"template\" is not supported");
        check("{{ if .a }}", "refused: a block without end");
        check("{{ end }}", "refused: unexpected {{ end }}");
        check("{{ .a", "refused: unclosed action: {{ without }}");
        check("{{ .a .b }}", "refused: only a function takes arguments");
        check("{{ (eq 1 1 }}", "refused: ( without )");
        check("{{ $x }}", "! undefined variable $x");
        let deep = "{{ if .a }}".repeat(DEEPEST + 2);
        check(&deep, "refused: blocks are nested too deeply");
    }
}
