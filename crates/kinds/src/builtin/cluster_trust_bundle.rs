//! ClusterTrustBundle: root certificates, optionally of one signer.

use std::collections::BTreeMap;

use watchkeeper_meta::validation::NameRule;

use crate::fields::Selectable;
use crate::kind::{Hooks, Kind, PLAIN};
use crate::rules::certificate::Certificate;
use crate::rules::certificates::{Block, blocks, check_signer};
use crate::rules::place::{Errors, Place};
use crate::table::Column;

const MAX_BYTES: usize = 1024 * 1024;

/// The kind served as `clustertrustbundles`.
pub static KIND: Kind = Kind {
    group: "certificates.k8s.io",
    name: "ClusterTrustBundle",
    plural: "clustertrustbundles",
    names: NameRule::OfKind,
    updates_unconditionally: false,
    columns: COLUMNS,
    selectable: Some(SELECTABLE),
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("SignerName", |row| row.text_or_none("/spec/signerName")),
];

const SELECTABLE: &[Selectable] = &[Selectable::at("spec.signerName", &["/spec/signerName"])];

const HOOKS: Hooks = Hooks {
    check,
    check_new: |bundle, errors| check_anchors(&bundle.field("spec").field("trustBundle"), errors),
    check_change: |change, errors| {
        let (spec, live) = (change.new.field("spec"), change.live.field("spec"));
        let (anchors, before) = (spec.field("trustBundle"), live.field("trustBundle"));
        // Unchanged certificates may predate a rule.
        if anchors.text() != before.text() {
            check_anchors(&anchors, errors);
        }
        let signer = spec.field("signerName");
        signer.must_stay(&live.field("signerName"), errors);
    },
    ..PLAIN
};

fn check(bundle: &Place<'_, '_>, errors: &mut Errors) {
    let spec = bundle.field("spec");
    let signer = spec.field("signerName");
    bundle.must_be_named(
        |name, is_prefix| check_name(name, is_prefix, signer.text()),
        errors,
    );
    if !signer.text().is_empty() {
        check_signer(&signer, errors);
    }
}

/// Checks a name without knowing the bundle: what precedes the last colon must be a valid signer name.
pub(crate) fn check_any_name(name: &str) -> Vec<String> {
    let signer = name.rsplit_once(':').map(|(signer, _)| signer.replace(':', "/"));
    check_name(name, false, &signer.unwrap_or_default())
}

/// Checks that the bundle of a signer is named `<signer>:<name>`, and that no other name contains a colon.
fn check_name(name: &str, is_prefix: bool, signer: &str) -> Vec<String> {
    let subdomain = |name: &str| match is_prefix {
        true => NameRule::Dns1123Subdomain.check_prefix(name),
        false => NameRule::Dns1123Subdomain.check(name),
    };
    let wanted = format!("{}:", signer.replace('/', ":"));
    match name.strip_prefix(&wanted) {
        _ if signer.is_empty() && name.contains(':') => {
            vec!["ClusterTrustBundle without signer name must not have \":\" in its name".to_owned()]
        }
        _ if signer.is_empty() => subdomain(name),
        Some(rest) => subdomain(rest),
        None => vec![format!(
            "ClusterTrustBundle for signerName {signer} must be named with prefix {wanted}"
        )],
    }
}

/// Checks that the bundle consists of certificates of authorities. How many there are matters only if all are.
fn check_anchors(anchors: &Place<'_, '_>, errors: &mut Errors) {
    if anchors.text().len() > MAX_BYTES {
        return errors.push(anchors.too_long(MAX_BYTES));
    }
    let blocks = blocks(anchors.text());
    let wrong = blocks
        .iter()
        .enumerate()
        .filter_map(|(index, block)| Some(format!("entry {index} {}", fault_of(block)?)));
    let mut reasons: Vec<String> = wrong.collect();
    if reasons.is_empty() {
        let none = "at least one trust anchor must be provided";
        reasons.extend(blocks.is_empty().then(|| none.to_owned()));
        let repeated = repetitions(&blocks).into_iter();
        reasons.extend(repeated.map(|indices| format!("duplicate trust anchor (indices [{indices}])")));
    }
    errors.extend(
        reasons
            .into_iter()
            .map(|why| anchors.invalid_for("<value omitted>", why)),
    );
}

/// The reason a block is no trust anchor.
fn fault_of(block: &Block<'_>) -> Option<String> {
    if block.label != "CERTIFICATE" {
        return Some(format!("has bad block type: {}", block.label));
    }
    if block.has_headers {
        return Some("has PEM block headers".to_owned());
    }
    match Certificate::read(&block.bytes) {
        None => Some("does not parse as X.509".to_owned()),
        Some(certificate) if !certificate.is_authority => Some("does not have the CA bit set".to_owned()),
        Some(_) => None,
    }
}

/// The indices of each block that is there more than once.
fn repetitions(blocks: &[Block<'_>]) -> Vec<String> {
    let mut indices: BTreeMap<&[u8], Vec<String>> = BTreeMap::new();
    for (index, block) in blocks.iter().enumerate() {
        indices.entry(&block.bytes).or_default().push(index.to_string());
    }
    let repeated = indices.into_values().filter(|indices| indices.len() > 1);
    repeated.map(|indices| indices.join(" ")).collect()
}
