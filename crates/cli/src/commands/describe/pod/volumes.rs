//! The volumes of a pod.

use serde_json::Value;

use super::super::page::{Page, fields, items, pairs, text, text_or};

/// The volumes of a pod, or of a template, which is indented.
pub(super) fn volumes(volumes: &Value, space: &str, page: &mut Page) {
    if items(volumes).is_empty() {
        return page.line(0, format!("{space}Volumes:\t<none>"));
    }
    page.line(0, format!("{space}Volumes:"));
    let indent = if space.is_empty() { "" } else { " " };
    for volume in items(volumes) {
        page.line(1, format!("{indent}{}:", text(&volume["name"])));
        let source = fields(volume).find(|(key, _)| *key != "name");
        if let Some((kind, source)) = source {
            self::volume(kind, source, page);
        }
    }
}

fn volume(kind: &str, source: &Value, page: &mut Page) {
    let optional = || text_or(&source["optional"], "false");
    match kind {
        "emptyDir" => {
            page.field(
                2,
                "Type",
                "EmptyDir (a temporary directory that shares a pod's lifetime)",
            );
            page.field(2, "Medium", text(&source["medium"]));
            page.field(2, "SizeLimit", text_or(&source["sizeLimit"], "<unset>"));
        }
        "hostPath" => {
            page.field(2, "Type", "HostPath (bare host directory volume)");
            page.field(2, "Path", text(&source["path"]));
            page.field(2, "HostPathType", text(&source["type"]));
        }
        "secret" => {
            page.field(2, "Type", "Secret (a volume populated by a Secret)");
            page.field(2, "SecretName", text(&source["secretName"]));
            page.field(2, "Optional", optional());
        }
        "configMap" => {
            page.field(2, "Type", "ConfigMap (a volume populated by a ConfigMap)");
            page.field(2, "Name", text(&source["name"]));
            page.field(2, "Optional", optional());
        }
        "persistentVolumeClaim" => {
            let what = "PersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)";
            page.field(2, "Type", what);
            page.field(2, "ClaimName", text(&source["claimName"]));
            page.field(2, "ReadOnly", text_or(&source["readOnly"], "false"));
        }
        "projected" => projected(source, page),
        "downwardAPI" => downward(source, page),
        "nfs" => {
            page.field(2, "Type", "NFS (an NFS mount that lasts the lifetime of a pod)");
            page.field(2, "Server", text(&source["server"]));
            page.field(2, "Path", text(&source["path"]));
            page.field(2, "ReadOnly", text_or(&source["readOnly"], "false"));
        }
        "csi" => {
            page.field(
                2,
                "Type",
                "CSI (a Container Storage Interface (CSI) volume source)",
            );
            page.field(2, "Driver", text(&source["driver"]));
            page.field(2, "FSType", text(&source["fsType"]));
            page.field(2, "ReadOnly", text_or(&source["readOnly"], "false"));
            attributes("VolumeAttributes", &pairs(&source["volumeAttributes"], "="), page);
        }
        "ephemeral" => claim_template(&source["volumeClaimTemplate"], page),
        "image" => {
            page.field(2, "Type", "Image (a container image or OCI artifact)");
            page.field(2, "Reference", text(&source["reference"]));
            page.field(2, "PullPolicy", text(&source["pullPolicy"]));
        }
        kind => page.field(2, "Type", kind),
    }
}

fn downward(source: &Value, page: &mut Page) {
    page.field(
        2,
        "Type",
        "DownwardAPI (a volume populated by information about the pod)",
    );
    page.line(2, "Items:");
    for item in items(&source["items"]) {
        let from = match &item["fieldRef"] {
            Value::Null => text(&item["resourceFieldRef"]["resource"]),
            field => text(&field["fieldPath"]),
        };
        page.line(3, format!("{from} -> {}", text(&item["path"])));
    }
}

/// A claim that is made for the pod. kubectl shows it as a claim that has no volume yet.
fn claim_template(template: &Value, page: &mut Page) {
    let (metadata, spec) = (&template["metadata"], &template["spec"]);
    page.field(
        2,
        "Type",
        "EphemeralVolume (an inline specification for a volume that gets created and deleted with the pod)",
    );
    page.field(2, "StorageClass", text(&spec["storageClassName"]));
    page.field(2, "Volume", text(&spec["volumeName"]));
    attributes("Labels", &pairs(&metadata["labels"], "="), page);
    attributes("Annotations", &pairs(&metadata["annotations"], ": "), page);
    page.field(2, "Capacity", "");
    page.field(2, "Access Modes", "");
    page.field_if(2, "VolumeMode", &spec["volumeMode"]);
}

/// Pairs that kubectl indents once more within a volume.
fn attributes(title: &str, pairs: &[String], page: &mut Page) {
    let (first, rest) = match pairs.split_first() {
        Some((first, rest)) => (first.as_str(), rest),
        None => ("<none>", pairs),
    };
    page.field(2, title, format!("    {first}"));
    rest.iter().for_each(|pair| page.line(4, format!("\t    {pair}")));
}

fn projected(source: &Value, page: &mut Page) {
    page.field(
        2,
        "Type",
        "Projected (a volume that contains injected data from multiple sources)",
    );
    for source in items(&source["sources"]) {
        let (token, map, secret) = (
            &source["serviceAccountToken"],
            &source["configMap"],
            &source["secret"],
        );
        if !secret.is_null() {
            page.field(2, "SecretName", text(&secret["name"]));
            page.field(2, "SecretOptionalName", text_or(&secret["optional"], "<nil>"));
        } else if !map.is_null() {
            page.field(2, "ConfigMapName", text(&map["name"]));
            page.field(2, "ConfigMapOptional", text_or(&map["optional"], "<nil>"));
        } else if !token.is_null() {
            page.field(2, "TokenExpirationSeconds", text(&token["expirationSeconds"]));
        } else if !source["downwardAPI"].is_null() {
            page.field(2, "DownwardAPI", "true");
        }
    }
}
