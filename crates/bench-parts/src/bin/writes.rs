//! Measures the CPU time of a create, update and patch of a realistic Deployment through the whole registry, from the
//! body to an in-memory store.
//!
//! ```text
//! cargo run --release -p watchkeeper-bench-parts --bin writes
//! cargo run --release -p watchkeeper-bench-parts --bin writes -- "merge patch" 200    # one case, 200 rounds, for a profiler
//! ```

#![expect(clippy::print_stdout, reason = "a program that prints what it measured")]

use std::sync::Arc;
use std::time::Duration;

use mimalloc::MiMalloc;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use watchkeeper_meta::{DeleteOptions, GroupVersionResource, Status};
use watchkeeper_registry::{Body, Definition, Format, Part, PatchKind, Registry, WriteContext};
use watchkeeper_storage::{Store, StoreOptions};

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const NAME: &str = "web";
const NAMESPACE: &str = "default";
/// The default number of rounds, enough for a steady mean; the store keeps their history.
const ROUNDS: usize = 2_000;
/// Short enough that some batches are not disturbed.
const BATCH: usize = 50;
const APPLY: PatchKind = PatchKind::Apply;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bench = Bench::start().await?;
    println!(
        "a Deployment of {} bytes, {} writes each; µs of CPU\n",
        deployment(1).to_string().len(),
        rounds()
    );
    println!("| write | mean | best | goal | per second and core |\n| --- | ---: | ---: | ---: | ---: |");
    bench.measure("create a pod", Write::CreatePod).await?;
    bench.measure("create and delete", Write::Create).await?;
    bench
        .write(Write::Patch(APPLY), &deployment(0).to_string())
        .await?;
    for (name, write) in [
        ("update", Write::Update),
        ("update, no change", Write::Same),
        ("merge patch", Write::Patch(PatchKind::Merge)),
        ("merge patch of the status", Write::Status),
        ("strategic merge patch", Write::Patch(PatchKind::Strategic)),
        ("JSON patch", Write::Patch(PatchKind::Json)),
        ("apply", Write::Patch(APPLY)),
        ("apply, no change", Write::ApplySame),
        ("validation alone", Write::Nothing),
    ] {
        bench.measure(name, write).await?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Write {
    Create,
    CreatePod,
    Update,
    Same,
    Status,
    Patch(PatchKind),
    ApplySame,
    /// Validates the stored object without writing it.
    Nothing,
}

impl Write {
    fn body(self, round: usize) -> Value {
        match self {
            Self::Create | Self::Update => deployment(round),
            Self::CreatePod => pod(round),
            Self::Same => deployment(ROUNDS),
            Self::Status => json!({"status": {"replicas": ROUNDS, "updatedReplicas": round}}),
            Self::Patch(kind) => patch(kind, round),
            Self::ApplySame => patch(APPLY, ROUNDS),
            Self::Nothing => Value::Null,
        }
    }

    /// The goal in µs of CPU time.
    fn goal(self) -> Option<u32> {
        match self {
            Self::Status | Self::Patch(_) | Self::ApplySame => Some(100),
            _ => None,
        }
    }
}

struct Bench {
    registry: Registry,
    deployments: Arc<Definition>,
    pods: Arc<Definition>,
    /// The object in canonical form.
    deployment: Value,
}

impl Bench {
    async fn start() -> Result<Self, Box<dyn std::error::Error>> {
        let registry = Registry::open(Store::memory(StoreOptions::default())).await?;
        let resource = GroupVersionResource::new("apps", "v1", "deployments");
        let deployments = registry.definition(&resource).ok_or("no deployments")?;
        let pods = GroupVersionResource::new("", "v1", "pods");
        let pods = registry.definition(&pods).ok_or("no pods")?;
        let dry_run = WriteContext {
            dry_run: true,
            ..context()
        };
        let bytes = deployment(0).to_string();
        let created = registry
            .create(&deployments, NAMESPACE, body(&bytes), &dry_run)
            .await?;
        Ok(Self {
            deployment: created.to_value(&deployments)?,
            registry,
            deployments,
            pods,
        })
    }

    /// Prints the mean CPU time of a write over all threads of the process, and that of the fastest batch, which
    /// other processes disturb least. Bodies are built beforehand: that is the client's work.
    async fn measure(&self, name: &str, write: Write) -> Result<(), Box<dyn std::error::Error>> {
        if std::env::args().nth(1).is_some_and(|only| only != name) {
            return Ok(());
        }
        let rounds = rounds();
        let bodies: Vec<String> = (0..=rounds).map(|round| write.body(round).to_string()).collect();
        self.write(write, &bodies[0]).await?;
        let (mut total, mut best) = (Duration::ZERO, Duration::MAX);
        for batch in bodies[1..].chunks(BATCH) {
            let start = cpu_time()?;
            for body in batch {
                self.write(write, body).await?;
            }
            let spent = cpu_time()? - start;
            total += spent;
            best = best.min(spent / u32::try_from(batch.len())?);
        }
        let mean = total / u32::try_from(rounds)?;
        let micros = |time: Duration| time.as_nanos() as f64 / 1e3;
        println!(
            "| {name} | {:.1} | {:.1} | {} | {:.0} |",
            micros(mean),
            micros(best),
            write.goal().map(|goal| goal.to_string()).unwrap_or_default(),
            1.0 / mean.as_secs_f64()
        );
        Ok(())
    }

    async fn write(&self, write: Write, bytes: &str) -> Result<(), Status> {
        let (deployments, context) = (&self.deployments, context());
        let (registry, part) = (&self.registry, Part::Object);
        match write {
            Write::Create => {
                let options = DeleteOptions::default();
                registry
                    .create(deployments, NAMESPACE, body(bytes), &context)
                    .await?;
                registry
                    .delete(deployments, NAMESPACE, NAME, &options, &context)
                    .await
                    .map(drop)
            }
            Write::CreatePod => registry
                .create(&self.pods, NAMESPACE, body(bytes), &context)
                .await
                .map(drop),
            Write::Update | Write::Same => registry
                .update(deployments, NAMESPACE, NAME, part, body(bytes), &context)
                .await
                .map(drop),
            Write::Status => self.patch(PatchKind::Merge, Part::Status, bytes, &context).await,
            Write::Patch(kind) => self.patch(kind, part, bytes, &context).await,
            Write::ApplySame => self.patch(APPLY, part, bytes, &context).await,
            Write::Nothing => {
                let errors = registry.errors(deployments, &self.deployment);
                assert_eq!(*errors, [], "the object is valid");
                Ok(())
            }
        }
    }

    async fn patch(
        &self,
        kind: PatchKind,
        part: Part,
        bytes: &str,
        context: &WriteContext,
    ) -> Result<(), Status> {
        let (deployments, patch) = (&self.deployments, bytes.as_bytes());
        self.registry
            .patch(deployments, NAMESPACE, NAME, part, (kind, patch), context)
            .await
            .map(drop)
    }
}

fn rounds() -> usize {
    let given = std::env::args().nth(2);
    given.and_then(|given| given.parse().ok()).unwrap_or(ROUNDS)
}

fn body(bytes: &str) -> Body<'_> {
    Body {
        format: Format::Json,
        bytes: bytes.as_bytes(),
    }
}

