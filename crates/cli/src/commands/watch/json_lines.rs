//! Events as JSON, one document per line, for programs.
//!
//! Every line has the same head: `type`, `apiVersion`, `kind`, `namespace`, `name`, `uid` and `resourceVersion`, null
//! if unknown. `ADDED`, `MODIFIED` and `DELETED` also have the object. A delete that was not seen, but inferred from
//! a list, has `inferred` and only the identity of its object.

use std::io::Write as _;

use serde::Serialize;
use serde_json::{Value, json};
use watchkeeper_meta::{Resource, ResourceVersion};
use watchkeeper_recording::Update;
use watchkeeper_runtime::follow::{FollowEvent, Gone, Restart};
use watchkeeper_wire::Object;

use crate::failure::Failure;
use crate::session::Session;
use crate::update_lines::add_update;

/// The selection of a line, and whether bookmarks are wanted.
pub(super) struct JsonLines<'a> {
    pub(super) resource: &'a Resource,
    /// Empty for all namespaces, and for cluster-scoped kinds.
    pub(super) namespace: &'a str,
    pub(super) bookmarks: bool,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    r#type: &'static str,
    api_version: String,
    kind: &'a str,
    namespace: Option<&'a str>,
    name: Option<&'a str>,
    uid: Option<&'a str>,
    resource_version: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    inferred: bool,
    #[serde(flatten)]
    restart: Option<Reason<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<Value>,
}

/// The reason a stream has restarted.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Reason<'a> {
    from: Option<&'a str>,
    to: Option<&'a str>,
    reason: &'a str,
    /// False if the inventory is incomplete: earlier deletes are not reported.
    knows_deletes: bool,
}

impl JsonLines<'_> {
    pub(super) fn print(
        &self,
        event: &FollowEvent,
        update: Option<&Update>,
        session: &mut Session,
    ) -> Result<(), Failure> {
        let line = match event {
            FollowEvent::Bookmark(_) if !self.bookmarks => return Ok(()),
            FollowEvent::Added(object) | FollowEvent::Modified(object) => {
                self.present(event.kind(), object)?
            }
            FollowEvent::Deleted(gone) => self.gone(event.kind(), gone)?,
            FollowEvent::Restarted(restart) => self.restarted(event.kind(), restart),
            FollowEvent::Synced(version) | FollowEvent::Bookmark(version) => {
                self.about_stream(event.kind(), Some(version))
            }
        };
        let written = match update {
            None => serde_json::to_writer(&mut session.out, &line),
            Some(update) => {
                let mut line = serde_json::to_value(&line).map_err(Failure::other)?;
                add_update(&mut line, update);
                serde_json::to_writer(&mut session.out, &line)
            }
        };
        written.map_err(|error| Failure::Output(error.into()))?;
        writeln!(session.out)?;
        Ok(session.out.flush()?)
    }

    fn present<'a>(&'a self, r#type: &'static str, object: &'a Object) -> Result<Line<'a>, Failure> {
        let mut value = object.to_value().map_err(Failure::other)?;
        crate::format::complete(&mut value, self.resource, true);
        Ok(Line {
            namespace: Some(object.namespace()),
            name: Some(object.name()),
            uid: Some(object.uid()),
            object: Some(value),
            ..self.line(r#type, Some(object.resource_version()))
        })
    }

    fn gone<'a>(&'a self, r#type: &'static str, gone: &'a Gone) -> Result<Line<'a>, Failure> {
        if let Some(last) = &gone.last {
            return self.present(r#type, last);
        }
        let mut who = json!({"metadata": {
            "name": gone.key.name(),
            "namespace": gone.key.namespace(),
            "uid": gone.uid,
            "resourceVersion": gone.version,
        }});
        crate::format::complete(&mut who, self.resource, true);
        Ok(Line {
            namespace: Some(gone.key.namespace()),
            name: Some(gone.key.name()),
            uid: Some(&gone.uid),
            inferred: true,
            object: Some(who),
            ..self.line(r#type, Some(gone.version.as_str()))
        })
    }

    fn restarted<'a>(&'a self, r#type: &'static str, restart: &'a Restart) -> Line<'a> {
        let text = |version: &'a Option<ResourceVersion>| version.as_ref().map(ResourceVersion::as_str);
        Line {
            restart: Some(Reason {
                from: text(&restart.from),
                to: text(&restart.to),
                reason: &restart.reason,
                knows_deletes: restart.knows_deletes,
            }),
            ..self.about_stream(r#type, restart.to.as_ref())
        }
    }

    fn about_stream<'a>(&'a self, r#type: &'static str, version: Option<&'a ResourceVersion>) -> Line<'a> {
        Line {
            namespace: Some(self.namespace).filter(|namespace| !namespace.is_empty()),
            ..self.line(r#type, version.map(ResourceVersion::as_str))
        }
    }

    fn line<'a>(&'a self, r#type: &'static str, resource_version: Option<&'a str>) -> Line<'a> {
        Line {
            r#type,
            api_version: self.resource.group_version_kind().api_version(),
            kind: &self.resource.kind,
            resource_version,
            ..Line::default()
        }
    }
}
