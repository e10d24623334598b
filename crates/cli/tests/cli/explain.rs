//! `explain`, from the embedded server's own documents.

use crate::support::World;
use expect_test::{Expect, expect};

async fn check(line: &str, expected: Expect) {
    expected.assert_eq(&World::new().await.run(line).await);
}

#[tokio::test]
async fn a_kind_has_fields() {
    check(
        "explain deployments",
        expect![[r#"
            GROUP:      apps
            KIND:       Deployment
            VERSION:    v1

            DESCRIPTION:
                <empty>
            FIELDS:
              apiVersion	<string>
                <no description>

              kind	<string>
                <no description>

              metadata	<ObjectMeta>
                <no description>

              spec	<DeploymentSpec> -required-
                <no description>

              status	<DeploymentStatus>
                <no description>


            stderr: note: this server's documents have no descriptions; a watchkeeper built with `--features descriptions` has them
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_field_has_a_type_and_values() {
    check(
        "explain pod.spec.restartPolicy",
        expect![[r#"
            KIND:       Pod
            VERSION:    v1

            FIELD: restartPolicy <string>
            ENUM:
                Always
                OnFailure
                Never

            DESCRIPTION:
                <empty>

            stderr: note: this server's documents have no descriptions; a watchkeeper built with `--features descriptions` has them
        "#]],
    )
    .await;
    check(
        "explain pod.spec.containers.resources",
        expect![[r#"
            KIND:       Pod
            VERSION:    v1

            FIELD: resources <ResourceRequirements>


            DESCRIPTION:
                <empty>
            FIELDS:
              claims	<[]ResourceClaim>
                <no description>

              limits	<map[string]Quantity>
                <no description>

              requests	<map[string]Quantity>
                <no description>


            stderr: note: this server's documents have no descriptions; a watchkeeper built with `--features descriptions` has them
        "#]],
    )
    .await;
}

#[tokio::test]
async fn fields_of_fields_are_indented() {
    check(
        "explain ingresses.networking.k8s.io.spec.tls --recursive",
        expect![[r#"
            GROUP:      networking.k8s.io
            KIND:       Ingress
            VERSION:    v1

            FIELD: tls <[]IngressTLS>


            DESCRIPTION:
                <empty>
            FIELDS:
              hosts	<[]string>
              secretName	<string>

            stderr: note: this server's documents have no descriptions; a watchkeeper built with `--features descriptions` has them
        "#]],
    )
    .await;
    check(
        "explain deployment.spec.selector --recursive",
        expect![[r#"
            GROUP:      apps
            KIND:       Deployment
            VERSION:    v1

            FIELD: selector <LabelSelector>


            DESCRIPTION:
                <empty>
            FIELDS:
              matchExpressions	<[]LabelSelectorRequirement>
                key	<string> -required-
                operator	<string> -required-
                values	<[]string>
              matchLabels	<map[string]string>

            stderr: note: this server's documents have no descriptions; a watchkeeper built with `--features descriptions` has them
        "#]],
    )
    .await;
}

#[tokio::test]
async fn another_version_may_be_asked_for() {
    check(
        "explain hpa.spec --api-version autoscaling/v1 --recursive",
        expect![[r#"
            GROUP:      autoscaling
            KIND:       HorizontalPodAutoscaler
            VERSION:    v1

            FIELD: spec <HorizontalPodAutoscalerSpec>


            DESCRIPTION:
                <empty>
            FIELDS:
              maxReplicas	<integer> -required-
              minReplicas	<integer>
              scaleTargetRef	<CrossVersionObjectReference> -required-
                apiVersion	<string>
                kind	<string> -required-
                name	<string> -required-
              targetCPUUtilizationPercentage	<integer>

            stderr: note: this server's documents have no descriptions; a watchkeeper built with `--features descriptions` has them
        "#]],
    )
    .await;
    check(
        "explain hpa --api-version autoscaling/v9",
        expect![[r#"
        stderr: error: couldn't find resource for autoscaling/v9, Kind=HorizontalPodAutoscaler
        exit 1
    "#]],
    )
    .await;
    check(
        "explain hpa --api-version a/b/c",
        expect![[r#"
        stderr: error: unexpected GroupVersion string: a/b/c
        exit 1
    "#]],
    )
    .await;
}

#[tokio::test]
async fn what_is_not_there_is_named() {
    check(
        "explain pod.spec.container",
        expect![[r#"
        stderr: error: field "container" does not exist
        exit 1
    "#]],
    )
    .await;
    check("explain widgets.spec", expect![[r#"
        stderr: error: the server doesn't have a resource type "widgets"; `watchkeeper api-resources` lists those it has
        exit 1
    "#]]).await;
    check("explain", expect![[r#"
        stderr: error: You must specify the type of resource to explain; `watchkeeper api-resources` lists them
        exit 1
    "#]]).await;
}
