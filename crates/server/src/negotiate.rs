//! Content negotiation: reads `Content-Type` and `Accept`, returns a [`Format`] and an [`Accepted`], or the error of
//! a real server.
//!
//! A real server negotiates twice. Its router compares media types as plain text and rejects with "406: Not
//! Acceptable" and a list; then the handler weighs the clauses with their parameters and rejects with "only the
//! following media types are accepted". Clients see both errors, so both are implemented.

use std::cmp::Reverse;

use watchkeeper_meta::PatchKind;
use watchkeeper_registry::{Format, JSON, PROTOBUF, YAML};

use crate::request_info::query_value;

/// The limit on clauses of an `Accept` header; the rest is ignored. Clients send at most four.
const MAX_ACCEPT_CLAUSES: usize = 32;

/// The transformation of an object before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transform {
    /// Nothing.
    None,
    /// A Table.
    Table(MetaVersion),
    /// Only its metadata.
    PartialObjectMetadata(MetaVersion),
    /// Only the metadata of each item.
    PartialObjectMetadataList(MetaVersion),
    /// Discovery of all groups in one document.
    AggregatedDiscovery,
}

/// The version of `meta.k8s.io` a transformed answer states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetaVersion {
    /// `meta.k8s.io/v1`
    V1,
    /// `meta.k8s.io/v1beta1`
    V1Beta1,
}

/// The negotiated form of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The format.
    pub format: Format,
    /// The transformation.
    pub transform: Transform,
    /// True if JSON is indented.
    pub pretty: bool,
}

/// The forms an endpoint offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Objects of a kind with printer columns: every transform of `meta.k8s.io`.
    Objects,
    /// Lists of such objects, at a path that can also be watched.
    Collection,
    /// Objects that are not stored, such as reviews: no Table.
    Virtual,
    /// A stream of events: JSON and protobuf only.
    Stream,
    /// Discovery documents that also have an aggregated form.
    Discovery,
    /// Documents with one form: no transform.
    Plain,
}

/// The reason no form is acceptable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unacceptable {
    /// The router supports none of the media types.
    #[error("406: Not Acceptable\n\nAvailable representations: {0}")]
    Router(String),
    /// The media types are supported, but not with these parameters.
    #[error("only the following media types are accepted: {0}")]
    Handler(String),
}

/// A body in an unsupported format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// An object in an unsupported format.
    #[error("the body of the request was in an unknown format - accepted media types include: {0}")]
    Body(String),
    /// A patch of an unsupported type, rejected by the router.
    #[error("415: Unsupported Media Type")]
    Patch,
}

impl Accepted {
    /// The form without a valid `Accept` header, for errors.
    pub const FALLBACK: Self = Self {
        format: Format::Json,
        transform: Transform::None,
        pretty: false,
    };
}

/// The form of a response about custom objects. They have no protobuf form; the next acceptable one is used.
pub fn accept_custom(header: &str, offer: Offer) -> Result<Accepted, Unacceptable> {
    router_accepts(header, offer)?;
    let clauses = parse_accept(header);
    let found = clauses.iter().find_map(|clause| {
        let accepted = clause.fit(offer)?;
        let is_whole = accepted.transform == Transform::None;
        (accepted.format != Format::Protobuf || !is_whole).then_some(accepted)
    });
    found.ok_or_else(|| Unacceptable::Handler(types(offer == Offer::Stream, false)))
}

/// The form of a response.
pub fn accept(header: &str, offer: Offer) -> Result<Accepted, Unacceptable> {
    router_accepts(header, offer)?;
    let clauses = parse_accept(header);
    if offer == Offer::Discovery && clauses.iter().any(Clause::is_aggregated) {
        return Ok(Accepted {
            transform: Transform::AggregatedDiscovery,
            ..Accepted::FALLBACK
        });
    }
    let found = clauses.iter().find_map(|clause| clause.fit(offer));
    found.ok_or_else(|| Unacceptable::Handler(types(offer == Offer::Stream, false)))
}

