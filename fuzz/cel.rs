//! Properties of any expression: no panic, an end within the budget, and a printed form with the same meaning.
//!
//! `cargo +nightly fuzz run cel` searches for a violation; `cargo test -p watchkeeper-cel` checks `fuzz/corpus/cel`.

use serde_json::json;
use watchkeeper_cel::{Declared, Environment, Value, normalize};

/// The cost budget.
const BUDGET: u64 = 10_000;

/// An expression about `self`, which can be anything.
pub(crate) fn expression(data: &[u8]) {
    let Ok(source) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(once) = normalize(source) {
        assert_eq!(normalize(&once).as_ref(), Ok(&once));
    }
    let environment = Environment::new().declare("self", Declared::dynamic());
    let Ok(program) = environment.compile(source) else {
        return;
    };
    let object = json!({"a": 1, "b": "text", "list": [1, 2, 3], "map": {"x": 1.5}});
    let evaluation = program.evaluate(&[Value::dynamic(&object)], BUDGET);
    assert!(evaluation.result.is_err() || evaluation.cost <= BUDGET);
}
