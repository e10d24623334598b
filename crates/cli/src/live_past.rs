//! Objects of a live cluster and their recent history, as they are typed: `deployment web`, `deployments`.

use watchkeeper_meta::{Resource, Scope};
use watchkeeper_recording::{Entry, LiveObjects};

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::selection::select;
use crate::session::Session;

/// A kind of the cluster, and perhaps one object of it.
#[derive(Debug)]
pub(crate) struct LivePast {
    pub(crate) resource: Resource,
    pub(crate) name: Option<String>,
    objects: LiveObjects,
}

impl LivePast {
    /// Finds out what the words mean in the cluster.
    pub(crate) async fn find(cluster: &Cluster, words: &[String]) -> Result<Self, Failure> {
        let mut selected = select(cluster, words).await?;
        let (Some(one), true) = (selected.pop(), selected.is_empty()) else {
            return Err(Failure::text(
                "name one kind, or one object: deployment/web or deployment web",
            ));
        };
        let name = match one.names.as_slice() {
            [] => None,
            [name] => Some(name.clone()),
            _ => return Err(Failure::text("name one object: deployment/web or deployment web")),
        };
        let resource = one.resource.resource;
        let is_everywhere = resource.scope == Scope::Cluster || (name.is_none() && !cluster.namespace_typed);
        let namespace = if is_everywhere { "" } else { &cluster.namespace };
        Ok(Self {
            objects: LiveObjects::new(&cluster.client, &resource, namespace, name.as_deref()),
            resource,
            name,
        })
    }

    /// The recent history, oldest first. Says where it starts.
    pub(crate) async fn entries(&self, session: &mut Session) -> Result<Vec<Entry>, Failure> {
        let past = self.objects.past().await.map_err(Failure::other)?;
        tell_start(past.from, session);
        Ok(past.entries)
    }

    /// The version at which the history starts, which it says.
    pub(crate) async fn start(&self, session: &mut Session) -> Result<u64, Failure> {
        let start = self.objects.start().await.map_err(Failure::other)?;
        tell_start(start, session);
        Ok(start)
    }

    pub(crate) fn objects(&self) -> &LiveObjects {
        &self.objects
    }
}

fn tell_start(start: u64, session: &mut Session) {
    if start > 1 {
        session.err.line(format!(
            "The cluster's history starts at version {start}; `watchkeeper record` keeps everything from now on."
        ));
    }
}
