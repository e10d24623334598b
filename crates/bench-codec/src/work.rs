//! The measured operations of a client on a list of pods, and those of its peers.

use std::hint::black_box;
use std::sync::Arc;

use anyhow::Result;
use k8s_openapi::List;
use k8s_openapi::api::core::v1::Pod;
use k8s_pb::api::core::v1::PodList;
use prost::Message as _;
use serde::de::DeserializeOwned;
use watchkeeper_meta::GroupVersionKind;
use watchkeeper_wire::protobuf::{Envelope, encode_message};
use watchkeeper_wire::schema::Schema;
use watchkeeper_wire::{Encoding, ListSplitter, Object, ObjectOptions, RawObject, json, protobuf};

/// The size of a chunk: that of a large HTTP/2 frame.
pub const CHUNK: usize = 16 << 10;

/// Calls `each` with every item of a body that arrives in chunks, as from a socket.
pub fn split(encoding: Encoding, body: &[u8], mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<usize> {
    let mut splitter = ListSplitter::new(encoding);
    let mut items = 0;
    for mut chunk in body.chunks(CHUNK) {
        while let Some(item) = splitter.next(&mut chunk)? {
            each(item)?;
            items += 1;
        }
    }
    splitter.finish()?;
    Ok(items)
}

/// Splits and reads every header.
pub fn headers(encoding: Encoding, body: &[u8]) -> Result<usize> {
    split(encoding, body, |item| {
        match encoding {
            Encoding::Json => drop(black_box(json::item_header(item)?)),
            Encoding::Protobuf => drop(black_box(protobuf::header::header(item)?)),
        }
        Ok(())
    })
}

/// The pods as a cache stores them.
pub fn objects(encoding: Encoding, body: &[u8]) -> Result<Vec<Object>> {
    objects_of(&pod_kind(), encoding, body)
}

/// The objects as a cache stores them.
pub fn objects_of(kind: &Arc<GroupVersionKind>, encoding: Encoding, body: &[u8]) -> Result<Vec<Object>> {
    let options = ObjectOptions::default();
    let mut splitter = ListSplitter::new(encoding);
    let mut objects = Vec::new();
    for mut chunk in body.chunks(CHUNK) {
        loop {
            if let Some(object) = splitter.next_object(&mut chunk, kind, &options) {
                objects.push(object);
            } else if let Some(item) = splitter.next(&mut chunk)? {
                objects.push(Object::from_item(encoding, item, kind, &options)?);
            } else {
                break;
            }
        }
    }
    splitter.finish()?;
    Ok(objects)
}

/// Decodes each object and drops the result.
pub fn each<T>(objects: &[Object], decode: impl Fn(&Object) -> Result<T>) -> Result<usize> {
    for object in objects {
        black_box(decode(object)?);
    }
    Ok(objects.len())
}

/// Decodes a stored object, as a handler does.
pub fn decode<K: DeserializeOwned>(object: &Object) -> Result<K> {
    Ok(object.decode()?)
}

/// Decodes the same JSON with the peer.
pub fn serde_decode<K: DeserializeOwned>(object: &Object) -> Result<K> {
    Ok(serde_json::from_slice(object.bytes())?)
}

/// Decodes the same protobuf with the peer, into its own structs.
pub fn prost_decode(object: &Object) -> Result<k8s_pb::api::core::v1::Pod> {
    Ok(k8s_pb::api::core::v1::Pod::decode(object.bytes())?)
}

/// Clones decoded objects: the same structs, strings and lists without parsing. The lower bound of any decoder.
pub fn clones<K: Clone>(decoded: &[K], count: usize) -> Result<usize> {
    for object in decoded.iter().cycle().take(count) {
        black_box(object.clone());
    }
    Ok(count)
}

/// Decodes a list as a typed list does.
pub fn typed(encoding: Encoding, body: &[u8]) -> Result<usize> {
    let (kind, mut pods) = (pod_kind(), Vec::new());
    split(encoding, body, |item| {
        pods.push(RawObject::item(encoding, item).decode::<Pod>(&kind)?);
        Ok(())
    })?;
    Ok(black_box(pods).len())
}

/// Copies every item without `managedFields`.
pub fn cut(encoding: Encoding, body: &[u8]) -> Result<usize> {
    let mut out = Vec::new();
    split(encoding, body, |item| {
        out.clear();
        match encoding {
            Encoding::Json => json::managed_fields::copy_without(item, &mut out)?,
            Encoding::Protobuf => protobuf::managed_fields::copy_without(item, &mut out)?,
        }
        black_box(&out);
        Ok(())
    })
}

/// Converts every item to JSON.
pub fn to_json(body: &[u8]) -> Result<usize> {
    let options = ObjectOptions {
        keep_managed_fields: true,
    };
    let kind = pod_kind();
    split(Encoding::Protobuf, body, |item| {
        let object = Object::from_item(Encoding::Protobuf, item, &kind, &options)?;
        black_box(object.to_json()?);
        Ok(())
    })
}

/// Converts every item to protobuf.
pub fn to_protobuf(body: &[u8]) -> Result<usize> {
    let schema = Schema::builtin();
    let pod = schema.kind("v1", "Pod").expect("pods are built in");
    split(Encoding::Json, body, |item| {
        black_box(encode_message(schema, pod, &serde_json::from_slice(item)?)?);
        Ok(())
    })
}

/// Decodes the body of a list as kube does.
pub fn serde_list(body: &[u8]) -> Result<List<Pod>> {
    Ok(serde_json::from_slice(body)?)
}

/// Decodes the body of a list with prost.
pub fn prost_list(body: &[u8]) -> Result<PodList> {
    Ok(PodList::decode(Envelope::read(body)?.raw)?)
}

/// The kind of namespaces.
pub fn namespace_kind() -> Arc<GroupVersionKind> {
    Arc::new(GroupVersionKind::new("", "v1", "Namespace"))
}

/// The kind of pods.
pub fn pod_kind() -> Arc<GroupVersionKind> {
    Arc::new(GroupVersionKind::new("", "v1", "Pod"))
}
