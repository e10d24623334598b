//! Parses label selectors, with the errors of Kubernetes' own parser.
//!
//! ```text
//! selector    = [ requirement { "," requirement } ]
//! requirement = [ "!" ] key | key operator value | key ( "in" | "notin" ) "(" value { "," value } ")"
//! operator    = "=" | "==" | "!=" | ">" | "<"
//! ```
//! Values may be empty. `in` and `notin` are keywords only where an operator is expected.

use super::{LabelRequirement, LabelTest, SelectorError, check_key, check_value};
use crate::field_error::{FieldError, FieldPath};

pub(super) fn parse(text: &str) -> Result<Vec<LabelRequirement>, SelectorError> {
    let mut parser = Parser { rest: text };
    let mut requirements = Vec::new();
    loop {
        match parser.peek() {
            Token::Word(_) | Token::Symbol("!") => {}
            Token::End => return Ok(requirements),
            other => return Err(found(other, ", expected: !, identifier, or 'end of string'")),
        }
        let requirement = parser.requirement();
        requirements.push(
            requirement.map_err(|error| SelectorError(format!("unable to parse requirement: {error}")))?,
        );
        match (parser.next(), parser.peek()) {
            (Token::End, _) => return Ok(requirements),
            (Token::Symbol(","), Token::Word(_) | Token::Symbol("!")) => {}
            (Token::Symbol(","), other) => return Err(found(other, ", expected: identifier after ','")),
            (other, _) => return Err(found(other, ", expected: ',' or 'end of string'")),
        }
    }
}

#[derive(Clone, Copy)]
enum Token<'a> {
    /// A key, a value, or one of the keywords `in` and `notin`.
    Word(&'a str),
    /// One of `=`, `==`, `!=`, `!`, `(`, `)`, `,`, `>`, `<`.
    Symbol(&'a str),
    End,
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn requirement(&mut self) -> Result<LabelRequirement, SelectorError> {
        let mut token = self.next();
        let negated = matches!(token, Token::Symbol("!"));
        if negated {
            token = self.next();
        }
        let Token::Word(key) = token else {
            return Err(found(token, ", expected: identifier"));
        };
        if let Some(error) = check_key(key, FieldPath::default) {
            return Err(SelectorError(error.to_string()));
        }
        // Nothing can follow `!key`; the caller reports what does.
        if negated {
            return LabelRequirement::new(key, LabelTest::DoesNotExist);
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return LabelRequirement::new(key, LabelTest::Exists);
        }
        let test = self.test(key)?;
        LabelRequirement::new(key, test)
    }

    fn test(&mut self, key: &str) -> Result<LabelTest, SelectorError> {
        Ok(match self.next() {
            Token::Word("in") => LabelTest::In(self.values()?),
            Token::Word("notin") => LabelTest::NotIn(self.values()?),
            Token::Symbol("=") => LabelTest::Equals(self.value()?),
            Token::Symbol("==") => LabelTest::DoubleEquals(self.value()?),
            Token::Symbol("!=") => LabelTest::NotEquals(self.value()?),
            Token::Symbol(">") => LabelTest::GreaterThan(self.number(key)?),
            Token::Symbol("<") => LabelTest::LessThan(self.number(key)?),
            other => return Err(found(other, ", expected: in, notin, =, ==, !=, gt, lt")),
        })
    }

    fn value(&mut self) -> Result<String, SelectorError> {
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(String::new());
        }
        match self.next() {
            Token::Word(value) => Ok(value.to_owned()),
            other => Err(found(other, ", expected: identifier")),
        }
    }

    fn number(&mut self, key: &str) -> Result<i64, SelectorError> {
        let value = self.value()?;
        let path = FieldPath::new("values").index(0);
        let not_a_number = |_| {
            let why = "for 'Gt', 'Lt' operators, the value must be an integer";
            SelectorError(FieldError::invalid(&path, value.as_str(), why).to_string())
        };
        let number = value.parse().map_err(not_a_number)?;
        match check_value(&value, || path.key(key)) {
            Some(error) => Err(SelectorError(error.to_string())),
            None => Ok(number),
        }
    }

    /// The values between parentheses. A missing value, as in `(a,,b)`, is empty text.
    fn values(&mut self) -> Result<Vec<String>, SelectorError> {
        match self.next() {
            Token::Symbol("(") => {}
            other => return Err(found(other, " expected: '('")),
        }
        match self.peek() {
            Token::Symbol(")") => {
                self.next();
                return Ok(vec![String::new()]);
            }
            Token::Word(_) | Token::Symbol(",") => {}
            other => return Err(found(other, ", expected: ',', ')' or identifier")),
        }
        let mut values = Vec::new();
        loop {
            match self.next() {
                Token::Word(value) => {
                    values.push(value.to_owned());
                    match self.peek() {
                        Token::Symbol(",") => {}
                        Token::Symbol(")") => break,
                        other => return Err(found(other, ", expected: ',' or ')'")),
                    }
                }
                Token::Symbol(",") => {
                    if values.is_empty() {
                        values.push(String::new());
                    }
                    match self.peek() {
                        Token::Symbol(")") => {
                            values.push(String::new());
                            break;
                        }
                        Token::Symbol(",") => {
                            self.next();
                            values.push(String::new());
                        }
                        _ => {}
                    }
                }
                other => return Err(found(other, ", expected: ',', or identifier")),
            }
        }
        self.next();
        Ok(values)
    }

    fn peek(&self) -> Token<'a> {
        Parser { rest: self.rest }.next()
    }

    fn next(&mut self) -> Token<'a> {
        let text = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let len = match text.chars().next() {
            None => 0,
            Some(c) if is_symbol(c) => symbol_len(text),
            Some(_) => text.find(|c| is_symbol(c) || is_blank(c)).unwrap_or(text.len()),
        };
        let (token, rest) = text.split_at(len);
        self.rest = rest;
        match token.chars().next() {
            None => Token::End,
            Some(c) if is_symbol(c) => Token::Symbol(token),
            Some(_) => Token::Word(token),
        }
    }
}

