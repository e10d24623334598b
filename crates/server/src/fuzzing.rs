//! Parsers of files and certificates by themselves, for fuzz targets and the test that runs their corpus.

use crate::{audit, certificate_subject, encryption};

/// Parses an audit policy.
pub fn audit_policy(text: &[u8]) -> Result<(), String> {
    audit::check_policy(text)
}

/// Parses an `EncryptionConfiguration`.
pub fn encryption_configuration(text: &[u8]) -> Result<(), String> {
    encryption::check_configuration(text)
}

/// The name of the user that a certificate speaks of.
pub fn certificate_user(certificate: &[u8]) -> Option<String> {
    certificate_subject::user_of(certificate).map(|user| user.name)
}
