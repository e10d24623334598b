//! All objects of a kind as values, for code that reacts to every change of any of them. After a change only the
//! changed objects are read; of the others, only versions are compared.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use watchkeeper_meta::Status;
use watchkeeper_storage::{Key, KeyValue, RangeRequest, Revision};

use crate::definition::Definition;
use crate::object::StoredObject;
use crate::reader::Reader;

/// The objects of one kind, as they were when they were last read.
#[derive(Debug, Default)]
pub(crate) struct Values {
    by_key: BTreeMap<Key, StoredValue>,
}

/// An object as it was read.
#[derive(Clone, Debug)]
pub(crate) struct StoredValue {
    pub(crate) value: Arc<Value>,
    /// When it was created.
    pub(crate) created: Revision,
    /// When it got this value.
    changed: Revision,
}

/// An object that came, changed or went between two reads.
pub(crate) struct ValueChange {
    pub(crate) key: Key,
    pub(crate) before: Option<Arc<Value>>,
    pub(crate) now: Option<Arc<Value>>,
}

impl Values {
    pub(crate) fn get(&self, key: &str) -> Option<&StoredValue> {
        self.by_key.get(key)
    }

    /// The objects, in the order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Value>> {
        self.by_key.values().map(|stored| &stored.value)
    }

    /// Reads what has changed since the last time. Nothing changes here if an object cannot be read.
    pub(crate) async fn refresh(
        &mut self,
        reader: &Reader,
        definition: &Definition,
    ) -> Result<Vec<ValueChange>, Status> {
        let prefix = definition.prefix("");
        let request = RangeRequest {
            prefix: &prefix,
            ..RangeRequest::default()
        };
        let range = reader.store().range(&request).await;
        let items = range.map_err(Status::internal_error)?.items;
        let (new, gone) = self.compare(&items);
        let new = new
            .into_iter()
            .map(|item| Ok((item.key.clone(), StoredValue::read(item, definition)?)));
        let new: Vec<(Key, StoredValue)> = new.collect::<Result<_, Status>>()?;
        let gone = gone.into_iter().map(|key| self.remove(key));
        let mut changes: Vec<ValueChange> = gone.collect();
        changes.extend(new.into_iter().map(|(key, stored)| self.put(key, stored)));
        Ok(changes)
    }

    /// The new items, and the keys of known ones that are missing. Both sides are in the order of keys.
    fn compare<'i>(&self, items: &'i [KeyValue]) -> (Vec<&'i KeyValue>, Vec<Key>) {
        let (mut new, mut gone) = (Vec::new(), Vec::new());
        let mut known = self.by_key.iter().peekable();
        for item in items {
            while let Some((key, _)) = known.next_if(|(key, _)| **key < item.key) {
                gone.push(key.clone());
            }
            let same = known.next_if(|(key, _)| **key == item.key);
            if same.is_none_or(|(_, stored)| stored.changed != item.mod_revision) {
                new.push(item);
            }
        }
        gone.extend(known.map(|(key, _)| key.clone()));
        (new, gone)
    }

    fn remove(&mut self, key: Key) -> ValueChange {
        let before = self.by_key.remove(&key).map(|before| before.value);
        ValueChange {
            key,
            before,
            now: None,
        }
    }

    fn put(&mut self, key: Key, stored: StoredValue) -> ValueChange {
        let now = Some(stored.value.clone());
        let before = self.by_key.insert(key.clone(), stored);
        ValueChange {
            key,
            before: before.map(|before| before.value),
            now,
        }
    }
}

impl StoredValue {
    fn read(item: &KeyValue, definition: &Definition) -> Result<Self, Status> {
        let value = StoredObject::from(item).to_value(definition)?;
        Ok(Self {
            value: Arc::new(value),
            created: item.create_revision,
            changed: item.mod_revision,
        })
    }
}

#[cfg(test)]
mod tests {
    use watchkeeper_kinds::builtin;
    use watchkeeper_storage::{Store, StoreOptions};

    use super::*;
    use crate::{Body, Format, Registry, WriteContext};

    /// The names of what has changed, with a sign.
    async fn changed(values: &mut Values, registry: &Registry, definition: &Definition) -> Vec<String> {
        let changes = values.refresh(registry, definition).await.unwrap();
        let told = changes.iter().map(|change| {
            let sign = match (&change.before, &change.now) {
                (None, Some(_)) => '+',
                (Some(_), Some(_)) => '~',
                _ => '-',
            };
            format!("{sign}{}", change.key.rsplit('/').next().unwrap())
        });
        told.collect()
    }

    #[tokio::test]
    async fn only_what_changed_is_read_again() {
        let registry = Registry::open(Store::memory(StoreOptions::default()))
            .await
            .unwrap();
        let classes = registry.builtin(&builtin::PRIORITY_CLASS).unwrap();
        let mut values = Values::default();
        changed(&mut values, &registry, &classes).await;
        let create = async |name: &str| {
            let text = format!(r#"{{"metadata":{{"name":"{name}"}},"value":1}}"#);
            let (format, bytes) = (Format::Json, text.as_bytes());
            let context = WriteContext::default();
            let made = registry.create(&classes, "", Body { format, bytes }, &context);
            made.await.unwrap();
        };
        create("a").await;
        create("b").await;
        assert_eq!(changed(&mut values, &registry, &classes).await, ["+a", "+b"]);
        assert!(changed(&mut values, &registry, &classes).await.is_empty());
        let key = classes.key("", "a");
        let found = registry.store().get(&key, None).await.unwrap().unwrap();
        registry.store().delete(&key, found.mod_revision).await.unwrap();
        assert_eq!(changed(&mut values, &registry, &classes).await, ["-a"]);
        create("a").await;
        assert_eq!(changed(&mut values, &registry, &classes).await, ["+a"]);
    }
}
