//! Rules for what every object carries: names, labels, annotations, finalizers, owners.
//!
//! The rules for a single piece of text ([`dns1123_label`], [`qualified_name`] …) return the reasons it breaks
//! them, none if it keeps them. The rules for an object ([`object_meta`] …) return [`FieldError`]s that say
//! where. All texts are Kubernetes' own. Rules of single kinds are not here.
//!
//! [`FieldError`]: crate::FieldError

mod names;

pub use names::{
    dns1035_label, dns1123_label, dns1123_subdomain, label_value, path_segment_name, qualified_name,
};
