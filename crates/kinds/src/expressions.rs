//! CEL expressions of admission policies and webhooks: compiled when they are written, to report errors, and when
//! they are used.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use watchkeeper_cel::{Declared, Environment, Field, Identity, List, Object, Program, Shape, Type};

use crate::rules::place::{Errors, Place};

/// An expression and its compiled form.
#[derive(Debug)]
pub struct Expression {
    /// The source.
    pub source: String,
    /// The program, or the compile error.
    pub program: Result<Program, String>,
}

/// The match conditions of a policy or a webhook.
pub fn conditions(spec: &Value) -> Vec<Expression> {
    let environments = Environments::of(spec).without_variables();
    let conditions = spec["matchConditions"].as_array().into_iter().flatten();
    let sources = conditions.map(|condition| condition["expression"].as_str().unwrap_or_default());
    let compiled = sources.map(|source| environments.compile(source, &[Type::Bool]));
    compiled.collect()
}

/// The environments of a policy's expressions. Each variable sees those before it.
#[derive(Clone)]
pub struct Environments {
    object: Declared,
    parameters: Option<Declared>,
    has_variables: bool,
    has_authorizer: bool,
    has_patch_types: bool,
    variables: Arc<Object>,
}

impl Environments {
    /// The environment before the first variable.
    pub fn of(spec: &Value) -> Self {
        Self {
            object: Declared::dynamic(),
            parameters: spec["paramKind"].is_object().then(Declared::dynamic),
            has_variables: true,
            has_authorizer: true,
            has_patch_types: false,
            variables: Arc::new(Object {
                name: "kubernetes.variables".to_owned(),
                ..Object::default()
            }),
        }
    }

    /// The environment in which objects and parameters have known types.
    #[must_use]
    pub(crate) fn with_types(self, object: Declared, parameters: Option<Declared>) -> Self {
        Self {
            object,
            parameters,
            ..self
        }
    }

    /// The environment of match conditions, which have no variables.
    #[must_use]
    pub fn without_variables(self) -> Self {
        Self {
            has_variables: false,
            ..self
        }
    }

    /// The environment of message expressions, which cannot ask for permissions.
    #[must_use]
    pub fn without_authorizer(&self) -> Self {
        Self {
            has_authorizer: false,
            ..self.clone()
        }
    }

    /// The environment of mutations, with the types of patches.
    #[must_use]
    pub fn with_patch_types(self) -> Self {
        Self {
            has_patch_types: true,
            ..self
        }
    }

    /// Adds a variable for later expressions, with the type of its expression.
    pub fn add(&mut self, name: &str, variable: &Expression) {
        let declared = variable.program.as_ref().map_or(Declared::dynamic(), |program| {
            sized(Shape::Of(program.result_type().clone()))
        });
        let field = Field {
            name: name.to_owned(),
            declared,
        };
        // A copy, if a program that uses variables is kept.
        let variables = Arc::make_mut(&mut self.variables);
        variables.fields.insert(name.to_owned(), field);
    }

    /// In the order in which [`evaluate`](super::evaluate) passes values. The place of what is not there is kept under a
    /// name no expression can use.
    fn environment(&self) -> Environment {
        let variables = if self.has_variables { "variables" } else { "" };
        let (asked, asked_resource) = match self.has_authorizer {
            true => ("authorizer", "authorizer.requestResource"),
            false => ("", ""),
        };
        let (authorizer, request_resource) = Type::authorizer();
        let environment = Environment::new()
            .declare("object", self.object.clone())
            .declare("oldObject", self.object.clone())
            .declare("namespaceObject", namespace_object())
            .declare("request", request())
            .declare(variables, Declared::plain(Shape::Object(self.variables.clone())))
            .declare(asked, Declared::plain(Shape::Of(authorizer)))
            .declare(asked_resource, Declared::plain(Shape::Of(request_resource)));
        let environment = match &self.parameters {
            Some(parameters) => environment.declare("params", parameters.clone()),
            None => environment,
        };
        match self.has_patch_types {
            true => environment.with_patch_types(),
            false => environment,
        }
    }

    /// Compiles an expression, which must have one of the wanted types; any if there are none.
    pub fn compile(&self, source: &str, wanted: &[Type]) -> Expression {
        let program = match self.environment().compile(source) {
            Err(error) => Err(format!("compilation failed: {error}")),
            Ok(program) if wanted.is_empty() || wanted.contains(program.result_type()) => Ok(program),
            Ok(program) => Err(wrong_type(wanted, program.result_type())),
        };
        let source = source.to_owned();
        Expression { source, program }
    }

    /// The compile errors of an expression, whatever its type.
    pub(crate) fn issues(&self, source: &str) -> Option<String> {
        let error = self.environment().compile(source).err()?;
        Some(error.to_string())
    }

    /// Reports the errors of an expression that does not compile.
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
            // Only for namespaces, and only here, the uid is in capitals.
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

/// The declaration of `request`.
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

/// The declarations of `namespaceObject` and `request`.
pub fn declared() -> (Declared, Declared) {
    (namespace_object(), request())
}
