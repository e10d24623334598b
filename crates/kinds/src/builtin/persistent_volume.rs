//! PersistentVolume: a piece of storage in the cluster.

use serde_json::{Value, json};
use watchkeeper_meta::validation::dns1123_subdomain;
use watchkeeper_meta::{FieldError, FieldPath};

use crate::builtin::persistent_volume_claim::{
    check_access_modes, check_basic, check_positive, check_volume_mode, protect, warn_of_class_annotation,
};
use crate::builtin::pod;
use crate::kind::{Change, Hooks, Kind, PLAIN};
use crate::rules::defaulting::{fill, fill_empty};
use crate::rules::place::{Errors, Place};
use crate::rules::unified_diff;
use crate::rules::volume_sources::{
    Source, Volume, check_driver, check_flex_volume, check_host_path, check_local, check_secret_reference,
    check_sources, disks, file_systems, source, source_in_volume,
};
use crate::table::Column;
use crate::table::cells::{access_modes, storage_class, text_at, volume_phase};
use crate::{Part, Warnings};

/// The annotation that precedes the field `mountOptions`.
const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";

/// The sources for which the annotation is not accepted.
const WITHOUT_MOUNT_OPTIONS: &[&str] = &["csi", "flexVolume", "hostPath", "local", "storageos"];

const RECLAIM_POLICIES: &[&str] = &["Delete", "Recycle", "Retain"];

/// The volume sources in the order in which Kubernetes checks them.
const SOURCES: &[Source] = &[
    source("hostPath", check_host_path),
    source("gcePersistentDisk", disks::check_gce),
    source("awsElasticBlockStore", disks::check_aws),
    source("glusterfs", file_systems::check_persistent_gluster_fs),
    source("flocker", file_systems::check_flocker),
    source("nfs", file_systems::check_nfs),
    source("rbd", disks::check_rbd),
    source("quobyte", file_systems::check_quobyte),
    source("cephfs", file_systems::check_ceph_fs),
    source_in_volume("iscsi", disks::check_persistent_iscsi),
    source("cinder", disks::check_persistent_cinder),
    source("fc", disks::check_fibre_channel),
    source("flexVolume", check_flex_volume).beside_others(),
    source("azureFile", file_systems::check_persistent_azure_file),
    source("vsphereVolume", disks::check_vsphere),
    source("photonPersistentDisk", disks::check_photon),
    source("portworxVolume", disks::check_portworx),
    source("azureDisk", disks::check_azure),
    source("scaleIO", disks::check_scale_io),
    source_in_volume("local", |source, volume, errors| {
        check_local(source, errors);
        let affinity = volume.place.field("nodeAffinity");
        if !affinity.is_set() {
            errors.push(affinity.required("Local volume requires node affinity"));
        }
    }),
    source("storageos", disks::check_persistent_storage_os),
    source("csi", |source, errors| {
        check_driver(&source.field("driver"), errors);
        source.field("volumeHandle").must_be_set(errors);
        for name in [
            "controllerPublishSecretRef",
            "controllerExpandSecretRef",
            "nodePublishSecretRef",
            "nodeExpandSecretRef",
        ] {
            check_secret_reference(&source.field(name), errors);
        }
    }),
];

/// The kind served as `persistentvolumes`.
pub static KIND: Kind = Kind {
    group: "",
    name: "PersistentVolume",
    plural: "persistentvolumes",
    delete_returns_object: true,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Capacity", |row| json!(row.text("/spec/capacity/storage"))),
    Column::text("Access Modes", |row| {
        json!(access_modes(row.at("/spec/accessModes")))
    }),
    Column::text("Reclaim Policy", |row| {
        json!(row.text("/spec/persistentVolumeReclaimPolicy"))
    }),
    Column::text("Status", volume_phase),
    Column::text("Claim", |row| json!(shown_claim(row.at("/spec/claimRef")))),
    Column::text("StorageClass", |row| json!(storage_class(row.object))),
    Column::text("VolumeAttributesClass", |row| {
        row.text_or("/spec/volumeAttributesClassName", "<unset>")
    }),
    Column::text("Reason", |row| json!(row.text("/status/reason"))),
    Column::AGE,
    Column::text("VolumeMode", |row| row.text_or("/spec/volumeMode", "<unset>")).wide(),
];

