//! YAML as users write it, and malformed input of every sort.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn read(text: &str) -> Vec<Value> {
    documents(text.as_bytes(), Mode::Lenient)
        .map(|document| document.unwrap_or_else(|error| panic!("{text}: {error}")).value)
        .collect()
}

#[track_caller]
fn check(text: &str, value: Value) {
    assert_eq!(read(text), [value], "{text}");
}

#[test]
fn block_texts_may_run_into_the_end() {
    check("a: |\n  x", json!({"a": "x"}));
    check("a: |\n  x\n", json!({"a": "x\n"}));
    check("a: |-\n  x", json!({"a": "x"}));
    check("a: |+\n  x\n\n", json!({"a": "x\n\n"}));
    check("a: |+\n  x\n  y", json!({"a": "x\ny"}));
    check("a: >\n  x\n  y", json!({"a": "x y"}));
    check("a: |\n  x\n  ", json!({"a": "x\n"}));
    check("- |\n é\n- b", json!(["é\n", "b"]));
    check("a: |\n  x\nb: c", json!({"a": "x\n", "b": "c"}));
    assert_eq!(
        read("a: |\n  x\n---\nb: 1"),
        [json!({"a": "x\n"}), json!({"b": 1})]
    );
}

#[track_caller]
fn check_error(input: impl AsRef<[u8]>, mode: Mode, message: &str) {
    let error = documents(input.as_ref(), mode)
        .find_map(Result::err)
        .expect("an error");
    assert_eq!(error.to_string(), message);
}

#[test]
fn streams_are_cut_as_kubectl_cuts_them() {
    let check = |text: &str, values: &[Value]| assert_eq!(read(text), values, "{text:?}");
    let (a, b) = (json!({"a": 1}), json!({"b": 2}));
    let both = [a.clone(), b.clone()];
    check("a: 1\n---\nb: 2\n", &both);
    check("a: 1\n--- # comment\nb: 2\n", &both);
    check("a: 1\r\n--- \t\r\nb: 2\r\n", &both);
    check(
        "---\n---\n# nothing\n---\na: 1\n---\nnull\n---\n\n---\nb: 2",
        &both,
    );
    check("a: 1\n---\n{\"b\": 2}\n", &both);
    check(
        "{\"a\": 1}\n{\"b\": 2}{\"a\": 1}",
        &[a.clone(), b.clone(), a.clone()],
    );
    check("{\"a\": 1}\n---\n{b: 2}\n", &both);
    check("\u{feff}a: 1\n", std::slice::from_ref(&a));
    check("a: 1\n...\n", std::slice::from_ref(&a));
    check("a: |\n  ---\n  x\n", &[json!({"a": "---\nx\n"})]);
    check("", &[]);
    check("---", &[]);
    check("# nothing\n", &[]);
}

#[test]
fn documents_know_where_they_start() {
    let input = b"# first\na: 1\n---\n\n---\n{\"b\": 2}\n\n{\"c\": 3}\n---\nd: 4\n";
    let places: Vec<_> = documents(input, Mode::Lenient)
        .map(|document| document.map(|document| (document.index, document.line)))
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(places, [(0, 1), (1, 6), (2, 8), (3, 10)]);
}

#[test]
fn keys_that_are_not_text_become_text() {
    check(
        "yes: 1\nn: 2\n3: 3\n1.5: 4\n0x10: 5\n2001-01-01: 6\n'on': 7\n1e6: 8\n",
        json!({"true": 1, "false": 2, "3": 3, "1.5": 4, "16": 5, "2001-01-01": 6, "on": 7, "1e+06": 8}),
    );
    check_error(
        "a: 1\nnull: 1\n",
        Mode::Lenient,
        "document 1, line 2: unsupported map key of type null",
    );
    check_error(
        "? [a]\n: 1\n",
        Mode::Lenient,
        "document 1, line 1: unsupported map key of type sequence",
    );
}

