//! Custom kinds on the command line: applied, listed by any of their names, and deleted with their definition.

use crate::support::World;
use expect_test::{Expect, expect};

async fn check(world: &World, line: &str, expected: Expect) {
    let screen = world.run(line).await;
    let hidden: Vec<String> = screen.lines().map(hide_times).collect();
    expected.assert_eq(&(hidden.join("\n") + "\n"));
}

/// Creation times differ from run to run.
fn hide_times(line: &str) -> String {
    let is_time = |word: &str| word.len() == 20 && word.ends_with('Z');
    let is_age = |word: &str| {
        let seconds = word.strip_suffix('s');
        seconds.is_some_and(|digits| digits.parse::<u32>().is_ok())
    };
    let words = line.split(' ').map(|word| match is_time(word) || is_age(word) {
        true => "TIME",
        false => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

const MANIFEST: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget, shortNames: [wi]}
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Color, type: string, jsonPath: .spec.color}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer, default: 3, maximum: 9}
              color: {type: string}
"#;

#[tokio::test]
async fn custom_kinds_are_used_like_built_in_ones() {
    let world = World::new().await;
    world.write("definition.yaml", MANIFEST);
    world.write(
        "widget.yaml",
        "{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, spec: {color: red}}\n",
    );
    world.write(
        "large.yaml",
        "{apiVersion: example.com/v1, kind: Widget, metadata: {name: b}, spec: {size: 10}}\n",
    );
    check(
        &world,
        "apply -f @definition.yaml",
        expect![[r#"
        customresourcedefinition.apiextensions.k8s.io/widgets.example.com created
    "#]],
    )
    .await;
    check(
        &world,
        "get crd",
        expect![[r#"
        NAME                  SCOPE        VERSIONS      CREATED AT
        widgets.example.com   Namespaced   v1(storage)   TIME
    "#]],
    )
    .await;
    check(
        &world,
        "apply -f @widget.yaml",
        expect![[r#"
        widget.example.com/a created
    "#]],
    )
    .await;
    check(
        &world,
        "apply -f @widget.yaml",
        expect![[r#"
        widget.example.com/a unchanged
    "#]],
    )
    .await;
    check(&world, "apply -f @large.yaml", expect![[r#"
        stderr: The Widget "b" is invalid: spec.size: Invalid value: 10: spec.size in body should be less than or equal to 9
        exit 1
    "#]]).await;
    check(
        &world,
        "get widgets",
        expect![[r#"
        NAME   SIZE   COLOR
        a      3      red
    "#]],
    )
    .await;
    check(
        &world,
        "get wi a -o name",
        expect![[r#"
        widget.example.com/a
    "#]],
    )
    .await;
    check(
        &world,
        "delete -f @definition.yaml",
        expect![[r#"
        customresourcedefinition.apiextensions.k8s.io/widgets.example.com deleted
    "#]],
    )
    .await;
    check(&world, "get widgets", expect![[r#"
        stderr: error: the server doesn't have a resource type "widgets"; `watchkeeper api-resources` lists those it has
        exit 1
    "#]]).await;
}
