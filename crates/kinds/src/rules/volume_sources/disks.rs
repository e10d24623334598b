//! Volumes that a node attaches as disks: those of cloud providers, and of storage networks.

use std::sync::LazyLock;

use regex::Regex;
use watchkeeper_meta::validation::dns1123_label;

use super::{Volume, check_needed, check_secret_fields};
use crate::rules::place::{Errors, Place};

const PARTITIONS: std::ops::RangeInclusive<i64> = 0..=255;
const LUNS: std::ops::RangeInclusive<i64> = 0..=255;
const CACHING_MODES: &[&str] = &["None", "ReadOnly", "ReadWrite"];
const AZURE_KINDS: &[&str] = &["Dedicated", "Managed", "Shared"];
/// The longest `<volume>:<portal>` of an initiator's interface.
const MAX_INITIATOR_INTERFACE: usize = 64;

/// `iqn.2001-04.com.example:storage`; only the end is anchored.
static QUALIFIED: LazyLock<Regex> = LazyLock::new(|| {
    let text = r"iqn\.[0-9]{4}-[0-9]{2}\.[0-9A-Za-z.-]+:[^,;*&$|\t\n\x0c\r ]+$";
    Regex::new(text).unwrap_or_else(|error| unreachable!("a pattern of the program: {error}"))
});
/// The length of the type that a name begins with.
const TYPE_LEN: usize = 3;
/// The digits of an EUI-64 and of an NAA 128-bit identifier.
const EUI_DIGITS: usize = 16;
const NAA_DIGITS: usize = 32;

/// A disk of Google Compute Engine.
pub(crate) fn check_gce(source: &Place<'_, '_>, errors: &mut Errors) {
    check_needed(source, &["pdName"], errors);
    check_partition(source, errors);
}

/// A disk of Amazon EC2.
pub(crate) fn check_aws(source: &Place<'_, '_>, errors: &mut Errors) {
    check_needed(source, &["volumeID"], errors);
    check_partition(source, errors);
}

/// Zero is the whole disk; the error does not say so, as in Kubernetes.
fn check_partition(source: &Place<'_, '_>, errors: &mut Errors) {
    let partition = source.field("partition");
    if !PARTITIONS.contains(&partition.number()) {
        errors.push(partition.invalid("must be between 1 and 255, inclusive"));
    }
}

/// A disk of Microsoft Azure. The form of its URI depends on its kind.
pub(crate) fn check_azure(source: &Place<'_, '_>, errors: &mut Errors) {
    const MANAGED: &str =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    check_needed(source, &["diskName", "diskURI"], errors);
    source.field("cachingMode").may_be_one_of(CACHING_MODES, errors);
    let (kind, uri) = (source.field("kind"), source.field("diskURI"));
    kind.may_be_one_of(AZURE_KINDS, errors);
    let (start, form) = match kind.text() {
        "Managed" => ("/subscriptions/", MANAGED),
        _ => ("https://", BLOB),
    };
    if kind.is_set() && !uri.text().starts_with(start) {
        errors.push(uri.unsupported(&[form]));
    }
}

/// A disk of OpenStack, for a pod.
pub(crate) fn check_cinder(source: &Place<'_, '_>, errors: &mut Errors) {
    check_needed(source, &["volumeID"], errors);
    check_secret_fields(source, &["name"], errors);
}

/// A disk of OpenStack, as a persistent volume.
pub(crate) fn check_persistent_cinder(source: &Place<'_, '_>, errors: &mut Errors) {
    check_needed(source, &["volumeID"], errors);
    check_secret_fields(source, &["name", "namespace"], errors);
}

/// A disk of vSphere.
pub(crate) fn check_vsphere(source: &Place<'_, '_>, errors: &mut Errors) {
    check_needed(source, &["volumePath"], errors);
}

/// A disk of Photon Controller.
pub(crate) fn check_photon(source: &Place<'_, '_>, errors: &mut Errors) {
    check_needed(source, &["pdID"], errors);
}

/// A volume of Portworx.
pub(crate) fn check_portworx(source: &Place<'_, '_>, errors: &mut Errors) {
    check_needed(source, &["volumeID"], errors);
}

/// A volume of ScaleIO.
pub(crate) fn check_scale_io(source: &Place<'_, '_>, errors: &mut Errors) {
    check_needed(source, &["gateway", "system", "volumeName"], errors);
}

/// A block device of Ceph.
pub(crate) fn check_rbd(source: &Place<'_, '_>, errors: &mut Errors) {
    check_needed(source, &["monitors", "image"], errors);
}

/// A volume of StorageOS, for a pod.
pub(crate) fn check_storage_os(source: &Place<'_, '_>, errors: &mut Errors) {
    check_storage_os_names(source, errors);
    check_secret_fields(source, &["name"], errors);
}

/// A volume of StorageOS, as a persistent volume.
pub(crate) fn check_persistent_storage_os(source: &Place<'_, '_>, errors: &mut Errors) {
    check_storage_os_names(source, errors);
    check_secret_fields(source, &["name", "namespace"], errors);
}

