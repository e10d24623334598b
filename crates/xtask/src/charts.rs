//! `cargo xtask charts`: the tables of `crates/bench/README.md` as pictures in `docs/pictures`.
//!
//! In flows a page with tables, each under a comment that says what to draw; out flow SVG files. A chart has a group of
//! bars per row, one bar per column, and the cell itself as the label, so that no number is made up. Bars of several
//! columns are drawn to the scale of their row, because rows have different units.
//!
//! ```text
//! <!-- chart: informers.svg | Title | ours, client-go, kube | first sync, wall; first sync, CPU -->
//! | | ours | client-go | kube |
//! ```

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

const PAGE: &str = "crates/bench/README.md";
const PICTURES: &str = "docs/pictures";

const WIDTH: f64 = 760.0;
/// Space around everything.
const MARGIN: f64 = 16.0;
/// Upper bound on the width of a character of a bar's name.
const CHARACTER: f64 = 7.7;
/// Room for the cell behind the longest bar.
const RIGHT: f64 = 150.0;
const BAR: f64 = 16.0;
const STEP: f64 = 21.0;

/// With a background of its own: the page around it may be light while the reader's system is dark, or the other way.
const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#17232b}.back{fill:#fbfcfd;stroke:#d5dde2}\
.title{font-size:16px;font-weight:600}.row{font-weight:600}.dim{fill:#5a6a74}.c0{fill:#14607f}.c1{fill:#c2812b}\
.c2{fill:#8a8f98}.c3{fill:#b7bcc4}@media(prefers-color-scheme:dark){text{fill:#e3ebf0}.back{fill:#10171b;stroke:#2c3a43}\
.dim{fill:#9fb0ba}.c0{fill:#6cc3e6}.c1{fill:#e3b341}.c2{fill:#8b98a3}.c3{fill:#63707b}}";

/// A chart and the file it belongs into.
struct Chart {
    file: String,
    title: String,
    groups: Vec<Group>,
}

/// The bars of one row.
struct Group {
    name: String,
    bars: Vec<Bar>,
    /// The value of a bar of full length.
    longest: f64,
}

struct Bar {
    name: String,
    /// The cell as it is in the table.
    cell: String,
    value: f64,
}

/// Writes the charts; returns their files.
pub(crate) fn write(root: &Path) -> io::Result<Vec<String>> {
    let charts = read(root)?;
    for chart in &charts {
        fs::write(root.join(PICTURES).join(&chart.file), chart.svg())?;
    }
    Ok(charts.into_iter().map(|chart| chart.file).collect())
}

/// The charts whose files are not of the tables as they are now.
pub(crate) fn stale(root: &Path) -> io::Result<Vec<String>> {
    let is_stale = |chart: &Chart| {
        let drawn = fs::read_to_string(root.join(PICTURES).join(&chart.file));
        drawn.ok().as_ref() != Some(&chart.svg())
    };
    let charts = read(root)?.into_iter().filter(is_stale);
    Ok(charts.map(|chart| chart.file).collect())
}

fn read(root: &Path) -> io::Result<Vec<Chart>> {
    let text = fs::read_to_string(root.join(PAGE))?;
    let lines: Vec<&str> = text.lines().collect();
    let mut charts = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let asked = line.strip_prefix("<!-- chart: ");
        if let Some(asked) = asked.and_then(|rest| rest.strip_suffix(" -->")) {
            let rest = lines[at + 1..].iter().skip_while(|line| line.is_empty());
            let table = rest
                .take_while(|line| line.starts_with('|'))
                .map(|line| cells(line));
            let chart = chart(asked, &table.collect::<Vec<_>>());
            charts.push(
                chart.map_err(|reason| io::Error::other(format!("{PAGE}, line {}: {reason}", at + 1)))?,
            );
        }
    }
    Ok(charts)
}

/// The cells of a line, without emphasis and code marks.
fn cells(line: &str) -> Vec<String> {
    let cells = line.trim_matches('|').split('|');
    cells
        .map(|cell| cell.replace(['*', '`'], "").trim().to_owned())
        .collect()
}

fn chart(asked: &str, table: &[Vec<String>]) -> Result<Chart, String> {
    let parts: Vec<&str> = asked.split(" | ").collect();
    let [file, title, columns, rows] = parts[..] else {
        return Err("a chart has a file, a title, columns and rows".to_owned());
    };
    let header = table.first().ok_or("no table follows")?;
    let index = |name: &str| {
        let found = header.iter().position(|cell| cell == name);
        found.ok_or_else(|| format!("the table has no column {name:?}"))
    };
    let columns: Vec<(&str, usize)> = columns
        .split(", ")
        .map(|name| Ok((name, index(name)?)))
        .collect::<Result<_, String>>()?;
    let groups = rows.split("; ").map(|name| group(name, &columns, table));
    let mut groups: Vec<Group> = groups.collect::<Result<_, _>>()?;
    if columns.len() == 1 {
        // Rows of one column have one unit: their bars are compared with each other.
        let all = groups.iter().flat_map(|group| &group.bars);
        let longest = all.map(|bar| bar.value).fold(0.0, f64::max);
        groups.iter_mut().for_each(|group| group.longest = longest);
    }
    Ok(Chart {
        file: file.to_owned(),
        title: title.to_owned(),
        groups,
    })
}

fn group(name: &str, columns: &[(&str, usize)], table: &[Vec<String>]) -> Result<Group, String> {
    let row = table.iter().find(|row| row[0] == name);
    let row = row.ok_or_else(|| format!("the table has no row {name:?}"))?;
    let bar = |(column, index): &(&str, usize)| {
        let cell = row.get(*index).cloned().unwrap_or_default();
        let value = number(&cell).ok_or_else(|| format!("{cell:?} in row {name:?} begins with no number"))?;
        Ok(Bar {
            name: (*column).to_owned(),
            cell,
            value,
        })
    };
    let bars: Vec<Bar> = columns.iter().map(bar).collect::<Result<_, String>>()?;
    Ok(Group {
        name: name.to_owned(),
        longest: bars.iter().map(|bar| bar.value).fold(0.0, f64::max),
        bars,
    })
}

/// The number that a cell begins with.
fn number(cell: &str) -> Option<f64> {
    let digits = cell.split([' ', '/']).next()?;
    digits.replace(',', "").parse().ok()
}

impl Chart {
    fn svg(&self) -> String {
        let bars: usize = self.groups.iter().map(|group| group.bars.len()).sum();
        let height = 60.0 + self.groups.len() as f64 * 32.0 + bars as f64 * STEP;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" role=\"img\" aria-label=\"{title}\">\n<style>{STYLE}</style>\n\
             <rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"8\" class=\"back\"/>\n\
             <text x=\"{MARGIN}\" y=\"32\" class=\"title\">{title}</text>\n",
            WIDTH - 1.0,
            height - 1.0,
            title = escape(&self.title),
        );
        let mut y = 46.0;
        let left = self.left();
        for group in &self.groups {
            y = group.draw(&mut out, y, left);
        }
        out.push_str("</svg>\n");
        out
    }

    /// The x position of the bars, right of their names.
    fn left(&self) -> f64 {
        let bars = self.groups.iter().flat_map(|group| &group.bars);
        let longest = bars.map(|bar| bar.name.chars().count()).max().unwrap_or(0);
        (MARGIN + longest as f64 * CHARACTER + 8.0).round()
    }
}

impl Group {
    /// Draws the group at a height; returns where the next one begins.
    fn draw(&self, out: &mut String, mut y: f64, left: f64) -> f64 {
        let _ = writeln!(
            out,
            "<text x=\"{MARGIN}\" y=\"{}\" class=\"row\">{}</text>",
            y + 18.0,
            escape(&self.name)
        );
        y += 26.0;
        for (index, bar) in self.bars.iter().enumerate() {
            let length = (bar.value / self.longest.max(f64::MIN_POSITIVE) * (WIDTH - left - RIGHT)).max(1.0);
            let _ = writeln!(
                out,
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" class=\"dim\">{}</text>\
                 <rect x=\"{left}\" y=\"{y}\" width=\"{length:.1}\" height=\"{BAR}\" rx=\"2\" class=\"c{index}\"/>\
                 <text x=\"{:.1}\" y=\"{}\">{}</text>",
                left - 8.0,
                y + 13.0,
                escape(&bar.name),
                left + length + 6.0,
                y + 13.0,
                escape(&bar.cell),
            );
            y += STEP;
        }
        y + 6.0
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;")
}
