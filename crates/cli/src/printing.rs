//! What a write prints: a line that says what was done, or the object itself as `-o` wants it.

use std::io::Write as _;

use clap::Args;
use watchkeeper_client::DynamicApi;
use watchkeeper_wire::Object;

use crate::failure::Failure;
use crate::format::{Format, complete};
use crate::session::Session;

/// How, as typed.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Printing {
    /// Print the object instead: json, yaml, name, jsonpath=…, custom-columns=…
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<String>,
}

/// An object that was written.
pub(crate) struct Written {
    pub(crate) api: DynamicApi,
    pub(crate) object: Object,
    /// `configmap/a created`.
    pub(crate) line: String,
}

/// How, as understood.
pub(crate) struct WritePrinter(Option<Format>);

impl Printing {
    /// Understands it, before anything is written.
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
