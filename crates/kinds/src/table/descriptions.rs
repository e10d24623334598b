//! Descriptions of Table columns, as Kubernetes servers send them.
//!
//! `descriptions.json` has them by resource and column, `*` for every resource. It contains those in recordings of a
//! server; other columns have no description.

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
    /// Of a resource, with its group.
    pub(crate) fn of(resource: &str) -> Self {
        Self {
            own: RECORDED.get(resource),
            shared: RECORDED.get("*"),
        }
    }

    /// The description of a column; empty if unknown.
    pub(crate) fn column(self, name: &str) -> &'static str {
        let lists = [self.own, self.shared].into_iter().flatten();
        let mut found = lists.filter_map(|columns| columns.get(name));
        found.next().map_or("", String::as_str)
    }
}
