//! `check` without a cluster: errors with file and line, custom kinds, policies, and tests of them.

use crate::support::World;
use expect_test::{Expect, expect};
use watchkeeper_cli::{Look, Output};

const WEB: &str = "# the shop
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: -1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        imagee: nginx
        image: nginx
---
apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: shop
spec:
  ports:
  - port: 80
    name: http
  - port: 99999
    name: other
";

const GOOD: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: 'nginx:1.27'}]}
";

const WIDGETS: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.acme.example}
spec:
  group: acme.example
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  CONVERSION
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer, maximum: 10}
              colour:
                type: string
                x-kubernetes-validations:
                - {rule: self == oldSelf, message: a widget keeps its colour}
            x-kubernetes-validations:
            - {rule: \"self.colour != 'red' || self.size < 5\", message: red widgets are small}
";

const POLICY: &str = "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: pinned}
spec: {policyName: pinned, validationActions: [ACTION]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: pinned}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}
  validations:
  - expression: object.spec.template.spec.containers.all(c, c.image.contains(':'))
    message: pin your images
";

fn widgets() -> String {
    WIDGETS.replace("  CONVERSION\n", "")
}

fn policy(action: &str) -> String {
    POLICY.replace("ACTION", action)
}

async fn check(world: &World, line: &str, expected: Expect) {
    expected.assert_eq(&world.run(line).await);
}

