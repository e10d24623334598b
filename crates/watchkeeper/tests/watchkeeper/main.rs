//! The whole library as a program uses it.

mod custom_kind;
mod examples;
