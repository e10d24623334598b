//! What a client accepts: the encodings it can read, most wanted first, and the form it wants objects in.
//!
//! The words are those client-go and kubectl send, so that servers see what they know.

/// Objects as they are, in protobuf where the server has it: built-in kinds. Custom resources come as JSON.
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf,application/json";

/// Objects as they are, in JSON.
pub const JSON: &str = "application/json";

/// The metadata of one object and nothing else.
pub const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
    application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// The metadata of every object of a list and nothing else.
pub const METADATA_LIST: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
    application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// Rows and columns for people, as `kubectl get` asks for them.
pub const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,\
    application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

/// All groups, versions and resources in one answer; servers before v1.30 answer with the older form.
pub const DISCOVERY: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// Anything: a log, a proxied page.
pub const ANYTHING: &str = "*/*";
