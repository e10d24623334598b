//! Managers from the text of an object. Their fields stay text: building sets of them takes longer than reading the
//! rest of the object.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Manager, Managers, Operation, OwnedFields, whole_second};

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    managed_fields: Option<Vec<Entry<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    #[serde(borrow, default)]
    manager: Cow<'a, str>,
    operation: Written,
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    time: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    subresource: Cow<'a, str>,
    #[serde(borrow, default)]
    fields_v1: Option<&'a RawValue>,
}

#[derive(Deserialize)]
enum Written {
    Apply,
    Update,
}

impl Managers {
    /// Reads the managers of an object from its JSON. Fields are not checked: invalid ones count as empty.
    pub fn of_json(object: &[u8]) -> Result<Self, serde_json::Error> {
        let document: Document<'_> = serde_json::from_slice(object)?;
        let entries = document.metadata.managed_fields.unwrap_or_default();
        Ok(Self(entries.into_iter().map(Entry::manager).collect()))
    }
}

impl Entry<'_> {
    fn manager(self) -> Manager {
        let fields = self.fields_v1.map(|fields| fields.get().as_bytes());
        Manager {
            name: self.manager.into(),
            operation: match self.operation {
                Written::Apply => Operation::Apply,
                Written::Update => Operation::Update,
            },
            api_version: self.api_version.into(),
            time: self.time.as_deref().and_then(whole_second),
            subresource: self.subresource.into(),
            fields: OwnedFields::stored(fields.unwrap_or(b"{}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn text_and_value_have_the_same_managers() {
        let check = |object: Value| {
            let read = Managers::of_json(object.to_string().as_bytes()).unwrap();
            assert_eq!(read, Managers::of(&object).unwrap(), "{object}");
        };
        check(json!({}));
        check(json!({"metadata": {"managedFields": null}}));
        check(json!({"kind": "Pod", "metadata": {"name": "a", "managedFields": [
            {"manager": "k\"l", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
             "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {".": {}, "k:{\"name\":\"a\"}": {}}}},
            {"manager": "m", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {}}},
            {"manager": "n", "operation": "Update"},
        ]}, "spec": {"managedFields": 1}}));
        assert!(Managers::of_json(br#"{"metadata":{"managedFields":[{"operation":"Guess"}]}}"#).is_err());
    }
}
