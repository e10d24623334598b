//! Objects from flags, for the kinds that people type. The objects are those of kubectl's generators.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use watchkeeper_meta::Resource;
use watchkeeper_wire::schema::resources;

use super::data::{Sources, read};
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::selection::select_one;

/// The object to create.
#[derive(Debug, Subcommand)]
pub(super) enum Generator {
    /// Create a namespace
    #[command(
        visible_alias = "ns",
        after_help = "Examples:\n  watchkeeper create namespace shop"
    )]
    Namespace(Named),
    /// Create a deployment
    #[command(
        visible_alias = "deploy",
        after_help = "Examples:
  watchkeeper create deployment web --image web:1 --replicas 3 --port 80
  watchkeeper create deployment clock --image busybox -- sleep infinity"
    )]
    Deployment(Deployment),
    /// Create a config map
    #[command(
        visible_alias = "cm",
        after_help = "Examples:
  watchkeeper create configmap settings --from-literal colour=blue --from-file conf/"
    )]
    Configmap(ConfigMap),
    /// Create a secret
    #[command(
        subcommand,
        after_help = "Examples:
  watchkeeper create secret generic token --from-file token=./token
  watchkeeper create secret tls web --cert web.crt --key web.key"
    )]
    Secret(Secret),
    /// Create a job
    #[command(after_help = "Examples:
  watchkeeper create job once --image busybox -- date
  watchkeeper create job tonight-now --from cronjob/tonight")]
    Job(Job),
    /// Create a service account
    #[command(
        visible_alias = "sa",
        after_help = "Examples:\n  watchkeeper create serviceaccount robot"
    )]
    Serviceaccount(Named),
}

#[derive(Debug, Args)]
pub(super) struct Named {
    /// The name
    name: String,
}

#[derive(Debug, Args)]
pub(super) struct Deployment {
    /// The name
    name: String,

    /// The image of its container; may be repeated
    #[arg(long, required = true, value_delimiter = ',')]
    image: Vec<String>,

    /// Number of pods
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    replicas: u32,

    /// The port that the container exposes; the first one, if there are several
    #[arg(long)]
    port: Option<u16>,

