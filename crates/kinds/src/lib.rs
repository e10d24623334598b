//! The rules of each Kubernetes kind, as one value per kind.
//!
//! A [`Kind`] defines how a kind's objects are named, defaulted, validated, printed, counted, converted and deleted;
//! each built-in kind is one such value, in the file of [`builtin`] named after it. A [`KindVersion`] is a kind in
//! one served version, with its schema; [`KindVersion::compile`] makes the same from a CustomResourceDefinition.
//!
//! Nothing here waits, stores or reads a clock: JSON values go in, JSON values or field errors come out.
//!
//! ```
//! use serde_json::json;
//! use watchkeeper_kinds::{KindVersion, builtin};
//!
//! let all = KindVersion::all();
//! let config_maps = all.iter().find(|it| it.is(&builtin::CONFIG_MAP)).unwrap();
//! let wrong = config_maps.errors(&json!({"data": {"no spaces": "here"}}));
//! assert!(wrong.iter().next().unwrap().to_string().starts_with("data[no spaces]: Invalid value"));
//! ```

pub mod builtin;
mod conditions;
mod conversion;
pub mod custom;
mod default_class;
pub mod expressions;
mod fields;
mod kind;
mod kind_version;
pub mod metadata;
pub mod names;
mod part;
pub mod quota;
mod rules;
mod table;
pub mod type_checking;
pub mod user;
mod warnings;

pub use builtin::certificate_signing_request::requested_certificate;
pub use builtin::custom_resource_definition::FINALIZER as DEFINITION_FINALIZER;
pub use builtin::custom_resource_definition::approval::Approval;
pub use builtin::flow_schema::suggested::suggested_flow_schemas;
pub use builtin::persistent_volume_claim::CLASS_ANNOTATION;
pub use builtin::pod::add_default_tolerations;
pub use builtin::pod::quota::{
    has_pod_resources, total as pod_total, total_with_overhead as pod_total_with_overhead,
};
pub use builtin::priority_class::system_classes;
pub use builtin::priority_level_configuration::suggested_priority_levels;
pub use conditions::Condition;
pub use conversion::Conversion;
pub use default_class::{INGRESS_CLASS_MARKS, STORAGE_CLASS_MARKS, default_class};
pub use fields::Selectable;
pub use kind::{Completion, Generation, Kind, RowCondition};
pub use kind_version::{KindVersion, SharedSchema};
pub use part::Part;
pub use rules::certificate_request::{AlternativeName, CertificateRequest};
pub use rules::defaulting::{DefaultsTooLarge, fill_from_schema};
pub use table::{Column, Heading, scale_cells, scale_headings};
pub use user::User;
pub use warnings::Warnings;
