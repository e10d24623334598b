//! A long list in pages, as one stream of objects.
//!
//! A continue token lives as long as the server's history, about five minutes. When it has expired, the server offers
//! another that goes on behind the last object seen, at a newer version: the stream takes it, so that nothing is
//! delivered twice and nothing unchanged is missed, and says so ([`Pager::is_consistent`]). Who needs one
//! consistent state calls [`Pager::collect`], which then lists everything afresh, as client-go does.

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

/// 500, as client-go: servers see a familiar load.
pub const PAGE_SIZE: u64 = 500;

/// The objects of a long list: a [`Stream`].
pub struct Pager {
    api: DynamicApi,
    options: ListOptions,
    state: State,
    head: ListHead,
    consistent: bool,
    /// Whether to go on at a newer version where a token has expired.
    takes_offers: bool,
}

enum State {
    /// The page in `options` is to be asked for; with a token that the server has offered, or not.
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

    /// With these options, in pages of their limit, or of [`PAGE_SIZE`] objects.
    pub fn with(mut self, options: &ListOptions) -> Self {
        self.options = ListOptions {
            limit: options.limit.or(Some(PAGE_SIZE)),
            ..options.clone()
        };
        self
    }

    /// In pages of so many objects.
    pub fn page_size(mut self, objects: u64) -> Self {
        self.options.limit = Some(objects);
        self
    }

    /// What the last page said about the list.
    pub fn head(&self) -> &ListHead {
        &self.head
    }

    /// Whether all objects so far are of one state of the server.
    pub fn is_consistent(&self) -> bool {
        self.consistent
    }

    /// The next object; asks for the next page when one is used up.
    ///
    /// May be dropped at any await without losing an object.
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

    /// All objects of one state of the server: where a token expires on the way, everything is listed once more, in
    /// one answer.
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

    /// Whether an expired token could be traded for the one the server offers.
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

    /// The page is read: on to the next one, if there is one.
    fn turn(&mut self, head: ListHead) {
        self.state = if head.continue_token.is_empty() {
            State::Ended
        } else {
            State::Asking { offered: false }
        };
        self.options.continue_token.clone_from(&head.continue_token);
        // The token says which state is listed; a version beside it is refused.
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
