//! Decides when to make certificates, and makes them, without a server or a clock.
//!
//! ```text
//!   authority  ├──────────────── 1 year ────────────────┤
//!   leaf       ├── 90 days ──┤                    ▲
//!                      ▲ replaced 30 days before  └ replaced 90 days before: a leaf never outlives its authority
//! ```
//! Previous authorities stay in the bundle until they expire: replicas may still serve certificates they signed.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use watchkeeper_trust::Validity;

const DAY: Duration = Duration::from_secs(86_400);
pub(super) const AUTHORITY_VALIDITY: Duration = Duration::from_secs(365 * 86_400);
pub(super) const LEAF_VALIDITY: Duration = Duration::from_secs(90 * 86_400);
pub(super) const RENEW_BEFORE: Duration = Duration::from_secs(30 * 86_400);
/// The end marker of a certificate.
const END: &str = "-----END CERTIFICATE-----";
/// Clocks of API servers may be behind.
const SKEW: Duration = DAY;

/// The stored material, all PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// The authority's certificate, and the previous ones.
    pub(super) bundle: String,
    pub(super) authority_key: String,
    pub(super) certificate: String,
    pub(super) key: String,
    /// The names of the certificate, comma-separated.
    pub(super) names: String,
}

/// The certificates to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Nothing,
    Leaf,
    Authority,
}

/// The result of a renewal.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Renewal {
    /// The stored material is still good.
    None(Kept),
    New(Kept),
}

/// Issues the missing certificates.
pub(super) fn renewed(kept: Option<Kept>, names: &[String], now: Timestamp) -> Result<Renewal, rcgen::Error> {
    let need = need(kept.as_ref(), names, now);
    match (need, kept) {
        (Need::Nothing, Some(kept)) => Ok(Renewal::None(kept)),
        (Need::Leaf, Some(kept)) => {
            let authority = KeyPair::from_pem(&kept.authority_key)?;
            leaf(kept.bundle, authority, names, now).map(Renewal::New)
        }
        (_, kept) => {
            let key = KeyPair::generate()?;
            let mut params = authority_params();
            (params.not_before, params.not_after) = validity(now, AUTHORITY_VALIDITY);
            let mut bundle = params.self_signed(&key)?.pem();
            bundle.extend(kept.map(|kept| still_valid(&kept.bundle, now)));
            leaf(bundle, key, names, now).map(Renewal::New)
        }
    }
}

fn need(kept: Option<&Kept>, names: &[String], now: Timestamp) -> Need {
    let lasts = |pem: &str, long: Duration| {
        Validity::of_leaf(pem.as_bytes()).is_some_and(|validity| validity.until > later(now, long))
    };
    match kept {
        None => Need::Authority,
        Some(kept) if !lasts(&kept.bundle, LEAF_VALIDITY) => Need::Authority,
        Some(kept) if KeyPair::from_pem(&kept.authority_key).is_err() => Need::Authority,
        Some(kept) if kept.names != names.join(",") => Need::Leaf,
        Some(kept) if !lasts(&kept.certificate, RENEW_BEFORE) => Need::Leaf,
        Some(_) => Need::Nothing,
    }
}

fn leaf(bundle: String, authority: KeyPair, names: &[String], now: Timestamp) -> Result<Kept, rcgen::Error> {
    let mut params = CertificateParams::new(names.to_vec())?;
    params.distinguished_name = named("watchkeeper-webhooks");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    (params.not_before, params.not_after) = validity(now, LEAF_VALIDITY);
    let key = KeyPair::generate()?;
    let issuer = Issuer::new(authority_params(), authority);
    let certificate = params.signed_by(&key, &issuer)?.pem();
    Ok(Kept {
        bundle,
        authority_key: issuer.key().serialize_pem(),
        certificate,
        key: key.serialize_pem(),
        names: names.join(","),
    })
}

/// The parameters of an authority's certificate; always the same.
fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named("watchkeeper-webhooks-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn named(name: &str) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    subject
}

/// The certificates of a bundle that have not expired.
fn still_valid(bundle: &str, now: Timestamp) -> String {
    let is_valid = |pem: &&str| {
        let validity = Validity::of_leaf(pem.as_bytes());
        validity.is_some_and(|validity| validity.until > now)
    };
    let certificates = bundle.split_inclusive(END).filter(is_valid);
    certificates.map(|pem| format!("{}\n", pem.trim())).collect()
}

