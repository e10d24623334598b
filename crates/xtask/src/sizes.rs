//! The longest functions and files. Sources are formatted, so a function ends at the brace with its indentation.

use crate::limits::{FILE_LINES, FUNCTION_LINES};
use crate::sources::{Crate, File};

/// The number of entries shown of each.
const SHOWN: usize = 5;

/// Reports the longest ones.
pub(crate) fn report(workspace: &[Crate], complaints: &mut Vec<String>) {
    let files = || workspace.iter().flat_map(|krate| &krate.files);
    let functions = files().flat_map(functions).collect();
    show("function", functions, FUNCTION_LINES, complaints);
    let whole = files().map(|file| (file.text.lines().count(), file.path.display().to_string()));
    show("file", whole.collect(), FILE_LINES, complaints);
}

fn show(what: &str, mut found: Vec<(usize, String)>, allowed: usize, complaints: &mut Vec<String>) {
    found.sort_by(|one, other| other.cmp(one));
    println!("longest {what}s of {}:", found.len());
    for (lines, name) in found.iter().take(SHOWN) {
        println!("    {lines} lines: {name}");
    }
    let long = found.iter().take_while(|(lines, _)| *lines > allowed);
    complaints
        .extend(long.map(|(lines, name)| format!("{what} of {lines} lines, {allowed} are allowed: {name}")));
}

/// The functions of a file with their lengths.
fn functions(file: &File) -> Vec<(usize, String)> {
    let (mut found, mut open) = (Vec::new(), Vec::new());
    for (number, line) in file.text.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        if let Some(name) = function_name(line.trim_start()) {
            open.push((indent, number, name.to_owned()));
        } else if line.trim_start().starts_with('}')
            && open.last().is_some_and(|(at, ..)| *at == indent)
            && let Some((_, start, name)) = open.pop()
        {
            found.push((
                number + 1 - start,
                format!("{name} ({}:{})", file.path.display(), start + 1),
            ));
        }
    }
    found
}

/// The name of the function that starts on a line; `None` if there is none, or it has no body.
fn function_name(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let is_signature = before
        .split_whitespace()
        .all(|word| matches!(word, "async" | "const" | "unsafe" | "extern") || word.starts_with("pub"));
    if !is_signature || line.ends_with(';') || line.ends_with('}') {
        return None;
    }
    rest.split(['(', '<']).next()
}
