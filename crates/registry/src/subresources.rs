//! Parts of objects with an address and a meaning of their own.

mod binding;
