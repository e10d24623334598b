//! Properties of all expressions: each is refused or evaluated within its budget, without a panic; and printing it
//! gives the same expression.

use proptest::prelude::*;
use serde_json::json;
use watchkeeper_cel::{Declared, Environment, Value, normalize};

/// Expressions of every kind, mostly well-formed, some of them well-typed.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<u32>().prop_map(|number| format!("{number}u")),
        (-1e6..1e6).prop_map(|number: f64| format!("{number:e}")),
        "[a-z\\\\\"'é\n]{0,4}".prop_map(|text| format!("r'''{}'''", text.replace('\'', ""))),
        Just("self".to_owned()),
        Just("self.a".to_owned()),
        Just("self.list".to_owned()),
        Just("true".to_owned()),
        Just("null".to_owned()),
        Just("x".to_owned()),
        Just("b'\\xff'".to_owned()),
        Just("duration('1h')".to_owned()),
        Just("optional.none()".to_owned()),
        Just("self.?b".to_owned()),
        Just("{'a': 1}".to_owned()),
        Just("has(self.a)".to_owned()),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        let binary = prop_oneof![
            Just("+"),
            Just("-"),
            Just("*"),
            Just("/"),
            Just("%"),
            Just("=="),
            Just("!="),
            Just("<"),
            Just(">="),
            Just("&&"),
            Just("||"),
            Just("in"),
        ];
        let member = prop_oneof![
            Just("size()"),
            Just("trim()"),
            Just("sum()"),
            Just("max()"),
            Just("isSorted()"),
            Just("orValue(1)"),
            Just("split('a')"),
            Just("join(',')"),
            Just("hasValue()"),
            Just("getHours()"),
            Just("charAt(1)"),
        ];
        let fold = prop_oneof![
            Just("all"),
            Just("exists"),
            Just("exists_one"),
            Just("map"),
            Just("filter"),
        ];
        prop_oneof![
            (inner.clone(), binary, inner.clone()).prop_map(|(a, op, b)| format!("({a}) {op} ({b})")),
            inner.clone().prop_map(|a| format!("!({a})")),
            inner.clone().prop_map(|a| format!("-({a})")),
            (inner.clone(), member).prop_map(|(a, call)| format!("({a}).{call}")),
            (inner.clone(), fold, inner.clone()).prop_map(|(a, name, b)| format!("({a}).{name}(x, {b})")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("({a}) ? ({b}) : ({c})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a})[{b}]")),
            proptest::collection::vec(inner.clone(), 0..4)
                .prop_map(|items| format!("[{}]", items.join(", "))),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{{{a}: {b}}}")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("'%s %d'.format([dyn({a}), {b}])")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn what_is_written_out_is_the_same_expression(source in expression()) {
        if let Ok(once) = normalize(&source) {
            let twice = normalize(&once).map_err(|error| TestCaseError::fail(format!("{once}\n{error}")))?;
            prop_assert_eq!(twice, once);
        }
    }

    #[test]
    fn an_evaluation_ends_within_its_budget(source in expression(), budget in 0u64..2000) {
        let environment = Environment::new().declare("self", Declared::dynamic());
        let Ok(program) = environment.compile(&source) else { return Ok(()) };
        let object = json!({"a": 1, "list": [1, 2, 3]});
        let generous = program.evaluate(&[Value::dynamic(&object)], 1_000_000);
        let tight = program.evaluate(&[Value::dynamic(&object)], budget);
        if generous.cost <= budget {
            prop_assert_eq!(format!("{:?}", tight.result), format!("{:?}", generous.result));
        } else {
            prop_assert!(tight.result.is_err());
        }
    }

    #[test]
    fn any_text_is_refused_or_parsed(source in "\\PC{0,40}") {
        let _ = normalize(&source);
    }
}
