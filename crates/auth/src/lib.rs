//! Who is asking, and may they: one `Authenticator`, one `Authorizer`, and the `Authorized` proof between them and every handler.

mod authenticate;
mod authorize;
mod credential;
mod impersonate;
mod issuer;
mod keys;
mod local;
mod peer;
mod policy;
mod rule;
mod tokens;
mod user;

pub use authenticate::{Authenticator, Options, Unauthenticated};
pub use authorize::{Authorized, Authorizer, Denied, Escalation, Opinion, PolicySource, Request, Right};
pub use credential::Credential;
pub use impersonate::{Claim, Impersonation, Malformed};
pub use issuer::{Bound, BoundKind, Found, Issuer, IssuerOptions, Objects, Refused, Ticket};
pub use keys::{KeyError, SigningKeys};
pub use peer::Peer;
pub use policy::{Policy, RoleRef, Subject, not_found};
pub use rule::Rule;
pub use tokens::{TokenFileError, TokenTable};
pub use user::{
    ADMIN, ANONYMOUS, AUTHENTICATED, MASTERS, SERVICE_ACCOUNTS, UNAUTHENTICATED, User, service_account_groups,
    service_account_name, split_service_account,
};