fn context() -> WriteContext {
    WriteContext {
        force: true,
        manager: "bench".to_owned(),
        ..WriteContext::default()
    }
}

/// A new image: the most frequent change by users.
fn patch(kind: PatchKind, round: usize) -> Value {
    let image = format!("registry.example.com/web:{round}");
    let of_containers =
        |containers: Value| json!({"spec": {"template": {"spec": {"containers": containers}}}});
    match kind {
        PatchKind::Json => {
            json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image}])
        }
        PatchKind::Merge => {
            json!({"spec": {"template": {"metadata": {"annotations": {"example.com/image": image}}}}})
        }
        PatchKind::Strategic => of_containers(json!([{"name": "web", "image": image}])),
        PatchKind::Apply => deployment(round),
    }
}

/// A realistic Deployment: two containers with probes, variables, mounts and resources, an init container, volumes.
fn deployment(round: usize) -> Value {
    let probe =
        json!({"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 10, "failureThreshold": 3});
    let amounts =
        json!({"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}});
    let variables: Vec<Value> = (0..12)
        .map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("value-{n}")}))
        .collect();
    let labels = json!({"app.kubernetes.io/name": "web", "app.kubernetes.io/part-of": "shop"});
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "labels": labels, "annotations": {"example.com/owner": "team-web"}},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app.kubernetes.io/name": "web"}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "initContainers": [{"name": "migrate", "image": "registry.example.com/migrate:7", "resources": amounts}],
                    "containers": [
                        {
                            "name": "web",
                            "image": format!("registry.example.com/web:{round}"),
                            "env": variables,
                            "ports": [{"name": "http", "containerPort": 8080}, {"name": "metrics", "containerPort": 9090}],
                            "livenessProbe": probe,
                            "readinessProbe": probe,
                            "resources": amounts,
                            "volumeMounts": [{"name": "config", "mountPath": "/etc/web"}, {"name": "cache", "mountPath": "/var/cache"}],
                            "securityContext": {"runAsNonRoot": true, "allowPrivilegeEscalation": false},
                        },
                        {"name": "proxy", "image": "registry.example.com/proxy:3", "args": ["--port", "15001"], "resources": amounts},
                    ],
                    "volumes": [{"name": "config", "configMap": {"name": "web"}}, {"name": "cache", "emptyDir": {}}],
                    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
                        "weight": 100,
                        "podAffinityTerm": {
                            "topologyKey": "kubernetes.io/hostname",
                            "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "web"}},
                        },
                    }]}},
                },
            },
        },
    })
}

/// A pod of that Deployment.
fn pod(round: usize) -> Value {
    let deployment = deployment(round);
    let template = &deployment["spec"]["template"];
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": format!("web-{round}"), "labels": template["metadata"]["labels"]},
        "spec": template["spec"],
    })
}

/// The CPU time of this process.
fn cpu_time() -> Result<Duration, Box<dyn std::error::Error>> {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Ok(Duration::try_from(time)?)
}
