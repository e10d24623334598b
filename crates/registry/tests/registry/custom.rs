//! Custom kinds in a registry over a store in memory: from the definition to the last object.

mod cluster;
mod definitions;
mod expressions;
mod objects;
mod scale;
mod versions;
