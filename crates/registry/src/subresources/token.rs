//! The token subresource: issues signed, expiring tokens of service accounts.
//!
//! The claims are decided here; the server's [`TokenIssuer`] signs them.

use std::collections::BTreeMap;
use std::fmt;
use std::iter;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use watchkeeper_kinds::{Kind, builtin};
use watchkeeper_meta::{FieldError, FieldPath, GroupKind, GroupResource, Status, Time, quote};
use watchkeeper_patch::endpoint::Endpoint;
use watchkeeper_patch::managed_fields::{Managers, Writer, empty_object};
use watchkeeper_wire::canonical::canonicalize;
use watchkeeper_wire::difference::Difference;
use watchkeeper_wire::schema::Schema;

use crate::admission::request::TOKEN_REQUEST;
use crate::body::Body;
use crate::context::{WriteContext, timestamp};
use crate::{Definition, Registry, User, metadata};
use watchkeeper_kinds::names;

const GROUP: &str = "authentication.k8s.io";
const API_VERSION: &str = "authentication.k8s.io/v1";
const KIND: &str = "TokenRequest";
/// The kinds of objects that tokens can be bound to, under their claims.
const BINDABLE: [(&str, &Kind); 3] = [
    ("pod", &builtin::POD),
    ("secret", &builtin::SECRET),
    ("node", &builtin::NODE),
];
/// The prefix of a token user's extra attributes.
const EXTRA: &str = "authentication.kubernetes.io/";
/// The attribute with the token's id.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
/// The default lifetime: an hour.
const DEFAULT_SECONDS: i64 = 3600;
const MIN_SECONDS: i64 = 600;
const MAX_SECONDS: i64 = 1 << 32;
/// The time a token stays valid after its bound object was marked for deletion.
const LEEWAY_SECONDS: i64 = 60;

/// Signs tokens.
pub struct TokenIssuer<'a> {
    /// The issuer, which is also the default audience.
    pub name: &'a str,
    /// The algorithm in a token's header: `ES256`.
    pub algorithm: &'a str,
    /// The id of the signing key.
    pub key_id: &'a str,
    /// Signs bytes.
    pub sign: &'a (dyn Fn(&[u8]) -> Vec<u8> + Sync),
}

impl fmt::Debug for TokenIssuer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenIssuer")
            .field("name", &self.name)
            .field("algorithm", &self.algorithm)
            .field("key_id", &self.key_id)
            .finish_non_exhaustive()
    }
}

impl Registry {
    /// Handles a `TokenRequest` for a service account.
    pub async fn request_token(
        &self,
        namespace: &str,
        name: &str,
        body: Body<'_>,
        issuer: &TokenIssuer<'_>,
        context: &WriteContext,
    ) -> Result<Value, Status> {
        let mut request = body.read_as(API_VERSION, KIND)?;
        let accounts = self.builtin(&builtin::SERVICE_ACCOUNT)?;
        metadata::match_namespace(&accounts, &mut request, namespace)?;
        check_name(&request, name)?;
        let account = self.present(&accounts, namespace, name).await?;
        check_uid(&request, &account)?;
        request["metadata"]["name"] = json!(name);
        self.admit_posted(&accounts, &TOKEN_REQUEST, &mut request, context)
            .await?;
        let now = self.clock().now();
        let seconds = request["spec"]["expirationSeconds"]
            .as_i64()
            .unwrap_or(DEFAULT_SECONDS);
        request["spec"]["expirationSeconds"] = json!(seconds);
        let managed = managed_fields(&request, context, now)?;
        check_seconds(seconds)?;
        let bound = self
            .bound_claims(namespace, name, &request["spec"]["boundObjectRef"])
            .await?;
        if request["spec"]["audiences"].as_array().is_none_or(Vec::is_empty) {
            request["spec"]["audiences"] = json!([issuer.name]);
        }
        let expires = Time {
            seconds: now.seconds + seconds,
            nanos: 0,
        };
        let mut private = json!({
            "namespace": namespace,
            "serviceaccount": {"name": name, "uid": account["metadata"]["uid"]},
        });
        for (kind, object) in bound {
            private[kind] = object;
        }
        let claims = json!({
            "aud": request["spec"]["audiences"],
            "exp": expires.seconds,
            "iat": now.seconds,
            "iss": issuer.name,
            "jti": names::uid(),
            "kubernetes.io": private,
            "nbf": now.seconds,
            "sub": format!("system:serviceaccount:{namespace}:{name}"),
        });
        request["metadata"] = json!({
            "name": name,
            "namespace": namespace,
            "uid": account["metadata"]["uid"],
            "creationTimestamp": timestamp(now),
            "managedFields": managed,
        });
        request["status"] = json!({
            "token": signed(&claims, issuer),
            "expirationTimestamp": timestamp(expires),
        });
        completed(request)
    }

