//! Parses `#[resource(…)]`: each key once, unless it may be repeated, and checked as far as possible at compile time.

use proc_macro2::Span;
use syn::meta::ParseNestedMeta;
use syn::parse::Parse;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    DeriveInput, Error, LitBool, LitInt, LitStr, MetaNameValue, Path, Result, Token, Type, parenthesized,
};

/// The types that a printer column can have.
const COLUMN_TYPES: [&str; 5] = ["integer", "number", "string", "boolean", "date"];

/// The length of a DNS label.
const MAX_LABEL: usize = 63;

/// The attributes of one struct.
#[derive(Default)]
pub(crate) struct Attributes {
    pub(crate) group: Option<LitStr>,
    pub(crate) version: Option<LitStr>,
    pub(crate) kind: Option<LitStr>,
    pub(crate) plural: Option<LitStr>,
    pub(crate) singular: Option<LitStr>,
    pub(crate) namespaced: bool,
    pub(crate) status: Option<Type>,
    pub(crate) metadata: Option<Type>,
    pub(crate) krate: Option<Path>,
    pub(crate) short_names: Vec<LitStr>,
    pub(crate) categories: Vec<LitStr>,
    pub(crate) selectable: Vec<LitStr>,
    pub(crate) columns: Vec<Column>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) scale: Option<Scale>,
    pub(crate) served: Option<LitBool>,
    pub(crate) storage: Option<LitBool>,
    pub(crate) deprecated: Option<LitStr>,
    pub(crate) derives: Vec<Path>,
}

#[derive(Default)]
pub(crate) struct Column {
    pub(crate) name: Option<LitStr>,
    pub(crate) column_type: Option<LitStr>,
    pub(crate) path: Option<LitStr>,
    pub(crate) description: Option<LitStr>,
    pub(crate) format: Option<LitStr>,
    pub(crate) priority: Option<LitInt>,
}

#[derive(Default)]
pub(crate) struct Scale {
    pub(crate) spec: Option<LitStr>,
    pub(crate) status: Option<LitStr>,
    pub(crate) selector: Option<LitStr>,
}

pub(crate) struct Rule {
    pub(crate) rule: LitStr,
    pub(crate) message: Option<LitStr>,
    pub(crate) message_expression: Option<LitStr>,
    pub(crate) reason: Option<LitStr>,
    pub(crate) field_path: Option<LitStr>,
}

impl Attributes {
    /// Reads all `#[resource(…)]` of a struct.
    pub(crate) fn read(input: &DeriveInput) -> Result<Self> {
        let mut attributes = Self::default();
        for attribute in input
            .attrs
            .iter()
            .filter(|attribute| attribute.path().is_ident("resource"))
        {
            attribute.parse_nested_meta(|meta| attributes.word(&meta))?;
        }
        Ok(attributes)
    }

    fn word(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let word = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        match word.as_str() {
            "group" => set(&mut self.group, meta, group),
            "version" => set(&mut self.version, meta, label),
            "kind" => set(&mut self.kind, meta, |_| Ok(())),
            "plural" => set(&mut self.plural, meta, label),
            "singular" => set(&mut self.singular, meta, label),
            "status" => set(&mut self.status, meta, |_| Ok(())),
            "metadata" => set(&mut self.metadata, meta, |_| Ok(())),
            "crate" => set(&mut self.krate, meta, |_| Ok(())),
            "served" => set(&mut self.served, meta, |_| Ok(())),
            "storage" => set(&mut self.storage, meta, |_| Ok(())),
            "shortname" => push(&mut self.short_names, meta, label),
            "category" => push(&mut self.categories, meta, label),
            "selectable" => push(&mut self.selectable, meta, path),
            "namespaced" => once(meta, !std::mem::replace(&mut self.namespaced, true)),
            "deprecated" if meta.input.peek(Token![=]) => set(&mut self.deprecated, meta, |_| Ok(())),
            "deprecated" => {
                once(meta, self.deprecated.is_none())?;
                self.deprecated = Some(LitStr::new("", meta.path.span()));
                Ok(())
            }
            "scale" => self.scale(meta),
            "column" => self.column(meta),
            "rule" => self.rule(meta),
            "derive" => meta.parse_nested_meta(|path| {
                self.derives.push(path.path.clone());
                Ok(())
            }),
            _ => Err(meta.error(
                "expected one of: group, version, kind, plural, singular, namespaced, status, metadata, shortname, \
                 category, column, scale, selectable, rule, served, storage, deprecated, derive, crate",
            )),
        }
    }

    fn scale(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        once(meta, self.scale.is_none())?;
        let mut scale = Scale::default();
        meta.parse_nested_meta(|inner| match ident(&inner).as_str() {
            "spec" => set(&mut scale.spec, &inner, |text| path_under(text, ".spec.")),
            "status" => set(&mut scale.status, &inner, |text| path_under(text, ".status.")),
            "selector" => set(&mut scale.selector, &inner, path),
            _ => Err(inner.error("expected spec, status or selector")),
        })?;
        require(
            scale.spec.as_ref(),
            meta.path.span(),
            "scale needs `spec = \".spec.…\"`",
        )?;
        require(
            scale.status.as_ref(),
            meta.path.span(),
            "scale needs `status = \".status.…\"`",
        )?;
        self.scale = Some(scale);
        Ok(())
    }

