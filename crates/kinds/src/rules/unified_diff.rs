//! The difference of two texts in the format of `diff -u`: hunks of changed lines with three lines of context.
//!
//! The longest run of equal lines is kept, then the longest before and after it, and so on, as in Python's difflib.
//! In long texts, lines that make up more than one percent do not start a run.
//!
//! Texts with little in common take time proportional to the product of their lengths. After [`MAX_STEPS`] no more
//! runs are searched: the rest is shown as changed.

use std::collections::HashMap;
use std::ops::Range;

use serde_json::Value;

use crate::rules::go_structs;

/// Lines of context.
const CONTEXT: usize = 3;
/// From this length on, frequent lines are ignored.
const LONG: usize = 200;

/// The largest number of compared pairs of lines. Real pod specs take a few thousand.
const MAX_STEPS: usize = 200_000;

/// Equal lines of both texts.
#[derive(Clone, Copy)]
struct Run {
    old: usize,
    new: usize,
    len: usize,
}

/// A section of both texts, equal or not.
#[derive(Clone)]
struct Piece {
    old: Range<usize>,
    new: Range<usize>,
    same: bool,
}

/// The difference of two objects, printed as Go structs.
pub(crate) fn of_structs(go_type: &str, old: &Value, new: &Value) -> String {
    unified_diff(&go_structs::lines(go_type, old), &go_structs::lines(go_type, new))
}

/// The hunks; empty if the texts are equal.
fn unified_diff(old: &[String], new: &[String]) -> String {
    let mut out = String::new();
    for hunk in hunks(&pieces(old, new)) {
        let span = |of: fn(&Piece) -> &Range<usize>| of(&hunk[0]).start..of(&hunk[hunk.len() - 1]).end;
        let (olds, news) = (span(|piece| &piece.old), span(|piece| &piece.new));
        out += &format!("@@ -{} +{} @@\n", place(&olds), place(&news));
        for piece in &hunk {
            let mut put = |sign: char, lines: &[String]| {
                for line in lines {
                    out += &format!("{sign}{line}\n");
                }
            };
            if piece.same {
                put(' ', &old[piece.old.clone()]);
            } else {
                put('-', &old[piece.old.clone()]);
                put('+', &new[piece.new.clone()]);
            }
        }
    }
    out
}

/// The first line and the number of lines.
fn place(lines: &Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        count => format!("{},{count}", lines.start + 1),
    }
}

/// Adjacent changes, with their context.
fn hunks(pieces: &[Piece]) -> Vec<Vec<Piece>> {
    let mut hunks = vec![Vec::new()];
    for (index, piece) in pieces.iter().enumerate() {
        let mut piece = piece.clone();
        let (is_first, is_last) = (index == 0, index + 1 == pieces.len());
        let len = piece.old.len();
        if !piece.same || (!is_first && !is_last && len <= 2 * CONTEXT) {
            hunks.last_mut().expect("never empty").push(piece);
            continue;
        }
        if !is_first {
            let kept = len.min(CONTEXT);
            let head = Piece {
                old: piece.old.start..piece.old.start + kept,
                new: piece.new.start..piece.new.start + kept,
                same: true,
            };
            hunks.last_mut().expect("never empty").push(head);
            hunks.push(Vec::new());
        }
        if !is_last {
            let skipped = len.saturating_sub(CONTEXT);
            piece.old.start += skipped;
            piece.new.start += skipped;
            hunks.last_mut().expect("never empty").push(piece);
        }
    }
    hunks.retain(|hunk| hunk.iter().any(|piece| !piece.same));
    hunks
}

