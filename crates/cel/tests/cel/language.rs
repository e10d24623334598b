//! The meaning of expressions, as tables of expressions and results. `self` is an object with fields of every
//! declared type.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use watchkeeper_cel::limits::CALL_BUDGET;
use watchkeeper_cel::{Declared, Environment, Field, Identity, List, Object, Shape, Value, escape};

fn text(max: u64) -> Declared {
    Declared {
        shape: Shape::String,
        max_size: max,
    }
}

fn list(items: Declared, identity: Identity) -> Declared {
    Declared {
        shape: Shape::List(Arc::new(List { items, identity })),
        max_size: 10,
    }
}

fn object(name: &str, fields: &[(&str, Declared)]) -> Declared {
    let fields = fields.iter().map(|(name, declared)| {
        let field = Field {
            name: (*name).to_owned(),
            declared: declared.clone(),
        };
        (escape(name).expect("a name for it"), field)
    });
    Declared::object(Object {
        name: name.to_owned(),
        fields: fields.collect(),
    })
}

fn declared() -> Declared {
    let port = object(
        "port",
        &[("name", text(20)), ("port", Declared::plain(Shape::Int))],
    );
    object(
        "self",
        &[
            ("name", text(40)),
            ("a-b.c", text(40)),
            ("count", Declared::plain(Shape::Int)),
            ("ratio", Declared::plain(Shape::Double)),
            ("on", Declared::plain(Shape::Bool)),
            ("at", Declared::plain(Shape::Timestamp)),
            ("day", Declared::plain(Shape::Date)),
            ("wait", Declared::plain(Shape::Duration)),
            ("data", Declared::plain(Shape::Bytes)),
            ("any", Declared::dynamic()),
            ("absent", text(40)),
            ("nothing", object("nothing", &[])),
            ("words", list(text(20), Identity::Place)),
            ("tags", list(text(20), Identity::Value)),
            ("ports", list(port, Identity::Keys(vec!["name".to_owned()]))),
            (
                "labels",
                Declared {
                    shape: Shape::Map(Arc::new(text(20))),
                    max_size: 10,
                },
            ),
        ],
    )
}

fn sample() -> Json {
    json!({
        "name": "widget",
        "a-b.c": "dashed",
        "count": 3,
        "ratio": 2,
        "on": true,
        "at": "2024-02-29T12:30:45.5Z",
        "day": "2024-03-01",
        "wait": "1h30m",
        "data": "aGk=",
        "any": "50%",
        "nothing": null,
        "words": ["a", "b", "a"],
        "tags": ["x", "y"],
        "ports": [{"name": "http", "port": 80}, {"name": "https", "port": 443}],
        "labels": {"app": "web", "tier": "front"},
        "undeclared": 1,
    })
}

/// The result of an expression as text: its value, its error, or its compile errors.
fn outcome(expression: &str) -> String {
    let (declared, json) = (declared(), sample());
    let environment = Environment::new().declare("self", declared.clone());
    let program = match environment.compile(expression) {
        Ok(program) => program,
        Err(error) => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            return first.strip_prefix("ERROR: <input>:").unwrap_or(first).to_owned();
        }
    };
    let value = Value::from_json(&json, &declared).expect("the sample is in order");
    match program.evaluate(&[value], CALL_BUDGET).result {
        Ok(Value::Bool(value)) => value.to_string(),
        Ok(Value::Int(value)) => value.to_string(),
        Ok(Value::Uint(value)) => format!("{value}u"),
        Ok(Value::Double(value)) => format!("{value:?}"),
        Ok(Value::String(value)) => format!("{:?}", &*value),
        Ok(Value::Null) => "null".to_owned(),
        Ok(other) => format!("{other:?}"),
        Err(error) => format!("error: {error}"),
    }
}

