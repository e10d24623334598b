//! The known differences. Both lists are checked in both directions: a step that differs and is on neither list fails
//! the test, and so does a listed step that does not differ.
//!
//! `differences.txt` is written by hand: `area/name step: why`, or `area/name: why` for a whole case. `open.txt`
//! lists, without a reason, steps that do not match yet: `area/name: step step …`; `--write-open` rewrites it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

/// Steps by case.
type Steps = BTreeMap<String, BTreeSet<String>>;

pub(crate) struct Known {
    folder: PathBuf,
    /// The reasons by case and step; an empty step stands for the whole case.
    reasons: BTreeMap<(String, String), String>,
    open: Steps,
}

/// The relation of a replayed step to the lists.
pub(crate) enum Verdict<'a> {
    Same,
    /// As recorded, but listed as different.
    Mended,
    Explained(&'a str),
    Open,
    Unexpected,
}

impl Known {
    pub(crate) fn read(folder: &Path) -> io::Result<Self> {
        let lines = |name: &str| -> io::Result<Vec<(String, String)>> {
            let text = std::fs::read_to_string(folder.join(name))?;
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            let pairs = lines.filter_map(|line| line.split_once(": "));
            Ok(pairs
                .map(|(name, rest)| (name.to_owned(), rest.to_owned()))
                .collect())
        };
        let reasons = lines("differences.txt")?.into_iter().map(|(place, reason)| {
            let (case, step) = place.split_once(' ').unwrap_or((&place, ""));
            ((case.to_owned(), step.to_owned()), reason)
        });
        let open = lines("open.txt")?.into_iter().map(|(case, steps)| {
            let steps = steps.split(' ').map(str::to_owned).collect();
            (case, steps)
        });
        Ok(Self {
            folder: folder.to_owned(),
            reasons: reasons.collect(),
            open: open.collect(),
        })
    }

    pub(crate) fn verdict(&self, case: &str, step: &str, differs: bool) -> Verdict<'_> {
        let reason = |step: &str| self.reasons.get(&(case.to_owned(), step.to_owned()));
        let open = self.open.get(case).is_some_and(|steps| steps.contains(step));
        match (differs, reason(step).or_else(|| reason(""))) {
            (true, Some(reason)) => Verdict::Explained(reason),
            (true, None) if open => Verdict::Open,
            (true, None) => Verdict::Unexpected,
            (false, _) if open || reason(step).is_some() => Verdict::Mended,
            (false, _) => Verdict::Same,
        }
    }

    /// True if a listed whole case has no difference.
    pub(crate) fn names_whole_case(&self, case: &str) -> bool {
        self.reasons.contains_key(&(case.to_owned(), String::new()))
    }

    /// Both lists in Markdown.
    pub(crate) fn write_lists(&self, out: &mut String) {
        let mut line = |line: String| writeln!(out, "{line}").expect("a text grows");
        if self.reasons.is_empty() {
            line("None that will stay.".to_owned());
        }
        for ((case, step), reason) in &self.reasons {
            line(format!("- `{case}` {step}: {reason}"));
        }
        if !self.open.is_empty() {
            line("\nSteps that are not answered as recorded yet:\n".to_owned());
        }
        for (case, steps) in &self.open {
            let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
            line(format!("- `{case}`: {}", steps.join(", ")));
        }
    }

    pub(crate) fn write_open(&self, open: &Steps) -> io::Result<()> {
        let mut text =
            "# Steps that are not answered as recorded yet. Written by `--write-open`; no line may stay \
                        that is not needed.\n"
                .to_owned();
        for (case, steps) in open {
            let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
            writeln!(text, "{case}: {}", steps.join(" ")).expect("a text grows");
        }
        std::fs::write(self.folder.join("open.txt"), text)
    }
}
