//! Happenings on a screen: one line each, aligned as they come, in colour where that helps.

use std::io::{self, Write as _};

use unicode_width::UnicodeWidthStr as _;
use watchkeeper_meta::Resource;

use crate::cluster::display_name;
use crate::happenings::{Happening, What};
use crate::session::{Look, Session};

/// Columns begin this wide, so that the first lines rarely move the later ones.
const FIRST_WIDTHS: [usize; 4] = [8, 11, 30, 20];

const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const RED: &str = "\x1b[31m";
const CYAN: &str = "\x1b[36m";
const BOLD: &str = "\x1b[1m";
const RESET: &str = "\x1b[0m";

/// Prints happenings.
#[derive(Debug)]
pub(crate) struct LiveView {
    widths: [usize; 4],
    pub(crate) counts: Counts,
}

/// How much has happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) added: usize,
    pub(crate) modified: usize,
    pub(crate) deleted: usize,
}

impl LiveView {
    pub(crate) fn new() -> Self {
        Self {
            widths: FIRST_WIDTHS,
            counts: Counts::default(),
        }
    }

    /// Prints one line: event, namespace, name, state, version.
    pub(crate) fn show(
        &mut self,
        happening: &Happening,
        resource: &Resource,
        session: &mut Session,
    ) -> io::Result<()> {
        self.counts.add(happening.what);
        let namespace = match happening.key.namespace() {
            "" => "-",
            namespace => namespace,
        };
        let cells = [
            happening.what.as_str().to_owned(),
            namespace.to_owned(),
            display_name(resource, happening.key.name()),
            happening.state(),
        ];
        let colour = match happening.what {
            What::Added => GREEN,
            What::Modified | What::Applied => YELLOW,
            What::Deleted => RED,
        };
        for (index, cell) in cells.iter().enumerate() {
            let width = &mut self.widths[index];
            *width = (*width).max(cell.width());
            let blanks = *width - cell.width() + 2;
            let cell = match index {
                0 => paint(cell, colour, session.look),
                _ => cell.clone(),
            };
            write!(session.out, "{cell}{:blanks$}", "")?;
        }
        writeln!(session.out, "{}", happening.version())?;
        session.out.flush()
    }

    /// Prints a sentence between the lines.
    pub(crate) fn say(&self, text: &str, session: &mut Session) -> io::Result<()> {
        let mark = paint(">", CYAN, session.look);
        let text = paint(text, BOLD, session.look);
        writeln!(session.out, "{mark} {text}")?;
        session.out.flush()
    }
}

impl Counts {
    fn add(&mut self, what: What) {
        match what {
            What::Added => self.added += 1,
            What::Modified | What::Applied => self.modified += 1,
            What::Deleted => self.deleted += 1,
        }
    }

    pub(crate) fn all(self) -> usize {
        self.added + self.modified + self.deleted
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
    use watchkeeper_meta::{ObjectKey, Scope};

    fn check(look: Look, expected: &str) {
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
        let pods = Resource {
            group: "".into(),
            version: "v1".into(),
            kind: "Pod".into(),
            plural: "pods".into(),
            scope: Scope::Namespaced,
        };
        let happening = Happening {
            what: What::Deleted,
            key: ObjectKey::new("shop", "a"),
            object: None,
        };
        let mut view = LiveView::new();
        view.show(&happening, &pods, &mut session).unwrap();
        assert_eq!(view.counts.deleted, 1);
        assert_eq!(String::from_utf8(text.lock().unwrap().clone()).unwrap(), expected);
    }

    #[test]
    fn colours_are_for_terminals_and_move_nothing() {
        let rest = "   shop         pod/a                           -                     -\n";
        check(Look::Plain, &format!("DELETED{rest}"));
        check(Look::Colour, &format!("\x1b[31mDELETED\x1b[0m{rest}"));
    }
}
