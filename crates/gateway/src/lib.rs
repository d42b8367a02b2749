//! HTTP that is not the Kubernetes API: APIExt (any kind as plain REST), the REST of members, and the console with its sessions and
//! live updates, on one listener.
//!
//! It speaks to the API through `kube::Client` alone, always in the name of its caller: whoever may not read something
//! through the Kubernetes API may not read it here. `docs/apiext.md` is the reference for users.
//!
//! A request comes through `site`: the door (Host, Origin, Sec-Fetch-Site), the caller (token, session, certificate), the pace, and
//! then a `visit::Room`, which asks the one `access::Gatekeeper` for proof of every right.

mod access;
mod apiext;
mod assets;
mod audit;
mod caller;
mod controllers;
mod door;
mod face;
mod figures;
mod hub;
mod lean;
mod listen;
mod members;
mod operations;
mod options;
mod pace;
mod problem;
mod public;
mod seats;
mod session;
mod site;
mod standing;
mod stream;
mod trail;
mod unread;
mod upstream;
mod visit;
mod ws;

pub use apiext::actions::{Action, Actions, Input, Plan};
pub use apiext::catalog::Kind;
pub use apiext::filter::{Filter, FilterError};
pub use controllers::Controllers;
pub use face::{Face, Listening, bind, serve};
pub use listen::ServeError;
pub use options::{Limits, Options, Rate, Tls};
pub use problem::Problem;
pub use public::PublicUrl;
pub use trail::{Deed, Trail};
pub use upstream::{RightsQuestion, Upstream};
