//! Kubernetes' descriptions of the built-in types and their fields, as OpenAPI documents and `explain` show them.
//!
//! In flows the public name of a type (`io.k8s.api.core.v1.Pod`), out flows its text or that of a field. The texts are
//! k8s-openapi's, which has them from Kubernetes. This crate's build script takes them from there, so that no text is
//! kept here and the program carries neither k8s-openapi nor its schemas: only 0.2 MB of compressed text, which is
//! unpacked (1 MB) when the first text is asked for.
//!
//! The build script compiles all of k8s-openapi. That is why the texts are behind the feature `texts`, which the
//! published program enables. Without it no type has a description.
//!
//! ```
//! let text = watchkeeper_descriptions::of_type("io.k8s.api.core.v1.Pod");
//! assert_eq!(text.is_some(), cfg!(feature = "texts"));
//! ```
//!
//! Lists of built-in kinds have no texts of their own: k8s-openapi has one generic type for all of them.

#[cfg(feature = "texts")]
mod table;

/// A kind whose `apiVersion`, `kind` and `metadata` are described as those of all kinds.
const ANY_KIND: &str = "io.k8s.api.core.v1.ConfigMap";

/// True if this build carries the texts.
pub const INCLUDED: bool = cfg!(feature = "texts");

/// The description of a type.
pub fn of_type(type_name: &str) -> Option<&'static str> {
    // No field has an empty name.
    of_field(type_name, "")
}

/// The description of a field of a type.
#[cfg(feature = "texts")]
pub fn of_field(type_name: &str, field: &str) -> Option<&'static str> {
    table::text(type_name, field)
}

/// The description of a field of a type.
#[cfg(not(feature = "texts"))]
pub fn of_field(_type_name: &str, _field: &str) -> Option<&'static str> {
    None
}

/// The description of `apiVersion`, `kind` or `metadata`, which every kind has.
pub fn of_common_field(field: &str) -> Option<&'static str> {
    of_field(ANY_KIND, field)
}

#[cfg(all(test, feature = "texts"))]
mod tests {
    use super::*;

    #[test]
    fn types_and_fields_have_kubernetes_descriptions() {
        let pod = of_type("io.k8s.api.core.v1.Pod").unwrap();
        assert!(pod.starts_with("Pod is a collection of containers"), "{pod}");
        let key = of_field("io.k8s.api.core.v1.Toleration", "key").unwrap();
        assert!(key.starts_with("Key is the taint key"), "{key}");
        let version = of_common_field("apiVersion").unwrap();
        assert!(
            version.starts_with("APIVersion defines the versioned schema"),
            "{version}"
        );
    }

    #[test]
    fn unknown_names_have_none() {
        assert_eq!(of_type("com.example.v1.Ship"), None);
        assert_eq!(of_field("io.k8s.api.core.v1.Pod", "mast"), None);
    }
}
