//! Reads one object, or a list in pages of one snapshot.

use futures_util::future::BoxFuture;
use watchkeeper_meta::{GetOptions, ListOptions, Status};
use watchkeeper_storage::{KeyValue, RangeRequest, ReadAt, ReadError, Revision};

use crate::continue_token::ContinueToken;
use crate::definition::Definition;
use crate::object::StoredObject;
use crate::read_version::{self, ListState};
use crate::reader::Reader;
use crate::selection::Selection;

/// The number of stored objects examined in one step when a selector filters a page.
const FILTER_STEP: usize = 1_000;

/// The number of times a page restarts because its revision was compacted. After that the client must retry.
const MAX_RESTARTS: usize = 8;

/// A page of a list, or all of it if no limit was requested.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// The objects as the store has them, in the order of their keys. See [`objects`](Self::objects).
    pub items: Vec<KeyValue>,
    /// The revision that every page of this list shows.
    pub revision: Revision,
    /// The token of the next page, if there is one.
    pub continue_token: Option<String>,
    /// The number of objects after this page; unknown with a selector.
    pub remaining: Option<u64>,
    /// The shard selector, if this is a sharded list.
    pub shard_selector: Option<String>,
}

impl Reader {
    /// Reads one object.
    pub async fn get(
        &self,
        definition: &Definition,
        namespace: &str,
        name: &str,
        options: &GetOptions,
    ) -> Result<StoredObject, Status> {
        // An invalid version is an internal error in Kubernetes, not a bad request.
        let awaited = read_version::parse(&options.resource_version).map_err(Status::unclassified)?;
        read_version::reached(self.store(), awaited).await?;
        // A stated version means that one or a later one, not the latest.
        let at = match options.resource_version.is_unset() {
            true => ReadAt::Latest,
            false => ReadAt::Visible,
        };
        self.find_at(definition, namespace, name, at)
            .await?
            .ok_or_else(|| Status::not_found(&definition.group_resource(), name))
    }

    /// Reads one object, if it exists.
    pub(crate) async fn find(
        &self,
        definition: &Definition,
        namespace: &str,
        name: &str,
    ) -> Result<Option<StoredObject>, Status> {
        self.find_at(definition, namespace, name, ReadAt::Latest).await
    }

    /// Reads one object in its stored version, if it exists.
    pub(crate) async fn find_stored(
        &self,
        definition: &Definition,
        namespace: &str,
        name: &str,
        at: ReadAt,
    ) -> Result<Option<StoredObject>, Status> {
        let found = self.store().get(&definition.key(namespace, name), at).await;
        let found = found.map_err(Status::internal_error)?;
        Ok(found.as_ref().map(StoredObject::from))
    }

    async fn find_at(
        &self,
        definition: &Definition,
        namespace: &str,
        name: &str,
        at: ReadAt,
    ) -> Result<Option<StoredObject>, Status> {
        match self.find_stored(definition, namespace, name, at).await? {
            // Boxed: few reads need a webhook.
            Some(found) if definition.converter.is_some() => {
                self.one_in_served_version(definition, found).await.map(Some)
            }
            found => Ok(found),
        }
    }