const HOOKS: Hooks = Hooks {
    default: |volume| {
        if !volume["spec"].is_object() {
            return;
        }
        let spec = &mut volume["spec"];
        fill_empty(spec, "persistentVolumeReclaimPolicy", "Retain");
        fill(spec, "volumeMode", "Filesystem");
        if spec["hostPath"].is_object() {
            fill_empty(&mut spec["hostPath"], "type", "");
        }
    },
    prepare_for_create: |volume, _| {
        let now = volume["metadata"]["creationTimestamp"].clone();
        volume["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": now});
        protect(volume, "kubernetes.io/pv-protection");
    },
    prepare_for_update: |part, volume, live, now| {
        if part != Part::Object {
            note_phase(volume, live, now);
        }
    },
    check: |volume, errors| {
        let (metadata, spec) = (volume.field("metadata"), volume.field("spec"));
        check(&spec, metadata.field("name").text(), errors);
        check_mount_options(&metadata.field("annotations"), &spec, errors);
    },
    check_change: |change, errors| {
        if change.part != Part::Status {
            check_change(change, errors);
        }
    },
    warn: |volume, _, warnings| warn(volume, warnings),
    ..PLAIN
};

fn warn(volume: &Value, warnings: &Warnings) {
    warn_of_class_annotation(volume, warnings);
    let volume = Place::object(volume);
    let (metadata, spec) = (volume.field("metadata"), volume.field("spec"));
    let annotations = metadata.field("annotations");
    let options = annotations.entry(MOUNT_OPTIONS);
    if options.is_set() {
        let path = options.path();
        warnings.add(format!(
            "{path}: deprecated since v1.31; use \"mountOptions\" attribute instead"
        ));
    }
    if spec.field("persistentVolumeReclaimPolicy").text() == "Recycle" {
        warnings.add(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the \
             recommended approach is to use dynamic provisioning.",
        );
    }
    let affinity = spec.field("nodeAffinity");
    for term in affinity.field("required").field("nodeSelectorTerms").items() {
        pod::warn_of_old_keys(&term, warnings);
    }
    pod::warn_of_old_source(&spec, &["flocker", "gitRepo", "quobyte"], warnings);
}

/// Records the time of the last phase transition.
fn note_phase(volume: &mut Value, live: &Value, now: &str) {
    let phase = |object: &Value| object["status"]["phase"].clone();
    if !volume["status"].is_object() {
        return;
    }
    if phase(volume) != phase(live) {
        volume["status"]["lastPhaseTransitionTime"] = json!(now);
    } else if let Some(since) = live["status"].get("lastPhaseTransitionTime") {
        fill_empty(&mut volume["status"], "lastPhaseTransitionTime", since.clone());
    }
}

fn check<'v>(spec: &Place<'v, '_>, name: &'v str, errors: &mut Errors) {
    let modes = spec.field("accessModes");
    if modes.len() == 0 {
        errors.push(modes.required(""));
    }
    check_access_modes(&modes, errors);
    check_capacity(&spec.field("capacity"), errors);
    let policy = spec.field("persistentVolumeReclaimPolicy");
    if !policy.text().is_empty() {
        policy.is_one_of(RECLAIM_POLICIES, errors);
    }
    let affinity = spec.field("nodeAffinity");
    let required = affinity.field("required");
    match (affinity.is_set(), required.is_set()) {
        (true, true) => pod::check_node_selector(&required, errors),
        (true, false) => errors.push(required.required("must specify required node constraints")),
        _ => {}
    }
    check_source(spec, name, errors);
    let host = spec.field("hostPath");
    if is_root(host.field("path").text()) && policy.text() == "Recycle" {
        errors.push(policy.forbidden("may not be 'recycle' for a hostPath mount of '/'"));
    }
    spec.field("storageClassName").may_keep(dns1123_subdomain, errors);
    check_volume_mode(&spec.field("volumeMode"), errors);
    check_attributes(spec, errors);
}

fn check_mount_options(annotations: &Place<'_, '_>, spec: &Place<'_, '_>, errors: &mut Errors) {
    let accepts = |source: &&Source| !WITHOUT_MOUNT_OPTIONS.contains(&source.name);
    let is_accepted = SOURCES
        .iter()
        .filter(accepts)
        .any(|source| spec.field(source.name).is_set());
    // The path names the annotation as a field, not as a key.
    let options = annotations.field(MOUNT_OPTIONS);
    if options.is_set() && !is_accepted {
        errors.push(options.forbidden("may not specify mount options for this volume type"));
    }
}

/// Checks the source, given the name of the volume.
fn check_source<'v>(spec: &Place<'v, '_>, name: &'v str, errors: &mut Errors) {
    let volume = Volume {
        place: spec,
        name,
        pod: None,
    };
    check_sources(&volume, SOURCES, errors);
}