#[tokio::test]
async fn errors_are_the_servers_with_file_and_line() {
    let world = World::new().await;
    world.write("web.yaml", WEB);
    check(&world, "check -f @web.yaml", expect![[r#"
        web.yaml:6: error: deployment.apps/web: spec.replicas: Invalid value: -1: must be greater than or equal to 0
        web.yaml:13: error: deployment.apps/web: unknown field "spec.template.spec.containers[0].imagee"
        web.yaml:25: error: service/web: spec.ports[1].port: Invalid value: 99999: must be between 1 and 65535, inclusive
        web.yaml:25: error: service/web: spec.ports[1].targetPort: Invalid value: 99999: must be between 1 and 65535, inclusive

        Assumed to be there: namespace/shop
        failed: 2 objects in 1 file, 0 valid; 4 errors
        Next: correct web.yaml:6, and check again.
        exit 1
    "#]]).await;
}

#[tokio::test]
async fn valid_manifests_lead_on_to_apply() {
    let world = World::new().await;
    world.write("app/web.yaml", GOOD);
    world.write(
        "app/deep/map.json",
        r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}"#,
    );
    check(
        &world,
        "check -f @app/",
        expect![[r#"
        ok: 1 object in 1 file, 1 valid
        Next: watchkeeper apply -f app/
    "#]],
    )
    .await;
    check(
        &world,
        "check -f @app/ -R -n shop",
        expect![[r#"
        Assumed to be there: namespace/shop
        ok: 2 objects in 2 files, 2 valid
        Next: watchkeeper apply -f app/ -R
    "#]],
    )
    .await;
    // Nothing is written to the current cluster.
    check(&world, "get deployments,configmaps -A -o name", expect![[r#""#]]).await;
}

#[tokio::test]
async fn definitions_and_policies_are_in_force_wherever_they_stand() {
    let world = World::new().await;
    world.write(
        "1-widget.yaml",
        "apiVersion: acme.example/v1\nkind: Widget\nmetadata:\n  name: w\nspec:\n  size: 11\n  colour: red\n",
    );
    world.write("2-web.yaml", &GOOD.replace("nginx:1.27", "nginx"));
    world.write("8-policy.yaml", &policy("Deny"));
    world.write("9-widgets.yaml", &widgets());
    check(&world, "check -f @.", expect![[r#"
        ./1-widget.yaml:5: error: widget.acme.example/w: spec: Invalid value: red widgets are small
        ./1-widget.yaml:6: error: widget.acme.example/w: spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10
        ./2-web.yaml:1: error: deployment.apps/web: deployments.apps "web" is forbidden: ValidatingAdmissionPolicy 'pinned' with binding 'pinned' denied request: pin your images

        failed: 5 objects in 4 files, 3 valid; 3 errors
        Next: correct ./1-widget.yaml:5, and check again.
        exit 1
    "#]]).await;
}

#[tokio::test]
async fn manifests_test_the_rules_beside_them() {
    let world = World::new().await;
    let widget = |name: &str, expected: &str, colour: &str, size: u8| {
        format!(
            "apiVersion: acme.example/v1\nkind: Widget\nmetadata:\n  name: {name}\n  annotations:\n    \
             watchkeeper.dev/expect: '{expected}'\nspec: {{colour: {colour}, size: {size}}}\n---\n"
        )
    };
    world.write("widgets.yaml", &widgets());
    world.write("policy.yaml", &policy("Deny"));
    let good = [
        widget("a", "allowed", "blue", 1),
        // The second object of a name is an update.
        widget("a", "denied: keeps its colour", "green", 1),
        widget("b", "denied: red widgets are small", "red", 7),
        widget("c", "denied", "blue", 70),
        GOOD.replace("nginx:1.27", "nginx").replace(
            "{name: web}",
            "{name: web, annotations: {watchkeeper.dev/expect: 'denied: pin your images'}}",
        ),
    ];
    world.write("good.yaml", &good.concat());
    check(
        &world,
        "check -f @widgets.yaml -f @policy.yaml -f @good.yaml",
        expect![[r#"
            ok: 3 objects in 3 files, 3 valid; 5 tests passed, 0 failed
            Next: watchkeeper apply -f widgets.yaml -f policy.yaml -f good.yaml
        "#]],
    )
    .await;
    let bad = [
        widget("a", "denied", "blue", 1),
        widget("b", "allowed", "red", 7),
        widget("c", "denied: too blue", "blue", 70),
        widget("d", "refused", "blue", 7),
        widget("e", "warned: careful", "blue", 7),
    ];
    world.write("bad.yaml", &bad.concat());
    check(&world, "check -f @widgets.yaml -f @bad.yaml", expect![[r#"
        bad.yaml:6: error: widget.acme.example/a: expected to be denied, but was allowed
        bad.yaml:14: error: widget.acme.example/b: expected to be allowed, but was denied: Widget.acme.example "b" is invalid: spec: Invalid value: red widgets are small
        bad.yaml:22: error: widget.acme.example/c: expected to be denied with "too blue", but was denied with: Widget.acme.example "c" is invalid: spec.size: Invalid value: 70: spec.size in body should be less than or equal to 10
        bad.yaml:30: error: Widget/d: "refused" is no expectation: write allowed, denied, "denied: TEXT" or "warned: TEXT"
        bad.yaml:38: error: widget.acme.example/e: expected the warning "careful", but there was none

        failed: 1 object in 2 files, 1 valid; 0 tests passed, 5 failed; 5 errors
        Next: correct bad.yaml:6, and check again.
        exit 1
    "#]]).await;
}

#[tokio::test]
async fn warnings_are_told_and_fail_nothing() {
    let world = World::new().await;
    world.write("web.yaml", &GOOD.replace("nginx:1.27", "nginx"));
    world.write("policy.yaml", &policy("Warn"));
    check(&world, "check -f @web.yaml -f @policy.yaml", expect![[r#"
        web.yaml:1: warning: deployment.apps/web: Validation failed for ValidatingAdmissionPolicy 'pinned' with binding 'pinned': pin your images

        ok: 3 objects in 2 files, 3 valid; 1 warning
        Next: watchkeeper apply -f web.yaml -f policy.yaml
    "#]]).await;
    let expecting = "{name: web, annotations: {watchkeeper.dev/expect: 'warned: pin your images'}}";
    world.write(
        "web.yaml",
        &GOOD
            .replace("nginx:1.27", "nginx")
            .replace("{name: web}", expecting),
    );
    check(
        &world,
        "check -f @web.yaml -f @policy.yaml",
        expect![[r#"
        ok: 2 objects in 2 files, 2 valid; 1 test passed, 0 failed
        Next: watchkeeper apply -f web.yaml -f policy.yaml
    "#]],
    )
    .await;
}

#[tokio::test]
async fn parameters_of_policies_are_there_before_their_bindings() {
    let world = World::new().await;
    let policy = "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: few}
spec:
  policyName: few
  validationActions: [Deny]
  paramRef: {name: limits, namespace: policies, parameterNotFoundAction: Deny}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: few}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}
  validations:
  - expression: object.spec.replicas <= int(params.data.replicas)
    messageExpression: \"'at most ' + params.data.replicas\"
---
apiVersion: v1
kind: ConfigMap
metadata: {name: limits, namespace: policies}
data: {replicas: '3'}
";
    world.write(
        "all.yaml",
        &format!(
            "{}---\n{policy}",
            GOOD.replace("spec:\n  selector", "spec:\n  replicas: 4\n  selector")
        ),
    );
    check(&world, "check -f @all.yaml", expect![[r#"
        all.yaml:1: error: deployment.apps/web: deployments.apps "web" is forbidden: ValidatingAdmissionPolicy 'few' with binding 'few' denied request: at most 3

        Assumed to be there: namespace/policies
        failed: 4 objects in 1 file, 3 valid; 1 error
        Next: correct all.yaml:1, and check again.
        exit 1
    "#]]).await;
}

#[tokio::test]
async fn nobody_outside_is_called() {
    let world = World::new().await;
    let webhook = "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: all}
webhooks:
- name: all.acme.example
  clientConfig: {url: 'https://webhook.invalid/'}
  rules: [{apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*']}]
  sideEffects: None
  admissionReviewVersions: [v1]
";
    let conversion = "  conversion:
    strategy: Webhook
    webhook:
      clientConfig: {url: 'https://conversion.invalid/'}
      conversionReviewVersions: [v1]
";
    world.write("webhook.yaml", webhook);
    world.write("widgets.yaml", &WIDGETS.replace("  CONVERSION\n", conversion));
    world.write(
        "widget.yaml",
        "apiVersion: acme.example/v1\nkind: Widget\nmetadata: {name: w}\nspec: {size: 1, colour: red}\n",
    );
    check(
        &world,
        "check -f @.",
        expect![[r#"
        ok: 3 objects in 3 files, 3 valid
        Next: watchkeeper apply -f .
    "#]],
    )
    .await;
}

#[tokio::test]
async fn what_cannot_be_an_object_is_told_in_its_place() {
    let world = World::new().await;
    let text = "apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: a}
- apiVersion: v1
  kind: ConfigMap
  metadata:
    name: UPPER_CASE
---
kind: ConfigMap
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
---
apiVersion: acme.example/v1
kind: Gadget
metadata: {name: g}
---
a: [
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  priorityClassName: high
  containers:
  - {name: a, image: a, ports: [{containerPort: many}]}
";
    world.write("all.yaml", text);
    check(&world, "check -f @all.yaml", expect![[r#"
        all.yaml:10: error: configmap/UPPER_CASE: metadata.name: Invalid value: "UPPER_CASE": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        all.yaml:12: error: the object at line 12 has no apiVersion
        all.yaml:16: error: configmap/a: the same object is at all.yaml:4
        all.yaml:19: error: Gadget/g: no matches for kind "Gadget" in version "acme.example/v1"; give its CustomResourceDefinition with another -f
        all.yaml:23: error: did not find expected node content
        all.yaml:29: error: pod/p: Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal string into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32

        Assumed to be there: priorityclass.scheduling.k8s.io/high
        failed: 5 objects in 1 file, 1 valid; 6 errors
        Next: correct all.yaml:10, and check again.
        exit 1
    "#]]).await;
}

#[tokio::test]
async fn programs_read_json() {
    let world = World::new().await;
    let text = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  ports:\n  - port: 0\n";
    world.write("web.yaml", text);
    check(
        &world,
        "check -f @web.yaml -o json",
        expect![[r#"
        {
          "assumed": [],
          "files": 1,
          "objects": 1,
          "passed": false,
          "problems": [
            {
              "apiVersion": "v1",
              "document": 1,
              "field": "spec.ports[0].port",
              "file": "web.yaml",
              "kind": "Service",
              "line": 6,
              "message": "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
              "name": "web",
              "reason": "FieldValueInvalid",
              "severity": "error"
            },
            {
              "apiVersion": "v1",
              "document": 1,
              "field": "spec.ports[0].targetPort",
              "file": "web.yaml",
              "kind": "Service",
              "line": 6,
              "message": "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive",
              "name": "web",
              "reason": "FieldValueInvalid",
              "severity": "error"
            }
          ],
          "tests": {
            "failed": 0,
            "passed": 0
          },
          "valid": 0
        }
        exit 1
    "#]],
    )
    .await;
}

#[tokio::test]
async fn standard_input_is_a_file_too() {
    let world = World::new().await;
    let screen = world
        .run_with("check -f -", "apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n")
        .await;
    expect![[r#"
        STDIN:3: error: configmap/: metadata.name: Required value: name or generateName is required

        failed: 1 object in 1 file, 0 valid; 1 error
        Next: correct STDIN:3, and check again.
        exit 1
    "#]]
    .assert_eq(&screen);
}

#[tokio::test]
async fn nothing_to_check_is_no_verdict() {
    let world = World::new().await;
    check(
        &world,
        "check",
        expect![[r#"
        stderr: error: required flag(s) "filename" not set
        exit 2
    "#]],
    )
    .await;
    check(
        &world,
        "check -f @nowhere",
        expect![[r#"
        stderr: error: the path "nowhere" does not exist
        exit 2
    "#]],
    )
    .await;
    check(
        &world,
        "check -f - -o yaml",
        expect![[r#"
            stderr: error: invalid value 'yaml' for '--output <FORMAT>'
            stderr:   [possible values: json]
            stderr: See 'watchkeeper check --help' for usage.
            exit 2
        "#]],
    )
    .await;
    check(
        &world,
        "check -f -",
        expect![[r#"
        stderr: error: no objects passed: the input is empty
        exit 2
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_terminal_has_colours() {
    let world = World::new().await;
    world.write(
        "web.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: A}\n",
    );
    let (out, text) = Output::kept();
    let mut session = world.session(out, Output::kept().0, "");
    session.look = Look::Colour;
    watchkeeper_cli::run(world.words("check -f @web.yaml"), &mut session).await;
    let screen = String::from_utf8(text.lock().unwrap().clone()).unwrap();
    assert!(
        screen.contains("web.yaml:3\x1b[0m: \x1b[31merror\x1b[0m: configmap/A"),
        "{screen}"
    );
    assert!(
        screen.contains("\x1b[31mfailed\x1b[0m: 1 object in 1 file, 0 valid; 1 error"),
        "{screen}"
    );
}
