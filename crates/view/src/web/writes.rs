//! Writes of the page, if it allows them: deleting, scaling and editing one object.
//! Each request body becomes one call to the cluster. An edit is sent as a merge patch of the difference between two
//! texts, with the version of the first: a concurrent change is a conflict, and untouched fields are not written.

use serde::Deserialize;
use serde_json::{Value, json};
use watchkeeper_client::{DynamicApi, Error};
use watchkeeper_meta::{DeleteOptions, PatchKind, PatchOptions};
use watchkeeper_patch::merge_patch;
use watchkeeper_wire::yaml::{self, Mode};

/// The field manager of the page.
const MANAGER: &str = "watchkeeper-ui";

/// A write request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Write {
    /// The stream of the object: `deployments.apps`.
    pub(super) kind: String,
    pub(super) namespace: String,
    name: String,
    #[serde(flatten)]
    action: Action,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "action", rename_all = "camelCase")]
enum Action {
    /// Deletes the object with this uid, not another of the same name.
    Delete {
        uid: String,
    },
    Scale {
        replicas: i32,
    },
    /// Applies the difference between two YAML texts.
    Edit {
        old: String,
        new: String,
    },
}

/// The error of a write.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error("{0}")]
    Refused(String),
    #[error("{}", said(.0))]
    Cluster(#[from] Error),
}

impl Write {
    /// Sends the write to the API of the object's resource and namespace.
    pub(super) async fn send(&self, api: &DynamicApi) -> Result<(), WriteError> {
        match &self.action {
            Action::Delete { uid } => {
                let mut options = DeleteOptions::default();
                options.preconditions.uid = Some(uid.clone());
                api.delete(&self.name).with(&options).await?;
            }
            Action::Scale { replicas } => {
                api.scale_to(&self.name, *replicas).with(&managed()).await?;
            }
            Action::Edit { old, new } => {
                let patch = edit(old, new)?;
                let patched = api.patch(&self.name, PatchKind::Merge, &patch);
                patched.with(&managed()).await?;
            }
        }
        Ok(())
    }
}

fn managed() -> PatchOptions {
    PatchOptions {
        field_manager: Some(MANAGER.to_owned()),
        ..Default::default()
    }
}

/// The merge patch of an edit, with the edited version.
fn edit(old: &str, new: &str) -> Result<Value, WriteError> {
    let (old, new) = (read(old)?, read(new)?);
    for path in [
        "/apiVersion",
        "/kind",
        "/metadata/name",
        "/metadata/namespace",
        "/metadata/uid",
    ] {
        if old.pointer(path) != new.pointer(path) {
            let path = path.trim_start_matches('/').replace('/', ".");
            return Err(WriteError::Refused(format!(
                "{path} cannot be edited: it says which object this is"
            )));
        }
    }
    let mut patch = merge_patch::diff(&old, &new);
    if patch.as_object().is_none_or(serde_json::Map::is_empty) {
        return Err(WriteError::Refused("nothing was changed".to_owned()));
    }
    if !patch["metadata"].is_object() {
        patch["metadata"] = json!({});
    }
    patch["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
    Ok(patch)
}

fn read(text: &str) -> Result<Value, WriteError> {
    let read = yaml::first_document(text.as_bytes(), Mode::Strict);
    let read = read.map_err(|error| WriteError::Refused(format!("the YAML cannot be read: {error}")))?;
    Ok(read.value)
}

/// The server's message, if there is one.
fn said(error: &Error) -> String {
    match error.status() {
        Some(status) => status.message.clone(),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str =
        "kind: ConfigMap\nmetadata: {name: a, resourceVersion: '7'}\ndata: {colour: blue, shape: round}\n";

    fn check(new: &str, expected: &str) {
        let shown = match edit(MAP, new) {
            Ok(patch) => patch.to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn an_edit_writes_what_was_touched_and_names_the_version() {
        check(
            &MAP.replace("blue", "red").replace(", shape: round", ""),
            r#"{"data":{"colour":"red","shape":null},"metadata":{"resourceVersion":"7"}}"#,
        );
        check(MAP, "nothing was changed");
        check(
            &MAP.replace("name: a", "name: b"),
            "metadata.name cannot be edited: it says which object this is",
        );
        assert!(
            matches!(edit(MAP, "a: [1"), Err(WriteError::Refused(text)) if text.starts_with("the YAML cannot be read: "))
        );
    }
}