#[test]
fn anchors_aliases_and_merges() {
    check("a: &x {b: 1}\nc: *x\n", json!({"a": {"b": 1}, "c": {"b": 1}}));
    check("a: &x !!str 3\n*x : 4\n", json!({"a": "3", "3": 4}));
    check("a: 1\n<<: {a: 2, b: 3}\n", json!({"a": 2, "b": 3}));
    check("<<: {a: 2, b: 3}\na: 1\n", json!({"a": 1, "b": 3}));
    check(
        "x: &x {a: 1}\nz: &z {a: 2, c: 3}\nd:\n  <<: [*x, *z]\n",
        json!({"x": {"a": 1}, "z": {"a": 2, "c": 3}, "d": {"a": 1, "c": 3}}),
    );
    check("'<<': 5\n", json!({"<<": 5}));
    check_error(
        "a: *x\n",
        Mode::Lenient,
        "document 1, line 1: unknown anchor 'x' referenced",
    );
    check_error(
        "a: &x\n  b: *x\n",
        Mode::Lenient,
        "document 1, line 2: anchor 'x' value contains itself",
    );
    check_error(
        "a:\n  <<: 5\n",
        Mode::Lenient,
        "document 1, line 2: map merge requires map or sequence of maps as the value",
    );
}

#[test]
fn the_last_of_two_equal_keys_wins_and_is_reported() {
    let text =
        b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: warn\nnope: 1\ndata:\n  a: '1'\n  a: '2'\n";
    let document = first_document(text, Mode::Lenient).unwrap();
    assert_eq!(document.value["data"], json!({"a": "2"}));
    let warnings: Vec<_> = document.duplicates.iter().map(DuplicateKey::to_string).collect();
    assert_eq!(warnings, ["line 8: key \"a\" already set in map"]);
    let error = first_document(text, Mode::Strict).unwrap_err();
    assert_eq!(
        error.to_go_string(),
        "yaml: unmarshal errors:\n  line 8: key \"a\" already set in map"
    );
}

#[test]
fn strict_names_the_document_and_every_line() {
    check_error(
        "a: 1\n---\nb:\n  yes: 1\n  on: 2\n  5: 1\n  5: 1\n",
        Mode::Strict,
        "document 2, line 5: keys set more than once: true, 5",
    );
    check_error(
        "{\"a\": 1,\n \"a\": 2}",
        Mode::Strict,
        "document 1, line 2: keys set more than once: \"a\"",
    );
}

#[test]
fn a_body_is_its_first_document() {
    let document = first_document(b"# comment\na: 1\n---\nb: 2\n", Mode::Lenient).unwrap();
    assert_eq!(document.value, json!({"a": 1}));
    assert_eq!(first_document(b"", Mode::Lenient).unwrap().value, Value::Null);
    let typed: std::collections::BTreeMap<String, u8> = from_slice(b"a: 1\n", Mode::Strict).unwrap();
    assert_eq!(typed["a"], 1);
    let error = from_slice::<Vec<u8>>(b"a: 1\n", Mode::Strict).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("document 1, line 1: invalid type: map"),
        "{error}"
    );
}

#[test]
fn syntax_errors_have_the_true_line_and_kubectls_words() {
    let check = |text: &str, ours: &str, theirs: &str| {
        let error = documents(text.as_bytes(), Mode::Lenient)
            .find_map(Result::err)
            .expect(text);
        assert_eq!(
            (error.to_string().as_str(), error.to_go_string().as_str()),
            (ours, theirs),
            "{text}"
        );
    };
    check(
        "a: [1,\nb: }",
        "document 1, line 2: did not find expected node content",
        "yaml: line 1: did not find expected node content",
    );
    check(
        "ok: 1\n---\na:\n\tb: 1\n",
        "document 2, line 4: found character that cannot start any token",
        "yaml: line 2: found character that cannot start any token",
    );
    check(
        "x: 1\na: \"open\n",
        "document 1, line 3: found unexpected end of stream",
        "yaml: line 3: found unexpected end of stream",
    );
    check(
        "x:\n- a\n b: c\n",
        "document 1, line 3: mapping values are not allowed in this context",
        "yaml: line 3: mapping values are not allowed in this context",
    );
    check(
        "a: 1\n--- x\nb: 2\n",
        "document 1, line 2: invalid Yaml document separator: x",
        "yaml: invalid Yaml document separator: x",
    );
    check(
        "%YAML 1.1\n---\na: 1\n",
        "document 1, line 2: did not find expected <document start>",
        "yaml: line 1: did not find expected <document start>",
    );
}

