//! `rollout history` and `rollout undo`: the revisions that a workload's controller keeps.

use std::io::Write as _;

use serde_json::{Value, json};
use watchkeeper_meta::{PatchKind, PatchOptions};

use super::{Kind, Workload};
use crate::cluster::Cluster;
use crate::commands::describe::pod_template;
use crate::dry_run::DryRun;
use crate::failure::Failure;
use crate::owned::{self, REVISION};
use crate::session::Session;

/// The annotation with the reason of a revision.
const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";

/// One revision.
struct Revision {
    number: i64,
    cause: String,
    /// The template of its pods.
    template: Value,
    /// The patch that goes back to it, if the controller keeps one.
    patch: Option<Value>,
}

/// Lists the revisions, or shows one.
pub(super) async fn show(
    workload: &Workload,
    number: i64,
    cluster: &Cluster,
    session: &mut Session,
) -> Result<(), Failure> {
    let revisions = revisions(workload, &workload.object().await?, cluster).await?;
    if number > 0 {
        let found = revision(&revisions, number, workload)?;
        writeln!(session.out, "{} with revision #{number}", workload.display_name())?;
        return Ok(write!(session.out, "{}", pod_template(&found.template))?);
    }
    writeln!(session.out, "{} ", workload.display_name())?;
    writeln!(session.out, "REVISION  CHANGE-CAUSE")?;
    for revision in &revisions {
        writeln!(session.out, "{:<8}  {}", revision.number, revision.cause)?;
    }
    Ok(writeln!(session.out)?)
}

/// Goes back to a revision; 0 is the previous one.
pub(super) async fn undo(
    workload: &Workload,
    number: i64,
    dry_run: &DryRun,
    cluster: &Cluster,
    session: &mut Session,
) -> Result<(), Failure> {
    dry_run.refuse_client()?;
    let object = workload.object().await?;
    if object["spec"]["paused"] == true {
        return Err(Failure::text(format!(
            "{} is paused: set spec.paused to false before it is rolled back",
            workload.display_name()
        )));
    }
    let revisions = revisions(workload, &object, cluster).await?;
    let target = match number {
        0 => revisions.iter().rev().nth(1).ok_or_else(|| {
            Failure::text(format!(
                "no rollout history found for {}",
                workload.display_name()
            ))
        })?,
        number => revision(&revisions, number, workload)?,
    };
    let template = owned::without_hash(&target.template);
    if owned::without_hash(&object["spec"]["template"]) == template {
        let done = format!(
            "skipped rollback (current template already matches revision {})",
            target.number
        );
        return Ok(writeln!(session.out, "{} {done}", workload.display_name())?);
    }
    let (kind, patch) = match &target.patch {
        Some(patch) => (PatchKind::Strategic, patch.clone()),
        // Replaced as a whole: a merge would keep what the newer template has added.
        None => {
            let replace = json!([{"op": "replace", "path": "/spec/template", "value": template}]);
            (PatchKind::Json, replace)
        }
    };
    let options = PatchOptions {
        dry_run: dry_run.is_server(),
        ..Default::default()
    };
    let patched = workload.api.patch(&workload.name, kind, &patch).with(&options);
    patched.await?;
    let (name, note) = (workload.display_name(), dry_run.note());
    Ok(writeln!(session.out, "{name} rolled back{note}")?)
}

fn revision<'r>(
    revisions: &'r [Revision],
    number: i64,
    workload: &Workload,
) -> Result<&'r Revision, Failure> {
    let found = revisions.iter().find(|revision| revision.number == number);
    found.ok_or_else(|| {
        Failure::text(format!(
            "unable to find revision {number} of {}; `watchkeeper rollout history` lists them",
            workload.display_name()
        ))
    })
}

/// The revisions, the oldest first.
async fn revisions(workload: &Workload, object: &Value, cluster: &Cluster) -> Result<Vec<Revision>, Failure> {
    let cause = |object: &Value| {
        let cause = object["metadata"]["annotations"][CHANGE_CAUSE].as_str();
        cause.unwrap_or("<none>").to_owned()
    };
    let mut found = Vec::new();
    if workload.kind == Kind::Deployment {
        for set in owned::replica_sets(object, cluster).await? {
            let number = set["metadata"]["annotations"][REVISION].as_str();
            found.push(Revision {
                number: number.and_then(|number| number.parse().ok()).unwrap_or_default(),
                cause: cause(&set),
                template: set["spec"]["template"].clone(),
                patch: None,
            });
        }
    } else {
        for kept in owned::controller_revisions(object, cluster).await? {
            let mut template = kept["data"]["spec"]["template"].clone();
            if let Some(template) = template.as_object_mut() {
                template.remove("$patch");
            }
            found.push(Revision {
                number: kept["revision"].as_i64().unwrap_or_default(),
                cause: cause(&kept),
                template,
                patch: Some(kept["data"].clone()),
            });
        }
    }
    found.sort_by_key(|revision| revision.number);
    Ok(found)
}
