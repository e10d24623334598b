//! A bearer token in a file that is rotated externally.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::{AuthError, Proof, bearer};
use crate::Secret;
use crate::tls::RELOAD_INTERVAL;

/// Reads the file at most once a minute, and at once after a 401.
pub(super) struct TokenFile {
    path: PathBuf,
    /// Used until the file can be read for the first time.
    fallback: Option<Proof>,
    cached: Mutex<Option<Cached>>,
}

struct Cached {
    proof: Proof,
    token: Secret,
    read: Instant,
}

impl TokenFile {
    pub(super) fn new(path: PathBuf, fallback: Option<Proof>) -> Self {
        Self {
            path,
            fallback,
            cached: Mutex::default(),
        }
    }

    /// The token; an unreadable file, as in the middle of a rotation, leaves the last one in use.
    pub(super) fn proof(&self) -> Result<Proof, AuthError> {
        let mut cached = self.lock();
        match &mut *cached {
            Some(cached) if cached.read.elapsed() < RELOAD_INTERVAL => Ok(cached.proof.clone()),
            Some(cached) => {
                cached.read = Instant::now();
                if let Err(error) = self.refresh(cached) {
                    tracing::warn!(%error, "keeping the previous token");
                }
                Ok(cached.proof.clone())
            }
            None => match (self.first(), &self.fallback) {
                (Ok(first), _) => Ok(cached.insert(first).proof.clone()),
                (Err(error), Some(fallback)) => {
                    tracing::warn!(%error, "using the token of the configuration");
                    Ok(fallback.clone())
                }
                (Err(error), None) => Err(error),
            },
        }
    }

    /// Reads the file at once; only a new token is worth a retry.
    pub(super) fn rejected(&self, proof: &Proof) -> bool {
        let mut cached = self.lock();
        match &mut *cached {
            // After a failed read there is nothing new.
            Some(cached) if cached.proof.serial == proof.serial => drop(self.refresh(cached)),
            Some(_) => {}
            None => *cached = self.first().ok(),
        }
        cached
            .as_ref()
            .is_some_and(|cached| cached.proof.serial != proof.serial)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Cached>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn first(&self) -> Result<Cached, AuthError> {
        let token = self.read()?;
        let fallback = Proof::default().serial;
        Ok(Cached {
            proof: self.prove(&token, fallback + 1)?,
            token,
            read: Instant::now(),
        })
    }

    fn refresh(&self, cached: &mut Cached) -> Result<(), AuthError> {
        let token = self.read()?;
        if token != cached.token {
            cached.proof = self.prove(&token, cached.proof.serial + 1)?;
            cached.token = token;
        }
        Ok(())
    }

    fn read(&self) -> Result<Secret, AuthError> {
        let text = std::fs::read_to_string(&self.path).map_err(|source| self.failed(source))?;
        match text.trim() {
            "" => Err(self.failed(std::io::Error::other("it is empty"))),
            token => Ok(Secret::new(token)),
        }
    }

    fn prove(&self, token: &Secret, serial: u64) -> Result<Proof, AuthError> {
        let authorization = Some(bearer(token, &self.path.display().to_string())?);
        Ok(Proof {
            authorization,
            identity: None,
            serial,
        })
    }

    fn failed(&self, source: std::io::Error) -> AuthError {
        AuthError::TokenFile {
            path: self.path.display().to_string(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(proof: &Proof) -> &str {
        proof.authorization.as_ref().unwrap().to_str().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_token_is_used_after_a_minute_or_a_refusal() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        std::fs::write(&path, "one\n").unwrap();
        let file = TokenFile::new(path.clone(), None);
        assert_eq!(header(&file.proof().unwrap()), "Bearer one");

        std::fs::write(&path, "two").unwrap();
        assert_eq!(header(&file.proof().unwrap()), "Bearer one");
        tokio::time::advance(RELOAD_INTERVAL).await;
        let two = file.proof().unwrap();
        assert_eq!(header(&two), "Bearer two");

        assert!(!file.rejected(&two), "nothing new to try");
        std::fs::write(&path, "three").unwrap();
        assert!(file.rejected(&two));
        assert_eq!(header(&file.proof().unwrap()), "Bearer three");

        std::fs::remove_file(&path).unwrap();
        tokio::time::advance(RELOAD_INTERVAL).await;
        assert_eq!(header(&file.proof().unwrap()), "Bearer three");
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_cannot_be_read_leaves_the_token_of_the_configuration() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let fallback = Proof {
            authorization: Some("Bearer fallback".parse().unwrap()),
            ..Proof::default()
        };
        let file = TokenFile::new(path.clone(), Some(fallback));
        let used = file.proof().unwrap();
        assert_eq!(header(&used), "Bearer fallback");
        assert!(!file.rejected(&used), "there is no other");

        std::fs::write(&path, "").unwrap();
        assert_eq!(header(&file.proof().unwrap()), "Bearer fallback");

        std::fs::write(&path, "one").unwrap();
        assert!(file.rejected(&used), "now there is");
        assert_eq!(header(&file.proof().unwrap()), "Bearer one");

        std::fs::remove_file(&path).unwrap();
        tokio::time::advance(RELOAD_INTERVAL).await;
        assert_eq!(header(&file.proof().unwrap()), "Bearer one", "the last one read");
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = TokenFile::new("/no/such/token".into(), None)
            .proof()
            .err()
            .unwrap();
        assert_eq!(error.to_string(), "cannot read token file /no/such/token");
    }
}
