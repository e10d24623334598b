//! Validation of metadata: names, labels, annotations, finalizers, owners.
//!
//! Rules for a single text ([`dns1123_label`], [`qualified_name`] …) return the reasons it is invalid, or none. Rules
//! for parts of an object ([`object_meta`], [`label_selector`] …) return [`FieldError`]s. All texts are Kubernetes'
//! own. JSON types are not checked here: decoding has already refused a label that is a number. Rules of single kinds
//! are in their kinds.
//!
//! [`FieldError`]: crate::FieldError

mod generate_name;
mod label_selector;
mod names;
mod object_meta;
mod owners;

pub use generate_name::{GENERATED_NAME_ALPHABET, GENERATED_SUFFIX, MAX_GENERATED_PREFIX, generated_name};
pub use label_selector::label_selector;
pub use names::{
    NameRule, dns1035_label, dns1123_label, dns1123_subdomain, label_value, long_name, long_name_caseless,
    path_segment_name, qualified_name, short_name,
};
pub use object_meta::{
    FinalizerRule, MAX_ANNOTATIONS, ObjectMetaRules, annotations, finalizers, labels, managed_fields,
    object_meta, object_meta_update,
};
pub use owners::owner_references;
