//! The syntax tree of an expression. Nodes are in one vector and refer to each other by index, so that dropping a
//! tree does not recurse, and facts about a node can be kept by its index.

use crate::error::Issue;
use crate::limits::{MAX_DEPTH, MAX_NODES};

/// The index of a node. Children come before their parents.
pub(crate) type Id = u32;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ast {
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq)]
struct Node {
    expr: Expr,
    /// In characters from the beginning.
    offset: u32,
    depth: u16,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Literal(Literal),
    Ident(Box<str>),
    Select {
        operand: Id,
        field: Box<str>,
        mode: Select,
    },
    /// Operators are calls as well: `_+_`.
    Call {
        function: Box<str>,
        target: Option<Id>,
        arguments: Vec<Id>,
    },
    List(Vec<Item>),
    Map(Vec<Entry>),
    /// `Name{field: value}`: a value of a named type, used only in patches.
    Message {
        name: Box<str>,
        fields: Vec<MessageField>,
    },
    Fold(Box<Fold>),
    /// `target.optMap(name, body)`: the body, if the target has a value.
    OptionalMap {
        target: Id,
        name: Box<str>,
        body: Id,
        is_flat: bool,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Box<str>),
    Bytes(Box<[u8]>),
}

/// The way a field is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Select {
    /// `a.b`.
    Plain,
    /// `has(a.b)`.
    Test,
    /// `a.?b`.
    Optional,
}

/// An item of a list; an optional one is written `?item`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Item {
    pub(crate) value: Id,
    pub(crate) is_optional: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: Id,
    pub(crate) value: Id,
    pub(crate) is_optional: bool,
}

/// A field of a message; an optional one is written `?field: value`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MessageField {
    pub(crate) name: Box<str>,
    pub(crate) value: Id,
    pub(crate) is_optional: bool,
    /// The offset of the colon, in characters.
    pub(crate) offset: u32,
}

/// A macro over the items of a list or the entries of a map.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fold {
    pub(crate) kind: FoldKind,
    pub(crate) range: Id,
    pub(crate) name: Box<str>,
    /// With two names, the first is the index or the key, the second the value.
    pub(crate) second: Option<Box<str>>,
    /// The condition on an item.
    pub(crate) condition: Option<Id>,
    /// The expression that transforms an item.
    pub(crate) transform: Option<Id>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoldKind {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
    TransformList,
    TransformMap,
    TransformMapEntry,
}

impl Ast {
    /// Adds a node whose children are in the tree.
    pub(crate) fn add(&mut self, offset: u32, expr: Expr) -> Result<Id, Issue> {
        let mut depth = 0;
        each_child(&expr, |child| depth = depth.max(self.nodes[child as usize].depth));
        if depth >= MAX_DEPTH {
            return Err(Issue::of_the_whole(format!(
                "expression recursion limit exceeded: {MAX_DEPTH}"
            )));
        }
        if self.nodes.len() >= MAX_NODES {
            return Err(Issue::of_the_whole(format!(
                "expression has more than {MAX_NODES} nodes"
            )));
        }
        self.nodes.push(Node {
            expr,
            offset,
            depth: depth + 1,
        });
        Ok((self.nodes.len() - 1) as Id)
    }

    pub(crate) fn expr(&self, id: Id) -> &Expr {
        &self.nodes[id as usize].expr
    }

    pub(crate) fn offset(&self, id: Id) -> u32 {
        self.nodes[id as usize].offset
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// `a.b.c`, if a node consists only of names.
    pub(crate) fn qualified_name(&self, id: Id) -> Option<String> {
        match self.expr(id) {
            Expr::Ident(name) => Some(name.to_string()),
            Expr::Select {
                operand,
                field,
                mode: Select::Plain,
            } => Some(format!("{}.{field}", self.qualified_name(*operand)?)),
            _ => None,
        }
    }
}

fn each_child(expr: &Expr, mut see: impl FnMut(Id)) {
    match expr {
        Expr::Literal(_) | Expr::Ident(_) => {}
        Expr::Select { operand, .. } => see(*operand),
        Expr::Call {
            target, arguments, ..
        } => target.iter().chain(arguments).for_each(|child| see(*child)),
        Expr::List(items) => items.iter().for_each(|item| see(item.value)),
        Expr::Map(entries) => entries.iter().for_each(|entry| {
            see(entry.key);
            see(entry.value);
        }),
        Expr::Message { fields, .. } => fields.iter().for_each(|field| see(field.value)),
        Expr::Fold(fold) => {
            let within = [Some(fold.range), fold.condition, fold.transform];
            within.into_iter().flatten().for_each(see);
        }
        Expr::OptionalMap { target, body, .. } => {
            see(*target);
            see(*body);
        }
    }
}
