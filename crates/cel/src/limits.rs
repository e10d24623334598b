//! How large expressions and what they make may be. Beyond a limit there is an error that names it, never a cut-off
//! result.

/// The most characters in an expression, as in cel-go.
pub const MAX_EXPRESSION_CHARS: usize = 100_000;

/// The most levels of nesting in an expression, as in cel-go. Everything that walks an expression recurses; this keeps
/// the stack small.
pub const MAX_DEPTH: u16 = 250;

/// The most nodes of an expression after its macros are expanded.
pub const MAX_NODES: usize = 50_000;

/// The most faults told of one expression.
pub const MAX_ISSUES: usize = 16;

/// The most bytes that a compiled regular expression may take.
pub const MAX_REGEX_BYTES: usize = 1 << 20;

/// The most bytes that all patterns in the schemas of one kind may take together: room for thousands of usual ones.
pub const MAX_SCHEMA_REGEX_BYTES: usize = 32 << 20;

/// The most bytes of one text that an evaluation makes. A call's budget would end it as well, but only after the memory
/// is taken.
pub const MAX_MADE_BYTES: usize = 10 << 20;

/// The most items of one list that an evaluation makes: as many as a request has room for. An item takes more memory
/// than it costs.
pub const MAX_MADE_ITEMS: usize = 1 << 20;

/// The most digits behind the point that `format` writes.
pub const MAX_PRECISION: usize = 100;

/// What one expression may cost in a call, as Kubernetes limits it.
pub const CALL_BUDGET: u64 = 1_000_000;

/// What all expressions together may cost for one object, as Kubernetes limits it.
pub const OBJECT_BUDGET: u64 = 10_000_000;
