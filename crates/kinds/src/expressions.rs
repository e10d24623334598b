//! The expressions of admission policies and webhooks, compiled: when they are written, to say what is wrong with them,
//! and when they are in force.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use watchkeeper_cel::{Declared, Environment, Field, Identity, List, Object, Program, Shape, Type};
use watchkeeper_meta::{FieldError, FieldErrors, FieldPath};

const REASONS: [&str; 4] = ["Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"];

/// An expression and what became of it.
#[derive(Debug)]
pub struct Expression {
    /// As it is written.
    pub source: String,
    /// What it was compiled into, or why it does not compile.
    pub program: Result<Program, String>,
}

/// What must hold for a policy or a webhook to be about a write at all.
pub fn conditions(spec: &Value) -> Vec<Expression> {
    let environments = Environments::of(spec);
    let conditions = spec["matchConditions"].as_array().into_iter().flatten();
    let sources = conditions.map(|condition| condition["expression"].as_str().unwrap_or_default());
    let compiled = sources.map(|source| environments.compile(source, Some(&Type::Bool)));
    compiled.collect()
}

/// What is wrong with the conditions of a policy or a webhook.
pub fn condition_faults(path: &FieldPath, spec: &Value) -> FieldErrors {
    let (mut faults, environments) = (FieldErrors::new(), Environments::of(spec));
    let conditions = spec["matchConditions"].as_array().into_iter().flatten();
    for (index, condition) in conditions.enumerate() {
        let at = path.child("matchConditions").index(index);
        check_name(&at.child("name"), condition, &mut faults);
        environments.check(&at, "expression", condition, Some(&Type::Bool), &mut faults);
    }
    faults
}

/// What is wrong with the expressions of a policy.
pub fn faults(path: &FieldPath, spec: &Value) -> FieldErrors {
    let mut faults = condition_faults(path, spec);
    let mut environments = Environments::of(spec);
    let items = |name: &str| spec[name].as_array().map_or(&[][..], Vec::as_slice);
    for (index, variable) in items("variables").iter().enumerate() {
        let at = path.child("variables").index(index);
        check_name(&at.child("name"), variable, &mut faults);
        environments.check(&at, "expression", variable, None, &mut faults);
        environments.add(variable["name"].as_str().unwrap_or_default());
    }
    for (index, validation) in items("validations").iter().enumerate() {
        let at = path.child("validations").index(index);
        environments.check(&at, "expression", validation, Some(&Type::Bool), &mut faults);
        check_message(&at, validation, &mut faults);
        if !validation["messageExpression"].is_null() {
            let wanted = Some(&Type::String);
            environments.check(&at, "messageExpression", validation, wanted, &mut faults);
        }
    }
    for (index, annotation) in items("auditAnnotations").iter().enumerate() {
        let at = path.child("auditAnnotations").index(index);
        environments.check(&at, "valueExpression", annotation, None, &mut faults);
    }
    faults
}

fn check_name(at: &FieldPath, named: &Value, faults: &mut FieldErrors) {
    if named["name"].as_str().unwrap_or_default().is_empty() {
        faults.push(FieldError::required(at, ""));
    }
}

fn check_message(at: &FieldPath, validation: &Value, faults: &mut FieldErrors) {
    let text = |name: &str| validation[name].as_str().unwrap_or_default();
    let has_lines = |name: &str| text(name).trim().contains(['\n', '\r']);
    let path = at.child("message");
    let message = text("message");
    if !message.is_empty() && message.trim().is_empty() {
        let why = "message must be non-empty if specified";
        faults.push(FieldError::invalid(&path, message, why));
    } else if has_lines("message") {
        let why = "message must not contain line breaks";
        faults.push(FieldError::invalid(&path, message, why));
    } else if has_lines("expression") && message.is_empty() {
        let why = "message must be specified if expression contains line breaks";
        faults.push(FieldError::required(&path, why));
    }
    if !validation["reason"].is_null() && !REASONS.contains(&text("reason")) {
        let at = at.child("reason");
        faults.push(FieldError::not_supported(&at, text("reason"), &REASONS));
    }
}

/// What expressions of a policy can name. Variables come one after the other, each with those before it.
pub struct Environments {
    has_parameters: bool,
    variables: Object,
}

impl Environments {
    /// What is known before the first variable.
    pub fn of(spec: &Value) -> Self {
        Self {
            has_parameters: spec["paramKind"].is_object(),
            variables: Object {
                name: "kubernetes.variables".to_owned(),
                ..Object::default()
            },
        }
    }

    /// Adds a variable for the expressions after it.
    pub fn add(&mut self, name: &str) {
        let field = Field {
            name: name.to_owned(),
            declared: Declared::dynamic(),
        };
        self.variables.fields.insert(name.to_owned(), field);
    }

