//! Cluster trust bundles: certificates that vouch for a signer.

use watchkeeper_meta::validation::NameRule;

use crate::fields::Selectable;
use crate::kind::Kind;
use crate::table::Column;

/// What is particular to `clustertrustbundles`.
pub static KIND: Kind = Kind {
    group: "certificates.k8s.io",
    name: "ClusterTrustBundle",
    plural: "clustertrustbundles",
    // Named after what it is about, which its own rules check.
    names: NameRule::PathSegment,
    updates_unconditionally: false,
    columns: COLUMNS,
    selectable: Some(SELECTABLE),
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("SignerName", |row| row.text_or_none("/spec/signerName")),
];

const SELECTABLE: &[Selectable] = &[Selectable::at("spec.signerName", &["/spec/signerName"])];

