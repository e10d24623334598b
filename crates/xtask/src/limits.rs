//! The limits. A limit is lowered when the code gets better, never raised.

/// The crates from the bottom to the top: each may depend on those before it.
pub(crate) const LAYERS: &[&str] = &[
    "meta",
    "clock",
    "descriptions",
    "wire",
    "schemagen",
    "patch",
    "cel",
    "kinds",
    "storage",
    "trust",
    "wake",
    "logging",
    "registry",
    "client",
    "conformance",
    "server",
    "derive",
    "custom",
    "runtime",
    "recording",
    "view",
    "replay",
    "simulator",
    "testing",
    "manager",
    "watchkeeper",
    "cli",
    "tests",
    "bench-codec",
    "bench-server",
    "bench-parts",
    "bench",
    "xtask",
];

/// The largest number of modules of a crate in an import cycle.
pub(crate) const CYCLE: usize = 6;

/// The largest number of lines of a function, from its signature to its closing brace.
pub(crate) const FUNCTION_LINES: usize = 101;

/// The largest number of lines of a file, tests included.
pub(crate) const FILE_LINES: usize = 1020;
