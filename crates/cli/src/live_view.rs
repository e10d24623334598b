//! Events on a screen: one line each, under a header, with optional colours.
//!
//! Columns have a fixed width: a longer text shifts only the rest of its own line.

use std::io::{self, Write as _};

use unicode_width::UnicodeWidthStr as _;
use watchkeeper_meta::{ObjectKey, Resource};
use watchkeeper_runtime::follow::{FollowEvent, Gone};
use watchkeeper_wire::Object;

use crate::object_state;
use crate::palette::{BOLD, CYAN, GREEN, RED, RESET, YELLOW};
use crate::session::{Look, Session};

/// The version is the last column and needs no width.
const COLUMNS: [(&str, usize); 4] = [("EVENT", 9), ("NAMESPACE", 12), ("NAME", 40), ("STATE", 20)];

/// Prints events.
#[derive(Debug)]
pub(crate) struct LiveView {
    owes_header: bool,
    pub(crate) counts: Counts,
}

/// The number of events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) added: usize,
    pub(crate) modified: usize,
    pub(crate) deleted: usize,
}

/// The content of a line.
struct Line<'a> {
    event: &'static str,
    colour: &'static str,
    namespace: &'a str,
    name: String,
    state: String,
    version: &'a str,
}

impl LiveView {
    pub(crate) fn new(header: bool) -> Self {
        Self {
            owes_header: header,
            counts: Counts::default(),
        }
    }

    /// Prints an event as a line: event, namespace, name, state, version. Of the events about the stream itself, only
    /// restarts are printed.
    pub(crate) fn show(
        &mut self,
        event: &FollowEvent,
        stream: &str,
        resource: &Resource,
        session: &mut Session,
    ) -> io::Result<()> {
        self.counts.add(event);
        match event {
            FollowEvent::Added(object) => {
                self.print(&Line::of(event.kind(), GREEN, object, resource), session)
            }
            FollowEvent::Modified(object) => {
                self.print(&Line::of(event.kind(), YELLOW, object, resource), session)
            }
            FollowEvent::Deleted(gone) => self.print(&Line::of_gone(event.kind(), gone, resource), session),
            FollowEvent::Restarted(restart) => {
                let line = Line {
                    event: event.kind(),
                    colour: CYAN,
                    namespace: "-",
                    name: stream.to_owned(),
                    state: restart.reason.clone(),
                    version: restart.to.as_ref().map_or("-", |version| version.as_str()),
                };
                self.print(&line, session)
            }
            FollowEvent::Synced(_) | FollowEvent::Bookmark(_) => Ok(()),
        }
    }

    /// Prints a sentence between the lines.
    pub(crate) fn say(&self, text: &str, session: &mut Session) -> io::Result<()> {
        let mark = paint(">", CYAN, session.look);
        let text = paint(text, BOLD, session.look);
        writeln!(session.out, "{mark} {text}")?;
        session.out.flush()
    }

    fn print(&mut self, line: &Line<'_>, session: &mut Session) -> io::Result<()> {
        if std::mem::take(&mut self.owes_header) {
            let header = COLUMNS.map(|(title, _)| title);
            print_cells(header, "", "VERSION", session)?;
        }
        let cells = [line.event, line.namespace, &line.name, &line.state];
        print_cells(cells, line.colour, line.version, session)?;
        session.out.flush()
    }
}

fn print_cells(cells: [&str; 4], colour: &str, last: &str, session: &mut Session) -> io::Result<()> {
    for (index, (cell, (_, width))) in cells.into_iter().zip(COLUMNS).enumerate() {
        let blanks = width.saturating_sub(cell.width()) + 2;
        match index {
            0 if !colour.is_empty() => write!(session.out, "{}", paint(cell, colour, session.look))?,
            _ => write!(session.out, "{cell}")?,
        }
        write!(session.out, "{:blanks$}", "")?;
    }
    writeln!(session.out, "{last}")
}

impl<'a> Line<'a> {
    fn of(event: &'static str, colour: &'static str, object: &'a Object, resource: &Resource) -> Self {
        Self {
            event,
            colour,
            namespace: namespace(object.namespace()),
            name: resource.display_name(object.name()),
            state: object_state::present(object),
            version: object.resource_version(),
        }
    }

    fn of_gone(event: &'static str, gone: &'a Gone, resource: &Resource) -> Self {
        let state = gone.last.as_ref().map(object_state::last);
        Self {
            event,
            colour: RED,
            namespace: namespace(ObjectKey::namespace(&gone.key)),
            name: resource.display_name(gone.key.name()),
            state: state.unwrap_or_else(|| "final state unknown".to_owned()),
            version: gone.version.as_str(),
        }
    }
}

fn namespace(name: &str) -> &str {
    if name.is_empty() { "-" } else { name }
}

impl Counts {
    fn add(&mut self, event: &FollowEvent) {
        match event {
            FollowEvent::Added(_) => self.added += 1,
            FollowEvent::Modified(_) => self.modified += 1,
            FollowEvent::Deleted(_) => self.deleted += 1,
            FollowEvent::Synced(_) | FollowEvent::Restarted(_) | FollowEvent::Bookmark(_) => {}
        }
    }

    pub(crate) fn all(self) -> usize {
        self.added + self.modified + self.deleted
    }

    /// The number of existing objects.
    pub(crate) fn present(self) -> usize {
        self.added.saturating_sub(self.deleted)
    }
}

fn paint(text: &str, colour: &str, look: Look) -> String {
    match look {
        Look::Plain => text.to_owned(),
        Look::Colour => format!("{colour}{text}{RESET}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Output;
    use watchkeeper_client::config::Environment;
    use watchkeeper_meta::ResourceVersion;

    fn check(look: Look, name: &str, expected: &str) {
        let (out, text) = Output::kept();
        let mut session = Session {
            err: out.clone(),
            out,
            input: Box::new(std::io::empty()),
            look,
            progress_after: None,
            environment: Environment::default(),
            client: None,
            logs: false,
        };
        let pods = Resource::namespaced("", "v1", "Pod", "pods");
        let deleted = FollowEvent::Deleted(Gone {
            key: ObjectKey::new("shop", name),
            uid: "u".into(),
            version: ResourceVersion::new("7"),
            last: None,
        });
        let mut view = LiveView::new(true);
        view.show(&deleted, "pods", &pods, &mut session).unwrap();
        assert_eq!(view.counts.deleted, 1);
        let header = "EVENT      NAMESPACE     NAME                                      STATE                 VERSION\n";
        let text = String::from_utf8(text.lock().unwrap().clone()).unwrap();
        assert_eq!(text, format!("{header}{expected}"));
    }

    #[test]
    fn colours_are_for_terminals_and_move_nothing() {
        let rest = "    shop          pod/a                                     final state unknown   7\n";
        check(Look::Plain, "a", &format!("DELETED{rest}"));
        check(Look::Colour, "a", &format!("\x1b[31mDELETED\x1b[0m{rest}"));
    }

    #[test]
    fn a_long_name_moves_its_own_line_only() {
        let name = "a".repeat(50);
        let line = format!("DELETED    shop          pod/{name}  final state unknown   7\n");
        check(Look::Plain, &name, &line);
    }
}