    /// The user of a token with these claims, whose signature and time were verified. `None` if the account or
    /// another bound object was deleted or replaced.
    pub async fn token_holder(&self, claims: &Value) -> Option<User> {
        let private = &claims["kubernetes.io"];
        let namespace = private["namespace"].as_str()?;
        let account = ("serviceaccount", &builtin::SERVICE_ACCOUNT);
        let mut extra = BTreeMap::new();
        if let Some(id) = claims["jti"].as_str() {
            extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("JTI={id}")]);
        }
        for (claim, kind) in iter::once(account).chain(BINDABLE) {
            let Some(name) = private[claim]["name"].as_str() else {
                continue;
            };
            let uid = private[claim]["uid"].as_str();
            // The node of a pod is informational: the token is bound to the pod.
            let is_informational = claim == "node" && private["pod"].is_object();
            if !is_informational && !self.is_there(kind, namespace, name, uid?).await {
                return None;
            }
            if matches!(claim, "pod" | "node") {
                let mut tell = |what: &str, text: &str| {
                    extra.insert(format!("{EXTRA}{claim}-{what}"), vec![text.to_owned()]);
                };
                tell("name", name);
                uid.into_iter().for_each(|uid| tell("uid", uid));
            }
        }
        let groups = vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
        ];
        let uid = private["serviceaccount"]["uid"].as_str()?;
        Some(User {
            extra,
            ..User::authenticated(claims["sub"].as_str()?, uid, groups)
        })
    }

    /// True if the object exists, has this uid, and was not marked for deletion long ago.
    async fn is_there(&self, kind: &'static Kind, namespace: &str, name: &str, uid: &str) -> bool {
        let Ok(definition) = self.builtin(kind) else {
            return false;
        };
        let Ok(found) = self.bound_object(&definition, namespace, name).await else {
            return false;
        };
        let deleted = metadata::text(&found, "deletionTimestamp").parse::<Time>();
        let is_going = deleted.is_ok_and(|at| at.seconds < self.clock().now().seconds - LEEWAY_SECONDS);
        metadata::text(&found, "uid") == uid && !is_going
    }

    /// An object of this name; of this namespace unless its kind has none.
    async fn bound_object(
        &self,
        definition: &Definition,
        namespace: &str,
        name: &str,
    ) -> Result<Value, Status> {
        let namespace = if definition.is_namespaced() { namespace } else { "" };
        self.present(definition, namespace, name).await
    }

    /// The claims that bind a token to an object.
    async fn bound_claims(
        &self,
        namespace: &str,
        account: &str,
        reference: &Value,
    ) -> Result<Vec<(&'static str, Value)>, Status> {
        if reference.is_null() {
            return Ok(Vec::new());
        }
        let text = |name: &str| reference[name].as_str().unwrap_or_default();
        let (claim, bound) = bindable(text("apiVersion"), text("kind"))?;
        let definition = self.builtin(bound)?;
        let found = self.bound_object(&definition, namespace, text("name")).await?;
        let mut claims = Vec::new();
        if bound == &builtin::POD {
            if found["spec"]["serviceAccountName"].as_str().unwrap_or_default() != account {
                let why = format!(
                    "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
                    quote(account)
                );
                return Err(Status::bad_request(why));
            }
            claims.extend(self.node_claim(&found).await?);
        }
        let (stated, uid) = (text("uid"), metadata::text(&found, "uid"));
        if !stated.is_empty() && stated != uid {
            let why = format!(
                "the UID in the bound object reference ({stated}) does not match the UID in record. The object might \
                 have been deleted and then recreated"
            );
            let kind = GroupResource::new("", text("kind").to_owned());
            return Err(Status::conflict(&kind, text("name"), why));
        }
        claims.push((claim, json!({"name": text("name"), "uid": uid})));
        Ok(claims)
    }

    /// The node of a pod, if it is scheduled. If the node is gone, only its name is known.
    async fn node_claim(&self, pod: &Value) -> Result<Option<(&'static str, Value)>, Status> {
        let Some(name) = pod["spec"]["nodeName"].as_str().filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        let nodes = self.builtin(&builtin::NODE)?;
        let mut claim = json!({"name": name});
        if let Some(node) = self.find(&nodes, "", name).await? {
            claim["uid"] = node.to_value(&nodes)?["metadata"]["uid"].clone();
        }
        Ok(Some(("node", claim)))
    }
}

