//! Subresources and processes in pods, for typed clients; see [`DynamicApi`](crate::DynamicApi).

use watchkeeper_meta::{AttachOptions, DeleteOptions, ExecOptions, GetOptions, LogOptions, PatchOptions};

use super::{Api, ResourceType};
use crate::call::Call;
use crate::error::Error;
use crate::pod_stream::{PodReader, PodWriter};
use crate::port_forward::ForwardedPort;
use crate::subresources::{Scale, Token, TokenOptions};
use crate::transport::Body;

/// Subresources. The server refuses them for kinds that do not have them.
impl<K: ResourceType> Api<K> {
    /// Reads the scale of an object.
    pub fn scale<'a>(&'a self, name: &'a str) -> Call<'a, GetOptions, Scale> {
        self.objects.scale(name)
    }

    /// Sets the number of replicas of an object.
    pub fn scale_to<'a>(&'a self, name: &'a str, replicas: i32) -> Call<'a, PatchOptions, Scale> {
        self.objects.scale_to(name, replicas)
    }

    /// Evicts a pod. A refusal by a disruption budget is [`is_too_many_requests`](Error::is_too_many_requests).
    pub fn evict<'a>(&'a self, name: &'a str) -> Call<'a, DeleteOptions, ()> {
        self.objects.evict(name)
    }

    /// Requests a token of a service account.
    pub fn token<'a>(&'a self, name: &'a str) -> Call<'a, TokenOptions, Token> {
        self.objects.token(name)
    }

    /// The log of a pod's container, as a stream.
    pub fn log<'a>(&'a self, name: &'a str) -> Call<'a, LogOptions, Body> {
        self.objects.log(name)
    }

    /// Runs a command in a pod.
    pub async fn exec(&self, name: &str, options: &ExecOptions) -> Result<(PodWriter, PodReader), Error> {
        self.objects.exec(name, options).await
    }

    /// Attaches to the main process of a pod.
    pub async fn attach(&self, name: &str, options: &AttachOptions) -> Result<(PodWriter, PodReader), Error> {
        self.objects.attach(name, options).await
    }

    /// Connects to a port of a pod.
    pub async fn port_forward(&self, name: &str, port: u16) -> Result<ForwardedPort, Error> {
        self.objects.port_forward(name, port).await
    }
}