    /// The command of the container, after --
    #[arg(last = true)]
    command: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct ConfigMap {
    /// The name
    name: String,

    #[command(flatten)]
    sources: Sources,
}

#[derive(Debug, Subcommand)]
pub(super) enum Secret {
    /// Create a secret from files and literals
    #[command(after_help = "Examples:\n  watchkeeper create secret generic token --from-file token=./token")]
    Generic {
        /// The name
        name: String,

        #[command(flatten)]
        sources: Sources,

        /// The type of the secret; Opaque if it is not stated
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<String>,
    },
    /// Create a secret from a certificate and its key
    #[command(after_help = "Examples:\n  watchkeeper create secret tls web --cert web.crt --key web.key")]
    Tls {
        /// The name
        name: String,

        /// The certificate, in PEM
        #[arg(long, value_name = "FILE")]
        cert: PathBuf,

        /// The private key, in PEM
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(super) struct Job {
    /// The name
    name: String,

    /// The image of its container
    #[arg(long, required_unless_present = "from", conflicts_with = "from")]
    image: Option<String>,

    /// Take the job from this cron job: cronjob/NAME
    #[arg(long, value_name = "RESOURCE")]
    from: Option<String>,

    /// The command of the container, after --
    #[arg(last = true, conflicts_with = "from")]
    command: Vec<String>,
}

impl Generator {
    pub(super) fn resource(&self) -> Resource {
        let (group, kind) = match self {
            Self::Namespace(_) => ("", "Namespace"),
            Self::Deployment(_) => ("apps", "Deployment"),
            Self::Configmap(_) => ("", "ConfigMap"),
            Self::Secret(_) => ("", "Secret"),
            Self::Job(_) => ("batch", "Job"),
            Self::Serviceaccount(_) => ("", "ServiceAccount"),
        };
        let found = resources::by_kind(group, "v1", kind);
        found.expect("the kind is built in").resource.clone()
    }

    /// The object; a cluster is needed only to copy from one.
    pub(super) async fn object(&self, cluster: Option<&Cluster>) -> Result<Value, Failure> {
        let fields = match self {
            Self::Namespace(named) | Self::Serviceaccount(named) => json!({"metadata": {"name": named.name}}),
            Self::Deployment(deployment) => deployment.fields()?,
            Self::Configmap(map) => map.fields()?,
            Self::Secret(secret) => secret.fields()?,
            Self::Job(job) => job.fields(cluster).await?,
        };
        let kind = self.resource().group_version_kind();
        let mut object = json!({"apiVersion": kind.api_version(), "kind": kind.kind});
        if let (Some(object), Value::Object(fields)) = (object.as_object_mut(), fields) {
            object.extend(fields);
        }
        Ok(object)
    }
}

impl Deployment {
    fn fields(&self) -> Result<Value, Failure> {
        if self.image.len() > 1 && !self.command.is_empty() {
            return Err(Failure::text(
                "cannot specify multiple --image options and command",
            ));
        }
        let labels = json!({"app": self.name});
        Ok(json!({
            "metadata": {"name": self.name, "labels": labels},
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": self.containers()}},
            },
        }))
    }

    fn containers(&self) -> Vec<Value> {
        let mut found: Vec<Value> = Vec::new();
        for image in &self.image {
            found.push(container(&container_name(image, &found), image, &self.command));
        }
        if let (Some(port), Some(first)) = (self.port, found.first_mut()) {
            first["ports"] = json!([{"containerPort": port}]);
        }
        found
    }
}

fn container(name: &str, image: &str, command: &[String]) -> Value {
    let mut container = json!({"name": name, "image": image});
    if !command.is_empty() {
        container["command"] = json!(command);
    }
    container
}

/// `registry/team/web:1` is `web`; a second one is `web-2`.
fn container_name(image: &str, others: &[Value]) -> String {
    let name = image.rsplit('/').next().unwrap_or(image);
    let name = name.split([':', '@']).next().unwrap_or(name);
    let name: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let name = name.to_ascii_lowercase();
    let same = others.iter().filter(|other| {
        other["name"]
            .as_str()
            .is_some_and(|other| other.starts_with(&name))
    });
    match same.count() {
        0 => name,
        count => format!("{name}-{}", count + 1),
    }
}

impl ConfigMap {
    /// Bytes that are not text go to `binaryData`.
    fn fields(&self) -> Result<Value, Failure> {
        let (mut data, mut binary) = (Map::new(), Map::new());
        for (key, bytes) in self.sources.read()? {
            match String::from_utf8(bytes) {
                Ok(text) => data.insert(key, text.into()),
                Err(bytes) => binary.insert(key, BASE64.encode(bytes.as_bytes()).into()),
            };
        }
        let mut fields = json!({"metadata": {"name": self.name}});
        for (name, values) in [("data", data), ("binaryData", binary)] {
            if !values.is_empty() {
                fields[name] = values.into();
            }
        }
        Ok(fields)
    }
}

impl Secret {
    fn fields(&self) -> Result<Value, Failure> {
        let (name, data, kind) = match self {
            Self::Generic { name, sources, kind } => (name, sources.read()?, kind.clone()),
            Self::Tls { name, cert, key } => {
                let data = [
                    ("tls.crt".to_owned(), read_pem(cert, "CERTIFICATE")?),
                    ("tls.key".to_owned(), read_pem(key, "PRIVATE KEY")?),
                ];
                (name, data.into(), Some("kubernetes.io/tls".to_owned()))
            }
        };
        let data: Map<String, Value> = data
            .into_iter()
            .map(|(key, bytes)| (key, BASE64.encode(bytes).into()))
            .collect();
        let mut fields = json!({"metadata": {"name": name}});
        if !data.is_empty() {
            fields["data"] = data.into();
        }
        if let Some(kind) = kind {
            fields["type"] = kind.into();
        }
        Ok(fields)
    }
}

/// Reads a file with a PEM block of a kind: a server takes any bytes, and those who use the secret do not.
fn read_pem(path: &Path, kind: &str) -> Result<Vec<u8>, Failure> {
    let bytes = read(path)?;
    let text = String::from_utf8_lossy(&bytes);
    let begins = |line: &str| line.starts_with("-----BEGIN ") && line.ends_with(&format!("{kind}-----"));
    match text.lines().map(str::trim_end).any(begins) {
        true => Ok(bytes),
        false => Err(Failure::text(format!(
            "{} has no {} in PEM",
            path.display(),
            kind.to_lowercase()
        ))),
    }
}

impl Job {
    async fn fields(&self, cluster: Option<&Cluster>) -> Result<Value, Failure> {
        if let Some(from) = &self.from {
            let cluster =
                cluster.ok_or_else(|| Failure::text("--from needs a cluster: name one with --kubeconfig"))?;
            return self.of_cron_job(from, cluster).await;
        }
        let image = self.image.as_deref().unwrap_or_default();
        let containers = [container(&self.name, image, &self.command)];
        let pod = json!({"containers": containers, "restartPolicy": "Never"});
        Ok(json!({"metadata": {"name": self.name}, "spec": {"template": {"spec": pod}}}))
    }

    /// The job that the cron job would create, with the same owner.
    async fn of_cron_job(&self, from: &str, cluster: &Cluster) -> Result<Value, Failure> {
        let (found, name) = select_one(cluster, &[from.to_owned()]).await?;
        if found.resource.kind != "CronJob" {
            return Err(Failure::text(format!(
                "--from takes cronjob/NAME, and {from} is none"
            )));
        }
        let cron = cluster
            .objects(&found.resource, false)
            .json_only()
            .get(&name)
            .await?;
        let cron = cron.to_value().map_err(Failure::other)?;
        let template = &cron["spec"]["jobTemplate"];
        let mut metadata = json!({
            "name": self.name,
            "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "CronJob", "name": name,
                "uid": cron["metadata"]["uid"], "controller": true,
            }],
        });
        if let Some(annotations) = template["metadata"]["annotations"].as_object() {
            for (key, value) in annotations {
                metadata["annotations"][key] = value.clone();
            }
        }
        if !template["metadata"]["labels"].is_null() {
            metadata["labels"] = template["metadata"]["labels"].clone();
        }
        Ok(json!({"metadata": metadata, "spec": template["spec"]}))
    }
}
