//! Parses the rows of the table into maps by name.

use std::collections::BTreeMap;

use crate::GenerateError;

/// The parsed rows.
#[derive(Default, Debug)]
pub struct Table<'a> {
    /// Structs by name.
    pub structs: BTreeMap<&'a str, Struct<'a>>,
    /// Aliases by name.
    pub aliases: BTreeMap<&'a str, Alias<'a>>,
    /// The constants that defaults refer to.
    pub constants: BTreeMap<&'a str, &'a str>,
}

/// A `struct` row with its `field` rows.
#[derive(Default, Debug)]
pub struct Struct<'a> {
    /// `structType=atomic`, `union`.
    pub markers: Vec<&'a str>,
    /// The fields in the order of their declaration.
    pub fields: Vec<FieldRow<'a>>,
}

/// An `alias` row with its `value` rows.
#[derive(Default, Debug)]
pub struct Alias<'a> {
    /// The underlying type.
    pub underlying: &'a str,
    /// True if its values are a closed set.
    pub closed: bool,
    /// Its constants.
    pub values: Vec<&'a str>,
}

/// A `field` row.
#[derive(Default, Debug)]
pub struct FieldRow<'a> {
    /// The JSON name; empty if embedded.
    pub name: &'a str,
    /// The type as declared.
    pub declared: &'a str,
    /// The protobuf number; 0 if there is none.
    pub number: u32,
    /// `omitempty`, `omitzero`.
    pub flags: Vec<&'a str>,
    /// `merge`, `retainKeys`, `replace`.
    pub patch_strategy: Vec<&'a str>,
    /// The merge key; empty if there is none.
    pub patch_merge_key: &'a str,
    /// `optional`, `listType=map`, `listMapKey=name`.
    pub markers: Vec<&'a str>,
}

impl<'a> Table<'a> {
    /// Parses tables one after another.
    pub fn read(tables: &[&'a str]) -> Result<Self, GenerateError> {
        let mut table = Self::default();
        for text in tables {
            for (index, line) in text.lines().enumerate() {
                table.row(line).map_err(|reason| GenerateError::Row {
                    line: index + 1,
                    reason,
                })?;
            }
        }
        Ok(table)
    }

    fn row(&mut self, line: &'a str) -> Result<(), String> {
        let columns: Vec<&'a str> = line.split('\t').collect();
        let column = |index: usize| columns.get(index).copied().unwrap_or_default();
        let name = column(1);
        match column(0) {
            "struct" => self.structs.entry(name).or_default().markers = split(column(2), ';'),
            "alias" => {
                let alias = self.aliases.entry(name).or_default();
                alias.underlying = column(2);
                alias.closed = column(3) == "enum";
            }
            "value" => self.aliases.entry(name).or_default().values.push(column(2)),
            "constant" => drop(self.constants.insert(name, column(2))),
            "field" => {
                let number = match column(4) {
                    "" => 0,
                    number => number
                        .parse()
                        .map_err(|_| format!("{number} is not a field number"))?,
                };
                let owner = self
                    .structs
                    .get_mut(name)
                    .ok_or_else(|| format!("no struct {name}"))?;
                owner.fields.push(FieldRow {
                    name: column(2),
                    declared: column(3),
                    number,
                    flags: split(column(6), ','),
                    patch_strategy: split(column(7), ','),
                    patch_merge_key: column(8),
                    markers: split(column(9), ';'),
                });
            }
            other => return Err(format!("unknown row {other}")),
        }
        Ok(())
    }
}

fn split(text: &str, separator: char) -> Vec<&str> {
    text.split(separator).filter(|part| !part.is_empty()).collect()
}