/// A validity that starts a little before now, in the type of the certificate library.
fn validity<T: From<SystemTime>>(now: Timestamp, long: Duration) -> (T, T) {
    let now = SystemTime::from(now);
    ((now - SKEW).into(), (now + long).into())
}

fn later(now: Timestamp, by: Duration) -> Timestamp {
    now.saturating_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

    use super::*;

    const BEGIN: Timestamp = Timestamp::constant(1_800_000_000, 0);

    fn names() -> Vec<String> {
        vec!["hooks.web.svc".to_owned()]
    }

    fn after(days: u32) -> Timestamp {
        later(BEGIN, DAY * days)
    }

    fn renew(kept: Option<&Kept>, now: Timestamp) -> Option<Kept> {
        match renewed(kept.cloned(), &names(), now).unwrap() {
            Renewal::New(new) => Some(new),
            Renewal::None(_) => None,
        }
    }

    fn authorities(kept: &Kept) -> usize {
        kept.bundle.matches("BEGIN CERTIFICATE").count()
    }

    /// True if a client with this bundle trusts this certificate at this time.
    fn is_trusted(bundle: &str, certificate: &str, now: Timestamp) -> bool {
        let roots = CertificateDer::pem_slice_iter(bundle.as_bytes())
            .map(Result::unwrap)
            .collect();
        let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = watchkeeper_trust::verifier(roots, &provider).unwrap().unwrap();
        let leaf = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
        let name = ServerName::try_from("hooks.web.svc").unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now.as_second() as u64));
        verifier.verify_server_cert(&leaf, &[], &name, &[], now).is_ok()
    }

    #[test]
    fn a_leaf_is_replaced_a_month_before_it_expires() {
        let first = renew(None, BEGIN).unwrap();
        assert!(is_trusted(&first.bundle, &first.certificate, BEGIN));
        assert_eq!(renew(Some(&first), after(59)), None);
        let second = renew(Some(&first), after(61)).unwrap();
        assert_eq!(
            (&second.bundle, &second.authority_key),
            (&first.bundle, &first.authority_key)
        );
        assert!(is_trusted(&second.bundle, &second.certificate, after(120)));
        assert!(
            !is_trusted(&first.bundle, &first.certificate, after(120)),
            "it has expired"
        );
    }

    #[test]
    fn an_authority_is_replaced_before_a_leaf_would_outlive_it() {
        let old = renew(None, BEGIN).unwrap();
        let leaf = renew(Some(&old), after(270)).unwrap();
        assert_eq!(leaf.bundle, old.bundle);
        let new = renew(Some(&leaf), after(276)).unwrap();
        assert_ne!(new.authority_key, old.authority_key);
        assert_eq!(authorities(&new), 2);
        assert!(
            is_trusted(&new.bundle, &leaf.certificate, after(276)),
            "of a replica that is behind"
        );
        assert!(is_trusted(&new.bundle, &new.certificate, after(276)));
        assert!(
            !is_trusted(&old.bundle, &new.certificate, after(276)),
            "it has another authority"
        );
        let newest = renew(Some(&new), after(600)).unwrap();
        assert_eq!(authorities(&newest), 2, "the first has expired");
    }

    #[test]
    fn another_name_takes_another_leaf() {
        let kept = renew(None, BEGIN).unwrap();
        let other = renewed(Some(kept.clone()), &["else.web.svc".to_owned()], BEGIN).unwrap();
        let Renewal::New(other) = other else {
            panic!("it is the old one")
        };
        assert_eq!(other.bundle, kept.bundle);
        assert!(!is_trusted(&other.bundle, &other.certificate, BEGIN));
    }

    #[test]
    fn what_cannot_be_read_is_made_anew() {
        let kept = renew(None, BEGIN).unwrap();
        let broken = Kept {
            authority_key: "?".to_owned(),
            ..kept.clone()
        };
        let mended = renew(Some(&broken), BEGIN).unwrap();
        assert_eq!(authorities(&mended), 2, "others may still use it");
        let empty = Kept {
            bundle: String::new(),
            ..kept
        };
        assert_eq!(authorities(&renew(Some(&empty), BEGIN).unwrap()), 1);
    }
}