/// The kind that a reference names, with its claim.
fn bindable(api_version: &str, kind: &str) -> Result<(&'static str, &'static Kind), Status> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let is_named =
        |bindable: &&(_, &Kind)| bindable.1.group == group && version == "v1" && bindable.1.name == kind;
    let found = BINDABLE.iter().find(is_named).copied();
    found.ok_or_else(|| {
        let why = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
        Status::bad_request(why)
    })
}

/// Rejects a request whose name is not the service account's.
fn check_name(request: &Value, name: &str) -> Result<(), Status> {
    let stated = metadata::text(request, "name");
    if stated.is_empty() || stated == name {
        return Ok(());
    }
    let path = FieldPath::new("metadata").child("name");
    let error = FieldError::invalid(&path, stated, "must match the service account name if specified");
    Err(Status::invalid(&request_kind(), name, &error.into()))
}

fn check_uid(request: &Value, account: &Value) -> Result<(), Status> {
    let (stated, uid) = (metadata::text(request, "uid"), metadata::text(account, "uid"));
    if stated.is_empty() || stated == uid {
        return Ok(());
    }
    let why = format!(
        "the UID in the token request ({stated}) does not match the UID of the service account ({uid})"
    );
    let kind = GroupResource::new(GROUP, KIND);
    Err(Status::conflict(&kind, metadata::text(account, "name"), why))
}

fn request_kind() -> GroupKind {
    GroupKind::new(GROUP, KIND)
}

fn check_seconds(seconds: i64) -> Result<(), Status> {
    let why = match seconds {
        ..MIN_SECONDS => "may not specify a duration less than 10 minutes",
        seconds if seconds > MAX_SECONDS => "may not specify a duration larger than 2^32 seconds",
        _ => return Ok(()),
    };
    let path = FieldPath::new("spec").child("expirationSeconds");
    let error = FieldError::invalid(&path, seconds, why);
    Err(Status::invalid(&request_kind(), "", &error.into()))
}

/// A JWT: header, claims, signature.
fn signed(claims: &Value, issuer: &TokenIssuer<'_>) -> String {
    let header = json!({"alg": issuer.algorithm, "kid": issuer.key_id});
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let said = format!("{}.{}", part(&header), part(claims));
    let signature = URL_SAFE_NO_PAD.encode((issuer.sign)(said.as_bytes()));
    format!("{said}.{signature}")
}

/// Records managed fields in the answer, although a request is not stored.
fn managed_fields(request: &Value, context: &WriteContext, now: Time) -> Result<Value, Status> {
    let schema = Schema::builtin();
    let known = schema
        .kind(API_VERSION, KIND)
        .ok_or_else(Status::path_not_found)?;
    let mut empty = empty_object(schema, known);
    // Present in every answer, so it belongs to no manager.
    empty["spec"]["boundObjectRef"] = Value::Null;
    let mut object = request.clone();
    let mut managers = Managers::of(&object).unwrap_or_default();
    let writer = Writer {
        manager: &context.manager,
        api_version: API_VERSION,
        subresource: "token",
        time: Some(now),
    };
    let states = (&empty, &object, &Difference::between(&empty, &object));
    managers.record_update(schema, known, states, &Endpoint::default(), &writer);
    managers.write_to(&mut object);
    Ok(object["metadata"]["managedFields"].clone())
}

fn completed(request: Value) -> Result<Value, Status> {
    let schema = Schema::builtin();
    let known = schema
        .kind(API_VERSION, KIND)
        .ok_or_else(Status::path_not_found)?;
    let mut request = canonicalize(schema, known, request)
        .map_err(Status::internal_error)?
        .value;
    request["apiVersion"] = json!(API_VERSION);
    request["kind"] = json!(KIND);
    Ok(request)
}
