//! Parses tokens into a tree. Macros become separate nodes here, so that later stages need not know them as calls.

mod macros;

use crate::ast::{Ast, Entry, Expr, Id, Item, Literal, MessageField, Select};
use crate::error::Issue;
use crate::lexer::{Token, TokenKind, tokens};
use crate::limits::{MAX_DEPTH, MAX_EXPRESSION_CHARS};

/// The tokens that can start an operand, as cel-go's parser lists them.
const OPERAND: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, \
                       BYTES, IDENTIFIER}";

/// Reserved identifiers.
pub(crate) const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "namespace",
    "package",
    "return",
    "var",
    "void",
    "while",
];

/// Binary operators from the loosest to the tightest, each with its function.
const LEVELS: [&[(&str, &str)]; 5] = [
    &[("||", "_||_")],
    &[("&&", "_&&_")],
    &[
        ("<", "_<_"),
        ("<=", "_<=_"),
        (">=", "_>=_"),
        (">", "_>_"),
        ("==", "_==_"),
        ("!=", "_!=_"),
        ("in", "@in"),
    ],
    &[("+", "_+_"), ("-", "_-_")],
    &[("*", "_*_"), ("/", "_/_"), ("%", "_%_")],
];

/// The number of levels of `||` and `&&`.
const CHAINED: usize = 2;

