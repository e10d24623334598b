//! A list of structs that are decoded one by one.
//!
//! Structs are much larger than their bytes (a pod of 1.4 kB takes 18 kB), so a list keeps the bytes, and iterating
//! holds one struct at a time. Each item is a result: the struct, or the error.

use std::fmt;
use std::iter::{Cloned, Peekable};
use std::marker::PhantomData;
use std::{slice, vec};

use serde::de::DeserializeOwned;
use watchkeeper_wire::{ListHead, Object};

use crate::dynamic::Asked;
use crate::error::Error;
use crate::list::{ObjectList, Undecodable};

/// The objects of a list, decoded while iterating.
///
/// ```no_run
/// # use watchkeeper_client::{Client, Error, ResourceType};
/// # async fn example<Pod: ResourceType>(client: Client) -> Result<(), Error> {
/// let pods = client.api::<Pod>().namespace("default").list().await?;
/// for pod in &pods {
///     let pod: Pod = pod?;
/// }
/// let all: Vec<Pod> = pods.into_vec()?;
/// # Ok(())
/// # }
/// ```
/// An item that cannot be decoded is an error of its own and does not hide the others.
pub struct List<K> {
    /// Version, continue token and count.
    pub head: ListHead,
    objects: Vec<Object>,
    undecodable: Vec<Undecodable>,
    asked: Asked,
    kind: PhantomData<fn() -> K>,
}

impl<K: DeserializeOwned> List<K> {
    pub(super) fn new(list: ObjectList, asked: Asked) -> Self {
        Self {
            head: list.head,
            objects: list.items,
            undecodable: list.undecodable,
            asked,
            kind: PhantomData,
        }
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.objects.len() + self.undecodable.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The undecoded objects: names, labels and versions can be read without decoding.
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// Decodes one item after the other, in the server's order; the list is kept.
    pub fn iter(&self) -> ListIter<'_, K> {
        let (objects, undecodable) = (self.objects.iter(), self.undecodable.iter());
        Items::new(objects.cloned(), undecodable.cloned(), self.asked.clone())
    }

    /// Decodes all items; the first error fails them all.
    pub fn into_vec(self) -> Result<Vec<K>, Error> {
        self.into_iter().collect()
    }
}

impl<'a, K: DeserializeOwned> IntoIterator for &'a List<K> {
    type Item = Result<K, Error>;
    type IntoIter = ListIter<'a, K>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Each object is freed as soon as its struct is decoded.
impl<K: DeserializeOwned> IntoIterator for List<K> {
    type Item = Result<K, Error>;
    type IntoIter = ListIntoIter<K>;

    fn into_iter(self) -> Self::IntoIter {
        let (objects, undecodable) = (self.objects.into_iter(), self.undecodable.into_iter());
        Items::new(objects, undecodable, self.asked)
    }
}

impl<K> fmt::Debug for List<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("List")
            .field("head", &self.head)
            .field("objects", &self.objects)
            .field("undecodable", &self.undecodable)
            .finish()
    }
}

/// Iterator over a borrowed list; see [`List::iter`].
pub type ListIter<'a, K> = Items<Cloned<slice::Iter<'a, Object>>, Cloned<slice::Iter<'a, Undecodable>>, K>;

/// Iterator over an owned list.
pub type ListIntoIter<K> = Items<vec::IntoIter<Object>, vec::IntoIter<Undecodable>, K>;

/// The structs of a list, with an error for each item that cannot be decoded.
pub struct Items<O, U: Iterator, K> {
    objects: O,
    undecodable: Peekable<U>,
    /// The position of the next item.
    position: usize,
    asked: Asked,
    kind: PhantomData<fn() -> K>,
}

impl<O, U: Iterator, K> Items<O, U, K> {
    fn new(objects: O, undecodable: U, asked: Asked) -> Self {
        Self {
            objects,
            undecodable: undecodable.peekable(),
            position: 0,
            asked,
            kind: PhantomData,
        }
    }
}

impl<O, U, K> Iterator for Items<O, U, K>
where
    O: ExactSizeIterator<Item = Object>,
    U: ExactSizeIterator<Item = Undecodable>,
    K: DeserializeOwned,
{
    type Item = Result<K, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let position = self.position;
        self.position += 1;
        if let Some(item) = self.undecodable.next_if(|item| item.position == position) {
            return Some(Err(self.asked.unreadable_item(position, &item.error)));
        }
        let decoded = self.objects.next()?.decode();
        Some(decoded.map_err(|error| self.asked.unreadable_item(position, &error)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.objects.len() + self.undecodable.len();
        (left, Some(left))
    }
}

impl<O, U, K> ExactSizeIterator for Items<O, U, K>
where
    Self: Iterator,
    O: ExactSizeIterator<Item = Object>,
    U: ExactSizeIterator<Item = Undecodable>,
{
}

impl<O, U: Iterator, K> fmt::Debug for Items<O, U, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Items")
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}
