//! `Accept` headers: the encodings a client can read, in order of preference, and the form it wants objects in.
//!
//! The texts are those client-go and kubectl send.

/// Whole objects, in protobuf if the server has it (built-in kinds), else in JSON.
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf,application/json";

/// Whole objects, in JSON.
pub const JSON: &str = "application/json";

/// The metadata of one object.
pub const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
    application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// The metadata of every object of a list.
pub const METADATA_LIST: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
    application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// A table, as `kubectl get` asks for it.
pub const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,\
    application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

/// Aggregated discovery; servers before v1.30 answer with the older form.
pub const DISCOVERY: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// Anything: a log, a proxied page.
pub const ANYTHING: &str = "*/*";