/// Checks the volume that a VolumeAttachment describes inline: a CSI volume without anything about claims.
pub(crate) fn check_inline(spec: &Place<'_, '_>, errors: &mut Errors) {
    const INLINE: &str = "in the context of inline volumes";
    for name in ["claimRef", "capacity"] {
        let field = spec.field(name);
        if field.is_set() {
            errors.push(field.forbidden(format!("may not be specified {INLINE}")));
        }
    }
    let csi = spec.field("csi");
    if !csi.is_set() {
        errors.push(csi.required(&format!("has to be specified {INLINE}")));
    }
    let modes = spec.field("accessModes");
    if modes.len() == 0 {
        errors.push(modes.required(""));
    }
    check_access_modes(&modes, errors);
    let policy = spec.field("persistentVolumeReclaimPolicy");
    if !matches!(policy.text(), "" | "Retain") {
        errors.push(policy.forbidden(format!("may only be \"Retain\" {INLINE}")));
    }
    let affinity = spec.field("nodeAffinity");
    if affinity.is_set() {
        errors.push(affinity.forbidden(format!("may not be specified {INLINE}")));
    }
    check_source(spec, "", errors);
    let class = spec.field("storageClassName");
    if !class.text().is_empty() {
        errors.push(class.forbidden(format!("may not be specified {INLINE}")));
    }
    let mode = spec.field("volumeMode");
    if !matches!(mode.text(), "" | "Filesystem") {
        let why = format!("may not specify volumeMode other than Filesystem {INLINE}");
        errors.push(mode.forbidden(why));
    }
}

fn is_root(path: &str) -> bool {
    path.starts_with('/') && path.split('/').all(|part| matches!(part, "" | "."))
}

fn check_capacity(capacity: &Place<'_, '_>, errors: &mut Errors) {
    if capacity.len() == 0 {
        errors.push(capacity.required(""));
    }
    if capacity.len() != 1 || !capacity.entry("storage").is_set() {
        let shown = capacity.value().clone();
        let error = FieldError::not_supported(&capacity.path(), shown, &["storage"]);
        errors.push(error);
    }
    for (_, amount) in capacity.entries() {
        check_basic(&amount, errors);
        check_positive(&amount, errors);
    }
}

fn check_attributes(spec: &Place<'_, '_>, errors: &mut Errors) {
    let class = spec.field("volumeAttributesClassName");
    if !class.is_set() {
        return;
    }
    match class.text() {
        "" => errors.push(class.required("an empty string is disallowed")),
        _ => class.must_keep(dns1123_subdomain, errors),
    }
    let csi = spec.field("csi");
    if !csi.is_set() {
        errors.push(csi.required("has to be specified when using volumeAttributesClassName"));
    }
}

fn check_change(change: &Change<'_>, errors: &mut Errors) {
    let (new, live) = (change.new.field("spec"), change.live.field("spec"));
    let source = |spec: &Place<'_, '_>| -> Vec<Value> {
        let sources = SOURCES.iter();
        sources
            .map(|source| without_new_secret(spec.field(source.name).value(), live.value()))
            .collect()
    };
    if source(&new) != source(&live) {
        let path = FieldPath::from("spec.persistentvolumesource");
        let changes = unified_diff::of_structs("PersistentVolumeSource", live.value(), new.value());
        let why = format!("spec.persistentvolumesource is immutable after creation\n{changes}");
        errors.push(FieldError::forbidden(&path, why));
    }
    let (mode, old_mode) = (new.field("volumeMode"), live.field("volumeMode"));
    if mode.value() != old_mode.value() {
        let path = FieldPath::new("volumeMode");
        errors.push(FieldError::invalid(
            &path,
            mode.value().clone(),
            "field is immutable",
        ));
    }
    let (affinity, old_affinity) = (new.field("nodeAffinity"), live.field("nodeAffinity"));
    if old_affinity.is_set() && affinity.value() != old_affinity.value() {
        let object = Place::object(new.value());
        let why = "field is immutable, except for updating from beta label to GA";
        errors.push(object.field("nodeAffinity").invalid_as("VolumeNodeAffinity", why));
    }
    let (class, old_class) = (
        new.field("volumeAttributesClassName"),
        live.field("volumeAttributesClassName"),
    );
    if old_class.is_set() && !class.is_set() {
        errors.push(class.forbidden("update from non-nil value to nil is forbidden"));
    }
}

/// The source without its node expand secret if the live one has none: it may be added later.
fn without_new_secret(source: &Value, live: &Value) -> Value {
    let mut source = source.clone();
    let name = "controllerExpandSecretRef";
    let had_one = live["csi"].get(name).is_some();
    if let (false, Some(fields)) = (had_one, source.as_object_mut()) {
        fields.remove(name);
    }
    source
}

fn shown_claim(claim: &Value) -> String {
    match claim.is_null() {
        true => String::new(),
        false => format!("{}/{}", text_at(claim, "/namespace"), text_at(claim, "/name")),
    }
}
