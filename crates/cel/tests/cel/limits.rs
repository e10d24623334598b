//! The limits of expressions: text, depth, cost, and size of values.

use std::sync::Arc;

use serde_json::json;
use watchkeeper_cel::limits::{CALL_BUDGET, MAX_DEPTH, MAX_EXPRESSION_CHARS};
use watchkeeper_cel::{Declared, Environment, EvalError, Identity, List, Shape, Value};

const BUDGET: u64 = CALL_BUDGET / 10;

fn numbers(max: u64) -> Declared {
    Declared {
        shape: Shape::List(Arc::new(List {
            items: Declared::plain(Shape::Int),
            identity: Identity::Place,
        })),
        max_size: max,
    }
}

fn error_of(expression: &str) -> EvalError {
    let environment = Environment::new().declare("self", Declared::dynamic());
    let (program, object) = (environment.compile(expression).expect("it compiles"), json!(null));
    let evaluation = program.evaluate(&[Value::dynamic(&object)], BUDGET);
    assert!(evaluation.cost <= BUDGET * 2, "{}", evaluation.cost);
    evaluation.result.expect_err("it must not come to an end")
}

#[test]
fn deep_and_long_expressions_are_refused() {
    let environment = Environment::new();
    let compile = |source: &str| {
        environment
            .compile(source)
            .map(drop)
            .map_err(|error| error.to_string())
    };
    let deep = format!("{}1{}", "(".repeat(1000), ")".repeat(1000));
    let wanted = format!("ERROR: <input>:-1:0: expression recursion limit exceeded: {MAX_DEPTH}");
    assert_eq!(compile(&deep), Err(wanted.clone()));
    assert_eq!(compile(&format!("1{}", " + 1".repeat(1000))), Err(wanted.clone()));
    assert_eq!(compile(&format!("{}true", "true && ".repeat(1000))), Ok(()));
    assert_eq!(compile(&"[".repeat(100_000)), Err(wanted));
    // An expression just within the limit needs little stack.
    for (open, close) in [
        ("[", "]"),
        ("dyn(", ")"),
        ("-(", ")"),
        ("true ? 1 : ", ""),
        ("[1].map(x, ", ")"),
    ] {
        let levels = usize::from(MAX_DEPTH) - 2;
        let within = format!("{}1{}", open.repeat(levels), close.repeat(levels));
        assert_eq!(compile(&within), Ok(()), "{open}");
    }
    let long = "1".repeat(MAX_EXPRESSION_CHARS + 1);
    assert!(compile(&long).is_err_and(|error| error.contains("code point size exceeds limit")));
}

#[test]
fn a_budget_ends_an_evaluation() {
    let hundred = format!("[{}]", vec!["1"; 100].join(","));
    let nested = format!("{hundred}.all(a, {hundred}.all(b, {hundred}.all(c, {hundred}.all(d, a == d))))");
    assert_eq!(error_of(&nested), EvalError::CostExceeded);
    // No operator absorbs it.
    assert_eq!(error_of(&format!("{nested} || true")), EvalError::CostExceeded);
}

#[test]
fn values_that_are_larger_than_they_look_are_paid_for() {
    // Each level contains the one before twice: comparing them takes 2^40 items.
    let doubled = (0..40).fold("[1]".to_owned(), |inner, level| {
        format!("{inner}.map(v{level}, [v{level}, v{level}])")
    });
    assert_eq!(
        error_of(&format!("{doubled} == {doubled}")),
        EvalError::CostExceeded
    );
    assert_eq!(
        error_of(&format!("'%s'.format([{doubled}])")),
        EvalError::CostExceeded
    );
}

#[test]
fn texts_that_grow_are_paid_for() {
    let grown = (0..40).fold("['aaaaaaaaaa']".to_owned(), |inner, level| {
        format!("{inner}.map(v{level}, v{level} + v{level})")
    });
    assert_eq!(error_of(&grown), EvalError::CostExceeded);
    let replaced = (0..20).fold("['aaaaaaaaaa']".to_owned(), |inner, level| {
        format!("{inner}.map(v{level}, v{level}.replace('a', v{level}))")
    });
    assert_eq!(error_of(&replaced), EvalError::CostExceeded);
}

/// The cost of one evaluation.
fn cost_of(declared: Declared, object: &serde_json::Value, expression: &str) -> u64 {
    let environment = Environment::new().declare("self", declared.clone());
    let program = environment.compile(expression).expect("it compiles");
    let value = Value::from_json(object, &declared).expect("it has its type");
    program.evaluate(&[value], u64::MAX).cost
}

