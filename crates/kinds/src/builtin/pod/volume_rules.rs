//! Validation of a pod's volumes.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use watchkeeper_meta::validation::{annotations, dns1123_label, dns1123_subdomain, labels};

use super::Around;
use super::container_rules::PULL_POLICIES;
use super::env_rules::{FILE_FIELDS, check_field_reference, check_resource_reference};
use crate::builtin::cluster_trust_bundle;
use crate::builtin::persistent_volume_claim::check_claim_spec;
use crate::rules::certificates::check_signer;
use crate::rules::formats::{check_descending, quantity};
use crate::rules::place::{Errors, Place};
use crate::rules::volume_sources::{Source, check_driver, check_host_path, check_nfs, check_sources, vendor};

/// The volume sources in the order in which Kubernetes checks them.
const SOURCES: &[Source] = &[
    Source {
        name: "emptyDir",
        check: |source, errors| {
            let limit = source.field("sizeLimit");
            if quantity(limit.value()).is_negative() {
                errors.push(limit.forbidden("SizeLimit field must be a valid resource quantity"));
            }
        },
    },
    Source {
        name: "hostPath",
        check: check_host_path,
    },
    Source {
        name: "gitRepo",
        check: |source, errors| check_descending(&source.field("directory"), errors),
    },
    vendor("gcePersistentDisk"),
    vendor("awsElasticBlockStore"),
    Source {
        name: "secret",
        check: |source, errors| check_keys(source, "secretName", errors),
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
        check: |source, errors| source.field("claimName").must_be_set(errors),
    },
    vendor("rbd"),
    vendor("cinder"),
    vendor("cephfs"),
    vendor("quobyte"),
    Source {
        name: "downwardAPI",
        check: |source, errors| {
            check_mode(&source.field("defaultMode"), errors);
            for file in source.field("items").items() {
                check_file(&file, source, errors);
            }
        },
    },
    vendor("fc"),
    vendor("flexVolume"),
    Source {
        name: "configMap",
        check: |source, errors| check_keys(source, "name", errors),
    },
    vendor("azureFile"),
    vendor("vsphereVolume"),
    vendor("photonPersistentDisk"),
    vendor("portworxVolume"),
    vendor("azureDisk"),
    vendor("storageos"),
    Source {
        name: "projected",
        check: |source, errors| {
            check_mode(&source.field("defaultMode"), errors);
            check_projections(source, errors);
        },
    },
    vendor("scaleIO"),
    Source {
        name: "csi",
        check: |source, errors| {
            check_driver(&source.field("driver"), errors);
            let secret = source.field("nodePublishSecretRef");
            if secret.is_set() {
                secret
                    .field("name")
                    .must_be_set_and_keep(dns1123_subdomain, errors);
            }
        },
    },
    Source {
        name: "ephemeral",
        check: check_ephemeral,
    },
    Source {
        name: "image",
        check: |source, errors| {
            source.field("pullPolicy").must_be_one_of(PULL_POLICIES, errors);
        },
    },
];

/// The shortest lifetime of a projected token, in seconds.
const MIN_TOKEN_SECONDS: i64 = 600;
const MAX_TOKEN_SECONDS: i64 = 1 << 32;

/// The valid volumes by name.
pub(crate) type Volumes<'v> = HashMap<&'v str, &'v Value>;

/// Checks the volumes of a spec, and returns the valid ones.
pub(crate) fn check_volumes<'v>(
    volumes: &Place<'v, '_>,
    around: &Around<'v>,
    errors: &mut Errors,
) -> Volumes<'v> {
    let created = created_claims(volumes, around);
    let mut found = Volumes::new();
    let mut names = HashSet::new();
    for volume in volumes.items() {
        let before = errors.len();
        check_sources(&volume, SOURCES, errors);
        check_of_pod(&volume, around, errors);
        let name = volume.field("name");
        name.must_be_set_and_keep(dns1123_label, errors);
        if names.contains(name.text()) {
            errors.push(name.duplicate());
        }
        if errors.len() == before {
            names.insert(name.text());
            found.insert(name.text(), volume.value());
        }
        let claim = volume.field("persistentVolumeClaim");
        let claim = claim.field("claimName");
        if created.contains(claim.text()) {
            errors.push(claim.invalid("must not reference a PVC that gets created for an ephemeral volume"));
        }
    }
    found
}

/// The claims that will be created for a pod's ephemeral volumes.
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