/// The form of an error: as requested, without transforms, or JSON if that is not available.
pub fn accept_for_error(header: &str) -> Accepted {
    let clauses = parse_accept(header);
    let found = clauses.iter().find_map(|clause| clause.fit(Offer::Objects));
    Accepted {
        transform: Transform::None,
        ..found.unwrap_or(Accepted::FALLBACK)
    }
}

/// The format of a request's body; JSON by default.
pub fn content_type(header: Option<&str>) -> Result<Format, Unsupported> {
    let Some(header) = header.filter(|header| !header.is_empty()) else {
        return Ok(Format::Json);
    };
    let media_type = header.split(';').next().unwrap_or_default().trim();
    FORMATS
        .into_iter()
        .find(|format| media_type.eq_ignore_ascii_case(format.media_type()))
        .ok_or_else(|| Unsupported::Body(types(false, true)))
}

/// Like [`content_type`], for custom objects, which have no protobuf form.
pub fn custom_content_type(header: Option<&str>) -> Result<Format, Unsupported> {
    let refused = || Unsupported::Body([JSON, YAML].join(", "));
    match content_type(header) {
        Ok(Format::Protobuf) | Err(_) => Err(refused()),
        format => format,
    }
}

/// Like [`patch_kind`], for custom objects, which have no strategic merge patch.
pub fn custom_patch_kind(header: Option<&str>) -> Result<PatchKind, Unsupported> {
    const PATCHES: [PatchKind; 3] = [PatchKind::Json, PatchKind::Merge, PatchKind::Apply];
    match patch_kind(header) {
        Ok(PatchKind::Strategic) | Err(_) => {
            Err(Unsupported::Body(PATCHES.map(PatchKind::content_type).join(", ")))
        }
        kind => kind,
    }
}

/// The type of a patch. The router compares its media type as plain text, without parameters.
pub fn patch_kind(header: Option<&str>) -> Result<PatchKind, Unsupported> {
    let media_type = header.unwrap_or_default().split(';').next().unwrap_or_default();
    PatchKind::of_content_type(media_type.trim()).ok_or(Unsupported::Patch)
}

/// True if JSON should be indented: by `?pretty=`, else by the user agent.
pub fn wants_pretty(query: &str, user_agent: &str) -> bool {
    match query_value(query, "pretty").as_deref() {
        None | Some("") => ["curl", "Wget", "Mozilla/5.0"]
            .iter()
            .any(|program| user_agent.starts_with(program)),
        Some("1" | "t" | "T" | "true" | "TRUE" | "True") => true,
        Some(_) => false,
    }
}

/// In order of preference.
const FORMATS: [Format; 3] = [Format::Json, Format::Yaml, Format::Protobuf];

/// The router's check: media types as plain text, no parameters; only `*/*` is a wildcard.
fn router_accepts(header: &str, offer: Offer) -> Result<(), Unacceptable> {
    let mut clauses = header.split(',').take(MAX_ACCEPT_CLAUSES);
    let known = |clause: &str| {
        let media_type = clause.split(';').next().unwrap_or_default().trim();
        media_type == "*/*" || FORMATS.iter().any(|format| format.media_type() == media_type)
    };
    if header.trim().is_empty() || clauses.any(known) {
        return Ok(());
    }
    let streamed = matches!(offer, Offer::Collection | Offer::Stream);
    Err(Unacceptable::Router(types(streamed, true)))
}

/// The list in an error: the plain types, the streamed ones, or both.
fn types(streamed: bool, plain: bool) -> String {
    let mut list: Vec<String> = Vec::new();
    if plain || !streamed {
        list.extend(FORMATS.iter().map(|format| format.media_type().to_owned()));
    }
    if streamed {
        list.extend([JSON, PROTOBUF].map(|media_type| format!("{media_type};stream=watch")));
    }
    list.join(", ")
}