    fn column(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let mut column = Column::default();
        meta.parse_nested_meta(|inner| match ident(&inner).as_str() {
            "name" => set(&mut column.name, &inner, |_| Ok(())),
            "type" => set(&mut column.column_type, &inner, column_type),
            "path" => set(&mut column.path, &inner, path),
            "description" => set(&mut column.description, &inner, |_| Ok(())),
            "format" => set(&mut column.format, &inner, |_| Ok(())),
            "priority" => set(&mut column.priority, &inner, |_| Ok(())),
            _ => Err(inner.error("expected name, type, path, description, format or priority")),
        })?;
        let span = meta.path.span();
        require(column.name.as_ref(), span, "a column needs `name = \"…\"`")?;
        require(column.path.as_ref(), span, "a column needs `path = \".spec.…\"`")?;
        self.columns.push(column);
        Ok(())
    }

    fn rule(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        if meta.input.peek(Token![=]) {
            self.rules.push(Rule::new(meta.value()?.parse()?));
            return Ok(());
        }
        let content;
        parenthesized!(content in meta.input);
        let mut rule = Rule::new(content.parse()?);
        if content.parse::<Option<Token![,]>>()?.is_some() {
            for pair in Punctuated::<MetaNameValue, Token![,]>::parse_terminated(&content)? {
                rule.word(&pair)?;
            }
        }
        self.rules.push(rule);
        Ok(())
    }
}

impl Rule {
    fn new(rule: LitStr) -> Self {
        Self {
            rule,
            message: None,
            message_expression: None,
            reason: None,
            field_path: None,
        }
    }

    fn word(&mut self, pair: &MetaNameValue) -> Result<()> {
        let word = pair.path.get_ident().map(ToString::to_string).unwrap_or_default();
        let slot = match word.as_str() {
            "message" => &mut self.message,
            "message_expression" => &mut self.message_expression,
            "reason" => &mut self.reason,
            "field_path" => &mut self.field_path,
            _ => {
                let expected = "expected message, message_expression, reason or field_path";
                return Err(Error::new_spanned(&pair.path, expected));
            }
        };
        if slot.is_some() {
            return Err(Error::new_spanned(
                &pair.path,
                format!("`{word}` is stated twice"),
            ));
        }
        let value = &pair.value;
        *slot = Some(syn::parse2(quote::quote!(#value))?);
        Ok(())
    }
}

fn ident(meta: &ParseNestedMeta<'_>) -> String {
    meta.path.get_ident().map(ToString::to_string).unwrap_or_default()
}

/// Parses the value of a key that may occur once.
fn set<T: Parse>(
    slot: &mut Option<T>,
    meta: &ParseNestedMeta<'_>,
    check: impl Fn(&T) -> Result<()>,
) -> Result<()> {
    once(meta, slot.is_none())?;
    let value = meta.value()?.parse()?;
    check(&value)?;
    *slot = Some(value);
    Ok(())
}

/// Parses the value of a key that may be repeated.
fn push(
    slots: &mut Vec<LitStr>,
    meta: &ParseNestedMeta<'_>,
    check: impl Fn(&LitStr) -> Result<()>,
) -> Result<()> {
    let value = meta.value()?.parse()?;
    check(&value)?;
    slots.push(value);
    Ok(())
}

fn once(meta: &ParseNestedMeta<'_>, is_first: bool) -> Result<()> {
    match is_first {
        true => Ok(()),
        false => Err(meta.error(format!("`{}` is stated twice", ident(meta)))),
    }
}

fn require<T>(value: Option<&T>, span: Span, problem: &str) -> Result<()> {
    value.map(|_| ()).ok_or_else(|| Error::new(span, problem))
}

fn group(text: &LitStr) -> Result<()> {
    let group = text.value();
    match group.contains('.') && group.split('.').all(is_part_of_domain) {
        true => Ok(()),
        false => Err(Error::new_spanned(
            text,
            "a group is a domain in lower case: `example.com`",
        )),
    }
}

/// A DNS label as in RFC 1035, which servers require of every name of a kind.
fn label(text: &LitStr) -> Result<()> {
    let name = text.value();
    match is_part_of_domain(&name) && name.starts_with(|c: char| c.is_ascii_lowercase()) {
        true => Ok(()),
        false => Err(Error::new_spanned(
            text,
            "expected at most 63 lower case letters, digits and `-`, with a letter first: `v1`",
        )),
    }
}

fn is_part_of_domain(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let has_length = (1..=MAX_LABEL).contains(&text.len());
    has_length && text.chars().all(is_allowed) && !text.starts_with('-') && !text.ends_with('-')
}

fn path(text: &LitStr) -> Result<()> {
    path_under(text, ".")
}

fn path_under(text: &LitStr, start: &str) -> Result<()> {
    match text.value().starts_with(start) {
        true => Ok(()),
        false => Err(Error::new_spanned(
            text,
            format!("expected a path that begins with `{start}`"),
        )),
    }
}

fn column_type(text: &LitStr) -> Result<()> {
    match COLUMN_TYPES.contains(&text.value().as_str()) {
        true => Ok(()),
        false => {
            let types = COLUMN_TYPES.join(", ");
            Err(Error::new_spanned(text, format!("expected one of: {types}")))
        }
    }
}
