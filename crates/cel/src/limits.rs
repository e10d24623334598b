//! Limits of expressions and of the values they construct. Exceeding one is an error that names it; results are never
//! truncated.

/// The maximum number of characters in an expression, as in cel-go.
pub const MAX_EXPRESSION_CHARS: usize = 100_000;

/// The maximum nesting of an expression, as in cel-go. Everything that walks an expression recurses; this keeps the
/// stack small.
pub const MAX_DEPTH: u16 = 250;

/// The maximum number of nodes of an expression after macro expansion.
pub const MAX_NODES: usize = 50_000;

/// The maximum number of errors reported for one expression.
pub const MAX_ISSUES: usize = 16;

/// The maximum size of a compiled regular expression, in bytes.
pub const MAX_REGEX_BYTES: usize = 1 << 20;

/// The maximum total size of all compiled patterns in the schemas of one kind: enough for thousands of typical ones.
pub const MAX_SCHEMA_REGEX_BYTES: usize = 32 << 20;

/// The maximum size of a text an evaluation constructs. The budget would stop it too, but only after the allocation.
pub const MAX_MADE_BYTES: usize = 10 << 20;

/// The maximum number of items of a list an evaluation constructs: as many as fit a request. An item takes more
/// memory than its cost suggests.
pub const MAX_MADE_ITEMS: usize = 1 << 20;

/// The maximum number of digits after the point that `format` prints.
pub const MAX_PRECISION: usize = 100;

/// The cost budget of one expression, as in Kubernetes.
pub const CALL_BUDGET: u64 = 1_000_000;

/// The cost budget of all expressions for one object, as in Kubernetes.
pub const OBJECT_BUDGET: u64 = 10_000_000;