    /// Lists the objects of a namespace, or of all if `namespace` is empty.
    pub fn list<'a>(
        &'a self,
        definition: &'a Definition,
        namespace: &'a str,
        options: &'a ListOptions,
    ) -> BoxFuture<'a, Result<List, Status>> {
        Box::pin(async move {
            let state = ListState::of(options)?;
            let selection = Selection::checked(self, definition, options)?;
            if let Some(revision) = state.awaited() {
                read_version::reached(self.store(), revision).await?;
            }
            if let ListState::Continued(token) = &state
                && token.revision > Some(self.store().current_revision())
            {
                // The previous page may come from another server that shares the store and is ahead of this one.
                self.store().refresh().await.map_err(Status::internal_error)?;
            }
            let limit = match state {
                ListState::Any => None,
                // A token with resourceVersion 0 only states the start; everything after it is sent.
                _ if options.resource_version.is_any() => None,
                _ => options
                    .limit
                    .filter(|limit| *limit > 0)
                    .map(|limit| limit as usize),
            };
            let mut list = self.page(definition, namespace, &selection, state, limit).await?;
            list.shard_selector = options.shard_selector.clone().filter(|_| selection.is_shard());
            Ok(list)
        })
    }

    /// The selected objects of one revision, up to a limit.
    pub(crate) async fn page(
        &self,
        definition: &Definition,
        namespace: &str,
        selection: &Selection,
        state: ListState,
        limit: Option<usize>,
    ) -> Result<List, Status> {
        let prefix = definition.prefix(namespace);
        let begin = || match &state {
            ListState::Exactly(revision) => (ReadAt::Revision(*revision), None),
            ListState::Continued(token) => (token.revision.into(), Some(format!("{prefix}{}", token.after))),
            ListState::Any | ListState::NotOlderThan(_) => (ReadAt::Visible, None),
            ListState::Latest => (ReadAt::Latest, None),
        };
        let (mut at, mut after) = begin();
        let mut beginnings = 1;
        let wanted = limit.unwrap_or(usize::MAX);
        let mut list = List::default();
        loop {
            let request = RangeRequest {
                prefix: &prefix,
                start_after: after.as_deref(),
                limit: step(limit, selection),
                at,
            };
            let range = match self.store().range(&request).await {
                // Compacted between two steps. The client requested no revision, so the page restarts at a later one.
                Err(ReadError::Compacted { .. })
                    if beginnings < MAX_RESTARTS && !matches!(begin().0, ReadAt::Revision(_)) =>
                {
                    beginnings += 1;
                    (at, after) = begin();
                    list = List::default();
                    continue;
                }
                range => range.map_err(|error| expired(error, &state))?,
            };
            list.revision = range.revision;
            let (found, more) = (range.items.len(), range.more());
            after = range.items.last().map(|last| last.key.to_string());
            if selection.is_everything() {
                list.items.reserve(found);
            }
            let mut items = range.items;
            if definition.converter.is_some() {
                // Boxed: few lists need a webhook.
                self.serve_items(definition, &mut items).await?;
            }
            for (index, item) in items.into_iter().enumerate() {
                if !selection.is_everything() && !selection.matches(definition, &StoredObject::from(&item))? {
                    continue;
                }
                let key = item.key.clone();
                list.items.push(item);
                if list.items.len() == wanted {
                    let left = range.remaining + found - index - 1;
                    list.end_at(&key[prefix.len()..], left, selection);
                    return Ok(list);
                }
            }
            if !more {
                return Ok(list);
            }
            at = ReadAt::Revision(range.revision);
        }
    }

    /// Converts items to the version that a definition serves.
    fn serve_items<'a>(
        &'a self,
        definition: &'a Definition,
        items: &'a mut [KeyValue],
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let stored = items.iter().map(StoredObject::from).collect();
            let served = self.in_served_version(definition, stored).await?;
            for (item, served) in items.iter_mut().zip(served) {
                item.value = served.bytes.into();
            }
            Ok(())
        })
    }
}

impl List {
    /// The objects, in the order of their keys. Each is made when it is its turn, so that a long list does not need the
    /// bytes of all of them at once.
    pub fn objects(&self) -> impl Iterator<Item = StoredObject> + '_ {
        self.items.iter().map(StoredObject::from)
    }

    /// Ends a full page; `left` keys follow it, selected or not.
    fn end_at(&mut self, last: &str, left: usize, selection: &Selection) {
        if left > 0 {
            let token = ContinueToken {
                revision: Some(self.revision),
                after: last.to_owned(),
            };
            self.continue_token = Some(token.encode());
            self.remaining = selection.is_everything().then_some(left as u64);
        }
    }
}

/// The number of objects to read at once: exactly a page if there is no selector.
fn step(limit: Option<usize>, selection: &Selection) -> Option<usize> {
    match limit {
        None => None,
        Some(limit) if selection.is_everything() => Some(limit),
        Some(_) => Some(FILTER_STEP),
    }
}

