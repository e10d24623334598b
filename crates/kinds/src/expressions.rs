//! The expressions of admission policies and webhooks, compiled: when they are written, to say what is wrong with them,
//! and when they are in force.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use watchkeeper_cel::{Declared, Environment, Field, Identity, List, Object, Program, Shape, Type};

use crate::rules::place::{Errors, Place};

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
    let environments = Environments::of(spec).without_variables();
    let conditions = spec["matchConditions"].as_array().into_iter().flatten();
    let sources = conditions.map(|condition| condition["expression"].as_str().unwrap_or_default());
    let compiled = sources.map(|source| environments.compile(source, &[Type::Bool]));
    compiled.collect()
}

/// What expressions of a policy can name. Variables come one after the other, each with those before it.
pub struct Environments {
    has_parameters: bool,
    has_variables: bool,
    has_patch_types: bool,
    variables: Object,
}

impl Environments {
    /// What is known before the first variable.
    pub fn of(spec: &Value) -> Self {
        Self {
            has_parameters: spec["paramKind"].is_object(),
            has_variables: true,
            has_patch_types: false,
            variables: Object {
                name: "kubernetes.variables".to_owned(),
                ..Object::default()
            },
        }
    }

    /// What conditions know: they are asked before there are variables.
    #[must_use]
    pub fn without_variables(self) -> Self {
        Self {
            has_variables: false,
            ..self
        }
    }

    /// What expressions that make patches know: the types that patches are made of, too.
    #[must_use]
    pub fn with_patch_types(self) -> Self {
        Self {
            has_patch_types: true,
            ..self
        }
    }

    /// Adds a variable for the expressions after it, of the type that its expression has.
    pub fn add(&mut self, name: &str, variable: &Expression) {
        let declared = variable.program.as_ref().map_or(Declared::dynamic(), |program| {
            sized(Shape::Of(program.result_type().clone()))
        });
        let field = Field {
            name: name.to_owned(),
            declared,
        };
        self.variables.fields.insert(name.to_owned(), field);
    }

    /// In the order in which [`evaluate`](super::evaluate) gives values. Where there are no variables, their place is
    /// kept under a name that no expression can say.
    fn environment(&self) -> Environment {
        let variables = if self.has_variables { "variables" } else { "" };
        let (authorizer, request_resource) = Type::authorizer();
        let environment = Environment::new()
            .declare("object", Declared::dynamic())
            .declare("oldObject", Declared::dynamic())
            .declare("namespaceObject", namespace_object())
            .declare("request", request())
            .declare(variables, Declared::object(self.variables.clone()))
            .declare("authorizer", Declared::plain(Shape::Of(authorizer)))
            .declare(
                "authorizer.requestResource",
                Declared::plain(Shape::Of(request_resource)),
            );
        let environment = match self.has_parameters {
            true => environment.declare("params", Declared::dynamic()),
            false => environment,
        };
        match self.has_patch_types {
            true => environment.with_patch_types(),
            false => environment,
        }
    }

    /// Compiles an expression, which must have one of the types that are wanted; any if there are none.
    pub fn compile(&self, source: &str, wanted: &[Type]) -> Expression {
        let program = match self.environment().compile(source) {
            Err(error) => Err(format!("compilation failed: {error}")),
            Ok(program) if wanted.is_empty() || wanted.contains(program.result_type()) => Ok(program),
            Ok(program) => Err(wrong_type(wanted, program.result_type())),
        };
        let source = source.to_owned();
        Expression { source, program }
    }

    /// Refuses an expression that does not compile.
    pub(crate) fn check(&self, expression: &Place<'_, '_>, wanted: &[Type], errors: &mut Errors) {
        if let Err(why) = self.compile(expression.text(), wanted).program {
            errors.push(expression.invalid(why));
        }
    }
}

fn wrong_type(wanted: &[Type], found: &Type) -> String {
    let name = |wanted: &Type| match wanted {
        Type::Null => "null_type".to_owned(),
        wanted => wanted.to_string(),
    };
    match wanted {
        [wanted] => format!("must evaluate to {} but got {found}", name(wanted)),
        several => {
            let names: Vec<String> = several.iter().map(name).collect();
            format!("must evaluate to one of [{}] but got {found}", names.join(" "))
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
