//! `#[derive(Resource)]`: a custom kind from the struct of its spec.
//!
//! What is derived is only glue: names, and calls of `watchkeeper-custom`, where schemas are made and objects are
//! written and read. The attributes are documented there, too.

mod attributes;
mod expand;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a kind from the struct of its spec.
///
/// `#[resource(group = "example.com", version = "v1")]` on `struct WebsiteSpec` makes `struct Website` with `metadata`,
/// `spec` and, if one is stated, `status`. It has `new(name, spec)` and `crd()`, and clients take it as a type.
/// The spec must be `Clone`, `Debug`, `Serialize`, `Deserialize` and `JsonSchema`.
#[proc_macro_derive(Resource, attributes(resource))]
pub fn derive_resource(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::expand(&input)
        .unwrap_or_else(|error| error.into_compile_error())
        .into()
}
