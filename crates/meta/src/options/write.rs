//! Options of create, update, patch and apply: field manager, dry run, field validation.

use super::query::{QueryParams, QueryWriter};
use super::{DryRun, MAX_FIELD_MANAGER, accept};
use crate::Status;
use crate::field_error::{FieldError, FieldErrors, FieldPath};
use crate::quote::is_printable;

/// Options of a create.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateOptions {
    /// Validates and admits, but stores nothing.
    pub dry_run: bool,
    /// The manager that owns the written fields; by default the server derives it from the user agent.
    pub field_manager: Option<String>,
    /// The treatment of unknown fields.
    pub field_validation: Option<FieldValidation>,
}

/// Options of an update.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpdateOptions {
    /// Validates and admits, but stores nothing.
    pub dry_run: bool,
    /// The manager that owns the written fields; by default the server derives it from the user agent.
    pub field_manager: Option<String>,
    /// The treatment of unknown fields.
    pub field_validation: Option<FieldValidation>,
}

/// Options of a JSON, merge or strategic merge patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchOptions {
    /// Validates and admits, but stores nothing.
    pub dry_run: bool,
    /// The manager that owns the written fields; by default the server derives it from the user agent.
    pub field_manager: Option<String>,
    /// The treatment of unknown fields.
    pub field_validation: Option<FieldValidation>,
}

/// Options of a server-side apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplyOptions {
    /// The manager that owns the applied fields. Required.
    pub field_manager: String,
    /// Take fields from other managers instead of reporting a conflict.
    pub force: bool,
    /// Validates and admits, but stores nothing.
    pub dry_run: bool,
    /// The treatment of unknown fields.
    pub field_validation: Option<FieldValidation>,
}

/// The treatment of unknown and duplicate fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldValidation {
    /// They are dropped.
    Ignore,
    /// They are dropped and the answer carries warnings; servers do this by default.
    Warn,
    /// The request fails.
    Strict,
}

impl FieldValidation {
    /// The text on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ignore => "Ignore",
            Self::Warn => "Warn",
            Self::Strict => "Strict",
        }
    }
}

impl CreateOptions {
    /// As client-go sends it.
    pub fn to_query(&self) -> String {
        write_query(
            self.dry_run,
            self.field_manager.as_deref(),
            self.field_validation,
            false,
        )
    }

    /// Reads and checks a query.
    pub fn from_query(query: &str) -> Result<Self, Status> {
        let raw = Raw::read(query);
        let options = Self {
            dry_run: raw.dry_run,
            field_manager: raw.field_manager,
            field_validation: raw.field_validation,
        };
        accept("CreateOptions", options, &raw.errors)
    }
}

impl UpdateOptions {
    /// As client-go sends it.
    pub fn to_query(&self) -> String {
        write_query(
            self.dry_run,
            self.field_manager.as_deref(),
            self.field_validation,
            false,
        )
    }

    /// Reads and checks a query.
    pub fn from_query(query: &str) -> Result<Self, Status> {
        let raw = Raw::read(query);
        let options = Self {
            dry_run: raw.dry_run,
            field_manager: raw.field_manager,
            field_validation: raw.field_validation,
        };
        accept("UpdateOptions", options, &raw.errors)
    }
}

impl PatchOptions {
    /// As client-go sends it.
    pub fn to_query(&self) -> String {
        write_query(
            self.dry_run,
            self.field_manager.as_deref(),
            self.field_validation,
            false,
        )
    }

    /// Reads and checks the query of a patch other than apply.
    pub fn from_query(query: &str) -> Result<Self, Status> {
        let mut raw = Raw::read(query);
        if raw.force.is_some() {
            let why = "may not be specified for non-apply patch";
            raw.errors
                .push_first(FieldError::forbidden(&FieldPath::new("force"), why));
        }
        let options = Self {
            dry_run: raw.dry_run,
            field_manager: raw.field_manager,
            field_validation: raw.field_validation,
        };
        accept("PatchOptions", options, &raw.errors)
    }
}

impl ApplyOptions {
    /// As client-go sends it.
    pub fn to_query(&self) -> String {
        write_query(
            self.dry_run,
            Some(&self.field_manager),
            self.field_validation,
            self.force,
        )
    }

    /// Reads and checks the query of an apply.
    pub fn from_query(query: &str) -> Result<Self, Status> {
        let mut raw = Raw::read(query);
        if raw.field_manager.is_none() {
            let path = FieldPath::new("fieldManager");
            raw.errors
                .push_first(FieldError::required(&path, "is required for apply patch"));
        }
        let options = Self {
            field_manager: raw.field_manager.unwrap_or_default(),
            force: raw.force.unwrap_or(false),
            dry_run: raw.dry_run,
            field_validation: raw.field_validation,
        };
        accept("PatchOptions", options, &raw.errors)
    }
}

/// The default field manager: the user agent up to the first slash, printable characters only, truncated to the
/// longest name allowed.
pub fn field_manager_from_user_agent(user_agent: &str) -> String {
    let name = user_agent.split('/').next().unwrap_or_default();
    let mut manager = String::new();
    for c in name.chars().filter(|c| is_printable(*c)) {
        if manager.len() + c.len_utf8() > MAX_FIELD_MANAGER {
            break;
        }
        manager.push(c);
    }
    manager
}

