//! klog's format: `Lmmdd hh:mm:ss.uuuuuu process file:line] "message" key="value"`.

use std::fmt::Write as _;

use super::{Formatter, Record};
use crate::quote::push_quoted;

pub(super) fn line(record: &Record<'_>, formatter: &Formatter) -> String {
    let mut out = String::with_capacity(128);
    if !formatter.skip_headers {
        push_header(&mut out, record, formatter.add_dir_header);
    }
    let message = record.full_message();
    if record.values.is_empty() {
        // A message without values is printed bare, as by `klog.Info`; with values it is quoted.
        out.push_str(&message);
        return out;
    }
    push_quoted(&mut out, &message);
    for (key, value) in record.values {
        out.push(' ');
        out.push_str(key);
        value.push_klog(&mut out);
    }
    out
}

fn push_header(out: &mut String, record: &Record<'_>, with_directory: bool) {
    let file = if with_directory {
        record.short_path()
    } else {
        record.file_name()
    };
    // Writing to memory does not fail.
    let _ = write!(
        out,
        "{}{} {:>7} {file}:{}] ",
        record.severity.letter(),
        record.time.strftime("%m%d %H:%M:%S.%6f"),
        record.process,
        record.line,
    );
}
