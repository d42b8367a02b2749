//! Who owns which field: server-side apply and `metadata.managedFields`.
//!
//! Every write is somebody's: an [`update`](Scope::update) makes the fields it changed the updater's, an [`apply`](Scope::apply)
//! makes the fields it names the applier's, and takes away what the applier named last time and nobody owns any more. Whoever
//! applies a value other than the one somebody else owns is told so, unless they force it.
//!
//! What a kind looks like comes through [`Schema`]. Objects come without `metadata.managedFields`: that is held as [`Managers`].

mod annotation;
mod apply;
mod compare;
mod conflict;
mod element;
mod encode;
mod extract;
mod list;
mod managers;
mod merge;
mod remove;
mod schema;
mod set;
#[cfg(test)]
mod tests;
mod validate;
mod value;
mod words;

pub use apply::{Applied, Refused, Scope};
pub use compare::{Comparison, compare};
pub use conflict::{Conflict, Conflicts};
pub use element::Element;
pub use encode::Malformed;
pub use extract::fields_of;
pub use managers::{Manager, Managers, Operation};
pub use merge::merge;
pub use schema::{Atom, Items, List, Map, Node, Scalar, Schema};
pub use set::FieldSet;
pub use validate::{Duplicates, Misfit, validate};