#[test]
fn a_bad_document_does_not_hide_the_next() {
    let input = b"a: 1\n---\nb: [\n---\nc: 3\n";
    let results: Vec<_> = documents(input, Mode::Lenient).collect();
    assert_eq!(results.len(), 3);
    assert_eq!(results[1].as_ref().unwrap_err().index, 1);
    assert_eq!(results[2].as_ref().unwrap().value, json!({"c": 3}));
}

#[test]
fn bad_input_is_refused() {
    check_error(
        b"a: 1\nb: \xff\n",
        Mode::Lenient,
        "document 1, line 2: invalid UTF-8",
    );
    check_error(
        "a: 1\r---\rb: 2\n",
        Mode::Lenient,
        "document 1, line 2: a second document without a '---' line before it",
    );
    check_error(
        "a: !!int x\n",
        Mode::Lenient,
        "document 1, line 1: cannot decode !!str `x` as a !!int",
    );
    check_error(
        "a: .inf\n",
        Mode::Lenient,
        "document 1, line 1: unsupported value: +Inf",
    );
    check_error(
        "a: !!binary $\n",
        Mode::Lenient,
        "document 1, line 1: !!binary value contains invalid base64 data",
    );
    check_error(
        "[".repeat(100_000),
        Mode::Lenient,
        "document 1, line 1: nested deeper than 127 levels",
    );
    let stairs: String = (0..200)
        .map(|depth| format!("{}a:\n", " ".repeat(depth)))
        .collect();
    check_error(
        stairs,
        Mode::Lenient,
        "document 1, line 128: nested deeper than 127 levels",
    );
    check_error(
        vec![b'a'; OBJECT_LIMIT + 1],
        Mode::Lenient,
        "document 1, line 1: longer than 33554432 bytes",
    );
    check_error(
        "a: 1\nb: [!b,c]\n",
        Mode::Lenient,
        "document 1, line 2: did not find expected ',' or ']'",
    );
}

#[test]
fn aliases_cannot_dig_deeper_than_brackets() {
    let deep = |inner: &str| format!("{}{inner}{}", "[".repeat(100), "]".repeat(100));
    let text = format!("a: &a {}\nb: {}\n", deep("x"), deep("*a"));
    check_error(
        text,
        Mode::Lenient,
        "document 1, line 2: nested deeper than 127 levels",
    );
}

#[test]
fn a_billion_laughs_are_refused() {
    let mut laughs = String::from("a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n");
    for level in 1..10 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        laughs += &format!("a{level}: &a{level} [{aliases}]\n");
    }
    check_error(
        &laughs,
        Mode::Lenient,
        "document 1, line 5: aliases expand to more than 4194304 bytes",
    );
    let long = format!(
        "a: &a {}\nb: [{}]\n",
        "x".repeat(100_000),
        vec!["*a"; 100].join(", ")
    );
    check_error(
        long,
        Mode::Lenient,
        "document 1, line 2: aliases expand to more than 4194304 bytes",
    );
    // Names within names are copies too.
    let nested: String = (0..100).map(|depth| format!("&a{depth} [")).collect();
    check_error(
        format!("a: {nested}{}{}", "x".repeat(100_000), "]".repeat(100)),
        Mode::Lenient,
        "document 1, line 1: aliases expand to more than 4194304 bytes",
    );
}

#[test]
fn tag_directives_are_limited() {
    let with_directives = |count: usize, breaks: &str| {
        let directives: String = (0..count)
            .map(|index| format!("%TAG !t{index}! tag:x{breaks}"))
            .collect();
        format!("{directives}---{breaks}a: 1\n")
    };
    let text = with_directives(TAG_LIMIT, "\n");
    assert_eq!(
        first_document(text.as_bytes(), Mode::Lenient).unwrap().value,
        json!({"a": 1})
    );
    for breaks in ["\n", "\r\n", "\r", "\u{85}", "\u{2028}"] {
        let text = with_directives(TAG_LIMIT + 1, breaks);
        let error = first_document(text.as_bytes(), Mode::Lenient).unwrap_err();
        assert_eq!(error.kind, YamlErrorKind::TooManyTags, "{breaks:?}");
    }
}

