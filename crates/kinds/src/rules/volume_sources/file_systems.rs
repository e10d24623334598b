//! Volumes that a node mounts as file systems over the network.

use watchkeeper_meta::validation::dns1123_label;

use super::check_needed;
use crate::rules::place::{Errors, Place};

/// The exclusive upper bound of a Quobyte tenant's length.
const MAX_TENANT: usize = 65;

/// An NFS directory.
pub(crate) fn check_nfs(source: &Place<'_, '_>, errors: &mut Errors) {
    check_needed(source, &["server", "path"], errors);
    let path = source.field("path");
    if !path.text().starts_with('/') {
        errors.push(path.invalid_for(path.text(), "must be an absolute path"));
    }
}

/// A share of Microsoft Azure, for a pod.
pub(crate) fn check_azure_file(source: &Place<'_, '_>, errors: &mut Errors) {
    check_needed(source, &["secretName", "shareName"], errors);
}

/// A share of Microsoft Azure, as a persistent volume.
pub(crate) fn check_persistent_azure_file(source: &Place<'_, '_>, errors: &mut Errors) {
    check_azure_file(source, errors);
    let namespace = source.field("secretNamespace");
    if namespace.is_set() {
        namespace.must_be_set(errors);
    }
}

/// A directory of CephFS.
pub(crate) fn check_ceph_fs(source: &Place<'_, '_>, errors: &mut Errors) {
    check_needed(source, &["monitors"], errors);
}

/// A volume of GlusterFS, for a pod.
pub(crate) fn check_gluster_fs(source: &Place<'_, '_>, errors: &mut Errors) {
    check_needed(source, &["endpoints", "path"], errors);
}

/// A volume of GlusterFS, as a persistent volume.
pub(crate) fn check_persistent_gluster_fs(source: &Place<'_, '_>, errors: &mut Errors) {
    check_gluster_fs(source, errors);
    let namespace = source.field("endpointsNamespace");
    match namespace.text() {
        _ if !namespace.is_set() => {}
        "" => {
            let why = "if the endpointnamespace is set, it must be a valid namespace name";
            errors.push(namespace.invalid(why));
        }
        _ => namespace.must_keep(dns1123_label, errors),
    }
}

/// A volume of Quobyte.
pub(crate) fn check_quobyte(source: &Place<'_, '_>, errors: &mut Errors) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let (registry, tenant) = (source.field("registry"), source.field("tenant"));
    if registry.text().is_empty() {
        errors.push(registry.required(PAIRS));
    } else if tenant.text().len() >= MAX_TENANT {
        let why = "must be a UUID and may not exceed a length of 64 characters";
        errors.push(tenant.required(why));
    } else {
        let pairs = registry.text().split(',').filter(|pair| !is_host_and_port(pair));
        errors.extend(pairs.map(|_| registry.invalid(PAIRS)));
    }
    check_needed(source, &["volume"], errors);
}

/// True for `host:port` and `[address]:port`; either side may be empty.
fn is_host_and_port(pair: &str) -> bool {
    let has_bracket = |text: &str| text.contains(['[', ']']);
    match pair.strip_prefix('[') {
        Some(rest) => rest.split_once(']').is_some_and(|(host, rest)| {
            let port = rest.strip_prefix(':');
            !host.contains('[') && port.is_some_and(|port| !port.contains(':') && !has_bracket(port))
        }),
        None => pair
            .rsplit_once(':')
            .is_some_and(|(host, _)| !host.contains(':') && !has_bracket(pair)),
    }
}

/// A dataset of Flocker: by its name, or by its UUID.
pub(crate) fn check_flocker(source: &Place<'_, '_>, errors: &mut Errors) {
    let (name, id) = (source.field("datasetName"), source.field("datasetUUID"));
    match (name.text().is_empty(), id.text().is_empty()) {
        (true, true) => errors.push(source.required("one of datasetName and datasetUUID is required")),
        (false, false) => {
            let why = "datasetName and datasetUUID can not be specified simultaneously";
            errors.push(source.invalid_for("resource", why));
        }
        _ => {}
    }
    if name.text().contains('/') {
        errors.push(name.invalid("must not contain '/'"));
    }
}

#[cfg(test)]
mod tests {
    use super::is_host_and_port;

    #[test]
    fn a_host_and_a_port_are_separated_by_one_colon() {
        for pair in ["registry:7861", "[::1]:7861", ":", "[]:", "a:b"] {
            assert!(is_host_and_port(pair), "{pair}");
        }
        for pair in [
            "",
            "registry",
            "::1:7861",
            "[::1]",
            "[::1]7861",
            "[::1:7861",
            "a]:1",
            "[a]:1:2",
            "[[a]:1",
        ] {
            assert!(!is_host_and_port(pair), "{pair}");
        }
    }
}
