//! The output of a write: a line about the result, or the object in the format of `-o`.

use std::io::Write as _;

use clap::Args;
use watchkeeper_client::DynamicApi;
use watchkeeper_wire::Object;

use crate::failure::Failure;
use crate::format::{Format, complete};
use crate::session::Session;

/// The output options of a write.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Printing {
    /// Print the object: json, yaml, name, jsonpath=…, custom-columns=…
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<String>,
}

/// A written object.
pub(crate) struct Written {
    pub(crate) api: DynamicApi,
    pub(crate) object: Object,
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
                let resource = written.api.resource();
                let mut object = written.object.to_value().map_err(Failure::other)?;
                complete(&mut object, resource, false);
                format.print(resource, &object, false, &mut session.out)?;
            }
        }
        Ok(session.out.flush()?)
    }
}