#[test]
fn values_print_as_kubectl_prints_them() {
    let value = json!({
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "data": {"false": "1", "k": "line1\nline2\n", "a10": "", "a2": "yes", "A": "- x", "1": "0644", "é": "ü"},
        "metadata": {
            "creationTimestamp": "2026-11-15T21:18:42Z",
            "managedFields": [{"fieldsV1": {"f:data": {".": {}, "f:k": {}}}, "manager": "golden"}],
            "labels": {},
            "finalizers": [],
        },
        "numbers": [1, -1.5, 1e21, true, null, [1, [2]]],
        "long": "a sentence that is long enough to be folded because it does not fit into the eighty columns of old",
        "odd": ["trailing \n", "a: b", "#x", "*a", "tab\there", "'", "\"", " lead", "|", "\u{7}", "a\n\nb", "\u{1f600}", "x\n\n"],
    });
    expect_test::expect![[r#"
        apiVersion: v1
        data:
          "1": "0644"
          A: '- x'
          a2: "yes"
          a10: ""
          "false": "1"
          k: |
            line1
            line2
          é: ü
        kind: ConfigMap
        long: a sentence that is long enough to be folded because it does not fit into the
          eighty columns of old
        metadata:
          creationTimestamp: "2026-11-15T21:18:42Z"
          finalizers: []
          labels: {}
          managedFields:
          - fieldsV1:
              f:data:
                .: {}
                f:k: {}
            manager: golden
        numbers:
        - 1
        - -1.5
        - 1e+21
        - true
        - null
        - - 1
          - - 2
        odd:
        - "trailing \n"
        - 'a: b'
        - '#x'
        - '*a'
        - "tab\there"
        - ''''
        - '"'
        - ' lead'
        - '|'
        - "\a"
        - |-
          a

          b
        - "\U0001F600"
        - |+
          x

    "#]]
    .assert_eq(&to_string(&value));
    assert_eq!(
        documents_to_string([&json!({"a": 1}), &json!({"b": 2})]),
        "a: 1\n---\nb: 2\n"
    );
}

/// JSON of any shape, with texts that YAML has a meaning for.
fn any_json() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "\\PC{0,12}",
        "[ -~\n\t]{0,40}",
        "[-+0-9_.:eExobT]{0,12}",
        prop::sample::select(vec![
            "yes",
            "off",
            "y",
            "~",
            "null",
            "<<",
            "=",
            "---",
            "...",
            "- a",
            "a: b",
            "a #b",
            " a",
            "a ",
            "a\n",
            "\n",
            "\na",
            "a\n\n",
            " a\nb",
            "a \nb",
            "\u{feff}a",
            "\u{2028}",
            "\u{85}",
            "\r\n",
            "\r",
            "'",
            "\"",
            "%a",
            "!a",
            "&a",
            "*a",
            "@a",
            "`a",
            "{",
            "}",
            "[",
            "]",
            ",",
            "?",
            "? a",
            ":",
            ":a",
            "a:",
            "\0",
            "\u{1b}[0m",
        ])
        .prop_map(str::to_owned),
    ];
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("integral floats read back as integers", |value| value.fract()
                != 0.0)
            .prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::hash_map(text.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(value in any_json()) {
        let text = to_string(&value);
        let document = first_document(text.as_bytes(), Mode::Strict);
        prop_assert_eq!(document.map(|document| document.value), Ok(value), "{}", text);
    }

    #[test]
    fn any_bytes_end_in_documents_or_errors(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        documents(&bytes, Mode::Strict).for_each(drop);
    }

    #[test]
    fn any_markup_ends_in_documents_or_errors(text in "([-a :\\[\\]{},&*!%|>'\"#?\n\t]|<<|---|\\.\\.\\.|!!|0x){0,60}") {
        documents(text.as_bytes(), Mode::Strict).for_each(drop);
        let _ = first_document(text.as_bytes(), Mode::Lenient);
    }

    #[test]
    fn truncated_manifests_do_not_panic(cut in 0usize..400) {
        let manifest = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: &n \"a\\u00e9\"\n  labels: {<<: {app: x}, on: *n}\nspec:\n  containers:\n  - name: c\n    args: [\"-v\", '2', !!str 3]\n    env:\n    - {name: A, value: >-\n      }\n    script: |+2\n      echo\n\n      done\n...\n---\n{\"a\": [1, {\"b\": null}]}\n";
        let cut = cut.min(manifest.len());
        if let Some(text) = manifest.get(..cut) {
            documents(text.as_bytes(), Mode::Lenient).for_each(drop);
        }
    }
}
