//! Member clusters: how to reach them, whether they live, what is on them, and what we put there.
//!
//! A [`Fleet`] holds a [`Member`] for every cluster declared in the meta cluster. A member has a gated client, a health that is watched,
//! and [`Caches`]. An [`AppliedSet`] keeps an owner's objects on one member; [`Cleanups`] remembers what could not be removed yet.

mod applied;
mod cache;
mod credentials;
mod figures;
mod fleet;
mod member;
mod secret;
mod sources;
mod words;

pub use applied::{
    AppliedError, AppliedSet, Cleanup, Cleanups, Conflict, Drift, Id, OWNER, Owner, Policy, Removal, Report, TakeOver,
};
pub use cache::{Bytes, Cache, Caches, Change, Freshness, Listed, NotCached, Selection, Subject};
pub use credentials::{ACCOUNT_NAMESPACE, Access, Allow, Credentials, Refusals, Refused, account_manifest};
pub use fleet::Fleet;
pub use member::{
    Care, Connection, Declared, Member, Status,
    guard::{CallError, Limits},
    health::{Health, Observation, Pace, Rules, State, Transition},
    lend::{Lent, NotLent},
};
pub use runtime::Key;
#[cfg(test)]
use runtime::testing;
pub use secret::Secret;
pub use sources::{ALLOW, MEMBER, Origin, member_secret};
pub use words::words;
