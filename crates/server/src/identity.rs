//! The identity of a server across restarts: its certificate authorities, the administrator's token, and the signing
//! key of service account tokens.
//!
//! They are stored like Secrets. A kubeconfig, an issued token and a client certificate therefore stay valid after a
//! restart on the same data directory, and servers that share an etcd share them behind one address. The first server
//! creates them. A server in memory creates its own, which end with it.

use bytes::Bytes;
use watchkeeper_meta::Status;
use watchkeeper_storage::{KeyValue, Store, WriteError};

use crate::certificates::Authority;
use crate::service_account_keys::SigningKey;
use crate::tokens::Token;

/// `v1` is the version of the format.
const AUTHORITY: &str = "/registry/watchkeeper/identity/v1/certificate-authority";
const FRONT_PROXY_AUTHORITY: &str = "/registry/watchkeeper/identity/v1/front-proxy-authority";
const ADMIN_TOKEN: &str = "/registry/watchkeeper/identity/v1/admin-token";
/// Without a version: earlier releases stored it here.
const SERVICE_ACCOUNT_KEY: &str = "/registry/watchkeeper/service-account-key";

/// The key prefix of the identity. The service account key is older and elsewhere.
const PREFIX: &str = "/registry/watchkeeper/identity/";

/// True if a key holds a part of the identity, which is encrypted like a Secret.
pub(crate) fn is_identity_key(key: &str) -> bool {
    key.starts_with(PREFIX) || key == SERVICE_ACCOUNT_KEY
}

/// The certificate authority: certificate and key, PEM.
pub(crate) async fn authority(store: &Store) -> Result<Authority, Status> {
    let make = || Ok(Authority::new().map_err(Status::internal_error)?.to_pem());
    let pem = kept(store, AUTHORITY, make).await?;
    Authority::from_pem(&pem).map_err(|_| damaged("certificate authority"))
}

/// The authority of front proxies: certificate and key, PEM.
pub(crate) async fn front_proxy_authority(store: &Store) -> Result<Authority, Status> {
    let make = || Ok(Authority::front_proxy().map_err(Status::internal_error)?.to_pem());
    let pem = kept(store, FRONT_PROXY_AUTHORITY, make).await?;
    Authority::front_proxy_from_pem(&pem).map_err(|_| damaged("front-proxy authority"))
}

/// The token of the administrator.
pub(crate) async fn admin_token(store: &Store) -> Result<Token, Status> {
    let text = kept(store, ADMIN_TOKEN, || Ok(Token::random().reveal().to_owned())).await?;
    let text = str::from_utf8(&text).map_err(|_| damaged("token of the administrator"))?;
    Ok(Token::new(text))
}

/// The key that signs service account tokens.
pub(crate) async fn service_account_key(store: &Store) -> Result<SigningKey, Status> {
    let bytes = kept(store, SERVICE_ACCOUNT_KEY, || Ok(SigningKey::random().to_pkcs8())).await?;
    SigningKey::from_der(&bytes).ok_or_else(|| damaged("key of service accounts"))
}

/// The stored value of a key; created if it does not exist.
async fn kept<T: Into<Bytes>>(
    store: &Store,
    key: &str,
    make: impl Fn() -> Result<T, Status>,
) -> Result<Bytes, Status> {
    loop {
        if let Some(found) = store.get(key, None).await.map_err(Status::internal_error)? {
            rewrite_if_stale(store, &found).await;
            return Ok(found.value.bytes());
        }
        let made = make()?.into();
        match store.create(key, made.clone(), None).await {
            Ok(_) => return Ok(made),
            // Another server created it first.
            Err(WriteError::Conflict { .. }) => {}
            Err(error) => return Err(Status::internal_error(error)),
        }
    }
}

/// Stores a part of the identity again if it is encrypted with a key that is no longer the first. Administrators do that
/// with Secrets when they rotate keys; only the server writes its identity, and it could not start without the old key.
async fn rewrite_if_stale(store: &Store, found: &KeyValue) {
    if !store.is_stale(&found.key, found.mod_revision) {
        return;
    }
    let (key, value) = (&found.key, found.value.bytes());
    match store.update(key, value, found.mod_revision, None).await {
        // Another server did it.
        Ok(_) | Err(WriteError::Conflict { .. }) => {}
        Err(error) => tracing::warn!(%key, %error, "still encrypted with an older key"),
    }
}

fn damaged(what: &str) -> Status {
    Status::internal_error(format!("the {what} in the store is damaged"))
}
