//! The whole library as used by a program.

mod custom_kind;
mod examples;
mod typed_codec;
