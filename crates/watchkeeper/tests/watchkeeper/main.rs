//! The whole library as used by a program.

mod custom_kind;
mod examples;
mod names;
mod typed_codec;
