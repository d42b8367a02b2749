//! Who is asking, and may they: one `Authenticator`, one `Authorizer`, and the `Authorized` proof between them and every handler.

mod authenticate;
mod authorize;
mod local;
mod peer;
mod tokens;
mod user;

pub use authenticate::{Authenticator, Options, Unauthenticated};
pub use authorize::{Authorized, Authorizer, Denied, Request};
pub use peer::Peer;
pub use tokens::{TokenFileError, TokenTable};
pub use user::{ADMIN, ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, User};
