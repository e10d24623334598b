//! The default class: the one of several marked classes that objects without a class get.

use serde_json::Value;

/// The annotations that mark a default StorageClass.
pub const STORAGE_CLASS_MARKS: &[&str] = &[
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

/// The annotations that mark a default IngressClass.
pub const INGRESS_CLASS_MARKS: &[&str] = &["ingressclass.kubernetes.io/is-default-class"];

/// The index of the default class. The newest wins, so that a default can be replaced without a gap; among equals, the
/// first by name.
pub fn default_class(classes: &[Value], marks: &[&str]) -> Option<usize> {
    let is_marked = |class: &Value| {
        let annotations = &class["metadata"]["annotations"];
        marks.iter().any(|mark| annotations[*mark] == "true")
    };
    let text = |class: &Value, field: &str| class["metadata"][field].as_str().unwrap_or_default().to_owned();
    let marked = classes.iter().enumerate().filter(|(_, class)| is_marked(class));
    let first = marked.min_by(|(_, one), (_, other)| {
        let by_age = text(other, "creationTimestamp").cmp(&text(one, "creationTimestamp"));
        by_age.then_with(|| text(one, "name").cmp(&text(other, "name")))
    });
    first.map(|(index, _)| index)
}