fn symbol_len(text: &str) -> usize {
    if text.starts_with("==") || text.starts_with("!=") {
        2
    } else {
        1
    }
}

fn is_symbol(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn found(token: Token<'_>, rest: &str) -> SelectorError {
    let text = match token {
        Token::Word(text) | Token::Symbol(text) => text,
        Token::End => "",
    };
    SelectorError(format!("found '{text}'{rest}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::label_selector::{LabelRequirement, LabelSelector, LabelTest};

    #[test]
    fn selectors_print_in_one_form() {
        for (text, printed) in [
            ("", ""),
            (" a ", "a"),
            ("b , a", "a,b"),
            ("x in (foo,,baz),y,z notin ()", "x in (,baz,foo),y,z notin ()"),
            ("a=1,a!=2", "a=1,a!=2"),
            ("in in (in,notin)", "in in (in,notin)"),
            ("a==b", "a==b"),
            ("a=,b", "a=,b"),
            ("!a.b/c", "!a.b/c"),
            ("a > 5, b<6", "a>5,b<6"),
            ("a in (,)", "a in ()"),
        ] {
            assert_eq!(
                text.parse::<LabelSelector>().unwrap().to_string(),
                printed,
                "{text}"
            );
        }
    }

    #[test]
    fn errors_are_kubernetes_own() {
        for (text, message) in [
            (
                "a===b",
                "unable to parse requirement: found '=', expected: identifier",
            ),
            ("a in", "unable to parse requirement: found '' expected: '('"),
            ("a in x", "unable to parse requirement: found 'x' expected: '('"),
            (
                "a in (x",
                "unable to parse requirement: found '', expected: ',' or ')'",
            ),
            (
                "a in (",
                "unable to parse requirement: found '', expected: ',', ')' or identifier",
            ),
            (
                "a in (,,)",
                "unable to parse requirement: found ')', expected: ',', or identifier",
            ),
            (
                "bad key=x",
                "unable to parse requirement: found 'key', expected: in, notin, =, ==, !=, gt, lt",
            ),
            ("a=bad value!", "found 'value', expected: ',' or 'end of string'"),
            ("!a=b", "found '=', expected: ',' or 'end of string'"),
            ("a,,b", "found ',', expected: identifier after ','"),
            ("a,", "found '', expected: identifier after ','"),
            (",a", "found ',', expected: !, identifier, or 'end of string'"),
            ("=", "found '=', expected: !, identifier, or 'end of string'"),
            (
                "a>b",
                "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
            (
                "a~b",
                "unable to parse requirement: <nil>: Invalid value: \"a~b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            ),
            (
                "Bad_Prefix/x=1",
                "unable to parse requirement: <nil>: Invalid value: \"Bad_Prefix/x\": prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ),
        ] {
            assert_eq!(
                text.parse::<LabelSelector>().unwrap_err().to_string(),
                message,
                "{text}"
            );
        }
        let long = "v".repeat(64);
        assert_eq!(
            format!("a={long}")
                .parse::<LabelSelector>()
                .unwrap_err()
                .to_string(),
            format!(
                "unable to parse requirement: values[0][a]: Invalid value: \"{long}\": must be no more than 63 bytes"
            )
        );
    }

    fn requirement() -> impl Strategy<Value = LabelRequirement> {
        let value = || "([A-Za-z0-9]([-A-Za-z0-9_.]{0,6}[A-Za-z0-9])?)?";
        let values = || proptest::collection::vec(value(), 1..4);
        let test = prop_oneof![
            Just(LabelTest::Exists),
            Just(LabelTest::DoesNotExist),
            value().prop_map(LabelTest::Equals),
            value().prop_map(LabelTest::DoubleEquals),
            value().prop_map(LabelTest::NotEquals),
            values().prop_map(LabelTest::In),
            values().prop_map(LabelTest::NotIn),
            (0..i64::MAX).prop_map(LabelTest::GreaterThan),
            (0..i64::MAX).prop_map(LabelTest::LessThan),
        ];
        let key = "([a-z0-9]{1,3}(\\.[a-z]{1,2})?/)?(in|notin|[A-Za-z0-9]([-A-Za-z0-9_.]{0,4}[A-Za-z0-9])?)";
        (key, test).prop_map(|(key, test)| LabelRequirement::new(key, test).unwrap())
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(requirements in proptest::collection::vec(requirement(), 0..5)) {
            let selector = LabelSelector::new(requirements);
            prop_assert_eq!(selector.to_string().parse::<LabelSelector>().unwrap(), selector);
        }

        #[test]
        fn any_text_is_answered(text in "[a!=(),<> in.~/\\PC]{0,24}") {
            if let Ok(selector) = text.parse::<LabelSelector>() {
                prop_assert_eq!(selector.to_string().parse::<LabelSelector>().unwrap(), selector);
            }
        }
    }
}
