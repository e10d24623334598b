//! The ServiceAccount plugin.
//!
//! A new pod gets the default account unless it names one, a volume with a token, a mount of it in every container,
//! and the account's pull secrets unless it has its own. Off by default: without the controller that creates default
//! accounts, no pod could be created.

use serde_json::{Value, json};
use watchkeeper_kinds::{builtin, names};
use watchkeeper_meta::Status;

use crate::definition::Definition;
use crate::{Registry, metadata};

const DEFAULT_ACCOUNT: &str = "default";
/// The standard mount path of the token.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME_PREFIX: &str = "kube-api-access-";
/// The token's lifetime: an hour and seven seconds, which distinguishes it from requested tokens.
const TOKEN_SECONDS: i64 = 3607;
const FILE_MODE: i64 = 0o644;
const MIRROR: &str = "kubernetes.io/config.mirror";

impl Registry {
    /// Completes a new pod from its service account, or rejects it.
    pub(super) async fn take_from_service_account(
        &self,
        definition: &Definition,
        namespace: &str,
        pod: &mut Value,
    ) -> Result<(), Status> {
        if !self.has_service_accounts() || pod["metadata"]["annotations"].get(MIRROR).is_some() {
            return Ok(());
        }
        let stated = pod["spec"]["serviceAccountName"].as_str().unwrap_or_default();
        let name = if stated.is_empty() {
            DEFAULT_ACCOUNT
        } else {
            stated
        }
        .to_owned();
        let Some(account) = self.service_account(namespace, &name).await? else {
            let why = format!(
                "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"
            );
            let pod = metadata::text(pod, "name");
            return Err(Status::forbidden(&definition.group_resource(), pod, why));
        };
        complete(&account, &name, &mut pod["spec"]);
        Ok(())
    }

    async fn service_account(&self, namespace: &str, name: &str) -> Result<Option<Value>, Status> {
        let accounts = self.builtin(&builtin::SERVICE_ACCOUNT)?;
        let found = self.find(&accounts, namespace, name).await?;
        found.map(|found| found.to_value(&accounts)).transpose()
    }
}

fn complete(account: &Value, name: &str, spec: &mut Value) {
    spec["serviceAccountName"] = json!(name);
    spec["serviceAccount"] = json!(name);
    let wants = |object: &Value| object["automountServiceAccountToken"].as_bool();
    if wants(spec).or(wants(account)).unwrap_or(true) {
        mount_token(spec);
    }
    let has_secrets = spec["imagePullSecrets"]
        .as_array()
        .is_some_and(|secrets| !secrets.is_empty());
    if let (false, Some(secrets)) = (has_secrets, account.get("imagePullSecrets")) {
        spec["imagePullSecrets"] = secrets.clone();
    }
}

/// Mounts the token in every container that has no mount at that path.
fn mount_token(spec: &mut Value) {
    let known = spec["volumes"].as_array().into_iter().flatten();
    let mut known = known.filter_map(|volume| volume["name"].as_str());
    let known = known
        .find(|name| name.starts_with(VOLUME_PREFIX))
        .map(str::to_owned);
    let volume = known.clone().unwrap_or_else(|| names::generate(VOLUME_PREFIX));
    let mut is_mounted = false;
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            is_mounted |= mount(container, &volume);
        }
    }
    if is_mounted && known.is_none() {
        push(&mut spec["volumes"], token_volume(&volume));
    }
}

fn mount(container: &mut Value, volume: &str) -> bool {
    let mounts = container["volumeMounts"].as_array().into_iter().flatten();
    if mounts.into_iter().any(|mount| mount["mountPath"] == MOUNT_PATH) {
        return false;
    }
    let mount = json!({"name": volume, "readOnly": true, "mountPath": MOUNT_PATH});
    push(&mut container["volumeMounts"], mount);
    true
}

fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        none => *none = json!([item]),
    }
}

fn token_volume(name: &str) -> Value {
    let namespace = json!({"apiVersion": "v1", "fieldPath": "metadata.namespace"});
    json!({"name": name, "projected": {"defaultMode": FILE_MODE, "sources": [
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
    ]}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(account: Value, mut spec: Value) -> Value {
        complete(&account, "robot", &mut spec);
        spec
    }

    #[test]
    fn a_pod_carries_the_token_of_its_account() {
        let spec = completed(
            json!({"imagePullSecrets": [{"name": "pull"}]}),
            json!({"containers": [{"name": "a"}], "initContainers": [{"name": "b"}]}),
        );
        assert_eq!(spec["serviceAccountName"], "robot");
        assert_eq!(spec["imagePullSecrets"], json!([{"name": "pull"}]));
        let volume = &spec["volumes"][0];
        let name = volume["name"].as_str().unwrap();
        assert_eq!(name.len(), VOLUME_PREFIX.len() + 5);
        let mount = json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH});
        for list in ["containers", "initContainers"] {
            assert_eq!(spec[list][0]["volumeMounts"], json!([mount]), "{list}");
        }
        let token = &volume["projected"]["sources"][0]["serviceAccountToken"];
        assert_eq!(token["expirationSeconds"], TOKEN_SECONDS);
    }

    #[test]
    fn automounting_can_be_disabled() {
        let plain = json!({"containers": [{"name": "a"}]});
        for (account, pod, mounts) in [
            (json!({"automountServiceAccountToken": false}), json!({}), false),
            (json!({}), json!({"automountServiceAccountToken": false}), false),
            (
                json!({"automountServiceAccountToken": false}),
                json!({"automountServiceAccountToken": true}),
                true,
            ),
        ] {
            let mut spec = plain.clone();
            if let Some(wish) = pod.get("automountServiceAccountToken") {
                spec["automountServiceAccountToken"] = wish.clone();
            }
            let spec = completed(account, spec);
            assert_eq!(spec.get("volumes").is_some(), mounts);
        }
        let mounted = json!([{"name": "mine", "mountPath": MOUNT_PATH}]);
        let spec = completed(
            json!({}),
            json!({"containers": [{"name": "a", "volumeMounts": mounted}]}),
        );
        assert_eq!(spec["containers"][0]["volumeMounts"], mounted);
        assert!(spec.get("volumes").is_none());
    }
}
