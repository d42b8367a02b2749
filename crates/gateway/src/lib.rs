//! HTTP that is not the Kubernetes API. Today: APIExt, the plain REST face on any kind (flat JSON, paging, sort, filter, count, actions).
//!
//! It speaks to the API through `kube::Client` alone, always in the name of its caller: whoever may not read something
//! through the Kubernetes API may not read it here. `docs/apiext.md` is the reference for users.

mod access;
mod apiext;
mod caller;
mod door;
mod listen;
mod options;
mod pace;
mod problem;
mod upstream;

pub use apiext::actions::{Action, Actions, Input, Plan};
pub use apiext::catalog::Kind;
pub use apiext::filter::{Filter, FilterError};
pub use listen::{Listening, ServeError, bind, serve};
pub use options::{Limits, Options, Rate, Tls};
pub use problem::Problem;
pub use upstream::Upstream;
