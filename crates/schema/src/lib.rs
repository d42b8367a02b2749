//! The shapes of kinds as one table of facts, and what follows from it: typed decoding of bodies, OpenAPI documents.
//!
//! The table (`facts/v1.34.txt`) is written by `tools/facts` from the Go types; nothing here is written per kind.

pub mod crd;
mod decode;
mod empty;
mod facts;
pub mod openapi;
pub mod quantity;
mod scalar;
pub mod structural;
mod table;
pub mod time;

pub use decode::{Decoded, Mismatch, decode};
pub use empty::{drop_empty_lists, holds_empty_list};
pub use facts::{Facts, Field, Form, Kind, ListType, Part, PartOf, Shape, Type, TypeId};