fn check_storage_os_names(source: &Place<'_, '_>, errors: &mut Errors) {
    source
        .field("volumeName")
        .must_be_set_and_keep(dns1123_label, errors);
    source.field("volumeNamespace").may_keep(dns1123_label, errors);
}

/// A disk of a Fibre Channel network: by the names of its targets, or by its own.
pub(crate) fn check_fibre_channel(source: &Place<'_, '_>, errors: &mut Errors) {
    let (targets, ids, lun) = (
        source.field("targetWWNs"),
        source.field("wwids"),
        source.field("lun"),
    );
    match (targets.len(), ids.len()) {
        (0, 0) => errors.push(targets.required("must specify either targetWWNs or wwids, but not both")),
        (0, _) | (_, 0) => {}
        _ => errors.push(targets.invalid("targetWWNs and wwids can not be specified simultaneously")),
    }
    if targets.len() == 0 {
        return;
    }
    match lun.is_set() {
        false => errors.push(lun.required("lun is required if targetWWNs is specified")),
        true => check_lun(&lun, errors),
    }
}

fn check_lun(lun: &Place<'_, '_>, errors: &mut Errors) {
    if !LUNS.contains(&lun.number()) {
        errors.push(lun.invalid("must be between 0 and 255, inclusive"));
    }
}

/// A disk of an iSCSI target, for a pod.
pub(crate) fn check_iscsi(source: &Place<'_, '_>, volume: &Volume<'_, '_>, errors: &mut Errors) {
    const NO_TYPE: &str = "must be valid format starting with iqn, eui, or naa";
    check_needed(source, &["targetPortal"], errors);
    check_target(source, NO_TYPE, errors);
    check_initiator(source, NO_TYPE, errors);
    if has_long_interface(source, volume) {
        let name = volume.place.field("name");
        errors.push(name.invalid_for(volume.name, LONG_INTERFACE));
    }
}

/// A disk of an iSCSI target, as a persistent volume.
pub(crate) fn check_persistent_iscsi(source: &Place<'_, '_>, volume: &Volume<'_, '_>, errors: &mut Errors) {
    check_needed(source, &["targetPortal"], errors);
    if has_long_interface(source, volume) {
        let portal = source.field("targetPortal").text();
        let place = source.field("targetportal");
        errors.push(place.invalid_for(portal, LONG_INTERFACE));
    }
    check_target(source, MALFORMED, errors);
    check_secret_fields(source, &["name"], errors);
    check_initiator(source, MALFORMED, errors);
}

const LONG_INTERFACE: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if \
                              iscsi.initiatorName is specified.";
const MALFORMED: &str = "must be valid format";

/// The initiator's interface is named after the volume and the portal.
fn has_long_interface(source: &Place<'_, '_>, volume: &Volume<'_, '_>) -> bool {
    let portal = source.field("targetPortal").text();
    source.field("initiatorName").is_set()
        && volume.name.len() + ":".len() + portal.len() > MAX_INITIATOR_INTERFACE
}

/// The name and number of the disk, and the secret if the target asks for one.
fn check_target(source: &Place<'_, '_>, no_type: &'static str, errors: &mut Errors) {
    let name = source.field("iqn");
    match name.text() {
        "" => errors.push(name.required("")),
        _ => check_iscsi_name(&name, name.text(), no_type, errors),
    }
    check_lun(&source.field("lun"), errors);
    let authenticates = ["chapAuthDiscovery", "chapAuthSession"];
    let secret = source.field("secretRef");
    if authenticates.iter().any(|name| source.field(name).is_true()) && !secret.is_set() {
        errors.push(secret.required(""));
    }
}

fn check_initiator(source: &Place<'_, '_>, no_type: &'static str, errors: &mut Errors) {
    let name = source.field("initiatorName");
    if name.is_set() {
        check_iscsi_name(&source.field("initiatorname"), name.text(), no_type, errors);
    }
}

/// Refuses anything but a name of one of the three types. A text of another type has an error of its own.
fn check_iscsi_name(place: &Place<'_, '_>, name: &str, no_type: &'static str, errors: &mut Errors) {
    let is_well_formed = match name.get(..TYPE_LEN) {
        Some("iqn") => QUALIFIED.is_match(name),
        Some("eui") => has_digits(name, EUI_DIGITS),
        Some("naa") => has_digits(name, NAA_DIGITS),
        _ => return errors.push(place.invalid_for(name, no_type)),
    };
    if !is_well_formed {
        errors.push(place.invalid_for(name, MALFORMED));
    }
}

/// True if the type is followed by any character and so many letters and digits.
fn has_digits(name: &str, count: usize) -> bool {
    let mut rest = name[TYPE_LEN..].chars();
    let separator = rest.next();
    let digits = rest.as_str();
    separator.is_some_and(|char| char != '\n')
        && digits.len() == count
        && digits.bytes().all(|byte| byte.is_ascii_alphanumeric())
}
