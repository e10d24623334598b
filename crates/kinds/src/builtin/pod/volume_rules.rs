//! Validation of a pod's volumes.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use watchkeeper_meta::validation::{annotations, dns1123_label, dns1123_subdomain, labels};

use super::Around;
use super::container_rules::PULL_POLICIES;
use super::env_rules::{FILE_FIELDS, check_field_reference, check_resource_reference};
use crate::builtin::persistent_volume_claim::check_claim_spec;
use crate::builtin::{cluster_trust_bundle, pod_certificate_request};
use crate::rules::certificates::{check_signer, check_user_annotations};
use crate::rules::formats::{check_descending, quantity};
use crate::rules::place::{Errors, Place};
use crate::rules::volume_sources::{
    Source, Volume, check_driver, check_flex_volume, check_host_path, check_sources, disks, file_systems,
    source, source_in_volume,
};

/// The volume sources in the order in which Kubernetes checks them.
const SOURCES: &[Source] = &[
    source("emptyDir", |source, errors| {
        let limit = source.field("sizeLimit");
        if quantity(limit.value()).is_negative() {
            errors.push(limit.forbidden("SizeLimit field must be a valid resource quantity"));
        }
    }),
    source("hostPath", check_host_path),
    source("gitRepo", |source, errors| {
        source.field("repository").must_be_set(errors);
        check_descending(&source.field("directory"), errors);
    }),
    source("gcePersistentDisk", disks::check_gce),
    source("awsElasticBlockStore", disks::check_aws),
    source("secret", |source, errors| {
        check_keys(source, "secretName", errors)
    }),
    source("nfs", file_systems::check_nfs),
    source_in_volume("iscsi", disks::check_iscsi),
    source("glusterfs", file_systems::check_gluster_fs),
    source("flocker", file_systems::check_flocker),
    source("persistentVolumeClaim", |source, errors| {
        source.field("claimName").must_be_set(errors);
    }),
    source("rbd", disks::check_rbd),
    source("cinder", disks::check_cinder),
    source("cephfs", file_systems::check_ceph_fs),
    source("quobyte", file_systems::check_quobyte),
    source("downwardAPI", |source, errors| {
        check_mode(&source.field("defaultMode"), errors);
        for file in source.field("items").items() {
            check_file(&file, source, errors);
        }
    }),
    source("fc", disks::check_fibre_channel),
    source("flexVolume", check_flex_volume),
    source("configMap", |source, errors| check_keys(source, "name", errors)),
    source("azureFile", file_systems::check_azure_file),
    source("vsphereVolume", disks::check_vsphere),
    source("photonPersistentDisk", disks::check_photon),
    source("portworxVolume", disks::check_portworx),
    source("azureDisk", disks::check_azure),
    source("storageos", disks::check_storage_os),
    source("projected", |source, errors| {
        check_mode(&source.field("defaultMode"), errors);
        check_projections(source, errors);
    }),
    source("scaleIO", disks::check_scale_io),
    source("csi", |source, errors| {
        check_driver(&source.field("driver"), errors);
        check_publish_secret(source, errors);
    }),
    source_in_volume("ephemeral", check_ephemeral),
    source_in_volume("image", |source, volume, errors| {
        if volume.pod.is_some() {
            source.field("reference").must_be_set(errors);
        }
        source.field("pullPolicy").must_be_one_of(PULL_POLICIES, errors);
    }),
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
        let name = volume.field("name");
        let of_pod = Volume {
            place: &volume,
            name: name.text(),
            pod: around.pod,
        };
        check_sources(&of_pod, SOURCES, errors);
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

/// Checks the secret for publishing an inline CSI volume. As in Kubernetes, errors of the name's syntax name a field
/// of the volume.
fn check_publish_secret(source: &Place<'_, '_>, errors: &mut Errors) {
    let secret = source.field("nodePublishSecretRef");
    let name = secret.field("name");
    match name.text() {
        _ if !secret.is_set() => {}
        "" => errors.push(name.required("")),
        text => {
            let reasons = dns1123_subdomain(text).into_iter();
            errors.extend(reasons.map(|why| source.field("name").invalid_for(text, why)));
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
            // Unlike that of other sources, an empty path counts as a path.
            if !paths.insert(path) {
                errors.push(projected.invalid_for(path, "conflicting duplicate paths"));
            }
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

/// Checks a projected pod certificate.
fn check_certificate(certificate: &Place<'_, '_>, errors: &mut Errors) {
    check_signer(&certificate.field("signerName"), errors);
    certificate.field("keyType").is_one_of(KEY_TYPES, errors);
    let lifetime = certificate.field("maxExpirationSeconds");
    let seconds = pod_certificate_request::lifetimes(certificate.field("signerName").text());
    let refused =
        |bound: String| lifetime.invalid(format!("if provided, maxExpirationSeconds must be {bound}"));
    if lifetime.is_set() && lifetime.number() < *seconds.start() {
        errors.push(refused(format!(">= {}", seconds.start())));
    }
    if lifetime.number() > *seconds.end() {
        errors.push(refused(format!("<= {}", seconds.end())));
    }
    let paths = CERTIFICATE_PATHS.map(|name| certificate.field(name));
    if paths.iter().all(|path| path.text().is_empty()) {
        let why = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
        errors.push(certificate.required(why));
    }
    for path in paths.iter().filter(|path| !path.text().is_empty()) {
        check_file_path(path, errors);
    }
    check_user_annotations(&certificate.field("userAnnotations"), errors);
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

/// Checks an ephemeral volume: a claim that lives as long as its pod, and is named after the pod and the volume.
fn check_ephemeral(source: &Place<'_, '_>, volume: &Volume<'_, '_>, errors: &mut Errors) {
    let template = source.field("volumeClaimTemplate");
    match template.is_set() {
        true => check_claim_template(&template, errors),
        false => errors.push(template.required("")),
    }
    let pod = volume.pod.unwrap_or_default();
    if pod.is_empty() || volume.name.is_empty() {
        return;
    }
    let claim = format!("{pod}-{}", volume.name);
    for why in dns1123_subdomain(&claim) {
        let shown = watchkeeper_meta::quote(&claim);
        let name = volume.place.field("name");
        errors.push(name.invalid_for(volume.name, format!("PVC name {shown}: {why}")));
    }
}

fn check_claim_template(template: &Place<'_, '_>, errors: &mut Errors) {
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
