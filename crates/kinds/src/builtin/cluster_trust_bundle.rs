//! ClusterTrustBundle: root certificates, optionally of one signer.

use watchkeeper_meta::validation::NameRule;

use crate::fields::Selectable;
use crate::kind::{Hooks, Kind, PLAIN};
use crate::rules::certificates::{blocks, check_signer};
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
    check_change: |change, errors| {
        let (spec, live) = (change.new.field("spec"), change.live.field("spec"));
        let signer = spec.field("signerName");
        signer.must_stay(&live.field("signerName"), errors);
    },
    ..PLAIN
};

fn check(bundle: &Place<'_, '_>, errors: &mut Errors) {
    let spec = bundle.field("spec");
    let (signer, anchors) = (spec.field("signerName"), spec.field("trustBundle"));
    bundle.must_be_named(
        |name, is_prefix| check_name(name, is_prefix, signer.text()),
        errors,
    );
    if !signer.text().is_empty() {
        check_signer(&signer, errors);
    }
    if anchors.text().len() > MAX_BYTES {
        errors.push(anchors.too_long(MAX_BYTES));
    }
    check_anchors(&anchors, errors);
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

fn check_anchors(anchors: &Place<'_, '_>, errors: &mut Errors) {
    let blocks = blocks(anchors.text());
    let mut refuse = |why: String| errors.push(anchors.invalid_for("<value omitted>", why));
    if blocks.is_empty() {
        refuse("at least one trust anchor must be provided".to_owned());
    }
    for (index, block) in blocks.iter().enumerate() {
        if block.label != "CERTIFICATE" {
            let label = block.label;
            refuse(format!("entry {index} has bad block type: {label}"));
        } else if let Some(first) = blocks[..index].iter().position(|other| other == block) {
            refuse(format!("duplicate trust anchor (indices [{first} {index}])"));
        }
    }
}