/// Otherwise a rule with such calls in a loop would take gigabytes, or minutes, within its budget.
#[test]
fn what_a_call_reads_and_makes_is_paid_for() {
    let object = json!({
        "many": vec![""; 100_000],
        "text": "0".repeat(1_000_000),
        "pattern": "a+",
        "url": format!("https://a/{}?{}", "b".repeat(500_000), "c&".repeat(100_000)),
    });
    let numbers = vec!["0"; 10_000].join(",");
    let entries: Vec<String> = (0..5_000).map(|index| format!("{index}:0")).collect();
    for (expression, least) in [
        (&*format!("[{numbers}]"), 4_000),
        (&format!("{{{}}}", entries.join(",")), 2_000),
        ("self.text.findAll('')", 500_000),
        ("self.text.split('')", 500_000),
        ("self.text.charAt(999999)", 1_500),
        ("self.text.size()", 1_500),
        ("int(self.text)", 1_500),
        ("self.many.join()", 10_000),
        ("self.many + self.many", 100_000),
        ("[[self.text]] == [[self.text]]", 1_500),
        ("url(self.url).getEscapedPath()", 115_000),
        ("url(self.url).getQuery()", 165_000),
        ("'0'.matches(self.pattern)", 100),
        ("'%s%d'.format([self.text, 'no number']) == '' || true", 100_000),
    ] {
        let cost = cost_of(Declared::dynamic(), &object, expression);
        assert!(cost >= least, "{expression:.50}: {cost}");
    }
    let bytes = Declared::plain(Shape::Map(Declared::plain(Shape::Bytes).into()));
    let cost = cost_of(bytes, &json!({"a": "A".repeat(1_000_000)}), "self.a.size()");
    assert!(cost >= 10_000, "{cost}");
}

#[test]
fn a_patch_is_no_larger_than_it_may_be() {
    let doubled = (0..40).fold("['a']".to_owned(), |inner, level| {
        format!("{inner}.map(v{level}, [v{level}, v{level}])")
    });
    let environment = Environment::new();
    for (expression, is_made) in [("[['a', 'b']]", true), (&doubled, false)] {
        let program = environment.compile(expression).expect("it compiles");
        let made = program.evaluate(&[], BUDGET).result.expect("it is cheap");
        assert_eq!(made.to_patch().is_ok(), is_made);
    }
}

/// A refused construction was work: repeating it uses up the budget.
#[test]
fn what_is_too_large_is_not_absorbed() {
    let text = (0..7).fold(format!("['{}']", "a".repeat(1000)), |inner, level| {
        format!("{inner}.map(v{level}, v{level} + v{level})")
    });
    let large = format!("'{}'.format([{}])", "%s".repeat(100), vec!["t"; 100].join(","));
    assert_eq!(
        error_of(&format!("{text}.all(t, {large} == '' || true)")),
        EvalError::CostExceeded
    );
}

#[test]
fn patterns_that_are_values_are_paid_for() {
    let (many, pattern) = (vec!["1"; 50].join(","), "((a{30}){30}){10}");
    let expression = format!("['{pattern}'].map(p, [{many}].map(x, 'a'.matches(p)))");
    assert_eq!(error_of(&expression), EvalError::CostExceeded);
}

#[test]
fn estimates_follow_the_declared_sizes() {
    let cost = |max: u64, expression: &str| {
        let environment = Environment::new().declare("self", numbers(max));
        environment.compile(expression).expect("it compiles").max_cost()
    };
    assert_eq!(cost(10, "self.size() > 1"), 3);
    assert_eq!(cost(10, "self.all(x, x > 1)"), 2 + 10 * 5);
    assert_eq!(
        cost(10, "self.all(x, self.all(y, x == y))"),
        2 + 10 * (2 + 10 * 5 + 3)
    );
    assert_eq!(cost(u64::MAX, "self.all(x, self.exists(y, x == y))"), u64::MAX);
    assert_eq!(cost(u64::MAX, "1 in self"), u64::MAX);
    assert_eq!(cost(1, "1 in {1: 1, 2: 2}"), 30 + 1);
    // Parsing a text costs the same for any length, as in Kubernetes.
    assert_eq!(cost(1, "isQuantity(dyn(self))"), 3);
}

/// The actual cost never exceeds the estimate, except for the comparison of primitives.
#[test]
fn estimates_are_not_exceeded() {
    let environment = Environment::new().declare("self", numbers(5));
    let object = json!([1, 2, 3, 4, 5]);
    for expression in [
        "self.all(x, x > 0)",
        "self.exists(x, x > 9)",
        "self.exists_one(x, x < 2)",
        "self.map(x, x + 1).filter(x, x > 1).size() == 5",
        "self == self",
        "3 in self && self.isSorted() && self.sum() == 15",
        "self.all(x, self.exists(y, x <= y))",
        "self[0] <= 1 ? 'a' + 'b' == 'ab' : 'c'.matches('[a-z]+')",
        "[1, 2].all(x, {x: 'a'}[x] == 'a')",
        "self.map(x, string(x)).join(',').size() > 3",
    ] {
        let program = environment.compile(expression).expect("it compiles");
        let value = Value::dynamic(&object);
        let evaluation = program.evaluate(&[value], CALL_BUDGET);
        assert!(evaluation.result.is_ok(), "{expression}");
        let (cost, most) = (evaluation.cost, program.max_cost());
        assert!(cost <= most, "{expression}: {cost} > {most}");
    }
}