/// A clause of an `Accept` header.
#[derive(Debug, Default)]
struct Clause<'h> {
    media_type: &'h str,
    quality: u32,
    group: &'h str,
    version: &'h str,
    kind: &'h str,
    stream: Option<&'h str>,
    pretty: bool,
}

/// Parses the clauses, ordered by preference. A missing header accepts anything.
fn parse_accept(header: &str) -> Vec<Clause<'_>> {
    let header = if header.trim().is_empty() { "*/*" } else { header };
    let mut clauses: Vec<Clause<'_>> = header
        .split(',')
        .take(MAX_ACCEPT_CLAUSES)
        .map(Clause::parse)
        .collect();
    clauses.sort_by_key(|clause| (Reverse(clause.quality), clause.wildcards()));
    clauses
}

impl<'h> Clause<'h> {
    fn parse(text: &'h str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let mut clause = Self {
            media_type: parts.next().unwrap_or_default(),
            quality: 1000,
            ..Self::default()
        };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            clause.set(name.trim(), value.trim().trim_matches('"'));
        }
        clause
    }

    fn set(&mut self, name: &str, value: &'h str) {
        match name {
            // An invalid quality counts as 1, and 0 as the lowest: as in real servers.
            "q" => {
                self.quality = value
                    .parse::<f32>()
                    .map_or(1000, |q| (q.clamp(0.0, 1.0) * 1000.0) as u32)
            }
            "as" => self.kind = value,
            "g" => self.group = value,
            "v" => self.version = value,
            "stream" => self.stream = Some(value),
            "pretty" => self.pretty = value == "1",
            _ => {}
        }
    }

    /// Wildcards come last among equals.
    fn wildcards(&self) -> usize {
        self.media_type.matches('*').count()
    }

    fn matches(&self, format: Format) -> bool {
        self.media_type == "*/*"
            || self.media_type == "application/*"
            || self.media_type.eq_ignore_ascii_case(format.media_type())
    }

    fn is_aggregated(&self) -> bool {
        let named = (self.group, self.version, self.kind);
        self.matches(Format::Json) && named == ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList")
    }

    /// The first offered form that this clause accepts.
    fn fit(&self, offer: Offer) -> Option<Accepted> {
        FORMATS
            .into_iter()
            .filter(|format| offer != Offer::Stream || *format != Format::Yaml)
            .filter(|format| self.matches(*format))
            .find_map(|format| {
                Some(Accepted {
                    format,
                    transform: self.transform(format, offer)?,
                    pretty: self.pretty,
                })
            })
    }

    /// The transform of the clause; `None` if it is not offered.
    fn transform(&self, format: Format, offer: Offer) -> Option<Transform> {
        if self.stream.is_some_and(|stream| stream != "watch") {
            return None;
        }
        if self.kind.is_empty() {
            return Some(Transform::None);
        }
        let version = match (self.group, self.version) {
            ("meta.k8s.io", "v1") => MetaVersion::V1,
            ("meta.k8s.io", "v1beta1") => MetaVersion::V1Beta1,
            _ => return None,
        };
        let objects = !matches!(offer, Offer::Discovery | Offer::Plain);
        let columns = objects && offer != Offer::Virtual && format != Format::Protobuf;
        match self.kind {
            "Table" if columns => Some(Transform::Table(version)),
            "PartialObjectMetadata" if objects => Some(Transform::PartialObjectMetadata(version)),
            "PartialObjectMetadataList" if objects => Some(Transform::PartialObjectMetadataList(version)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: &str, offer: Offer, expected: &str) {
        let printed = match accept(header, offer) {
            Ok(accepted) => format!("{:?} {:?}", accepted.format, accepted.transform),
            Err(refusal) => refusal.to_string(),
        };
        assert_eq!(printed, expected, "{header:?} {offer:?}");
    }

    #[test]
    fn the_first_clause_that_fits_wins() {
        use Offer::*;
        check("", Objects, "Json None");
        check("*/*", Objects, "Json None");
        check(
            "application/vnd.kubernetes.protobuf,application/json",
            Objects,
            "Protobuf None",
        );
        check(
            "application/json,application/vnd.kubernetes.protobuf",
            Objects,
            "Json None",
        );
        check("application/xml, application/json;q=0.5", Objects, "Json None");
        check(
            "application/yaml;q=0.5, application/json;q=0.4",
            Objects,
            "Yaml None",
        );
        check("application/json;q=0", Objects, "Json None");
        check(
            "application/vnd.kubernetes.protobuf;type=x",
            Objects,
            "Protobuf None",
        );
        check(
            "application/vnd.kubernetes.protobuf;stream=watch",
            Objects,
            "Protobuf None",
        );
        check(
            "application/vnd.kubernetes.protobuf;stream=watch",
            Stream,
            "Protobuf None",
        );
    }

    #[test]
    fn transforms_are_offered_where_they_are_supported() {
        use Offer::*;
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        check(table, Objects, "Json Table(V1)");
        check(table, Virtual, "Json None");
        let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        check(metadata, Objects, "Protobuf PartialObjectMetadata(V1)");
        let protobuf_table =
            "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json";
        check(protobuf_table, Objects, "Json None");
    }

    #[test]
    fn aggregated_discovery_wins_at_any_position() {
        let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        check(
            &format!("application/json,{v2}"),
            Offer::Discovery,
            "Json AggregatedDiscovery",
        );
        check(
            &format!("{v2};profile=nopeer,application/json"),
            Offer::Discovery,
            "Json AggregatedDiscovery",
        );
        let old = v2.replace("v=v2", "v=v2beta1");
        check(&format!("{old},application/json"), Offer::Discovery, "Json None");
        let only = "only the following media types are accepted: application/json, application/yaml, \
                    application/vnd.kubernetes.protobuf";
        check(&old, Offer::Discovery, only);
    }

    #[test]
    fn router_and_handler_reject_with_different_texts() {
        let router = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
                      application/vnd.kubernetes.protobuf";
        for header in [
            "application/xml",
            "application/*",
            "text/plain",
            "application/cbor",
        ] {
            check(header, Offer::Objects, router);
        }
        let both = format!(
            "{router}, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
        );
        check("application/xml", Offer::Collection, &both);
        check("application/xml", Offer::Stream, &both);
        let handler = "only the following media types are accepted: application/json, application/yaml, \
                       application/vnd.kubernetes.protobuf";
        check(
            "application/json;as=Nope;v=v1;g=meta.k8s.io",
            Offer::Objects,
            handler,
        );
        let streams = "only the following media types are accepted: application/json;stream=watch, \
                       application/vnd.kubernetes.protobuf;stream=watch";
        check("application/yaml", Offer::Stream, streams);
    }

    #[test]
    fn the_content_type_of_a_body_is_parsed() {
        let form = |header| content_type(header).map_err(|refusal| refusal.to_string());
        assert_eq!(form(None), Ok(Format::Json));
        assert_eq!(form(Some("Application/JSON; charset=utf-8")), Ok(Format::Json));
        assert_eq!(
            form(Some("application/vnd.kubernetes.protobuf;type=x")),
            Ok(Format::Protobuf)
        );
        let refusal = "the body of the request was in an unknown format - accepted media types include: \
                       application/json, application/yaml, application/vnd.kubernetes.protobuf";
        for header in ["application/xml", "application/merge-patch+json", "nonsense/;;"] {
            assert_eq!(form(Some(header)), Err(refusal.to_owned()));
        }
        assert_eq!(patch_kind(Some("application/json")), Err(Unsupported::Patch));
        assert_eq!(
            patch_kind(Some("application/apply-patch+yaml")),
            Ok(PatchKind::Apply)
        );
    }

    #[test]
    fn people_get_indented_json() {
        assert!(wants_pretty("pretty=true", ""));
        assert!(wants_pretty("", "curl/8.0"));
        assert!(!wants_pretty("pretty=0", "curl/8.0"));
        assert!(!wants_pretty("", "golden/1.0"));
    }
}