/// The error for a compacted revision.
fn expired(error: ReadError, state: &ListState) -> Status {
    match (error, state) {
        (ReadError::Compacted { .. }, ListState::Continued(token)) => {
            let rest = ContinueToken {
                revision: None,
                after: token.after.clone(),
            };
            Status::continue_expired(&rest.encode())
        }
        (ReadError::Compacted { .. }, _) => Status::list_expired(),
        (ReadError::Future { requested, current }, _) => {
            Status::too_large_resource_version(requested.get(), current.get(), 1)
        }
        (error, _) => Status::internal_error(error),
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::SystemTime;

    use bytes::Bytes;
    use futures_util::FutureExt;
    use watchkeeper_kinds::builtin;
    use watchkeeper_storage::{ImportedChange, LateValue, Snapshot, Store, StoreOptions, Value};
    use watchkeeper_wire::Encoding;

    use super::*;
    use crate::Registry;
    use crate::encode::{self, OutputForm, View};

    /// More objects than are read before the task yields.
    const MANY: usize = 20 * FILTER_STEP;

    #[tokio::test]
    async fn a_list_without_a_version_does_not_expire() {
        let store = Store::memory(StoreOptions::default());
        let registry = Registry::open(store.clone()).await.unwrap();
        let namespaces = registry.builtin(&watchkeeper_kinds::builtin::NAMESPACE).unwrap();
        let default = registry.find(&namespaces, "", "default").await.unwrap().unwrap();
        for number in 0..MANY {
            let key = namespaces.key("", &format!("copy-{number}"));
            store.create(&key, default.bytes.clone(), None).await.unwrap();
        }
        let options = ListOptions {
            limit: Some(10),
            label_selector: "kubernetes.io/metadata.name=kube-system".parse().unwrap(),
            ..ListOptions::default()
        };
        let mut list = pin!(registry.list(&namespaces, "", &options));
        assert!(list.as_mut().now_or_never().is_none(), "it was read in one step");
        let written = store.create("/other", Bytes::new(), None).await.unwrap();
        store.compact(written).await.unwrap();
        let list = list.await.unwrap();
        assert_eq!((list.items.len(), list.revision), (1, written));
    }

    /// A stored namespace that counts how often it is made.
    #[derive(Debug)]
    struct Counted(Bytes, AtomicUsize);

    impl LateValue for Counted {
        fn bytes(&self) -> Bytes {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.clone()
        }

        fn size(&self) -> usize {
            self.0.len()
        }
    }

    /// Otherwise a list would need the memory of all its objects at once.
    #[tokio::test]
    async fn late_values_are_made_when_they_are_encoded() {
        let registry = Registry::open(Store::memory(StoreOptions::default()))
            .await
            .unwrap();
        let namespaces = registry.builtin(&builtin::NAMESPACE).unwrap();
        let default = registry.find(&namespaces, "", "default").await.unwrap().unwrap();
        let late = Arc::new(Counted(default.bytes, AtomicUsize::new(0)));
        let made = || late.1.load(Ordering::Relaxed);
        let written = Revision::new(2);
        let change = ImportedChange {
            revision: written,
            key: namespaces.key("", "late").into(),
            value: Some(Value::Late(late.clone())),
            written_at: SystemTime::now(),
        };
        let past = Snapshot::import(written, written, vec![change]);
        let store = Store::fork(&past, StoreOptions::default());
        let registry = Registry::open(store).await.unwrap();
        let options = ListOptions::default();
        let before = made();
        let list = registry.list(&namespaces, "", &options).await.unwrap();
        assert!(list.items.iter().any(|item| item.key.ends_with("/late")));
        assert_eq!(made(), before);
        let form = OutputForm {
            encoding: Encoding::Json,
            view: View::Whole,
        };
        encode::list(&namespaces, list, form).unwrap();
        assert_eq!(made(), before + 1);
    }
}
