//! What makes a server the same one after a restart: its certificate authorities, the token of its administrator, and
//! the key that signs the tokens of service accounts.
//!
//! They are kept in the store, as secrets are. So a kubeconfig, an issued token and a client certificate outlive a
//! restart on the same data directory, and servers that share an etcd share them: any of them may stand behind one
//! address. Whoever starts first makes them. A server in memory makes its own and takes them along.

use bytes::Bytes;
use watchkeeper_meta::Status;
use watchkeeper_storage::{Store, WriteError};

use crate::certificates::Authority;
use crate::service_account_keys::SigningKey;
use crate::tokens::Token;

/// `v1` is the version of the format.
const AUTHORITY: &str = "/registry/watchkeeper/identity/v1/certificate-authority";
const FRONT_PROXY_AUTHORITY: &str = "/registry/watchkeeper/identity/v1/front-proxy-authority";
const ADMIN_TOKEN: &str = "/registry/watchkeeper/identity/v1/admin-token";
/// Without a version: earlier releases kept it here for servers that share an etcd.
const SERVICE_ACCOUNT_KEY: &str = "/registry/watchkeeper/service-account-key";

/// The keys that hold the server's identity start with this. The service account key is older than the rest.
const PREFIX: &str = "/registry/watchkeeper/identity/";

/// True if a key of the store holds a part of the server's identity, which is encrypted like a Secret.
pub(crate) fn is_kept_at(key: &str) -> bool {
    key.starts_with(PREFIX) || key == SERVICE_ACCOUNT_KEY
}

/// The certificate authority: its certificate and its key, PEM.
pub(crate) async fn authority(store: &Store) -> Result<Authority, Status> {
    let make = || Ok(Authority::new().map_err(Status::internal_error)?.to_pem());
    let pem = kept(store, AUTHORITY, make).await?;
    Authority::from_pem(&pem).map_err(|_| damaged("certificate authority"))
}

/// The authority of front proxies: its certificate and its key, PEM.
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

/// The key that signs tokens of service accounts.
pub(crate) async fn service_account_key(store: &Store) -> Result<SigningKey, Status> {
    let bytes = kept(store, SERVICE_ACCOUNT_KEY, || Ok(SigningKey::random().to_pkcs8())).await?;
    SigningKey::from_der(&bytes).ok_or_else(|| damaged("key of service accounts"))
}

/// What is kept under a key; the first to ask makes it.
async fn kept<T: Into<Bytes>>(
    store: &Store,
    key: &str,
    make: impl Fn() -> Result<T, Status>,
) -> Result<Bytes, Status> {
    loop {
        if let Some(found) = store.get(key, None).await.map_err(Status::internal_error)? {
            return Ok(found.value);
        }
        let made = make()?.into();
        match store.create(key, made.clone(), None).await {
            Ok(_) => return Ok(made),
            // Another server was faster.
            Err(WriteError::Conflict { .. }) => {}
            Err(error) => return Err(Status::internal_error(error)),
        }
    }
}

fn damaged(what: &str) -> Status {
    Status::internal_error(format!("the {what} in the store is damaged"))
}
