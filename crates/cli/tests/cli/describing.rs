//! `describe` beside kubectl: the snapshots were compared with what kubectl 1.32 prints for the same objects.

use crate::support::World;
use expect_test::{Expect, expect};

async fn check(world: &World, line: &str, expected: Expect) {
    let screen = world.run(line).await;
    // Times, addresses and names that the server chooses.
    let stable = screen
        .lines()
        .filter(|line| !line.starts_with("CreationTimestamp:") && !line.starts_with("IP"));
    expected.assert_eq(&stable.map(|line| format!("{line}\n")).collect::<String>());
}

#[tokio::test]
async fn everything_a_container_may_have_is_described() {
    let world = World::new().await;
    world.write(
        "pod.yaml",
        "
apiVersion: v1
kind: Pod
metadata: {name: odd, labels: {app: odd}}
spec:
  securityContext: {seccompProfile: {type: RuntimeDefault}}
  readinessGates: [{conditionType: example.com/ready}]
  tolerations:
  - {operator: Exists}
  - {key: z, operator: Equal, value: '1', effect: NoExecute, tolerationSeconds: 5}
  - {key: a, operator: Exists}
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: odd}}}
  containers:
  - name: a
    image: a:1
    env:
    - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: ADDRESS, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    - {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
    - {name: MILLI, valueFrom: {resourceFieldRef: {resource: requests.cpu, divisor: 1m}}}
    - {name: MEMORY, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}
    - {name: DISK, valueFrom: {resourceFieldRef: {resource: limits.ephemeral-storage}}}
    - {name: LINES, value: \"one\\ntwo\"}
    envFrom:
    - {configMapRef: {name: settings}}
    - {prefix: P_, secretRef: {name: pass, optional: true}}
    resources: {limits: {cpu: 1500m, memory: 64Mi}, requests: {cpu: 250m}}
    readinessProbe: {httpGet: {path: healthz, port: 80}}
    volumeDevices: [{name: claim, devicePath: /dev/x}]
  volumes:
  - {name: claim, persistentVolumeClaim: {claimName: disk}}
  - {name: labels, downwardAPI: {items: [{path: l, fieldRef: {fieldPath: metadata.labels}}]}}
  - {name: share, nfs: {server: s, path: /p}}
  - {name: driver, csi: {driver: d, volumeAttributes: {a: b, c: d}}}
  - {name: model, image: {reference: 'r:1'}}
",
    );
    assert_eq!(world.run("create -f @pod.yaml").await, "pod/odd created\n");
    check(
        &world,
        "describe pod odd",
        expect![[r#"
        Name:            odd
        Namespace:       default
        Priority:        0
        Node:            <none>
        Labels:          app=odd
        Annotations:     <none>
        Status:          Pending
        SeccompProfile:  RuntimeDefault
        Containers:
          a:
            Image:      a:1
            Port:       <none>
            Host Port:  <none>
            Limits:
              cpu:     1500m
              memory:  64Mi
            Requests:
              cpu:      250m
              memory:   64Mi
            Readiness:  http-get http://:80/healthz delay=0s timeout=1s period=10s #success=1 #failure=3
            Environment Variables from:
              settings  ConfigMap                Optional: false
              pass      Secret with prefix 'P_'  Optional: true
            Environment:
              NAME:     odd (v1:metadata.name)
              ADDRESS:   (v1:status.podIP)
              CPU:      2 (limits.cpu)
              MILLI:    250 (requests.cpu)
              MEMORY:   64 (limits.memory)
              DISK:     0 (limits.ephemeral-storage)
              LINES:    one
                        two
            Mounts:     <none>
            Devices:
              /dev/x from claim
        Readiness Gates:
          Type                Status
          example.com/ready   <none> 
        Volumes:
          claim:
            Type:       PersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)
            ClaimName:  disk
            ReadOnly:   false
          labels:
            Type:  DownwardAPI (a volume populated by information about the pod)
            Items:
              metadata.labels -> l
          share:
            Type:      NFS (an NFS mount that lasts the lifetime of a pod)
            Server:    s
            Path:      /p
            ReadOnly:  false
          driver:
            Type:              CSI (a Container Storage Interface (CSI) volume source)
            Driver:            d
            FSType:            
            ReadOnly:          false
            VolumeAttributes:      a=b
                                   c=d
          model:
            Type:                     Image (a container image or OCI artifact)
            Reference:                r:1
            PullPolicy:               IfNotPresent
        QoS Class:                    Burstable
        Node-Selectors:               <none>
        Tolerations:                  op=Exists
                                      a op=Exists
                                      z=1:NoExecute for 5s
        Topology Spread Constraints:  zone:DoNotSchedule when max skew 1 is exceeded for selector app=odd
        Events:                       <none>
    "#]],
    )
    .await;
}

#[tokio::test]
async fn workloads_are_described_with_their_own_fields() {
    let world = World::new().await;
    world.write(
        "workloads.yaml",
        "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: 'db:1'}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 1Gi}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {nodeSelector: {disk: ssd}, containers: [{name: a, image: 'a:1'}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: '0 3 * * *'
  startingDeadlineSeconds: 30
  jobTemplate:
    spec:
      template:
        spec: {restartPolicy: OnFailure, containers: [{name: a, image: 'a:1'}]}
",
    );
    world.run("create -f @workloads.yaml").await;
    check(
        &world,
        "describe statefulset db",
        expect![[r#"
        Name:               db
        Namespace:          default
        Selector:           app=db
        Labels:             <none>
        Annotations:        <none>
        Replicas:           2 desired | 0 total
        Update Strategy:    RollingUpdate
          Partition:        0
          MaxUnavailable:   1
        Pods Status:        0 Running / 0 Waiting / 0 Succeeded / 0 Failed
        Pod Template:
          Labels:  app=db
          Containers:
           db:
            Image:         db:1
            Port:          <none>
            Host Port:     <none>
            Environment:   <none>
            Mounts:        <none>
          Volumes:         <none>
          Node-Selectors:  <none>
          Tolerations:     <none>
        Volume Claims:
          Name:          data
          StorageClass:  fast
          Labels:        <none>
          Annotations:   <none>
          Capacity:      1Gi
          Access Modes:  [ReadWriteOnce]
        Events:          <none>
    "#]],
    )
    .await;
    check(
        &world,
        "describe daemonset agent",
        expect![[r#"
        Name:           agent
        Selector:       app=agent
        Node-Selector:  disk=ssd
        Labels:         <none>
        Annotations:    deprecated.daemonset.template.generation: 1
        Desired Number of Nodes Scheduled: 0
        Current Number of Nodes Scheduled: 0
        Number of Nodes Scheduled with Up-to-date Pods: 0
        Number of Nodes Scheduled with Available Pods: 0
        Number of Nodes Misscheduled: 0
        Pods Status:  0 Running / 0 Waiting / 0 Succeeded / 0 Failed
        Pod Template:
          Labels:  app=agent
          Containers:
           a:
            Image:         a:1
            Port:          <none>
            Host Port:     <none>
            Environment:   <none>
            Mounts:        <none>
          Volumes:         <none>
          Node-Selectors:  disk=ssd
          Tolerations:     <none>
        Events:            <none>
    "#]],
    )
    .await;
    check(
        &world,
        "describe cronjob nightly",
        expect![[r#"
        Name:                          nightly
        Namespace:                     default
        Labels:                        <none>
        Annotations:                   <none>
        Schedule:                      0 3 * * *
        Concurrency Policy:            Allow
        Suspend:                       False
        Successful Job History Limit:  3
        Failed Job History Limit:      1
        Starting Deadline Seconds:     30s
        Selector:                      <unset>
        Parallelism:                   <unset>
        Completions:                   <unset>
        Pod Template:
          Labels:  <none>
          Containers:
           a:
            Image:           a:1
            Port:            <none>
            Host Port:       <none>
            Environment:     <none>
            Mounts:          <none>
          Volumes:           <none>
          Node-Selectors:    <none>
          Tolerations:       <none>
        Last Schedule Time:  <unset>
        Active Jobs:         <none>
        Events:              <none>
    "#]],
    )
    .await;
}

#[tokio::test]
async fn an_ingress_is_described_with_its_backends_and_a_service_account_with_its_secrets() {
    let world = World::new().await;
    world.write(
        "web.yaml",
        "
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, annotations: {note: '1'}}
spec:
  ingressClassName: nginx
  tls: [{hosts: [a.example.com], secretName: pass}]
  rules:
  - host: a.example.com
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}
      - {path: /x, pathType: Exact, backend: {service: {name: none, port: {number: 81}}}}
  - http:
      paths: [{path: /b, pathType: Prefix, backend: {resource: {apiGroup: x.io, kind: Bucket, name: b}}}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: all}
spec: {defaultBackend: {service: {name: web, port: {name: http}}}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: LoadBalancer
  loadBalancerSourceRanges: [10.0.0.0/8]
  allocateLoadBalancerNodePorts: false
  ports: [{name: http, port: 80, targetPort: 8080}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [10.1.1.1]}]
ports: [{name: http, port: 8080}]
---
apiVersion: v1
kind: Secret
metadata: {name: pass}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot}
imagePullSecrets: [{name: pass}, {name: gone}]
",
    );
    world.run("create -f @web.yaml").await;
    check(
        &world,
        "describe ingress web",
        expect![[r#"
        Name:             web
        Labels:           <none>
        Namespace:        default
        Address:          
        Ingress Class:    nginx
        Default backend:  <default>
        TLS:
          pass terminates a.example.com
        Rules:
          Host           Path  Backends
          ----           ----  --------
          a.example.com  
                         /    web:80 (10.1.1.1:8080)
                         /x   none:81 (<error: services "none" not found>)
          *              
                         /b   APIGroup: x.io, Kind: Bucket, Name: b
        Annotations:     note: 1
        Events:          <none>
    "#]],
    )
    .await;
    check(
        &world,
        "describe ingress all",
        expect![[r#"
        Name:             all
        Labels:           <none>
        Namespace:        default
        Address:          
        Ingress Class:    <none>
        Default backend:  web:http (10.1.1.1:8080)
        Rules:
          Host        Path  Backends
          ----        ----  --------
          *           *     web:http (10.1.1.1:8080)
        Annotations:  <none>
        Events:       <none>
    "#]],
    )
    .await;
    check(
        &world,
        "describe service web",
        expect![[r#"
        Name:                        web
        Namespace:                   default
        Labels:                      <none>
        Annotations:                 <none>
        Selector:                    <none>
        Type:                        LoadBalancer
        Port:                        http  80/TCP
        TargetPort:                  8080/TCP
        Endpoints:                   10.1.1.1:8080
        Session Affinity:            None
        External Traffic Policy:     Cluster
        Internal Traffic Policy:     Cluster
        LoadBalancer Source Ranges:  10.0.0.0/8
        Events:                      <none>
    "#]],
    )
    .await;
    check(
        &world,
        "describe serviceaccount robot",
        expect![[r#"
        Name:                robot
        Namespace:           default
        Labels:              <none>
        Annotations:         <none>
        Image pull secrets:  pass
                             gone (not found)
        Mountable secrets:   <none>
        Tokens:              <none>
        Events:              <none>
    "#]],
    )
    .await;
}

#[tokio::test]
async fn objects_whose_names_start_so_are_separated_as_by_kubectl() {
    let world = World::new().await;
    world.run("create configmap web-1").await;
    world.run("create configmap web-2").await;
    let (first, second) = (
        world.run("describe configmap web-1").await,
        world.run("describe configmap web-2").await,
    );
    assert_eq!(
        world.run("describe configmap web").await,
        format!("{first}\n{second}\n")
    );
    assert_eq!(
        world.run("describe configmap web-1 web-2").await,
        format!("{first}\n\n{second}")
    );
}
