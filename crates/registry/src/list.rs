//! Reading one object, and reading many on one snapshot, in pages.

use futures_util::future::BoxFuture;
use watchkeeper_meta::{GetOptions, ListOptions, Status};
use watchkeeper_storage::{KeyValue, RangeRequest, ReadAt, ReadError, Revision};

use crate::continue_token::ContinueToken;
use crate::definition::Definition;
use crate::object::StoredObject;
use crate::read_version::{self, ListState};
use crate::reader::Reader;
use crate::selection::Selection;

/// How many stored objects are looked at in one step when a selector filters a page.
const FILTER_STEP: usize = 1_000;

/// How often a page begins again because what it had begun with was forgotten. Then the client has to.
const MAX_BEGINNINGS: usize = 8;

/// One page of a list; all of it when no limit was asked for.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// The objects, in the order of their keys.
    pub items: Vec<StoredObject>,
    /// The state of the store that every page of this list shows.
    pub revision: Revision,
    /// Where the next page starts, if there is one.
    pub continue_token: Option<String>,
    /// How many objects come after this page; unknown when a selector filters.
    pub remaining: Option<u64>,
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
        // A version that is no number is not a client's error to Kubernetes; its answer is kept.
        let awaited = read_version::parse(&options.resource_version).map_err(Status::unclassified)?;
        read_version::reached(self.store(), awaited).await?;
        // Whoever names a version wants that or a later one, not the latest.
        let at = match options.resource_version.is_unset() {
            true => ReadAt::Latest,
            false => ReadAt::Visible,
        };
        self.find_at(definition, namespace, name, at)
            .await?
            .ok_or_else(|| Status::not_found(&definition.group_resource(), name))
    }

    /// Reads one object, if it is there.
    pub(crate) async fn find(
        &self,
        definition: &Definition,
        namespace: &str,
        name: &str,
    ) -> Result<Option<StoredObject>, Status> {
        self.find_at(definition, namespace, name, ReadAt::Latest).await
    }

    /// Reads one object as it is stored, in whatever version, if it is there.
    pub(crate) async fn find_stored(
        &self,
        definition: &Definition,
        namespace: &str,
        name: &str,
        at: ReadAt,
    ) -> Result<Option<StoredObject>, Status> {
        let found = self.store().get(&definition.key(namespace, name), at).await;
        Ok(found.map_err(Status::internal_error)?.map(StoredObject::from))
    }

    async fn find_at(
        &self,
        definition: &Definition,
        namespace: &str,
        name: &str,
        at: ReadAt,
    ) -> Result<Option<StoredObject>, Status> {
        match self.find_stored(definition, namespace, name, at).await? {
            // In a box: hardly any read waits for a webhook.
            Some(found) if definition.converter.is_some() => {
                Box::pin(self.one_in_served_version(definition, found))
                    .await
                    .map(Some)
            }
            found => Ok(found),
        }
    }

    /// Reads the objects of a namespace, or of all when `namespace` is empty.
    pub fn list<'a>(
        &'a self,
        definition: &'a Definition,
        namespace: &'a str,
        options: &'a ListOptions,
    ) -> BoxFuture<'a, Result<List, Status>> {
        Box::pin(async move {
            let state = ListState::of(options)?;
            let selection = Selection::new(
                definition,
                options.label_selector.clone(),
                options.field_selector.clone(),
            )?;
            if let Some(revision) = state.awaited() {
                read_version::reached(self.store(), revision).await?;
            }
            if let ListState::Continued(token) = &state
                && token.revision > Some(self.store().current_revision())
            {
                // The page before may be from another server that shares the store and has seen more.
                self.store().refresh().await.map_err(Status::internal_error)?;
            }
            let limit = match state {
                ListState::Any => None,
                // A token that comes with "any version" says where to go on, and all the rest is sent.
                _ if options.resource_version.is_any() => None,
                _ => options
                    .limit
                    .filter(|limit| *limit > 0)
                    .map(|limit| limit as usize),
            };
            self.page(definition, namespace, &selection, state, limit).await
        })
    }

    /// The objects of one state that are selected, up to a limit.
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
                // Compacted between two steps, and the client has named no state: the page begins again at a later one.
                Err(ReadError::Compacted { .. })
                    if beginnings < MAX_BEGINNINGS && !matches!(begin().0, ReadAt::Revision(_)) =>
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
                // In a box: hardly any list waits for a webhook.
                Box::pin(self.serve_items(definition, &mut items)).await?;
            }
            for (index, item) in items.into_iter().enumerate() {
                let key = item.key;
                let object = StoredObject {
                    bytes: item.value,
                    revision: Some(item.mod_revision),
                };
                if !selection.matches(definition, &object)? {
                    continue;
                }
                list.items.push(object);
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

    /// Converts items of the store to the version that a definition serves.
    async fn serve_items(&self, definition: &Definition, items: &mut [KeyValue]) -> Result<(), Status> {
        let stored = items.iter().cloned().map(StoredObject::from).collect();
        let served = self.in_served_version(definition, stored).await?;
        for (item, served) in items.iter_mut().zip(served) {
            item.value = served.bytes;
        }
        Ok(())
    }
}

impl List {
    /// Ends a full page: `left` keys come after it, selected or not.
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

/// How much to read at once: exactly a page when everything in it counts.
fn step(limit: Option<usize>, selection: &Selection) -> Option<usize> {
    match limit {
        None => None,
        Some(limit) if selection.is_everything() => Some(limit),
        Some(_) => Some(FILTER_STEP),
    }
}

/// What a client hears when the state it reads is no longer kept.
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

    use bytes::Bytes;
    use futures_util::FutureExt;
    use watchkeeper_storage::{Store, StoreOptions};

    use super::*;
    use crate::Registry;

    /// More objects than are read without letting others run in between.
    const MANY: usize = 20 * FILTER_STEP;

    #[tokio::test]
    async fn a_list_that_names_no_version_does_not_expire() {
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
        assert!(list.as_mut().now_or_never().is_none(), "it was read in one go");
        let written = store.create("/other", Bytes::new(), None).await.unwrap();
        store.compact(written).await.unwrap();
        let list = list.await.unwrap();
        assert_eq!((list.items.len(), list.revision), (1, written));
    }
}
