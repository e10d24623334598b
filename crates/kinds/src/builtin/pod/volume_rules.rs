//! What is wrong with the volumes of a pod.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use watchkeeper_meta::validation::{annotations, dns1123_label, dns1123_subdomain, labels};

use crate::builtin::persistent_volume_claim::check_claim_spec;
use crate::rules::formats::{check_descending, quantity};
use crate::rules::place::{Faults, Place};
use crate::rules::volume_sources::{Source, check_driver, check_host_path, check_nfs, check_sources, vendor};
use super::Around;
use super::container_rules::PULL_POLICIES;
use super::env_rules::{FILE_FIELDS, check_field_reference, check_resource_reference};

/// Sources in the order in which Kubernetes looks for them.
const SOURCES: &[Source] = &[
    Source {
        name: "emptyDir",
        check: |source, faults| {
            let limit = source.field("sizeLimit");
            if quantity(limit.value()).is_negative() {
                faults.push(limit.forbidden("SizeLimit field must be a valid resource quantity"));
            }
        },
    },
    Source {
        name: "hostPath",
        check: check_host_path,
    },
    Source {
        name: "gitRepo",
        check: |source, faults| check_descending(&source.field("directory"), faults),
    },
    vendor("gcePersistentDisk"),
    vendor("awsElasticBlockStore"),
    Source {
        name: "secret",
        check: |source, faults| check_keys(source, "secretName", faults),
    },
    Source {
        name: "nfs",
        check: check_nfs,
    },
    vendor("iscsi"),
    vendor("glusterfs"),
    vendor("flocker"),
    Source {
        name: "persistentVolumeClaim",
        check: |source, faults| source.field("claimName").must_be_set(faults),
    },
    vendor("rbd"),
    vendor("cinder"),
    vendor("cephfs"),
    vendor("quobyte"),
    Source {
        name: "downwardAPI",
        check: |source, faults| {
            check_mode(&source.field("defaultMode"), faults);
            for file in source.field("items").items() {
                check_file(&file, source, faults);
            }
        },
    },
    vendor("fc"),
    vendor("flexVolume"),
    Source {
        name: "configMap",
        check: |source, faults| check_keys(source, "name", faults),
    },
    vendor("azureFile"),
    vendor("vsphereVolume"),
    vendor("photonPersistentDisk"),
    vendor("portworxVolume"),
    vendor("azureDisk"),
    vendor("storageos"),
    Source {
        name: "projected",
        check: |source, faults| {
            check_mode(&source.field("defaultMode"), faults);
            check_projections(source, faults);
        },
    },
    vendor("scaleIO"),
    Source {
        name: "csi",
        check: |source, faults| {
            check_driver(&source.field("driver"), faults);
            let secret = source.field("nodePublishSecretRef");
            if secret.is_set() {
                secret
                    .field("name")
                    .must_be_set_and_keep(dns1123_subdomain, faults);
            }
        },
    },
    Source {
        name: "ephemeral",
        check: check_ephemeral,
    },
    Source {
        name: "image",
        check: |source, faults| {
            source.field("pullPolicy").must_be_one_of(PULL_POLICIES, faults);
        },
    },
];

/// The shortest life of a projected token, in seconds.
const MIN_TOKEN_SECONDS: i64 = 600;
const MAX_TOKEN_SECONDS: i64 = 1 << 32;

/// Volumes that are in order, by name.
pub(crate) type Volumes<'v> = HashMap<&'v str, &'v Value>;

/// Checks the volumes of a spec, and returns those that are in order.
pub(crate) fn check_volumes<'v>(
    volumes: &Place<'v, '_>,
    around: &Around<'v>,
    faults: &mut Faults,
) -> Volumes<'v> {
    let created = created_claims(volumes, around);
    let mut found = Volumes::new();
    let mut names = HashSet::new();
    for volume in volumes.items() {
        let before = faults.len();
        check_sources(&volume, SOURCES, faults);
        check_of_pod(&volume, around, faults);
        let name = volume.field("name");
        name.must_be_set_and_keep(dns1123_label, faults);
        if names.contains(name.text()) {
            faults.push(name.duplicate());
        }
        if faults.len() == before {
            names.insert(name.text());
            found.insert(name.text(), volume.value());
        }
        let claim = volume.field("persistentVolumeClaim");
        let claim = claim.field("claimName");
        if created.contains(claim.text()) {
            faults.push(claim.invalid("must not reference a PVC that gets created for an ephemeral volume"));
        }
    }
    found
}

/// The claims that will be made for ephemeral volumes of a pod.
fn created_claims(volumes: &Place<'_, '_>, around: &Around<'_>) -> HashSet<String> {
    let Some(pod) = around.pod.filter(|pod| !pod.is_empty()) else {
        return HashSet::new();
    };
    let ephemeral = volumes
        .items()
        .filter(|volume| volume.field("ephemeral").is_set());
    ephemeral
        .map(|volume| format!("{pod}-{}", volume.field("name").text()))
        .collect()
}

/// What only the volume of a pod must have, not that of a template.
fn check_of_pod(volume: &Place<'_, '_>, around: &Around<'_>, faults: &mut Faults) {
    let Some(pod) = around.pod else {
        return;
    };
    let (image, name) = (volume.field("image"), volume.field("name"));
    if image.is_set() {
        image.field("reference").must_be_set(faults);
    }
    if volume.field("ephemeral").is_set() && !pod.is_empty() && !name.text().is_empty() {
        let claim = format!("{pod}-{}", name.text());
        for why in dns1123_subdomain(&claim) {
            let shown = watchkeeper_meta::quote(&claim);
            faults.push(name.invalid(format!("PVC name {shown}: {why}")));
        }
    }
}

