//! One object of a set of manifests: its place, content and expectation.

use serde_json::Value;
use watchkeeper_client::Manifest;
use watchkeeper_wire::yaml;

use super::expectation::{self, Expectation};
use super::problem::Problem;
use crate::manifests::Text;

/// One object.
pub(super) struct Case<'t> {
    pub(super) text: &'t Text,
    pub(super) manifest: Manifest,
    /// The object sent to the server: the manifest without its expectation.
    pub(super) object: Value,
    /// An `Err` describes an invalid expectation.
    pub(super) expectation: Result<Expectation, String>,
}

/// Parses the objects of all texts; parse errors become problems.
pub(super) fn read<'t>(texts: &'t [Text], problems: &mut Vec<Problem>) -> Vec<Case<'t>> {
    let mut cases = Vec::new();
    for text in texts {
        for manifest in Manifest::parse(&text.bytes) {
            match manifest {
                Ok(manifest) => cases.push(Case::new(text, manifest)),
                Err(error) => problems.push(Problem::unreadable(text, &error)),
            }
        }
    }
    cases
}

impl<'t> Case<'t> {
    fn new(text: &'t Text, manifest: Manifest) -> Self {
        let mut object = manifest.object.clone();
        let expectation = expectation::take(&mut object);
        Self {
            text,
            manifest,
            object,
            expectation,
        }
    }

    /// The line of a field, or of the object itself if the path is empty.
    pub(super) fn line(&self, path: &str) -> usize {
        let place = self.manifest.place;
        let path = match place.item {
            Some(item) if path.is_empty() => format!("items[{item}]"),
            Some(item) => format!("items[{item}].{path}"),
            None => path.to_owned(),
        };
        yaml::line_of(&self.text.bytes, place.line, &path)
    }

    /// `demo.yaml:12`.
    pub(super) fn position(&self) -> String {
        format!("{}:{}", self.text.source, self.line(""))
    }

    pub(super) fn is_test(&self) -> bool {
        self.expectation != Ok(Expectation::None)
    }
}