/// A tree and its root.
pub(crate) fn parse(source: &str) -> Result<(Ast, Id), Issue> {
    let size = source.chars().count();
    if size > MAX_EXPRESSION_CHARS {
        return Err(Issue::of_the_whole(format!(
            "expression code point size exceeds limit: size: {size}, limit {MAX_EXPRESSION_CHARS}"
        )));
    }
    let mut parser = Parser {
        tokens: tokens(source)?,
        next: 0,
        ast: Ast::default(),
        depth: 0,
    };
    let root = parser.expression()?;
    match parser.peek().kind {
        TokenKind::End => Ok((parser.ast, root)),
        _ => Err(parser.unexpected("<EOF>")),
    }
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
    ast: Ast,
    depth: u16,
}

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.next]
    }

    /// Takes the next token; the end token stays.
    fn take(&mut self) -> Token {
        let token = self.tokens[self.next].clone();
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        token
    }

    fn is_symbol(&self, text: &str) -> bool {
        let token = self.peek();
        token.kind == TokenKind::Symbol && &*token.text == text
    }

    /// Takes a symbol if it is next; returns its offset.
    fn try_symbol(&mut self, text: &str) -> Option<u32> {
        self.is_symbol(text).then(|| self.take().offset)
    }

    fn symbol(&mut self, text: &str) -> Result<u32, Issue> {
        match self.try_symbol(text) {
            Some(offset) => Ok(offset),
            None => Err(self.unexpected(&format!("'{text}'"))),
        }
    }

    /// The error of an unexpected token. One that could be left out is called extraneous.
    fn unexpected(&self, wanted: &str) -> Issue {
        let token = self.peek();
        let is_only = matches!(
            self.tokens.get(self.next + 1),
            Some(Token {
                kind: TokenKind::End,
                ..
            })
        );
        let how = match wanted == "<EOF>" && is_only {
            true => "extraneous",
            false => "mismatched",
        };
        let text = &token.text;
        Issue::at(
            token.offset,
            format!("Syntax error: {how} input '{text}' expecting {wanted}"),
        )
    }

    fn call(
        &mut self,
        offset: u32,
        function: &str,
        target: Option<Id>,
        arguments: Vec<Id>,
    ) -> Result<Id, Issue> {
        let function = function.into();
        self.ast.add(
            offset,
            Expr::Call {
                function,
                target,
                arguments,
            },
        )
    }

    fn expression(&mut self) -> Result<Id, Issue> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Issue::of_the_whole(format!(
                "expression recursion limit exceeded: {MAX_DEPTH}"
            )));
        }
        let condition = self.binary(0)?;
        let id = match self.try_symbol("?") {
            None => condition,
            Some(offset) => {
                let yes = self.binary(0)?;
                self.symbol(":")?;
                let no = self.expression()?;
                self.call(offset, "_?_:_", None, vec![condition, yes, no])?
            }
        };
        self.depth -= 1;
        Ok(id)
    }

    /// Parses operands and the operators between them that bind at least as tightly as a level.
    fn binary(&mut self, loosest: usize) -> Result<Id, Issue> {
        let mut left = self.unary()?;
        while let Some((level, function)) = self.operator(loosest) {
            // Long chains of conditions are balanced to keep the tree shallow.
            if level < CHAINED {
                left = self.chain(left, level, function)?;
                continue;
            }
            let offset = self.take().offset;
            let right = self.binary(level + 1)?;
            left = self.call(offset, function, None, vec![left, right])?;
        }
        Ok(left)
    }

    /// The next operator, if it binds tightly enough.
    fn operator(&self, loosest: usize) -> Option<(usize, &'static str)> {
        let token = self.peek();
        if !matches!(token.kind, TokenKind::Symbol | TokenKind::Name) {
            return None;
        }
        let levels = LEVELS.iter().enumerate().skip(loosest);
        let mut operators = levels.flat_map(|(level, operators)| operators.iter().map(move |it| (level, it)));
        let found = operators.find(|(_, (text, _))| *text == &*token.text);
        found.map(|(level, (_, function))| (level, *function))
    }

    fn chain(&mut self, first: Id, level: usize, function: &str) -> Result<Id, Issue> {
        let (mut terms, mut places) = (vec![first], Vec::new());
        while self.operator(level).is_some_and(|(found, _)| found == level) {
            places.push(self.take().offset);
            terms.push(self.binary(level + 1)?);
        }
        self.balanced(function, &terms, &places)
    }

    fn balanced(&mut self, function: &str, terms: &[Id], places: &[u32]) -> Result<Id, Issue> {
        if places.is_empty() {
            return Ok(terms[0]);
        }
        let middle = places.len() / 2;
        let left = self.balanced(function, &terms[..=middle], &places[..middle])?;
        let right = self.balanced(function, &terms[middle + 1..], &places[middle + 1..])?;
        self.call(places[middle], function, None, vec![left, right])
    }

    fn unary(&mut self) -> Result<Id, Issue> {
        for (symbol, function) in [("!", "!_"), ("-", "-_")] {
            let Some(offset) = self.try_symbol(symbol) else {
                continue;
            };
            let mut count = 1;
            while self.is_symbol(symbol) {
                self.take();
                count += 1;
            }
            if symbol == "-" && count == 1 && self.is_number() {
                let number = self.number(offset, true)?;
                return self.member(number);
            }
            let first = self.primary()?;
            let operand = self.member(first)?;
            return match count % 2 {
                0 => Ok(operand),
                _ => self.call(offset, function, None, vec![operand]),
            };
        }
        let first = self.primary()?;
        self.member(first)
    }

    fn is_number(&self) -> bool {
        matches!(
            self.peek().kind,
            TokenKind::Int | TokenKind::Literal(Literal::Double(_))
        )
    }

    fn number(&mut self, offset: u32, is_negative: bool) -> Result<Id, Issue> {
        let token = self.take();
        let literal = match token.kind {
            TokenKind::Literal(Literal::Double(value)) => {
                Literal::Double(if is_negative { -value } else { value })
            }
            _ => {
                let (digits, radix) = match token.text.strip_prefix("0x") {
                    Some(digits) => (digits, 16),
                    None => (&*token.text, 10),
                };
                let sign = if is_negative { "-" } else { "" };
                let value = i64::from_str_radix(&format!("{sign}{digits}"), radix);
                Literal::Int(value.map_err(|_| Issue::at(offset, "invalid int literal"))?)
            }
        };
        self.ast.add(offset, Expr::Literal(literal))
    }

    /// Parses what follows an operand: fields, calls and indexes.
    fn member(&mut self, mut operand: Id) -> Result<Id, Issue> {
        loop {
            if let Some(offset) = self.try_symbol(".") {
                let is_optional = self.try_symbol("?").is_some();
                // A name that ends after a dot could also have been a type name.
                if self.peek().kind == TokenKind::End && self.ast.qualified_name(operand).is_some() {
                    let message = "Syntax error: no viable alternative at input '.'";
                    return Err(Issue::at(self.peek().offset, message));
                }
                let (name, is_quoted) = self.field_name()?;
                let open = match is_optional || is_quoted {
                    true => None,
                    false => self.try_symbol("("),
                };
                operand = match open {
                    Some(open) => {
                        let arguments = self.list_until(")")?;
                        self.member_call(open, operand, &name, arguments)?
                    }
                    None => {
                        let mode = match is_optional {
                            true => Select::Optional,
                            false => Select::Plain,
                        };
                        let field = name;
                        self.ast.add(offset, Expr::Select { operand, field, mode })?
                    }
                };
            } else if let Some(offset) = self.try_symbol("[") {
                let function = match self.try_symbol("?") {
                    Some(_) => "_[?_]",
                    None => "_[_]",
                };
                let index = self.expression()?;
                self.symbol("]")?;
                operand = self.call(offset, function, None, vec![operand, index])?;
            } else if self.is_symbol("{") && self.ast.qualified_name(operand).is_some() {
                operand = self.message(operand)?;
            } else {
                return Ok(operand);
            }
        }
    }

    /// True if the last tokens are dotted names, with nothing else before them.
    fn ends_with_dotted_names(&self) -> bool {
        let mut read = self.tokens[..self.next].iter().rev();
        loop {
            let is_dot = read.next().is_some_and(|token| &*token.text == ".");
            if !is_dot {
                return true;
            }
            if !read.next().is_some_and(|token| token.kind == TokenKind::Name) {
                return false;
            }
        }
    }

    /// A name after a dot, and true if it was quoted.
    fn field_name(&mut self) -> Result<(Box<str>, bool), Issue> {
        match &self.peek().kind {
            TokenKind::Name if !matches!(&*self.peek().text, "in" | "true" | "false" | "null") => {
                Ok((self.take().text, false))
            }
            TokenKind::QuotedName(name) => {
                let name = name.clone();
                self.take();
                Ok((name, true))
            }
            // Dotted names may also name a type: ANTLR looks beyond the dot before it gives up.
            TokenKind::End if self.ends_with_dotted_names() => Err(Issue::at(
                self.peek().offset,
                "Syntax error: no viable alternative at input '.'".to_owned(),
            )),
            _ => Err(self.unexpected("{'?', IDENTIFIER, ESC_IDENTIFIER}")),
        }
    }

    fn list_until(&mut self, close: &str) -> Result<Vec<Id>, Issue> {
        let mut list = Vec::new();
        if self.try_symbol(close).is_some() {
            return Ok(list);
        }
        loop {
            list.push(self.expression()?);
            if self.try_symbol(",").is_none() {
                self.symbol(close)?;
                return Ok(list);
            }
        }
    }

    fn primary(&mut self) -> Result<Id, Issue> {
        let token = self.peek().clone();
        match &token.kind {
            TokenKind::Int => self.number(token.offset, false),
            TokenKind::Literal(literal) => {
                self.take();
                self.ast.add(token.offset, Expr::Literal(literal.clone()))
            }
            TokenKind::Name => self.name(),
            TokenKind::Symbol if &*token.text == "(" => {
                self.take();
                let inner = self.expression()?;
                self.symbol(")")?;
                Ok(inner)
            }
            TokenKind::Symbol if &*token.text == "[" => self.list(),
            TokenKind::Symbol if &*token.text == "{" => self.map(),
            TokenKind::Symbol if &*token.text == "." => {
                // A leading dot denotes the outermost scope, and there is only one.
                self.take();
                match self.peek().kind {
                    TokenKind::Name => self.name(),
                    _ => Err(self.unexpected("IDENTIFIER")),
                }
            }
            _ => Err(self.unexpected(OPERAND)),
        }
    }

    fn name(&mut self) -> Result<Id, Issue> {
        let token = self.peek().clone();
        let literal = match &*token.text {
            "true" => Some(Literal::Bool(true)),
            "false" => Some(Literal::Bool(false)),
            "null" => Some(Literal::Null),
            "in" => return Err(self.unexpected(OPERAND)),
            _ => None,
        };
        self.take();
        if let Some(literal) = literal {
            return self.ast.add(token.offset, Expr::Literal(literal));
        }
        if RESERVED.contains(&&*token.text) {
            let why = format!("reserved identifier: {}", token.text);
            return Err(Issue::at(token.offset, why));
        }
        match self.try_symbol("(") {
            Some(open) => {
                let arguments = self.list_until(")")?;
                self.global_call(open, &token.text, arguments)
            }
            None => self.ast.add(token.offset, Expr::Ident(token.text)),
        }
    }

    fn list(&mut self) -> Result<Id, Issue> {
        let offset = self.symbol("[")?;
        let mut items = Vec::new();
        while !self.is_symbol("]") {
            let is_optional = self.try_symbol("?").is_some();
            let value = self.expression()?;
            items.push(Item { value, is_optional });
            if self.try_symbol(",").is_none() {
                break;
            }
        }
        self.symbol("]")?;
        self.ast.add(offset, Expr::List(items))
    }

    fn map(&mut self) -> Result<Id, Issue> {
        let offset = self.symbol("{")?;
        let mut entries = Vec::new();
        while !self.is_symbol("}") {
            let is_optional = self.try_symbol("?").is_some();
            let key = self.expression()?;
            self.symbol(":")?;
            let value = self.expression()?;
            entries.push(Entry {
                key,
                value,
                is_optional,
            });
            if self.try_symbol(",").is_none() {
                break;
            }
        }
        self.symbol("}")?;
        self.ast.add(offset, Expr::Map(entries))
    }

    fn message(&mut self, named: Id) -> Result<Id, Issue> {
        let name = self.ast.qualified_name(named).unwrap_or_default().into();
        let offset = self.symbol("{")?;
        let mut fields = Vec::new();
        while !self.is_symbol("}") {
            let is_optional = self.try_symbol("?").is_some();
            let name = self.message_field(is_optional || !fields.is_empty())?;
            let offset = self.symbol(":")?;
            let value = self.expression()?;
            fields.push(MessageField {
                name,
                value,
                is_optional,
                offset,
            });
            if self.try_symbol(",").is_none() {
                break;
            }
        }
        self.symbol("}")?;
        self.ast.add(offset, Expr::Message { name, fields })
    }

    /// The name of a field. If it is optional, ANTLR lists everything that could follow.
    fn message_field(&mut self, is_needed: bool) -> Result<Box<str>, Issue> {
        match self.peek().kind {
            TokenKind::Name | TokenKind::QuotedName(_) => self.field_name().map(|(name, _)| name),
            _ if is_needed => Err(self.unexpected("{IDENTIFIER, ESC_IDENTIFIER}")),
            _ => Err(self.unexpected("{'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}")),
        }
    }
}
