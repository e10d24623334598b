//! Which form a request's body has and which form its answer takes: `Content-Type` and `Accept` in, a
//! [`Format`] and an [`Accepted`] out, or the refusal a real server gives.
//!
//! A real server asks twice. Its router compares media types as plain text and refuses with "406: Not
//! Acceptable" and a list; then the handler weighs the clauses with their parameters and refuses with "only the
//! following media types are accepted". Both are kept apart here because clients see both.

use std::cmp::Reverse;

use watchkeeper_meta::PatchKind;
use watchkeeper_registry::{Format, JSON, PROTOBUF, YAML};

use crate::request_info::query_value;

/// How many clauses of an `Accept` header are read; what follows is ignored. Clients send at most four.
const MAX_ACCEPT_CLAUSES: usize = 32;

/// What is made of an object before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transform {
    /// Nothing.
    None,
    /// A table of the columns people read.
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

/// The form an answer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The format.
    pub format: Format,
    /// What is made of the object.
    pub transform: Transform,
    /// Whether JSON is indented for people.
    pub pretty: bool,
}

/// What an endpoint can answer with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Objects of a kind with printed columns: every transform of `meta.k8s.io`.
    Objects,
    /// Lists of such objects, at a path that can also be followed.
    Collection,
    /// Answers that are made and forgotten, such as reviews: no table.
    Virtual,
    /// A stream of events: JSON and protobuf only.
    Stream,
    /// Discovery documents that also have an aggregated form.
    Discovery,
    /// Documents with one form: no transform at all.
    Plain,
}

/// Why no form fits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unacceptable {
    /// The router knows none of the media types.
    #[error("406: Not Acceptable\n\nAvailable representations: {0}")]
    Router(String),
    /// The media types are known, but not with these parameters.
    #[error("only the following media types are accepted: {0}")]
    Handler(String),
}

/// A body in a form the endpoint cannot read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// An object in an unknown form.
    #[error("the body of the request was in an unknown format - accepted media types include: {0}")]
    Body(String),
    /// A patch of an unknown kind, refused by the router.
    #[error("415: Unsupported Media Type")]
    Patch,
}

impl Accepted {
    /// What a client gets that asked for nothing, or whose wish cannot be read: errors must be written somehow.
    pub const FALLBACK: Self = Self {
        format: Format::Json,
        transform: Transform::None,
        pretty: false,
    };
}

/// The form of an answer about custom objects: whole ones have no protobuf form, and whoever accepts another gets that.
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

/// The form of an answer.
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

/// The form of an error: as asked for, without transforms, or JSON if that cannot be had.
pub fn accept_for_error(header: &str) -> Accepted {
    let clauses = parse_accept(header);
    let found = clauses.iter().find_map(|clause| clause.fit(Offer::Objects));
    Accepted {
        transform: Transform::None,
        ..found.unwrap_or(Accepted::FALLBACK)
    }
}

/// The format of a request's body; nothing stated means JSON.
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

/// As [`content_type`], for custom objects, which have no protobuf form.
pub fn custom_content_type(header: Option<&str>) -> Result<Format, Unsupported> {
    let refused = || Unsupported::Body([JSON, YAML].join(", "));
    match content_type(header) {
        Ok(Format::Protobuf) | Err(_) => Err(refused()),
        format => format,
    }
}

/// As [`patch_kind`], for custom objects: without a Go struct there is no strategic patch.
pub fn custom_patch_kind(header: Option<&str>) -> Result<PatchKind, Unsupported> {
    const PATCHES: [PatchKind; 3] = [PatchKind::Json, PatchKind::Merge, PatchKind::Apply];
    match patch_kind(header) {
        Ok(PatchKind::Strategic) | Err(_) => {
            Err(Unsupported::Body(PATCHES.map(PatchKind::content_type).join(", ")))
        }
        kind => kind,
    }
}

/// The kind of a patch. The router compares its media type as plain text, parameters aside.
pub fn patch_kind(header: Option<&str>) -> Result<PatchKind, Unsupported> {
    let media_type = header.unwrap_or_default().split(';').next().unwrap_or_default();
    PatchKind::of_content_type(media_type.trim()).ok_or(Unsupported::Patch)
}

/// Whether a person is reading: `?pretty=` decides, else the kind of program that asks.
pub fn wants_pretty(query: &str, user_agent: &str) -> bool {
    match query_value(query, "pretty").as_deref() {
        None | Some("") => ["curl", "Wget", "Mozilla/5.0"]
            .iter()
            .any(|program| user_agent.starts_with(program)),
        Some("1" | "t" | "T" | "true" | "TRUE" | "True") => true,
        Some(_) => false,
    }
}

/// In the order of preference.
const FORMATS: [Format; 3] = [Format::Json, Format::Yaml, Format::Protobuf];

/// The router's look: media types as plain text, no parameters, only `*/*` stands for all.
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

/// The list in a refusal: the plain types, the streamed ones, or both.
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

/// One wish of an `Accept` header.
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

/// Reads the clauses, the most wanted first. A header that is not there wants anything.
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
            // A quality that is no number counts as wanted, and 0 as wanted least: real servers do the same.
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

    /// The first form of the offer this wish is content with.
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

    /// What the wish makes of the object; `None` if this cannot be done.
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
    fn transforms_are_offered_where_they_can_be_made() {
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
    fn aggregated_discovery_wins_wherever_it_stands() {
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
    fn two_refusals_have_two_texts() {
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
    fn bodies_state_their_form() {
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