    /// In the order in which [`evaluate`](super::evaluate) gives values.
    fn environment(&self) -> Environment {
        let environment = Environment::new()
            .declare("object", Declared::dynamic())
            .declare("oldObject", Declared::dynamic())
            .declare("namespaceObject", namespace_object())
            .declare("request", request())
            .declare("variables", Declared::object(self.variables.clone()));
        match self.has_parameters {
            true => environment.declare("params", Declared::dynamic()),
            false => environment,
        }
    }

    /// Compiles an expression, which must have the type that is wanted.
    pub fn compile(&self, source: &str, wanted: Option<&Type>) -> Expression {
        let program = match self.environment().compile(source) {
            Err(error) => Err(format!("compilation failed: {error}")),
            Ok(program) => match wanted {
                Some(wanted) if program.result_type() != wanted => Err(format!(
                    "must evaluate to {wanted} but got {}",
                    program.result_type()
                )),
                _ => Ok(program),
            },
        };
        let source = source.to_owned();
        Expression { source, program }
    }

    fn check(
        &self,
        at: &FieldPath,
        field: &str,
        within: &Value,
        wanted: Option<&Type>,
        faults: &mut FieldErrors,
    ) {
        let (path, source) = (at.child(field), within[field].as_str().unwrap_or_default());
        if source.trim().is_empty() {
            let why = format!("{field} is not specified");
            return faults.push(FieldError::required(&path, why));
        }
        if let Err(why) = self.compile(source, wanted).program {
            faults.push(FieldError::invalid(&path, source, why));
        }
    }
}

fn object(name: &str, fields: &[(&str, Declared)]) -> Declared {
    let fields = fields.iter().map(|(name, declared)| {
        let field = Field {
            // Only of namespaces, and only here, the identity is written in capitals.
            name: if *name == "UID" { "uid" } else { name }.to_owned(),
            declared: declared.clone(),
        };
        ((*name).to_owned(), field)
    });
    let fields: BTreeMap<String, Field> = fields.collect();
    Declared::object(Object {
        name: name.to_owned(),
        fields,
    })
}

fn text() -> Declared {
    sized(Shape::String)
}

fn sized(shape: Shape) -> Declared {
    Declared {
        shape,
        max_size: u64::MAX,
    }
}

fn texts() -> Declared {
    sized(Shape::List(Arc::new(List {
        items: text(),
        identity: Identity::Place,
    })))
}

fn map(values: Declared) -> Declared {
    sized(Shape::Map(Arc::new(values)))
}

fn namespace_object() -> Declared {
    let (time, number) = (
        || Declared::plain(Shape::Timestamp),
        || Declared::plain(Shape::Int),
    );
    let metadata = object(
        "kubernetes.NamespaceMetadata",
        &[
            ("name", text()),
            ("generateName", text()),
            ("namespace", text()),
            ("labels", map(text())),
            ("annotations", map(text())),
            ("UID", text()),
            ("creationTimestamp", time()),
            ("deletionGracePeriodSeconds", number()),
            ("deletionTimestamp", time()),
            ("generation", number()),
            ("resourceVersion", text()),
            ("finalizers", texts()),
        ],
    );
    object(
        "kubernetes.Namespace",
        &[
            ("metadata", metadata),
            (
                "spec",
                object("kubernetes.NamespaceSpec", &[("finalizers", texts())]),
            ),
            (
                "status",
                object("kubernetes.NamespaceStatus", &[("phase", text())]),
            ),
        ],
    )
}

/// What `request` is.
pub fn request() -> Declared {
    let named = |name: &str, last: &str| {
        let fields = [("group", text()), ("version", text()), (last, text())];
        object(name, &fields)
    };
    let (kind, resource) = (
        || named("kubernetes.GroupVersionKind", "kind"),
        || named("kubernetes.GroupVersionResource", "resource"),
    );
    let user = object(
        "kubernetes.UserInfo",
        &[
            ("username", text()),
            ("uid", text()),
            ("groups", texts()),
            ("extra", map(texts())),
        ],
    );
    object(
        "kubernetes.AdmissionRequest",
        &[
            ("kind", kind()),
            ("resource", resource()),
            ("subResource", text()),
            ("requestKind", kind()),
            ("requestResource", resource()),
            ("requestSubResource", text()),
            ("name", text()),
            ("namespace", text()),
            ("operation", text()),
            ("userInfo", user),
            ("dryRun", Declared::plain(Shape::Bool)),
            ("options", Declared::dynamic()),
        ],
    )
}

/// What `namespaceObject` is, and what `request` is.
pub fn declared() -> (Declared, Declared) {
    (namespace_object(), request())
}
