//! Certificates: signer names, user annotations, and PEM.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use watchkeeper_meta::quote;
use watchkeeper_meta::validation::{MAX_ANNOTATIONS, dns1123_label, dns1123_subdomain, qualified_name};

use crate::rules::place::{Errors, Place};

/// A block of a text in PEM.
pub(crate) struct Block<'t> {
    /// `CERTIFICATE`.
    pub(crate) label: &'t str,
    /// True if there are headers before the content.
    pub(crate) has_headers: bool,
    /// The content.
    pub(crate) bytes: Vec<u8>,
}

/// The blocks of a PEM text. Text around them is ignored, and so are blocks whose content is not base64.
pub(crate) fn blocks(text: &str) -> Vec<Block<'_>> {
    let starts = text.split("-----BEGIN ").skip(1);
    starts
        .filter_map(|rest| {
            let (label, rest) = rest.split_once("-----")?;
            let (content, _) = rest.split_once(&format!("-----END {label}-----"))?;
            let is_header = |line: &&str| line.trim().is_empty() || line.contains(':');
            let has_headers = content.contains(':');
            let body = content.lines().skip_while(is_header).collect::<String>();
            let body: String = body.split_whitespace().collect();
            let bytes = BASE64.decode(body).ok()?;
            Some(Block {
                label,
                has_headers,
                bytes,
            })
        })
        .collect()
}

/// The longest domain of a signer name, and the longest signer name: `<domain>/<namespace>.<name>`.
const MAX_SIGNER_DOMAIN: usize = 253;
const MAX_SIGNER: usize = MAX_SIGNER_DOMAIN + "/".len() + 63 + ".".len() + 253;

/// Validates a signer name: a domain and a path.
pub(crate) fn check_signer(signer: &Place<'_, '_>, errors: &mut Errors) {
    let (domain, path) = match signer.text().split_once('/') {
        _ if signer.text().is_empty() => return errors.push(signer.required("")),
        Some((domain, path)) if !path.contains('/') => (domain, path),
        _ => {
            let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
            return errors.push(signer.invalid(why));
        }
    };
    if domain.len() > MAX_SIGNER_DOMAIN {
        errors.push(signer.too_long(MAX_SIGNER_DOMAIN));
    }
    check_labels(signer, domain, dns1123_label, errors);
    if !domain.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        errors.push(signer.invalid_for(domain, why));
    }
    check_labels(signer, path, dns1123_subdomain, errors);
    if signer.text().len() > MAX_SIGNER {
        errors.push(signer.too_long(MAX_SIGNER));
    }
}

/// Reports the first invalid label of a part.
fn check_labels(signer: &Place<'_, '_>, part: &str, rule: fn(&str) -> Vec<String>, errors: &mut Errors) {
    let mut broken = part.split('.').map(|label| (label, rule(label)));
    let first = broken.find(|(_, reasons)| !reasons.is_empty());
    let (label, reasons) = first.unwrap_or_default();
    let shown = quote(label);
    let said = |why| signer.invalid_for(part, format!("validating label {shown}: {why}"));
    errors.extend(reasons.into_iter().map(said));
}

/// True for the signers of Kubernetes itself.
pub(crate) fn is_of_kubernetes(signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    domain == "kubernetes.io" || domain.ends_with(".kubernetes.io")
}

/// Validates what a pod tells the signer of its certificate: like annotations, but every key has a domain.
pub(crate) fn check_user_annotations(annotations: &Place<'_, '_>, errors: &mut Errors) {
    for (key, _) in annotations.entries() {
        let key = key.to_lowercase();
        if key.is_empty() {
            errors.push(annotations.required(""));
            continue;
        }
        let reasons = qualified_name(&key);
        if reasons.is_empty() && !key.contains('/') {
            let why = r#"must be a domain-prefixed key (such as "acme.io/foo")"#;
            errors.push(annotations.invalid_for(key.as_str(), why));
        }
        errors.extend(
            reasons
                .into_iter()
                .map(|why| annotations.invalid_for(key.as_str(), why)),
        );
    }
    let sizes = annotations
        .entries()
        .map(|(key, value)| key.len() + value.text().len());
    if sizes.sum::<usize>() > MAX_ANNOTATIONS {
        errors.push(annotations.too_long(MAX_ANNOTATIONS));
    }
}
