//! Compiles the table of Kubernetes' types into the schema of the wire crate: rows in, bytes out.
//!
//! [`table`] reads the rows, [`resolve`] determines the shape of every field, [`groups`] names the kinds. The column
//! with the wire kind is not used: it is wrong in places, and the field's type determines it.

pub mod groups;
pub mod resolve;
pub mod table;

use watchkeeper_wire::schema::{Schema, SchemaError, compiled};

/// Compiles tables into the file embedded in the wire crate.
pub fn compile(tables: &[&str]) -> Result<Vec<u8>, GenerateError> {
    Ok(compiled::write(&schema(tables)?))
}

/// Compiles tables into a schema.
pub fn schema(tables: &[&str]) -> Result<Schema, GenerateError> {
    let table = table::Table::read(tables)?;
    let (types, enums) = resolve::resolve(&table)?;
    let kinds = groups::kinds(&types)?;
    Ok(Schema::new(types, enums, kinds)?)
}

/// A table that cannot be compiled.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenerateError {
    /// A malformed row.
    #[error("line {line}: {reason}")]
    Row {
        /// The line number, from 1.
        line: usize,
        /// The reason.
        reason: String,
    },
    /// A field of an undeclared type.
    #[error("{field}: type {declared} is not declared")]
    Undeclared {
        /// `core/v1.Pod.spec`.
        field: String,
        /// The type.
        declared: String,
    },
    /// A package without a known API group.
    #[error("package {0} has no API group")]
    Group(String),
    /// Inconsistent types.
    #[error(transparent)]
    Schema(#[from] SchemaError),
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: &str = include_str!("../../wire/schema/types.tsv");
    const SUPPLEMENT: &str = include_str!("../../wire/schema/supplement.tsv");
    const COMMITTED: &[u8] = include_bytes!("../../wire/schema/builtin.schema");

    #[test]
    fn the_committed_schema_is_up_to_date() {
        let made = compile(&[TYPES, SUPPLEMENT]).unwrap();
        assert!(
            made == COMMITTED,
            "run `cargo run -p watchkeeper-schemagen` and commit the result"
        );
    }

    #[test]
    fn an_undeclared_type_is_an_error() {
        let table = "struct\tcore/v1.A\nfield\tcore/v1.A\tb\t*core/v1.B\t1\tbytes";
        let error = schema(&[table]).unwrap_err();
        assert_eq!(error.to_string(), "core/v1.A.b: type core/v1.B is not declared");
    }

    #[test]
    fn a_malformed_row_is_an_error() {
        let error = schema(&["struct\tcore/v1.A\nnonsense\tcore/v1.A"]).unwrap_err();
        assert_eq!(error.to_string(), "line 2: unknown row nonsense");
    }
}
