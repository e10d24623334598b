//! The result of a run, as a table per area.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, Write};

use crate::case::{Case, Compared};
use crate::compare::Difference;
use crate::known::{Known, Verdict};

/// The number of printed differences per case.
const SHOWN: usize = 12;

/// The printed length of a request's body, in characters.
const BODY_SHOWN: usize = 2000;

pub(crate) struct Report<'a> {
    known: &'a Known,
    areas: BTreeMap<String, Counts>,
    /// Differences without a reason, by case.
    pub open: BTreeMap<String, BTreeSet<String>>,
    /// Differences with a reason.
    explained: Vec<String>,
    /// Errors in the lists of known differences.
    wrong: Vec<String>,
}

#[derive(Default)]
struct Counts {
    cases: Count,
    steps: Count,
    /// Steps that match apart from error texts.
    behaviour: Count,
}

#[derive(Default)]
struct Count {
    same: usize,
    all: usize,
}

impl Count {
    fn add(&mut self, same: bool) {
        self.same += usize::from(same);
        self.all += 1;
    }
}

impl<'a> Report<'a> {
    pub(crate) fn new(known: &'a Known) -> Self {
        Self {
            known,
            areas: BTreeMap::new(),
            open: BTreeMap::new(),
            explained: Vec::new(),
            wrong: Vec::new(),
        }
    }

    /// Counts a case, and prints its differences if they are requested or unexpected.
    pub(crate) fn add(
        &mut self,
        case: &Case,
        differences: &[Difference],
        wanted: bool,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let name = case.full_name();
        let mut surprising = false;
        let counts = self.areas.entry(case.area.clone()).or_default();
        counts.cases.add(differences.is_empty());
        for Compared {
            id: step,
            counts: counted,
        } in case.compared()
        {
            let of_step = || differences.iter().filter(|it| it.step == step);
            let differs = of_step().next().is_some();
            if counted {
                counts.steps.add(!differs);
                counts.behaviour.add(of_step().all(|it| it.wording));
            }
            match self.known.verdict(&name, step, differs) {
                Verdict::Same => continue,
                Verdict::Explained(reason) => {
                    self.explained.push(format!("{name} {step}: {reason}"));
                    continue;
                }
                Verdict::Mended => self
                    .wrong
                    .push(format!("{name} {step}: is on a list, but no longer differs")),
                Verdict::Open => {}
                Verdict::Unexpected => {
                    surprising = true;
                    self.wrong
                        .push(format!("{name} {step}: differs, and is on no list"));
                }
            }
            if differs {
                self.open.entry(name.clone()).or_default().insert(step.to_owned());
            }
        }
        if differences.is_empty() && self.known.names_whole_case(&name) {
            self.wrong
                .push(format!("{name}: is on a list, but no longer differs"));
        }
        if !differences.is_empty() && (wanted || surprising) {
            let shown = if wanted { differences.len() } else { SHOWN };
            print_differences(out, case, &differences[..shown.min(differences.len())])?;
        }
        Ok(())
    }

    pub(crate) fn failed(&self) -> bool {
        !self.wrong.is_empty()
    }

    /// The counts as a Markdown table.
    pub(crate) fn write_table(&self, out: &mut String) {
        out.push_str(
            "| area | cases the same | steps the same | steps, texts of errors aside |\n|---|---|---|---|\n",
        );
        let mut row = |area: &str, counts: &Counts| {
            let of = |count: &Count| format!("{} of {}", count.same, count.all);
            let (cases, steps, behaviour) = (of(&counts.cases), of(&counts.steps), of(&counts.behaviour));
            writeln!(out, "| {area} | {cases} | {steps} | {behaviour} |").expect("a text grows");
        };
        let mut all = Counts::default();
        for (area, counts) in &self.areas {
            row(area, counts);
            all.join(counts);
        }
        row("**all**", &all);
    }

    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let (cases, steps, behaviour) = ("cases the same", "steps the same", "without texts");
        writeln!(out, "\n{:15}{cases:>18}{steps:>18}{behaviour:>18}", "area")?;
        let mut all = Counts::default();
        for (area, counts) in &self.areas {
            write_row(out, area, counts)?;
            all.join(counts);
        }
        write_row(out, "all", &all)?;
        for line in self.explained.iter().chain(&self.wrong) {
            writeln!(out, "{line}")?;
        }
        Ok(())
    }
}

/// Prints each request with the differences of its answer.
fn print_differences(out: &mut impl Write, case: &Case, differences: &[Difference]) -> io::Result<()> {
    writeln!(out, "{}", case.full_name())?;
    for of_step in differences.chunk_by(|one, other| one.step == other.step) {
        let id = &of_step[0].step;
        if let Some(request) = case.request(id) {
            let body = request.body.as_ref().map_or("", |body| body.get());
            let body: String = body.chars().take(BODY_SHOWN).collect();
            writeln!(out, "  {id}: {} {} {body}", request.method, request.path)?;
        }
        for difference in of_step {
            writeln!(out, "    {}", difference.text)?;
        }
    }
    Ok(())
}

impl Counts {
    fn join(&mut self, other: &Self) {
        let pairs = [
            (&mut self.cases, &other.cases),
            (&mut self.steps, &other.steps),
            (&mut self.behaviour, &other.behaviour),
        ];
        for (sum, part) in pairs {
            sum.same += part.same;
            sum.all += part.all;
        }
    }
}

fn write_row(out: &mut impl Write, area: &str, counts: &Counts) -> io::Result<()> {
    let of = |count: &Count| format!("{} of {}", count.same, count.all);
    let (cases, steps, behaviour) = (of(&counts.cases), of(&counts.steps), of(&counts.behaviour));
    writeln!(out, "{area:15}{cases:>18}{steps:>18}{behaviour:>18}")
}
