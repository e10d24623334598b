//! `get`: tables, documents, names, pages and watches.

use crate::support::World;
use expect_test::{Expect, expect};

async fn check(world: &World, line: &str, expected: Expect) {
    expected.assert_eq(&hide_changing(&world.run(line).await));
}

/// Ages, uids, times and versions differ from run to run.
fn hide_changing(screen: &str) -> String {
    let word = |word: &str| {
        let age = word
            .strip_suffix('s')
            .is_some_and(|digits| digits.parse::<u32>().is_ok());
        if age { "AGE".to_owned() } else { word.to_owned() }
    };
    let line = |line: &str| {
        let changing = ["uid:", "creationTimestamp:", "resourceVersion:"];
        match changing
            .iter()
            .find(|field| line.trim_start().starts_with(*field))
        {
            Some(field) => format!("{}{field} …", &line[..line.len() - line.trim_start().len()]),
            None => line.split(' ').map(word).collect::<Vec<_>>().join(" "),
        }
    };
    screen.lines().map(|text| line(text) + "\n").collect()
}

async fn with_config_maps() -> World {
    let world = World::new().await;
    world.write(
        "maps.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {app: web}}, data: {key: value}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: b-with-a-long-name}}
---
{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {clusterIP: None, ports: [{port: 80}]}}
",
    );
    world.run("create -f @maps.yaml").await;
    world
}

#[tokio::test]
async fn tables_are_the_servers() {
    let world = with_config_maps().await;
    check(
        &world,
        "get configmaps",
        expect![[r#"
        NAME                 DATA   AGE
        a                    1      AGE
        b-with-a-long-name   0      AGE
    "#]],
    )
    .await;
    check(
        &world,
        "get cm --chunk-size 1 -n default",
        expect![[r#"
        NAME                 DATA   AGE
        a                    1      AGE
        b-with-a-long-name   0      AGE
    "#]],
    )
    .await;
    check(
        &world,
        "get cm,svc --chunk-size 1",
        expect![[r#"
            NAME                           DATA   AGE
            configmap/a                    1      AGE
            configmap/b-with-a-long-name   0      AGE

            NAME                 TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE
            service/kubernetes   ClusterIP   10.0.0.1     <none>        443/TCP   AGE
            service/web          ClusterIP   None         <none>        80/TCP    AGE
        "#]],
    )
    .await;
    check(
        &world,
        "get cm a missing",
        expect![[r#"
        NAME   DATA   AGE
        a      1      AGE
        stderr: Error from server (NotFound): configmaps "missing" not found
        exit 1
    "#]],
    )
    .await;
    check(
        &world,
        "get cm,svc -l app=web",
        expect![[r#"
        NAME          DATA   AGE
        configmap/a   1      AGE
    "#]],
    )
    .await;
    check(
        &world,
        "get configmap/a service/web",
        expect![[r#"
        NAME          DATA   AGE
        configmap/a   1      AGE

        NAME          TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE
        service/web   ClusterIP   None         <none>        80/TCP    AGE
    "#]],
    )
    .await;
    check(
        &world,
        "get cm -A --field-selector metadata.name=a",
        expect![[r#"
            NAMESPACE   NAME   DATA   AGE
            default     a      1      AGE
        "#]],
    )
    .await;
    check(
        &world,
        "get pods",
        expect![[r#"
        stderr: No resources found in default namespace.
    "#]],
    )
    .await;
    check(
        &world,
        "get pods -A",
        expect![[r#"
        stderr: No resources found
    "#]],
    )
    .await;
    check(
        &world,
        "get namespaces --no-headers",
        expect![[r#"
        default           Active   AGE
        kube-node-lease   Active   AGE
        kube-public       Active   AGE
        kube-system       Active   AGE
    "#]],
    )
    .await;
}

#[tokio::test]
async fn documents_are_whole_and_names_are_short() {
    let world = with_config_maps().await;
    check(
        &world,
        "get cm a -o yaml",
        expect![[r#"
        apiVersion: v1
        data:
          key: value
        kind: ConfigMap
        metadata:
          creationTimestamp: …
          labels:
            app: web
          name: a
          namespace: default
          resourceVersion: …
          uid: …
    "#]],
    )
    .await;
    check(
        &world,
        "get cm -l app=web -o yaml",
        expect![[r#"
        apiVersion: v1
        items:
        - apiVersion: v1
          data:
            key: value
          kind: ConfigMap
          metadata:
            creationTimestamp: …
            labels:
              app: web
            name: a
            namespace: default
            resourceVersion: …
            uid: …
        kind: List
        metadata:
          resourceVersion: …
    "#]],
    )
    .await;
    check(
        &world,
        "get cm a -o jsonpath={.data.key}",
        expect![[r#"
        value
    "#]],
    )
    .await;
    check(
        &world,
        "get cm,svc -o name",
        expect![[r#"
        configmap/a
        configmap/b-with-a-long-name
        service/kubernetes
        service/web
    "#]],
    )
    .await;
    check(
        &world,
        "get cm -o jsonpath={.items[*].metadata.name}",
        expect![[r#"
            a b-with-a-long-name
        "#]],
    )
    .await;
    check(
        &world,
        "get cm -o custom-columns=NAME:.metadata.name,APP:.metadata.labels.app",
        expect![[r#"
            NAME                 APP
            a                    web
            b-with-a-long-name   <none>
        "#]],
    )
    .await;
    check(
        &world,
        "get cm missing -o yaml",
        expect![[r#"
        stderr: Error from server (NotFound): configmaps "missing" not found
        exit 1
    "#]],
    )
    .await;
    check(&world, "get cm missing -o yaml --ignore-not-found", expect![""]).await;
}

#[tokio::test]
async fn the_server_tells_what_it_has() {
    let world = World::new().await;
    check(
        &world,
        "api-resources --api-group apps",
        expect![[r#"
        NAME                  SHORTNAMES   APIVERSION   NAMESPACED   KIND
        controllerrevisions                apps/v1      true         ControllerRevision
        daemonsets            ds           apps/v1      true         DaemonSet
        deployments           deploy       apps/v1      true         Deployment
        replicasets           rs           apps/v1      true         ReplicaSet
        statefulsets          sts          apps/v1      true         StatefulSet
    "#]],
    )
    .await;
    check(
        &world,
        "api-resources --categories all --sort-by kind -o name",
        expect![[r#"
            cronjobs.batch
            daemonsets.apps
            deployments.apps
            horizontalpodautoscalers.autoscaling
            jobs.batch
            pods
            replicasets.apps
            replicationcontrollers
            services
            statefulsets.apps
        "#]],
    )
    .await;
    check(
        &world,
        "api-resources --api-group apps -o name --namespaced=false",
        expect![""],
    )
    .await;
    let versions = world.run("api-versions").await;
    assert!(
        versions.starts_with("admissionregistration.k8s.io/v1\n"),
        "{versions}"
    );
    assert!(versions.ends_with("\nv1\n"), "{versions}");
    check(
        &world,
        "version --client",
        expect![[r#"
        Client Version: v0.1.0
    "#]],
    )
    .await;
}

#[tokio::test]
async fn labels_and_kinds_have_columns_where_asked_for() {
    let world = with_config_maps().await;
    let screen = world.run("get cm -L app --show-kind").await;
    let words: Vec<Vec<_>> = screen
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(words[0], ["NAME", "DATA", "AGE", "APP"]);
    assert_eq!((words[1][0], words[1].last()), ("configmap/a", Some(&"web")));
    assert_eq!(
        words[2].len(),
        3,
        "a label that is not there is nothing: {screen}"
    );
}