/// Checks that apply to pods and not to templates.
fn check_of_pod(volume: &Place<'_, '_>, around: &Around<'_>, errors: &mut Errors) {
    let Some(pod) = around.pod else {
        return;
    };
    let (image, name) = (volume.field("image"), volume.field("name"));
    if image.is_set() {
        image.field("reference").must_be_set(errors);
    }
    if volume.field("ephemeral").is_set() && !pod.is_empty() && !name.text().is_empty() {
        let claim = format!("{pod}-{}", name.text());
        for why in dns1123_subdomain(&claim) {
            let shown = watchkeeper_meta::quote(&claim);
            errors.push(name.invalid(format!("PVC name {shown}: {why}")));
        }
    }
}

/// Checks a secret or config map whose keys become files.
fn check_keys(source: &Place<'_, '_>, name: &'static str, errors: &mut Errors) {
    source.field(name).must_be_set(errors);
    check_mode(&source.field("defaultMode"), errors);
    check_items(&source.field("items"), errors);
}

fn check_mode(mode: &Place<'_, '_>, errors: &mut Errors) {
    if !(0..=0o777).contains(&mode.number()) {
        errors.push(mode.invalid("must be a number between 0 and 0777 (octal), both inclusive"));
    }
}

/// Checks the mapping of keys to files.
fn check_items(items: &Place<'_, '_>, errors: &mut Errors) {
    for item in items.items() {
        item.field("key").must_be_set(errors);
        check_file_path(&item.field("path"), errors);
        check_mode(&item.field("mode"), errors);
    }
}

/// Checks a downward API file. Errors do not give the index of the file.
fn check_file(file: &Place<'_, '_>, source: &Place<'_, '_>, errors: &mut Errors) {
    let file = source.with_value(file.value());
    check_file_path(&file.field("path"), errors);
    let (field, resource) = (file.field("fieldRef"), file.field("resourceFieldRef"));
    match (field.is_set(), resource.is_set()) {
        (true, both) => {
            check_field_reference(&field, FILE_FIELDS, errors);
            if both {
                let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.push(file.invalid_for("resource", why));
            }
        }
        (false, true) => {
            let container = resource.field("containerName");
            match container.text() {
                "" => errors.push(container.required("")),
                _ => check_resource_reference(&resource, errors),
            }
        }
        (false, false) => errors.push(file.required("one of fieldRef and resourceFieldRef is required")),
    }
    check_mode(&file.field("mode"), errors);
}

/// Checks a relative path that stays within the volume.
fn check_file_path(path: &Place<'_, '_>, errors: &mut Errors) {
    path.must_be_set(errors);
    check_descending(path, errors);
    let text = path.text();
    if text.starts_with("..") && text != ".." && !text.starts_with("../") {
        errors.push(path.invalid("must not start with '..'"));
    }
}

fn check_projections(projected: &Place<'_, '_>, errors: &mut Errors) {
    let mut paths = HashSet::new();
    for source in projected.field("sources").items() {
        let mut kinds = 0;
        for name in ["secret", "configMap"] {
            let from = source.field(name);
            if !from.is_set() {
                continue;
            }
            kinds += 1;
            from.field("name").must_be_set(errors);
            check_items(&from.field("items"), errors);
            for item in from.field("items").items() {
                let owner = from.field("name").text();
                check_new_path(item.field("path").text(), owner, &mut paths, projected, errors);
            }
        }
        let from = source.field("downwardAPI");
        if from.is_set() {
            kinds += 1;
            for file in from.field("items").items() {
                check_file(&file, &from, errors);
                let path = file.field("path").text();
                check_new_path(path, path, &mut paths, projected, errors);
            }
        }
        let token = source.field("serviceAccountToken");
        if token.is_set() {
            kinds += 1;
            check_token(&token, projected, errors);
        }
        let bundle = source.field("clusterTrustBundle");
        if bundle.is_set() {
            kinds += 1;
            check_bundle(&bundle, errors);
            let path = bundle.field("path").text();
            check_new_path(path, path, &mut paths, projected, errors);
        }
        let certificate = source.field("podCertificate");
        if certificate.is_set() {
            kinds += 1;
            check_certificate(&certificate, errors);
            for name in CERTIFICATE_PATHS {
                let path = certificate.field(name).text();
                check_new_path(path, path, &mut paths, projected, errors);
            }
        }
        if kinds > 1 {
            errors.push(source.forbidden("may not specify more than 1 volume type per source"));
        }
    }
}

/// Checks that no two sources create the same file. The error shows the later source.
fn check_new_path<'v>(
    path: &'v str,
    shown: &str,
    paths: &mut HashSet<&'v str>,
    projected: &Place<'_, '_>,
    errors: &mut Errors,
) {
    if !path.is_empty() && !paths.insert(path) {
        errors.push(projected.invalid_for(shown, "conflicting duplicate paths"));
    }
}

