//! The output of a write: a line about the result, or the object in the format of `-o`.

use std::io::Write as _;

use clap::Args;
use serde_json::Value;
use watchkeeper_meta::Resource;

use crate::failure::Failure;
use crate::format::{Format, complete};
use crate::session::Session;

/// The output options of a write.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Printing {
    /// Print the object: json, yaml, name, jsonpath=…, custom-columns=…
    #[arg(short, long, value_name = "FORMAT", global = true)]
    output: Option<String>,
}

/// A written object.
pub(crate) struct Written {
    pub(crate) resource: Resource,
    pub(crate) object: Value,
    /// `configmap/a created`.
    pub(crate) line: String,
}

/// The parsed output options.
pub(crate) struct WritePrinter(Option<Format>);

impl Printing {
    /// Parses the options, before anything is written.
    pub(crate) fn printer(&self) -> Result<WritePrinter, Failure> {
        let format = self.output.as_deref().map(Format::parse).transpose()?;
        match format {
            Some(format) if format.is_table() => Err(Failure::text("-o wide is for get")),
            format => Ok(WritePrinter(format)),
        }
    }
}

impl WritePrinter {
    pub(crate) fn show(&self, written: Written, session: &mut Session) -> Result<(), Failure> {
        match &self.0 {
            None => writeln!(session.out, "{}", written.line)?,
            Some(format) => {
                let Written {
                    resource, mut object, ..
                } = written;
                complete(&mut object, &resource, false);
                format.print(&resource, &object, false, &mut session.out)?;
            }
        }
        Ok(session.out.flush()?)
    }
}