fn pieces(old: &[String], new: &[String]) -> Vec<Piece> {
    let places = places(new);
    let (mut runs, mut steps) = (Vec::new(), 0);
    let mut pending = vec![(0..old.len(), 0..new.len())];
    while let Some((olds, news)) = pending.pop() {
        let run = longest_run(old, new, &places, &olds, &news, &mut steps);
        if run.len > 0 {
            pending.push((olds.start..run.old, news.start..run.new));
            pending.push((run.old + run.len..olds.end, run.new + run.len..news.end));
            runs.push(run);
        }
    }
    runs.sort_by_key(|run| run.old);
    let mut pieces: Vec<Piece> = Vec::new();
    let (mut i, mut j) = (0, 0);
    let end = Run {
        old: old.len(),
        new: new.len(),
        len: 0,
    };
    for run in runs.into_iter().chain([end]) {
        if i < run.old || j < run.new {
            pieces.push(Piece {
                old: i..run.old,
                new: j..run.new,
                same: false,
            });
        }
        (i, j) = (run.old + run.len, run.new + run.len);
        match pieces.last_mut() {
            _ if run.len == 0 => {}
            // Adjacent runs are joined.
            Some(last) if last.same => {
                last.old.end = i;
                last.new.end = j;
            }
            _ => pieces.push(Piece {
                old: run.old..i,
                new: run.new..j,
                same: true,
            }),
        }
    }
    pieces
}

/// The positions of each line, without frequent ones.
fn places(lines: &[String]) -> HashMap<&str, Vec<usize>> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, line) in lines.iter().enumerate() {
        places.entry(line).or_default().push(index);
    }
    if lines.len() >= LONG {
        places.retain(|_, places| places.len() <= lines.len() / 100 + 1);
    }
    places
}

/// The longest run of equal lines within both ranges; the first of several.
fn longest_run(
    old: &[String],
    new: &[String],
    places: &HashMap<&str, Vec<usize>>,
    olds: &Range<usize>,
    news: &Range<usize>,
    steps: &mut usize,
) -> Run {
    let mut best = Run {
        old: olds.start,
        new: news.start,
        len: 0,
    };
    // The lengths of runs that end at the line before, by their end in the new text.
    let mut lengths: HashMap<usize, usize> = HashMap::new();
    for i in olds.clone() {
        let mut next = HashMap::new();
        let here = places.get(old[i].as_str()).map_or(&[][..], Vec::as_slice);
        *steps += 1 + here.len();
        if *steps > MAX_STEPS {
            break;
        }
        for &j in here.iter().filter(|j| news.contains(j)) {
            let before = if j == 0 { None } else { lengths.get(&(j - 1)) };
            let len = before.copied().unwrap_or_default() + 1;
            next.insert(j, len);
            if len > best.len {
                best = Run {
                    old: i + 1 - len,
                    new: j + 1 - len,
                    len,
                };
            }
        }
        lengths = next;
    }
    // Frequent lines do not start a run, but can extend one.
    while best.old > olds.start && best.new > news.start && old[best.old - 1] == new[best.new - 1] {
        best.old -= 1;
        best.new -= 1;
        best.len += 1;
    }
    while best.old + best.len < olds.end
        && best.new + best.len < news.end
        && old[best.old + best.len] == new[best.new + best.len]
    {
        best.len += 1;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(old: &str, new: &str, expected: &str) {
        let lines = |text: &str| text.chars().map(String::from).collect::<Vec<_>>();
        let shown = unified_diff(&lines(old), &lines(new)).replace('\n', "|");
        assert_eq!(shown, expected, "{old} {new}");
    }

    #[test]
    fn texts_with_little_in_common_are_compared_in_bounded_time() {
        let text = |sign: char| -> Vec<String> {
            (0..20_000)
                .map(|line| match line % 3 {
                    0 => format!("{sign}{line}"),
                    _ => format!("{}", line % 150),
                })
                .collect()
        };
        let (old, new) = (text('a'), text('b'));
        let shown = unified_diff(&old, &new);
        let count = |sign: char| shown.lines().filter(|line| line.starts_with(sign)).count();
        let kept = count(' ');
        assert_eq!((count('-') + kept, count('+') + kept), (old.len(), new.len()));
    }

    #[test]
    fn changes_are_shown_with_context() {
        check("abc", "abc", "");
        check("abcdefgh", "abcdXfgh", "@@ -2,7 +2,7 @@| b| c| d|-e|+X| f| g| h|");
        check("abcdefgh", "abcdefghi", "@@ -6,3 +6,4 @@| f| g| h|+i|");
        check("a", "b", "@@ -1 +1 @@|-a|+b|");
        check(
            "abcdefghijklmnop",
            "Xbcdefghijklmnop".replace('p', "Y").as_str(),
            "@@ -1,4 +1,4 @@|-a|+X| b| c| d|@@ -13,4 +13,4 @@| m| n| o|-p|+Y|",
        );
    }
}