/// Checks a projected trust bundle: one bundle by name, or all bundles of a signer.
fn check_bundle(bundle: &Place<'_, '_>, errors: &mut Errors) {
    let [name, signer, selector] = ["name", "signerName", "labelSelector"].map(|name| bundle.field(name));
    match (name.is_set(), signer.is_set()) {
        (true, true) => {
            let why = "only one of name and signerName may be used";
            errors.push(bundle.invalid_as("ClusterTrustBundleProjection", why));
        }
        (true, false) => {
            if name.text().is_empty() {
                errors.push(name.required("must be a valid object name"));
            }
            let reasons = cluster_trust_bundle::check_any_name(name.text()).into_iter();
            let said = |why| name.invalid(format!("not a valid clustertrustbundlename: {why}"));
            errors.extend(reasons.map(said));
            if selector.is_set() {
                errors.push(selector.invalid("labelSelector must be unset if name is specified"));
            }
        }
        (false, true) => {
            if signer.text().is_empty() {
                errors.push(signer.required("must be a valid signer name"));
            }
            check_signer(&signer, errors);
            selector.must_select(errors);
        }
        (false, false) => errors.push(bundle.required("either name or signerName must be specified")),
    }
    check_file_path(&bundle.field("path"), errors);
}

const CERTIFICATE_PATHS: [&str; 3] = ["credentialBundlePath", "keyPath", "certificateChainPath"];
const KEY_TYPES: &[&str] = &[
    "RSA3072",
    "RSA4096",
    "ECDSAP256",
    "ECDSAP384",
    "ECDSAP521",
    "ED25519",
];
/// An hour.
const MIN_CERTIFICATE_SECONDS: i64 = 3600;
/// 91 days.
const MAX_CERTIFICATE_SECONDS: i64 = 7_862_400;

/// Checks a projected pod certificate.
fn check_certificate(certificate: &Place<'_, '_>, errors: &mut Errors) {
    check_signer(&certificate.field("signerName"), errors);
    certificate.field("keyType").is_one_of(KEY_TYPES, errors);
    let lifetime = certificate.field("maxExpirationSeconds");
    if lifetime.is_set() && lifetime.number() < MIN_CERTIFICATE_SECONDS {
        let why = format!("if provided, maxExpirationSeconds must be >= {MIN_CERTIFICATE_SECONDS}");
        errors.push(lifetime.invalid(why));
    }
    if lifetime.number() > MAX_CERTIFICATE_SECONDS {
        let why = format!("if provided, maxExpirationSeconds must be <= {MAX_CERTIFICATE_SECONDS}");
        errors.push(lifetime.invalid(why));
    }
    let paths = CERTIFICATE_PATHS.map(|name| certificate.field(name));
    if paths.iter().all(|path| path.text().is_empty()) {
        let why = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
        errors.push(certificate.required(why));
    }
    for path in paths.iter().filter(|path| !path.text().is_empty()) {
        check_file_path(path, errors);
    }
}

/// Checks a projected token. As in Kubernetes, errors of its path name the volume.
fn check_token(token: &Place<'_, '_>, projected: &Place<'_, '_>, errors: &mut Errors) {
    let lifetime = token.field("expirationSeconds");
    if lifetime.number() < MIN_TOKEN_SECONDS {
        errors.push(lifetime.invalid("may not specify a duration less than 10 minutes"));
    }
    if lifetime.number() > MAX_TOKEN_SECONDS {
        errors.push(lifetime.invalid("may not specify a duration larger than 2^32 seconds"));
    }
    let place = projected.with_value(token.value());
    check_file_path(&place.field("path"), errors);
}

/// Checks an ephemeral volume: a claim that lives as long as its pod.
fn check_ephemeral(source: &Place<'_, '_>, errors: &mut Errors) {
    let template = source.field("volumeClaimTemplate");
    if !template.is_set() {
        errors.push(template.required(""));
        return;
    }
    let metadata = template.field("metadata");
    let given = metadata.value();
    errors.append(annotations(
        &given["annotations"],
        &metadata.path().child("annotations"),
    ));
    errors.append(labels(&given["labels"], &metadata.path().child("labels")));
    for (name, _) in metadata.entries() {
        if !matches!(name, "annotations" | "labels" | "creationTimestamp") {
            errors.push(metadata.field(name).forbidden("cannot be set"));
        }
    }
    check_claim_spec(&template.field("spec"), errors);
}
