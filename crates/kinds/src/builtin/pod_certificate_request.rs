//! PodCertificateRequest: a kubelet's request for a pod's certificate.

use serde_json::json;

use crate::fields::Selectable;
use crate::kind::Kind;
use crate::table::Column;
use crate::table::cells::NONE;

/// The kind served as `podcertificaterequests`.
pub static KIND: Kind = Kind {
    group: "certificates.k8s.io",
    name: "PodCertificateRequest",
    plural: "podcertificaterequests",
    columns: COLUMNS,
    selectable: Some(SELECTABLE),
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("PodName", |row| json!(row.text("/spec/podName"))),
    Column::text("ServiceAccountName", |row| {
        json!(row.text("/spec/serviceAccountName"))
    }),
    Column::text("NodeName", |row| json!(row.text("/spec/nodeName"))),
    Column::text("SignerName", |row| row.text_or_none("/spec/signerName")),
    Column::text("State", |_| json!(NONE)),
    Column::text("UnverifiedUserAnnotations", |_| json!(NONE)),
];

const SELECTABLE: &[Selectable] = &[
    Selectable::at("spec.signerName", &["/spec/signerName"]),
    Selectable::at("spec.podName", &["/spec/podName"]),
    Selectable::at("spec.nodeName", &["/spec/nodeName"]),
];
