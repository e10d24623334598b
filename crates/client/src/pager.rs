//! A long list in pages, as one stream of objects.
//!
//! A continue token is valid as long as the server's history, about five minutes. When it has expired, the server
//! offers another one that continues after the last object, at a newer version. The stream uses it, so that nothing
//! is delivered twice and nothing unchanged is missed, and then [`Pager::is_consistent`] is false. For one consistent
//! state use [`Pager::collect`], which then lists everything again, as in client-go.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_util::StreamExt;
use futures_util::future::{BoxFuture, poll_fn};
use watchkeeper_meta::{ListOptions, ResourceVersion};
use watchkeeper_wire::ListHead;

use crate::dynamic::DynamicApi;
use crate::error::Error;
use crate::list::{ListItem, ListStream, ObjectList};

/// The page size, as in client-go, so that servers see a familiar load.
pub const PAGE_SIZE: u64 = 500;

/// The objects of a long list: a [`Stream`].
pub struct Pager {
    api: DynamicApi,
    options: ListOptions,
    state: State,
    head: ListHead,
    consistent: bool,
    /// True to continue at a newer version if a token has expired.
    takes_offers: bool,
}

enum State {
    /// The page in `options` is to be requested; `offered` if its token was a replacement.
    Asking {
        offered: bool,
    },
    Asked {
        page: BoxFuture<'static, Result<ListStream, Error>>,
        offered: bool,
    },
    Reading(Box<ListStream>),
    Ended,
}

impl Pager {
    pub(crate) fn new(api: DynamicApi) -> Self {
        Self {
            api,
            options: ListOptions {
                limit: Some(PAGE_SIZE),
                ..Default::default()
            },
            state: State::Asking { offered: false },
            head: ListHead::default(),
            consistent: true,
            takes_offers: true,
        }
    }

    /// Sets the options; pages have their limit, or [`PAGE_SIZE`] objects.
    pub fn with(mut self, options: &ListOptions) -> Self {
        self.options = ListOptions {
            limit: options.limit.or(Some(PAGE_SIZE)),
            ..options.clone()
        };
        self
    }

    /// Sets the page size.
    pub fn page_size(mut self, objects: u64) -> Self {
        self.options.limit = Some(objects);
        self
    }

    /// The metadata of the last page.
    pub fn head(&self) -> &ListHead {
        &self.head
    }

    /// True if all objects so far are of one state of the server.
    pub fn is_consistent(&self) -> bool {
        self.consistent
    }

    /// The next object; requests the next page when one is used up.
    ///
    /// Cancel safe: dropping the future loses no object.
    pub async fn next(&mut self) -> Option<Result<ListItem, Error>> {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<ListItem, Error>>> {
        loop {
            match &mut self.state {
                State::Ended => return Poll::Ready(None),
                State::Asking { offered } => {
                    let (api, options) = (self.api.clone(), self.options.clone());
                    self.state = State::Asked {
                        offered: *offered,
                        page: Box::pin(async move { api.list_stream().with(&options).await }),
                    };
                }
                State::Asked { page, offered } => match (ready!(page.as_mut().poll(cx)), *offered) {
                    (Ok(page), _) => self.state = State::Reading(Box::new(page)),
                    (Err(error), false) if self.takes_offer(&error) => {}
                    (Err(error), _) => return Poll::Ready(Some(Err(self.end(error)))),
                },
                State::Reading(page) => match ready!(page.poll_next_unpin(cx)) {
                    Some(Ok(item)) => return Poll::Ready(Some(Ok(item))),
                    Some(Err(error)) => return Poll::Ready(Some(Err(self.end(error)))),
                    None => {
                        let head = page.head().clone();
                        self.turn(head);
                    }
                },
            }
        }
    }

    /// All objects of one state of the server. If a token expires on the way, everything is listed again in one
    /// answer.
    pub async fn collect(mut self) -> Result<ObjectList, Error> {
        let afresh = ListOptions {
            limit: None,
            continue_token: String::new(),
            ..self.options.clone()
        };
        self.takes_offers = false;
        let mut list = ObjectList::default();
        loop {
            match self.next().await.transpose() {
                Ok(Some(ListItem::Object(object))) => list.items.push(object),
                Ok(Some(ListItem::Undecodable(undecodable))) => list.undecodable.push(undecodable),
                Ok(None) => break,
                Err(error) if error.is_expired() && !self.options.continue_token.is_empty() => {
                    return self.api.list().with(&afresh).await;
                }
                Err(error) => return Err(error),
            }
        }
        list.head = self.head;
        Ok(list)
    }

    /// Replaces an expired token by the one the server offers; returns false if there is none.
    fn takes_offer(&mut self, error: &Error) -> bool {
        if !error.is_expired() || self.options.continue_token.is_empty() || !self.takes_offers {
            return false;
        }
        let offered = error.status().map(|status| &status.metadata.continue_token);
        let Some(token) = offered.filter(|token| !token.is_empty()) else {
            return false;
        };
        self.options.continue_token = token.clone();
        self.consistent = false;
        self.state = State::Asking { offered: true };
        true
    }

    /// Continues with the next page, if there is one.
    fn turn(&mut self, head: ListHead) {
        self.state = if head.continue_token.is_empty() {
            State::Ended
        } else {
            State::Asking { offered: false }
        };
        self.options.continue_token.clone_from(&head.continue_token);
        // The token contains the version; a version beside it is refused.
        self.options.resource_version = ResourceVersion::unset();
        self.options.resource_version_match = None;
        self.head = head;
    }

    fn end(&mut self, error: Error) -> Error {
        self.state = State::Ended;
        error
    }
}

impl Stream for Pager {
    type Item = Result<ListItem, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(cx)
    }
}
