//! What each column of a Table says of itself, word for word as Kubernetes servers send it.
//!
//! `descriptions.json` has them by resource and column, `*` for every resource. It holds those that recordings of a
//! server show; a column that is in none of them has no description.

use std::collections::HashMap;
use std::sync::LazyLock;

type Columns = HashMap<String, String>;

static RECORDED: LazyLock<HashMap<String, Columns>> = LazyLock::new(|| {
    let recorded = serde_json::from_str(include_str!("descriptions.json"));
    recorded.unwrap_or_else(|error| unreachable!("descriptions.json is part of the program: {error}"))
});

/// The descriptions of one resource's columns.
#[derive(Clone, Copy)]
pub(crate) struct Descriptions {
    own: Option<&'static Columns>,
    shared: Option<&'static Columns>,
}

impl Descriptions {
    /// Of the resource of that name, with its group.
    pub(crate) fn of(resource: &str) -> Self {
        Self {
            own: RECORDED.get(resource),
            shared: RECORDED.get("*"),
        }
    }

    /// What the column says of itself; empty if nobody knows.
    pub(crate) fn column(self, name: &str) -> &'static str {
        let lists = [self.own, self.shared].into_iter().flatten();
        let mut found = lists.filter_map(|columns| columns.get(name));
        found.next().map_or("", String::as_str)
    }
}
