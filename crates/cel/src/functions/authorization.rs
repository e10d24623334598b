//! Authorization checks: functions that build the question, the check itself, and access to the decision.

use std::rc::Rc;

use watchkeeper_meta::validation::{dns1123_label, dns1123_subdomain};

use super::strings::text;
use super::{Evaluated, Function, no_overload};
use crate::authorizer::{Authorizer, Decision, Question, ResourceTarget, Target};
use crate::error::EvalError;
use crate::value::{Opaque, Value};

/// The cost of a check, as in Kubernetes: an authorizer may be remote.
const CHECK: u64 = 350_000;

const ON_RESOURCE: &[&str] =
    &["kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck"];
const SAYS_BOOL: &[&str] = &["kubernetes.authorization.Decision.() -> bool"];
const SAYS_TEXT: &[&str] = &["kubernetes.authorization.Decision.() -> string"];

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new(
        "path",
        &["kubernetes.authorization.Authorizer.(string) -> kubernetes.authorization.PathCheck"],
        |v, _| {
            let path = filled(&v[1], "path must not be empty")?;
            step(&v[0], CheckStage::Authorizer, CheckStage::Path, |question| {
                question.target = Target::Path(path.to_owned());
            })
        },
    ),
    Function::new(
        "group",
        &["kubernetes.authorization.Authorizer.(string) -> kubernetes.authorization.GroupCheck"],
        |v, _| {
            let group = text(&v[1])?.to_owned();
            step(&v[0], CheckStage::Authorizer, CheckStage::Group, |question| {
                question.target = Target::Resource(ResourceTarget {
                    group,
                    ..ResourceTarget::default()
                });
            })
        },
    ),
    Function::new(
        "serviceAccount",
        &["kubernetes.authorization.Authorizer.(string, string) -> kubernetes.authorization.Authorizer"],
        |v, _| service_account(v),
    ),
    Function::new(
        "resource",
        &["kubernetes.authorization.GroupCheck.(string) -> kubernetes.authorization.ResourceCheck"],
        |v, _| {
            let resource = filled(&v[1], "resource must not be empty")?.to_owned();
            let (from, to) = (CheckStage::Group, CheckStage::Resource);
            step(&v[0], from, to, |question| {
                of_resource(question).resource = resource
            })
        },
    ),
    Function::new("subresource", ON_RESOURCE, |v, _| {
        narrow(v, |target| &mut target.subresource)
    }),
    Function::new("namespace", ON_RESOURCE, |v, _| {
        narrow(v, |target| &mut target.namespace)
    }),
    Function::new("name", ON_RESOURCE, |v, _| narrow(v, |target| &mut target.name)),
    // RBAC ignores selectors: permission to list includes listing with a selector.
    Function::new("fieldSelector", ON_RESOURCE, |v, _| Ok(v[0].clone())),
    Function::new("labelSelector", ON_RESOURCE, |v, _| Ok(v[0].clone())),
    Function::new(
        "check",
        &[
            "kubernetes.authorization.PathCheck.(string) -> kubernetes.authorization.Decision",
            "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.Decision",
        ],
        |v, _| match &v[0] {
            Value::Opaque(Opaque::Check(check)) => {
                let mut question = check.question.clone();
                text(&v[1])?.clone_into(&mut question.verb);
                let decision = check.authorizer.decide(&question);
                Ok(Value::Opaque(Opaque::Decision(Rc::new(decision))))
            }
            _ => no_overload(),
        },
    )
    .costing(|_| CHECK),
    Function::new("allowed", SAYS_BOOL, |v, _| {
        said(v, |decision| Value::Bool(decision.is_allowed))
    }),
    Function::new("reason", SAYS_TEXT, |v, _| {
        said(v, |decision| Value::text(decision.reason.as_str()))
    }),
    Function::new("errored", SAYS_BOOL, |v, _| {
        said(v, |decision| Value::Bool(decision.error.is_some()))
    }),
    Function::new("error", SAYS_TEXT, |v, _| {
        said(v, |decision| {
            Value::text(decision.error.as_deref().unwrap_or_default())
        })
    }),
];

/// A question under construction.
#[derive(Clone, Debug)]
pub struct Check {
    pub(crate) stage: CheckStage,
    pub(crate) question: Question,
    pub(crate) authorizer: Rc<dyn Authorizer>,
}

/// The stage of a question; each is a separate CEL type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckStage {
    Authorizer,
    Path,
    Group,
    Resource,
}

impl CheckStage {
    pub(crate) fn type_name(self) -> &'static str {
        match self {
            Self::Authorizer => "kubernetes.authorization.Authorizer",
            Self::Path => "kubernetes.authorization.PathCheck",
            Self::Group => "kubernetes.authorization.GroupCheck",
            Self::Resource => "kubernetes.authorization.ResourceCheck",
        }
    }
}

fn step<'a>(
    value: &Value<'a>,
    from: CheckStage,
    to: CheckStage,
    change: impl FnOnce(&mut Question),
) -> Evaluated<'a> {
    match value {
        Value::Opaque(Opaque::Check(check)) if check.stage == from => {
            let mut check = Check::clone(check);
            check.stage = to;
            change(&mut check.question);
            Ok(Value::Opaque(Opaque::Check(Rc::new(check))))
        }
        _ => no_overload(),
    }
}

fn narrow<'a>(v: &[Value<'a>], part: fn(&mut ResourceTarget) -> &mut String) -> Evaluated<'a> {
    let given = text(&v[1])?.to_owned();
    let stage = CheckStage::Resource;
    step(&v[0], stage, stage, |question| {
        *part(of_resource(question)) = given
    })
}

fn of_resource(question: &mut Question) -> &mut ResourceTarget {
    if let Target::Path(_) = question.target {
        question.target = Target::default();
    }
    match &mut question.target {
        Target::Resource(target) => target,
        Target::Path(_) => unreachable!("a check of a path has no resource"),
    }
}

fn service_account<'a>(v: &[Value<'a>]) -> Evaluated<'a> {
    let (namespace, name) = (text(&v[1])?, text(&v[2])?);
    if !dns1123_subdomain(name).is_empty() {
        return Err(EvalError::failed("Invalid service account name"));
    }
    if !dns1123_label(namespace).is_empty() {
        return Err(EvalError::failed("Invalid service account namespace"));
    }
    let stage = CheckStage::Authorizer;
    step(&v[0], stage, stage, |question| {
        question.service_account = Some((namespace.to_owned(), name.to_owned()));
    })
}

fn filled<'v>(value: &'v Value<'_>, why: &str) -> Result<&'v str, EvalError> {
    let text = text(value)?;
    match text.trim().is_empty() {
        true => Err(EvalError::failed(why)),
        false => Ok(text),
    }
}

fn said<'a>(v: &[Value<'a>], what: fn(&Decision) -> Value<'a>) -> Evaluated<'a> {
    match &v[0] {
        Value::Opaque(Opaque::Decision(decision)) => Ok(what(decision)),
        _ => no_overload(),
    }
}
