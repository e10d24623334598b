//! `#[derive(Resource)]`: a custom kind from the struct of its spec.
//!
//! It is part of `watchkeeper` (feature `derive`, on by default):
//!
// A test of `watchkeeper`: this crate stands below everything that the program needs.
#![cfg_attr(not(doctest), doc = include_str!("example.md"))]
//!
//! The derived code is only glue: names, and calls into `watchkeeper-custom`, which makes schemas and (de)serializes
//! objects. The attributes are documented there.

mod attributes;
mod expand;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Derives a kind from the struct of its spec.
///
/// `#[resource(group = "example.com", version = "v1")]` on `struct WebsiteSpec` makes `struct Website` with
/// `metadata`, `spec` and, if stated, `status`. It has `new(name, spec)` and `crd()`, and implements `ResourceType`
/// for clients. The spec must be `Clone`, `Debug`, `Serialize`, `Deserialize` and `JsonSchema`.
#[proc_macro_derive(Resource, attributes(resource))]
pub fn derive_resource(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::expand(&input)
        .unwrap_or_else(|error| error.into_compile_error())
        .into()
}
