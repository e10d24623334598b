//! Custom kinds over an in-memory store: from the definition to the last object.

mod cluster;
mod definitions;
mod expressions;
mod objects;
mod scale;
mod versions;