/// The parameters all writes share, with their validation errors in Kubernetes' order.
struct Raw {
    dry_run: bool,
    field_manager: Option<String>,
    field_validation: Option<FieldValidation>,
    force: Option<bool>,
    errors: FieldErrors,
}

impl Raw {
    fn read(query: &str) -> Self {
        let params = QueryParams::parse(query);
        let manager = params.text("fieldManager");
        let mut errors = field_manager_errors(manager, &FieldPath::new("fieldManager"));
        Self {
            dry_run: DryRun::from_params(&params).read(&mut errors),
            field_validation: read_field_validation(params.text("fieldValidation"), &mut errors),
            field_manager: Some(manager.to_owned()).filter(|manager| !manager.is_empty()),
            force: params.optional_flag("force"),
            errors,
        }
    }
}

fn read_field_validation(word: &str, errors: &mut FieldErrors) -> Option<FieldValidation> {
    match word {
        "" => return None,
        "Ignore" => return Some(FieldValidation::Ignore),
        "Warn" => return Some(FieldValidation::Warn),
        "Strict" => return Some(FieldValidation::Strict),
        _ => {}
    }
    let path = FieldPath::new("fieldValidation");
    errors.push(FieldError::not_supported(
        &path,
        word,
        &["", "Ignore", "Strict", "Warn"],
    ));
    None
}

/// Validates a field manager's name, in options and in `managedFields`.
pub(crate) fn field_manager_errors(manager: &str, path: &FieldPath) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if manager.len() > MAX_FIELD_MANAGER {
        errors.push(FieldError::too_long(path, MAX_FIELD_MANAGER));
    }
    for (position, c) in manager.char_indices().filter(|(_, c)| !is_printable(*c)) {
        // Each error shows the whole name.
        errors.push_with(|| {
            let why = format!("invalid character U+{:04X} (at position {position})", c as u32);
            FieldError::invalid(path, manager, why)
        });
    }
    errors
}

fn write_query(
    dry_run: bool,
    manager: Option<&str>,
    validation: Option<FieldValidation>,
    force: bool,
) -> String {
    let mut query = QueryWriter::default();
    for value in DryRun::from(dry_run).0 {
        query.push("dryRun", &value);
    }
    query.push_text("fieldManager", manager.unwrap_or_default());
    query.push_some("fieldValidation", validation.map(FieldValidation::as_str));
    query.push_flag("force", force);
    query.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_those_of_client_go() {
        let create = CreateOptions {
            dry_run: true,
            field_manager: Some("kubectl-create".into()),
            field_validation: Some(FieldValidation::Strict),
        };
        assert_eq!(
            create.to_query(),
            "dryRun=All&fieldManager=kubectl-create&fieldValidation=Strict"
        );
        assert_eq!(CreateOptions::from_query(&create.to_query()).unwrap(), create);
        let apply = ApplyOptions {
            field_manager: "me".into(),
            force: true,
            ..Default::default()
        };
        assert_eq!(apply.to_query(), "fieldManager=me&force=true");
        assert_eq!(ApplyOptions::from_query(&apply.to_query()).unwrap(), apply);
        assert_eq!(UpdateOptions::default().to_query(), "");
    }

    fn check(answer: Result<impl std::fmt::Debug, Status>, message: &str) {
        let status = answer.unwrap_err();
        assert_eq!((status.code, status.message.as_str()), (422, message));
    }

    #[test]
    fn nonsense_is_refused_in_kubernetes_words() {
        check(
            CreateOptions::from_query("dryRun=Some"),
            r#"CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All""#,
        );
        check(
            UpdateOptions::from_query("dryRun="),
            r#"UpdateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: [""]: supported values: "All""#,
        );
        check(
            PatchOptions::from_query("force=false"),
            r#"PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch"#,
        );
        check(
            ApplyOptions::from_query(""),
            r#"PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch"#,
        );
        check(
            CreateOptions::from_query("fieldValidation=Maybe&fieldManager=a%07"),
            r#"CreateOptions.meta.k8s.io "" is invalid: [fieldManager: Invalid value: "a\a": invalid character U+0007 (at position 1), fieldValidation: Unsupported value: "Maybe": supported values: "", "Ignore", "Strict", "Warn"]"#,
        );
        check(
            UpdateOptions::from_query(&format!("fieldManager={}", "m".repeat(129))),
            r#"UpdateOptions.meta.k8s.io "" is invalid: fieldManager: Too long: may not be more than 128 bytes"#,
        );
    }

    #[test]
    fn user_agents_name_managers() {
        for (agent, manager) in [("kubectl/v1.37 (linux)", "kubectl"), ("a\u{7}b", "ab"), ("", "")] {
            assert_eq!(field_manager_from_user_agent(agent), manager);
        }
        assert_eq!(
            field_manager_from_user_agent(&"é".repeat(100)).len(),
            MAX_FIELD_MANAGER
        );
    }
}
