//! Subresources that a node answers: logs, exec, attach, port-forward and proxy.
//!
//! There are no real nodes, so the answers are those of a server whose nodes are unreachable: the request is
//! validated as far as possible without them. Pods on simulated nodes are handled in [`simulated`].

use futures_util::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use serde_json::Value;
use watchkeeper_kinds::{Kind, builtin};
use watchkeeper_meta::{GetOptions, GroupResource, GroupVersionResource, LogOptions, Status};

use super::simulated;
use crate::body::ResponseBody;
use crate::filter::Call;
use crate::request_info::query_value;
use crate::respond::{Answer, Failure};
use crate::route::ResourceRoute;

/// True if a node answers this subresource.
pub(super) fn is_answered_by_node(subresource: &str) -> bool {
    matches!(subresource, "log" | "exec" | "attach" | "portforward" | "proxy")
}

/// Answers as far as possible without a node.
pub(super) fn answer<'a>(
    call: &'a Call,
    route: &'a ResourceRoute,
    subresource: &'a str,
) -> BoxFuture<'a, Result<Answer, Failure>> {
    Box::pin(async move {
        let name = route.name.as_deref().unwrap_or_default();
        let plural = &*route.resource.resource.plural;
        let (name, port) = match subresource {
            "proxy" => proxied(name).ok_or_else(|| {
                let kind = route.resource.resource.kind.to_lowercase();
                Status::bad_request(format!("invalid {kind} request {name:?}"))
            })?,
            _ => (name, ""),
        };
        if plural == builtin::SERVICE.plural {
            check_port(call, route, name, port).await?;
            let text = format!("no endpoints available for service {name:?}");
            return Err(Status::service_unavailable(text).into());
        }
        if plural == builtin::NODE.plural {
            read(call, &builtin::NODE, "", name).await?;
            return Err(unreachable(name));
        }
        match subresource {
            "log" => log(call, route, name).await,
            _ => {
                let pod = read_pod(call, route, name).await?;
                if matches!(subresource, "exec" | "attach") {
                    let container = query_value(call.query(), "container");
                    check_container(&pod, name, &container.unwrap_or_default())?;
                }
                match node_of(&pod) {
                    "" if subresource == "proxy" => Err(Status::bad_request("address not allowed").into()),
                    "" => {
                        Err(Status::bad_request(format!("pod {name} does not have a host assigned")).into())
                    }
                    node if is_on_simulated(call, node).await => {
                        Err(simulated::refusal(name, subresource).into())
                    }
                    node => find_node(call, node).await,
                }
            }
        }
    })
}

/// The name and the port in the name of a proxied object: `name`, `name:port` or `scheme:name:port`.
fn proxied(id: &str) -> Option<(&str, &str)> {
    let parts: Vec<&str> = id.split(':').collect();
    let (scheme, name, port) = match *parts {
        [name] => ("", name, ""),
        [name, port] => ("", name, port),
        [scheme, name, port] => (scheme, name, port),
        _ => return None,
    };
    (matches!(scheme, "" | "http" | "https") && !name.is_empty()).then_some((name, port))
}

/// A port that is a number must be one of the service's.
async fn check_port(call: &Call, route: &ResourceRoute, name: &str, port: &str) -> Result<(), Failure> {
    let Ok(number) = port.parse::<i64>() else {
        return Ok(());
    };
    let namespace = route.namespace.as_deref().unwrap_or_default();
    let service = read(call, &builtin::SERVICE, namespace, name).await?;
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    match ports
        .filter_map(|port| port["port"].as_i64())
        .any(|port| port == number)
    {
        true => Ok(()),
        false => {
            let text = format!("no service port {number} found for service {name:?}");
            Err(Status::service_unavailable(text).into())
        }
    }
}

async fn is_on_simulated(call: &Call, node: &str) -> bool {
    let node = read(call, &builtin::NODE, "", node).await;
    node.is_ok_and(|node| simulated::is_simulated(&node))
}

/// A pod that is not scheduled has an empty log, which is not an error.
async fn log(call: &Call, route: &ResourceRoute, name: &str) -> Result<Answer, Failure> {
    let options = LogOptions::from_query(call.query(), name)?;
    let pod = read_pod(call, route, name).await?;
    check_container(&pod, name, &options.container)?;
    match node_of(&pod) {
        "" => {
            let mut answer = Answer::new(ResponseBody::empty());
            *answer.status_mut() = StatusCode::NO_CONTENT;
            Ok(answer)
        }
        node if is_on_simulated(call, node).await => {
            let log = simulated::log(&pod, &options)?;
            let mut answer = Answer::new(ResponseBody::from(log.into_bytes()));
            let plain = HeaderValue::from_static("text/plain");
            answer.headers_mut().insert(CONTENT_TYPE, plain);
            Ok(answer)
        }
        node => find_node(call, node).await,
    }
}

/// The container must be named if there are several.
fn check_container(pod: &Value, name: &str, wanted: &str) -> Result<(), Status> {
    let names: Vec<&str> = ["containers", "initContainers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|kind| pod["spec"][kind].as_array().into_iter().flatten())
        .filter_map(|container| container["name"].as_str())
        .collect();
    let count = pod["spec"]["containers"].as_array().map_or(0, Vec::len);
    match wanted {
        "" if count > 1 => Err(Status::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            names.join(" ")
        ))),
        "" => Ok(()),
        wanted if names.contains(&wanted) => Ok(()),
        wanted => Err(Status::bad_request(format!(
            "container {wanted} is not valid for pod {name}"
        ))),
    }
}

/// A known node is unreachable; for an unknown one, the error has the text of a real server, which names pods here.
async fn find_node(call: &Call, node: &str) -> Result<Answer, Failure> {
    match read(call, &builtin::NODE, "", node).await {
        Ok(_) => Err(unreachable(node)),
        Err(_) => Err(Status::not_found(&GroupResource::new("", builtin::POD.plural), node).into()),
    }
}

fn unreachable(node: &str) -> Failure {
    Status::service_unavailable(format!("node {node:?} cannot be reached from this server")).into()
}

fn node_of(pod: &Value) -> &str {
    pod["spec"]["nodeName"].as_str().unwrap_or_default()
}

async fn read_pod(call: &Call, route: &ResourceRoute, name: &str) -> Result<Value, Failure> {
    let namespace = route.namespace.as_deref().unwrap_or_default();
    Ok(read(call, &builtin::POD, namespace, name).await?)
}

async fn read(call: &Call, kind: &'static Kind, namespace: &str, name: &str) -> Result<Value, Status> {
    let registry = &call.server.registry;
    let definition = registry
        .definition(&GroupVersionResource::new(kind.group, "v1", kind.plural))
        .ok_or_else(Status::path_not_found)?;
    let object = registry
        .get(&definition, namespace, name, &GetOptions::default())
        .await?;
    object.to_value(&definition)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxied_name_may_have_scheme_and_port() {
        let parts = ["p", "p:80", "https:p:web", "ftp:p:80", ":p:80", "a:b:c:d", ":80"].map(proxied);
        let (plain, port) = (Some(("p", "")), Some(("p", "80")));
        assert_eq!(parts, [plain, port, Some(("p", "web")), None, port, None, None]);
    }
}