/// The keys of a secret or a config map as files.
fn check_keys(source: &Place<'_, '_>, name: &'static str, faults: &mut Faults) {
    source.field(name).must_be_set(faults);
    check_mode(&source.field("defaultMode"), faults);
    check_items(&source.field("items"), faults);
}

fn check_mode(mode: &Place<'_, '_>, faults: &mut Faults) {
    if !(0..=0o777).contains(&mode.number()) {
        faults.push(mode.invalid("must be a number between 0 and 0777 (octal), both inclusive"));
    }
}

/// Entries that become files.
fn check_items(items: &Place<'_, '_>, faults: &mut Faults) {
    for item in items.items() {
        item.field("key").must_be_set(faults);
        check_file_path(&item.field("path"), faults);
        check_mode(&item.field("mode"), faults);
    }
}

/// A field of the pod that becomes a file. Faults do not say which of the files it is.
fn check_file(file: &Place<'_, '_>, source: &Place<'_, '_>, faults: &mut Faults) {
    let file = source.with_value(file.value());
    check_file_path(&file.field("path"), faults);
    let (field, resource) = (file.field("fieldRef"), file.field("resourceFieldRef"));
    match (field.is_set(), resource.is_set()) {
        (true, both) => {
            check_field_reference(&field, FILE_FIELDS, faults);
            if both {
                let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
                faults.push(file.invalid_for("resource", why));
            }
        }
        (false, true) => {
            let container = resource.field("containerName");
            match container.text() {
                "" => faults.push(container.required("")),
                _ => check_resource_reference(&resource, faults),
            }
        }
        (false, false) => faults.push(file.required("one of fieldRef and resourceFieldRef is required")),
    }
    check_mode(&file.field("mode"), faults);
}

/// A path within a volume that is not one of the volume's own.
fn check_file_path(path: &Place<'_, '_>, faults: &mut Faults) {
    path.must_be_set(faults);
    check_descending(path, faults);
    let text = path.text();
    if text.starts_with("..") && text != ".." && !text.starts_with("../") {
        faults.push(path.invalid("must not start with '..'"));
    }
}

fn check_projections(projected: &Place<'_, '_>, faults: &mut Faults) {
    let mut paths = HashSet::new();
    for source in projected.field("sources").items() {
        let mut kinds = 0;
        for name in ["secret", "configMap"] {
            let from = source.field(name);
            if !from.is_set() {
                continue;
            }
            kinds += 1;
            from.field("name").must_be_set(faults);
            check_items(&from.field("items"), faults);
            for item in from.field("items").items() {
                let owner = from.field("name").text();
                check_new_path(item.field("path").text(), owner, &mut paths, projected, faults);
            }
        }
        let from = source.field("downwardAPI");
        if from.is_set() {
            kinds += 1;
            for file in from.field("items").items() {
                check_file(&file, &from, faults);
                let path = file.field("path").text();
                check_new_path(path, path, &mut paths, projected, faults);
            }
        }
        let token = source.field("serviceAccountToken");
        if token.is_set() {
            kinds += 1;
            check_token(&token, projected, faults);
        }
        kinds += usize::from(source.field("clusterTrustBundle").is_set());
        kinds += usize::from(source.field("podCertificate").is_set());
        if kinds > 1 {
            faults.push(source.forbidden("may not specify more than 1 volume type per source"));
        }
    }
}

/// Two sources cannot make the same file; the fault shows what the later one is of.
fn check_new_path<'v>(
    path: &'v str,
    shown: &str,
    paths: &mut HashSet<&'v str>,
    projected: &Place<'_, '_>,
    faults: &mut Faults,
) {
    if !path.is_empty() && !paths.insert(path) {
        faults.push(projected.invalid_for(shown, "conflicting duplicate paths"));
    }
}

/// A token that becomes a file. Faults say of its path that it is the volume's.
fn check_token(token: &Place<'_, '_>, projected: &Place<'_, '_>, faults: &mut Faults) {
    let lifetime = token.field("expirationSeconds");
    if lifetime.number() < MIN_TOKEN_SECONDS {
        faults.push(lifetime.invalid("may not specify a duration less than 10 minutes"));
    }
    if lifetime.number() > MAX_TOKEN_SECONDS {
        faults.push(lifetime.invalid("may not specify a duration larger than 2^32 seconds"));
    }
    let place = projected.with_value(token.value());
    check_file_path(&place.field("path"), faults);
}

/// A claim that lives as long as its pod.
fn check_ephemeral(source: &Place<'_, '_>, faults: &mut Faults) {
    let template = source.field("volumeClaimTemplate");
    if !template.is_set() {
        faults.push(template.required(""));
        return;
    }
    let metadata = template.field("metadata");
    let given = metadata.value();
    faults.append(annotations(
        &given["annotations"],
        &metadata.path().child("annotations"),
    ));
    faults.append(labels(&given["labels"], &metadata.path().child("labels")));
    for (name, _) in metadata.entries() {
        if !matches!(name, "annotations" | "labels" | "creationTimestamp") {
            faults.push(metadata.field(name).forbidden("cannot be set"));
        }
    }
    check_claim_spec(&template.field("spec"), faults);
}
