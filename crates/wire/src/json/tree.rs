//! Parses a text directly into a tree of values, the same tree [`super::de`] would produce.

use serde::Deserialize;
use serde_json::{Error, Map, Value};

use super::de::{Json, unusual};

impl Json<'_> {
    /// Parses a value. The last of several equal keys counts; `has_duplicates` is set if there are any.
    pub(crate) fn tree(&mut self, has_duplicates: &mut bool) -> Result<Value, Error> {
        match self.peek() {
            Some(b'"') => self.owned_text().map(Value::String),
            Some(b'{') => self.tree_of_members(has_duplicates),
            Some(b'[') => self.tree_of_items(has_duplicates),
            _ => Value::deserialize(self),
        }
    }

    fn tree_of_members(&mut self, has_duplicates: &mut bool) -> Result<Value, Error> {
        let (mut members, mut is_first) = (Map::new(), true);
        self.open(b'{')?;
        while self.go_to_element(&mut is_first, b'}')? {
            let key = self.owned_text()?;
            if !self.take(b':') {
                return Err(unusual());
            }
            let value = self.tree(has_duplicates)?;
            *has_duplicates |= members.insert(key, value).is_some();
        }
        self.close(b'}')?;
        Ok(Value::Object(members))
    }

    fn tree_of_items(&mut self, has_duplicates: &mut bool) -> Result<Value, Error> {
        let (mut items, mut is_first) = (Vec::new(), true);
        self.open(b'[')?;
        while self.go_to_element(&mut is_first, b']')? {
            items.push(self.tree(has_duplicates)?);
        }
        self.close(b']')?;
        Ok(Value::Array(items))
    }

    #[inline]
    fn owned_text(&mut self) -> Result<String, Error> {
        match self.plain_text() {
            Some(text) => Ok(text.to_owned()),
            None => self.escaped_text(),
        }
    }
}
