//! Certificates: signer names and PEM.

use watchkeeper_meta::validation::dns1123_subdomain;

use crate::rules::place::{Errors, Place};

/// A block of a text in PEM.
#[derive(PartialEq, Eq)]
pub(crate) struct Block<'t> {
    /// `CERTIFICATE`.
    pub(crate) label: &'t str,
    /// Its base64 content, without white space.
    body: String,
}

impl Block<'_> {
    /// The content in base64.
    pub(crate) fn body(&self) -> &str {
        &self.body
    }
}

/// The blocks of a PEM text; text around them is ignored.
pub(crate) fn blocks(text: &str) -> Vec<Block<'_>> {
    let starts = text.split("-----BEGIN ").skip(1);
    starts
        .filter_map(|rest| {
            let (label, rest) = rest.split_once("-----")?;
            let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
            let body = body.split_whitespace().collect();
            Some(Block { label, body })
        })
        .collect()
}

/// Validates a signer name: a domain and a path.
pub(crate) fn check_signer(signer: &Place<'_, '_>, errors: &mut Errors) {
    let domain = match signer.text().split_once('/') {
        _ if signer.text().is_empty() => return errors.push(signer.required("")),
        Some((domain, name)) if !domain.is_empty() && !name.is_empty() && !name.contains('/') => domain,
        _ => {
            let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
            return errors.push(signer.invalid(why));
        }
    };
    let reasons = dns1123_subdomain(domain).into_iter();
    errors.extend(reasons.map(|why| signer.invalid(why)));
}