#[track_caller]
fn check(table: &[(&str, &str)]) {
    let faults: Vec<String> = table
        .iter()
        .filter_map(|(expression, wanted)| {
            let found = outcome(expression);
            (found != *wanted).then(|| format!("{expression}\n  wanted {wanted}\n  found  {found}"))
        })
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Expressions that must be true.
#[track_caller]
fn holds(expressions: &[&str]) {
    let table: Vec<(&str, &str)> = expressions.iter().map(|it| (*it, "true")).collect();
    check(&table);
}

#[test]
fn literals_and_arithmetic() {
    check(&[
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("-3 - -4", "1"),
        ("7 / 2", "3"),
        ("-7 % 3", "-1"),
        ("0x1F", "31"),
        ("5u + 6u", "11u"),
        ("1.5e3", "1500.0"),
        (
            ".5 + 1.",
            "1:8: Syntax error: mismatched input '<EOF>' expecting {'?', IDENTIFIER, ESC_IDENTIFIER}",
        ),
        ("'a' + \"b\"", r#""ab""#),
        (r"r'\d'", r#""\\d""#),
        (r"'\u00e9\x41\101\n'", r#""éAA\n""#),
        ("'''a'b'''", r#""a'b""#),
        ("b'\\xff' == b'\\377'", "true"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("9223372036854775808", "1:1: invalid int literal"),
        ("9223372036854775807 + 1", "error: integer overflow"),
        (
            "duration('2562047h') + duration('2562047h')",
            "error: duration overflow",
        ),
        (
            "[duration('2562047h'), duration('2562047h')].sum()",
            "error: duration overflow",
        ),
        (
            "timestamp('2999-01-01T00:00:00Z') - timestamp('1999-01-01T00:00:00Z')",
            "error: duration overflow",
        ),
        ("1 / 0", "error: division by zero"),
        ("1 % 0", "error: modulus by zero"),
        ("1.0 / 0.0 > 1.0", "true"),
        ("true ? 1 : 2", "1"),
        ("[1, 2][1]", "2"),
        ("[1][1]", "error: index out of bounds: 1"),
        ("{'a': 1}['a']", "1"),
        ("{'a': 1}.b", "error: no such key: b"),
        ("{'a': 1}['b']", "error: no such key: b"),
        ("{'a': 1, 'a': 2}", "error: insert failed: key a already exists"),
        ("// what is said\n1 // and why", "1"),
    ]);
}

#[test]
fn comparison_is_by_value() {
    holds(&[
        "1 < 2 && 2 <= 2 && 3 > 2 && 2 >= 2",
        "1 < 1.5 && 2u > 1 && 1 != 2",
        "'a' < 'b' && b'a' < b'b' && !(true < false)",
        "dyn(1) == 1.0 && dyn(1u) == 1 && dyn(1) != '1'",
        "[1, 2] == [1, 2] && [1, 2] != [2, 1]",
        "{'a': [1]} == {'a': [1]} && {'a': 1} != {'b': 1}",
        "self.tags == ['x', 'y'] && self.tags == self.tags",
        "self.ports == self.ports && self == self",
        "1 in [1, 2] && !(3 in [1, 2]) && 'a' in {'a': 1}",
        "duration('1h') == duration('60m')",
        "type(1) == int && type('a') == string && type([]) == list && type(type(1)) == type",
        "type(self.at) == google.protobuf.Timestamp",
        "self.nothing == null",
    ]);
}

#[test]
fn what_decides_decides() {
    holds(&[
        "true || 1 / 0 == 1",
        "1 / 0 == 1 || true",
        "!(false && 1 / 0 == 1)",
        "!(1 / 0 == 1 && false)",
        "[1, 0].exists(x, 1 / x == 1)",
        "[0, 1].exists(x, 1 / x == 1)",
        "![0, 2].all(x, 1 / x == 1)",
    ]);
    check(&[
        ("false || 1 / 0 == 1", "error: division by zero"),
        ("[0].all(x, 1 / x == 1)", "error: division by zero"),
        ("[0].exists_one(x, 1 / x == 1)", "error: division by zero"),
    ]);
}

#[test]
fn macros() {
    holds(&[
        "[1, 2, 3].all(x, x > 0) && [].all(x, false)",
        "[1, 2].exists(x, x == 2) && ![].exists(x, true)",
        "[1, 2, 2].exists_one(x, x == 1) && ![1, 2, 2].exists_one(x, x == 2)",
        "[1, 2].map(x, x * 2) == [2, 4]",
        "[1, 2, 3].map(x, x > 1, x * 2) == [4, 6]",
        "[1, 2, 3].filter(x, x != 2) == [1, 3]",
        "{'a': 1, 'b': 2}.all(k, k in ['a', 'b'])",
        "{'a': 1}.map(k, k) == ['a']",
        "[[1], [2]].all(x, x.all(y, y > 0 && x.size() == 1))",
        "has(self.name) && !has(self.absent)",
        "has({'a': 1}.a) && !has({'a': 1}.b)",
        "self.ports.exists_one(p, p.name == 'http')",
        "self.ports.map(p, p.port) == [80, 443]",
        "self.labels.all(k, self.labels[k].size() < 10)",
        // Two names: the index or key, and the value.
        "[5, 6].all(i, v, v == i + 5)",
        "{'a': 1}.exists(k, v, k == 'a' && v == 1)",
        "[5, 5].existsOne(i, v, i == 1)",
        "[5, 6].transformList(i, v, i + v) == [5, 7]",
        "[5, 6].transformList(i, v, i > 0, v) == [6]",
        "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
        "{'a': 'b'}.transformMapEntry(k, v, {v: k}) == {'b': 'a'}",
    ]);
    check(&[
        ("has(self)", "1:5: invalid argument to has() macro"),
        ("[1].all(1, true)", "1:9: argument must be a simple name"),
        ("[1].all(x, x)", "1:12: expected type 'bool' but found 'int'"),
        (
            "1.all(x, true)",
            "1:1: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
    ]);
}

#[test]
fn fields_of_objects() {
    check(&[
        ("self.name", r#""widget""#),
        ("self.a__dash__b__dot__c", r#""dashed""#),
        ("self.`a-b.c`", "1:5: undefined field 'a-b.c'"),
        ("self.ratio", "2.0"),
        ("self.absent", "error: no such key: absent"),
        ("self.undeclared", "1:5: undefined field 'undeclared'"),
        ("self.at.getFullYear()", "2024"),
        ("self.day - self.at < duration('12h')", "true"),
        ("self.wait.getMinutes()", "90"),
        ("string(self.data)", r#""hi""#),
        ("self.any == '50%' && type(self.any) == string", "true"),
        ("self.any + 1", "error: no such overload"),
        ("self.ports[0].nme", "1:14: undefined field 'nme'"),
        ("self.labels.app", r#""web""#),
        ("self.labels.other", "error: no such key: other"),
        (
            "self.name.x",
            "1:10: type 'string' does not support field selection",
        ),
    ]);
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    check(&[
        (
            "1 +",
            "1:4: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', \
             'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
        ),
        ("1 2", "1:3: Syntax error: extraneous input '2' expecting <EOF>"),
        (
            "this does not compile",
            "1:6: Syntax error: mismatched input 'does' expecting <EOF>",
        ),
        ("1 + $", "1:5: Syntax error: token recognition error at: '$'"),
        ("'a", "1:1: Syntax error: token recognition error at: ''a'"),
        ("(1", "1:3: Syntax error: mismatched input '<EOF>' expecting ')'"),
        ("var + 1", "1:1: reserved identifier: var"),
        (
            "other == 1",
            "1:1: undeclared reference to 'other' (in container '')",
        ),
        (
            "other(1)",
            "1:6: undeclared reference to 'other' (in container '')",
        ),
        (
            "Foo{a: 1}",
            "1:4: undeclared reference to 'Foo' (in container '')",
        ),
        (
            "1 + 'a'",
            "1:3: found no matching overload for '_+_' applied to '(int, string)'",
        ),
        (
            "'a'.startsWith(1)",
            "1:15: found no matching overload for 'startsWith' applied to 'string.(int)'",
        ),
        (
            "self.name == null",
            "1:11: found no matching overload for '_==_' applied to '(string, null)'",
        ),
        ("[1, 'a']", "1:5: expected type 'int' but found 'string'"),
        (
            "self.words == [1]",
            "1:12: found no matching overload for '_==_' applied to '(list(string), list(int))'",
        ),
        (
            "true ? 1 : 'a'",
            "1:6: found no matching overload for '_?_:_' applied to '(bool, int, string)'",
        ),
        ("'a'.matches('[')", "1:13: invalid matches argument"),
        ("duration('1 day')", "1:10: invalid duration argument"),
        ("timestamp('now')", "1:11: invalid timestamp argument"),
    ]);
    let environment = Environment::new().declare("self", declared());
    let error = environment
        .compile("self.a == 1\n  && self.b == 2")
        .expect_err("two faults");
    assert_eq!(
        error.to_string(),
        "ERROR: <input>:1:5: undefined field 'a'\n | self.a == 1\n | ....^\n\
         ERROR: <input>:2:10: undefined field 'b'\n |   && self.b == 2\n | .........^"
    );
}

#[test]
fn conversions() {
    check(&[
        ("int('12') + int(3.9) + int(4u)", "19"),
        ("int('x')", "error: type conversion error from 'string' to 'int'"),
        ("uint(-1)", "error: unsigned integer overflow"),
        ("double('1.5')", "1.5"),
        (
            "string(1) + string(2u) + string(true) + string(1.5)",
            r#""12true1.5""#,
        ),
        ("string(1e30)", r#""1e+30""#),
        ("string(duration('90m'))", r#""5400s""#),
        ("string(duration('1.5s'))", r#""1.5s""#),
        (
            "string(timestamp('2024-01-01T00:00:00Z'))",
            r#""2024-01-01T00:00:00Z""#,
        ),
        ("bool('true')", "true"),
        ("bytes('é').size()", "2"),
        ("'é'.size() + size([1]) + size({1: 2})", "3"),
    ]);
}

#[test]
fn times() {
    holds(&[
        "timestamp('2024-01-01T00:00:00Z') + duration('24h') == timestamp('2024-01-02T00:00:00Z')",
        "timestamp('2024-01-02T00:00:00Z') - timestamp('2024-01-01T00:00:00Z') == duration('24h')",
        "timestamp('2024-02-29T23:30:00Z').getHours() == 23",
        "timestamp('2024-02-29T23:30:00Z').getHours('+01:00') == 0",
        "timestamp('2024-02-29T23:30:00Z').getHours('Europe/Berlin') == 0",
        "timestamp('2024-02-29T23:30:00Z').getMonth() == 1",
        "timestamp('2024-02-29T23:30:00Z').getDate() == 29",
        "timestamp('2024-02-29T23:30:00Z').getDayOfMonth() == 28",
        "timestamp('2024-02-29T23:30:00Z').getDayOfWeek() == 4",
        "timestamp('2024-02-29T23:30:00Z').getDayOfYear() == 59",
        "timestamp('9999-12-31T23:59:59Z').getFullYear() == 9999",
        "string(timestamp('9999-12-31T23:59:59.5Z')) == '9999-12-31T23:59:59.5Z'",
        "int(timestamp('1969-12-31T23:59:59.5Z')) == -1",
        "duration('90m').getHours() == 1 && duration('90m').getMinutes() == 90",
        "duration('1.5s').getMilliseconds() == 500",
    ]);
}

#[test]
fn strings() {
    holds(&[
        "'abc'.contains('b') && 'abc'.startsWith('a') && 'abc'.endsWith('c')",
        "'héllo'.charAt(1) == 'é' && 'a'.charAt(1) == ''",
        "'héllo'.indexOf('l') == 2 && 'a'.indexOf('b') == -1 && 'aba'.indexOf('a', 1) == 2",
        "'aba'.lastIndexOf('a') == 2 && 'aba'.lastIndexOf('a', 1) == 0",
        "['a', 'b'].join() == 'ab' && ['a', 'b'].join('-') == 'a-b'",
        "'AbÇ'.lowerAscii() == 'abÇ' && 'ab'.upperAscii() == 'AB'",
        "'aaa'.replace('a', 'b') == 'bbb' && 'aaa'.replace('a', 'b', 2) == 'bba'",
        "'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c']",
        "'ab'.split('') == ['a', 'b'] && 'a,b'.split(',', 0) == []",
        "'héllo'.substring(1) == 'éllo' && 'hello'.substring(1, 3) == 'el'",
        "'  a '.trim() == 'a'",
        "strings.quote('a\"b') == '\"a\\\\\"b\"'",
        "'%s is %d, %.2f, %x, %b, %%'.format(['a', 5, 1.255, 255, true]) == 'a is 5, 1.25, ff, 1, %'",
        "'%s'.format([[1, 'a']]) == '[1, a]'",
        "'%e'.format([1234.5]) == '1.234500e+03'",
    ]);
    check(&[
        (
            "'abc'.substring(2, 1)",
            "error: invalid substring range. start: 2, end: 1",
        ),
        ("'abc'.charAt(4)", "error: index out of range: 4"),
        ("'%d'.format([])", "error: index 0 out of range"),
    ]);
}

#[test]
fn patterns() {
    holds(&[
        "'abc'.matches('^a.c$') && matches('abc', 'b') && !'abc'.matches('d')",
        "'abc 123'.find('[0-9]+') == '123' && 'abc'.find('x') == ''",
        "'1 2 3'.findAll('[0-9]') == ['1', '2', '3'] && '1 2 3'.findAll('[0-9]', 2) == ['1', '2']",
        "'abc'.matches(self.name) == false",
    ]);
    check(&[(
        "'a'.matches('[' + '')",
        "error: error parsing regexp: missing closing ]: `[`",
    )]);
}

#[test]
fn lists_and_sets() {
    holds(&[
        "[1, 2, 2].isSorted() && !['b', 'a'].isSorted() && [1, 2].sum() == 3",
        "[3, 1, 2].min() == 1 && ['a', 'c'].max() == 'c' && [1.5, 2.0].sum() == 3.5",
        "[duration('1m'), duration('1h')].sum() == duration('61m')",
        "[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2 && [1].indexOf(3) == -1",
        "sets.contains([1, 2, 3], [2, 1]) && sets.equivalent([1, 1], [1]) && sets.intersects([1], [1, 2])",
        "!sets.contains([1], [2]) && !sets.intersects([1], [2]) && sets.contains([], [])",
        "[1] + [2] == [1, 2]",
        // Lists whose items have an identity are merged.
        "self.tags + ['y', 'z'] == ['x', 'y', 'z']",
        "(self.ports + self.ports).size() == 2",
    ]);
    check(&[("[].min()", "error: min called on empty list")]);
}

#[test]
fn optionals() {
    holds(&[
        "self.?name.hasValue() && !self.?absent.hasValue()",
        "self.?absent.orValue('none') == 'none' && self.?name.value() == 'widget'",
        "self.?nothing.hasValue()",
        "{'a': {'b': 1}}.?a.?b.value() == 1 && !{'a': {'b': 1}}.?x.?b.hasValue()",
        "[1][?0].value() == 1 && ![1][?1].hasValue()",
        "optional.of(1).or(optional.of(2)).value() == 1 && optional.none().orValue(3) == 3",
        "!optional.ofNonZeroValue('').hasValue()",
        "[?optional.of(1), ?optional.none(), 2] == [1, 2]",
        "{?'a': optional.of(1), ?'b': optional.none()} == {'a': 1}",
        "optional.of(2).optMap(x, x * 2).value() == 4",
        "cel.bind(x, 2, cel.bind(y, x * 2, x + y)) == 6",
        "optional.of(2).optFlatMap(x, optional.of(x)).value() == 2",
        "!optional.none().optMap(x, x).hasValue()",
    ]);
    check(&[("self.?absent.value()", "error: optional.none() dereference")]);
}

#[test]
fn quantities() {
    holds(&[
        "quantity('1Gi').isGreaterThan(quantity('500Mi')) && quantity('1').isLessThan(quantity('2'))",
        "quantity('1k') == quantity('1000') && quantity('1').compareTo(quantity('2')) == -1",
        "quantity('50k').add(quantity('20k')) == quantity('70k') && quantity('5').sub(3) == quantity('2')",
        "quantity('5k').asInteger() == 5000 && !quantity('1500m').isInteger()",
        "quantity('-1').sign() == -1 && quantity('1.5').asApproximateFloat() == 1.5",
        "isQuantity('1.3G') && !isQuantity('huge')",
    ]);
}

#[test]
fn addresses() {
    holds(&[
        "isIP('127.0.0.1') && isIP('::1') && !isIP('127.0.0.256') && !isIP('::ffff:1.2.3.4')",
        "ip('127.0.0.1').family() == 4 && ip('::1').family() == 6 && ip('127.0.0.1').isLoopback()",
        "ip('0.0.0.0').isUnspecified() && ip('169.254.1.1').isLinkLocalUnicast()",
        "ip('224.0.0.1').isLinkLocalMulticast() && ip('192.168.0.1').isGlobalUnicast()",
        "ip.isCanonical('2001:db8::1') && !ip.isCanonical('2001:DB8::1')",
        "ip('::1') == ip('0:0:0:0:0:0:0:1') && string(ip('::1')) == '::1'",
        "isCIDR('10.0.0.0/8') && !isCIDR('10.0.0.0/33') && !isCIDR('10.0.0.0')",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP(ip('11.0.0.1'))",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.1.0.0/16').containsCIDR(cidr('10.0.0.0/8'))",
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.0.0.0/8').prefixLength() == 8",
        "cidr('10.0.0.0/8').ip() == ip('10.0.0.0')",
        "url('https://u@example.com:80/a%20b?q=1&q=2').getHost() == 'example.com:80'",
        "url('https://[::1]:80/').getHostname() == '::1' && url('https://[::1]:80/').getPort() == '80'",
        "url('https://example.com/a%20b').getEscapedPath() == '/a%20b'",
        "url('https://example.com/?q=1&q=2').getQuery() == {'q': ['1', '2']}",
        "url('HTTP://example.com').getScheme() == 'http'",
        "isURL('https://example.com') && isURL('/path') && !isURL('../x') && !isURL('https://a:b/')",
    ]);
}

#[test]
fn formats_and_versions() {
    holds(&[
        "!format.dns1123Label().validate('a-b').hasValue()",
        "format.dns1123Label().validate('A_B').value().size() == 1",
        "!format.named('uuid').value().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()",
        "!format.named('nobody').hasValue()",
        "!format.dns1123LabelPrefix().validate('a-').hasValue()",
        "format.date().validate('2024-02-30').hasValue() && format.byte().validate('?').hasValue()",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && semver('1.0.0-rc.1').compareTo(semver('1.0.0')) == -1",
        "semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && semver('1.2.3').patch() == 3",
        "isSemver('1.2.3-a+b') && !isSemver('v1.2') && isSemver('v1.2', true) && !isSemver('1.02.3')",
        "semver('v01.1', true) == semver('1.1.0')",
    ]);
}
