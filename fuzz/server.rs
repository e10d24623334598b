//! Properties of any input of the server's own parsers: no panic, and an error that says something and shows no key.

#![allow(dead_code)]

use watchkeeper_server::fuzzing;

/// An audit policy is read, or refused with a reason.
pub(crate) fn audit_policy(data: &[u8]) {
    if let Err(why) = fuzzing::audit_policy(data) {
        assert!(!why.is_empty());
    }
}

/// An encryption configuration is read, or refused with a reason. A key of 32 equal letters is in the corpus; no reason
/// shows it.
pub(crate) fn encryption_configuration(data: &[u8]) {
    if let Err(why) = fuzzing::encryption_configuration(data) {
        assert!(!why.is_empty());
        assert!(
            !why.contains("YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE="),
            "{why}"
        );
    }
}

/// A certificate names a user or nobody.
pub(crate) fn certificate_user(data: &[u8]) {
    if let Some(name) = fuzzing::certificate_user(data) {
        assert!(!name.is_empty());
    }
}
