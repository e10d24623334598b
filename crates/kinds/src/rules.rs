//! Building blocks of the kinds' rules: places in an object, formats, schema rules, and rules shared by several
//! kinds.

pub(crate) mod admission;
pub(crate) mod certificate;
pub(crate) mod certificate_request;
pub(crate) mod certificates;
pub(crate) mod conditions;
pub(crate) mod data;
pub(crate) mod declared;
pub(crate) mod defaulting;
pub(crate) mod der;
pub(crate) mod device_claims;
pub(crate) mod device_selectors;
pub(crate) mod devices;
pub(crate) mod flow_control;
pub(crate) mod formats;
pub(crate) mod gated_fields;
pub(crate) mod go_structs;
pub(crate) mod place;
pub(crate) mod rbac;
pub(crate) mod resource_names;
pub(crate) mod schema_plan;
pub(crate) mod schema_rules;
pub(crate) mod storage_classes;
pub(crate) mod unified_diff;
pub(crate) mod volume_sources;
pub(crate) mod webhook_client;
pub(crate) mod workloads;
