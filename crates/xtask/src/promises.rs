//! The guarantees of `docs/security.md`: each names the test that checks it, as `file` and `function`.

use std::fs;
use std::io;

use crate::sources;

/// The page with the guarantees.
const PAGE: &str = "docs/security.md";

/// Reports guarantees whose test does not exist.
pub(crate) fn report(complaints: &mut Vec<String>) -> io::Result<()> {
    let root = sources::root()?;
    let page = fs::read_to_string(root.join(PAGE))?;
    let rows: Vec<_> = page.lines().filter_map(row).collect();
    for (promise, file, test) in &rows {
        let text = fs::read_to_string(root.join(file)).unwrap_or_default();
        if !text.contains(&format!("fn {test}(")) {
            complaints.push(format!(
                "{PAGE}: {promise:?} names {test} in {file}, which is not there"
            ));
        }
    }
    println!("{} promises in {PAGE}, each with its test", rows.len());
    Ok(())
}

/// A row of a table: `| promise | `file` `test` |`.
fn row(line: &str) -> Option<(&str, &str, &str)> {
    let (promise, tests) = line.strip_prefix('|')?.split_once('|')?;
    let mut quoted = tests.split('`').skip(1).step_by(2);
    let (file, test) = (quoted.next()?, quoted.next()?);
    Some((promise.trim(), file, test))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_name_a_test() {
        let line = "| nobody waits for ever | `crates/a/src/b.rs` `nobody_waits` |";
        assert_eq!(
            row(line),
            Some(("nobody waits for ever", "crates/a/src/b.rs", "nobody_waits"))
        );
        assert_eq!(row("| promise | test |"), None);
        assert_eq!(row("|---|---|"), None);
    }
}
