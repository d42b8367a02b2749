//! The objects of one owner on one member: applied, remembered, pruned, compared.
//!
//! The inventory is kept on the member itself, in a ConfigMap per owner: it goes where the objects go. A meta cluster restored from
//! yesterday, a second meta cluster, or a member imported again under another name all find what is really there, and deleting reads
//! the inventory, never the spec.

mod cleanup;
mod drift;
mod id;
mod inventory;
mod kinds;
mod plan;
mod run;

use aws_lc_rs::digest;
use kube::Client;

pub use self::{
    cleanup::{Cleanup, Cleanups, Removal},
    id::Id,
    plan::{Conflict, Policy, TakeOver},
    run::{Drift, Report},
};

/// The label that says whose an object is.
pub const OWNER: &str = "muster.dev/owner";
/// What was applied last, as a digest: so that a field no longer wished for is noticed.
const APPLIED: &str = "muster.dev/applied";
/// Our name among the managers of fields.
pub(crate) const MANAGER: &str = "muster";

/// Who wants objects on members: an object of the meta cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty for an object of the cluster.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid: one made again under the same name is another owner, and waits until the first one's objects are gone.
    pub uid: String,
}

impl Owner {
    /// What stands in the label: short, and the same for nobody else.
    pub fn label(&self) -> String {
        let text = [&self.kind, &self.namespace, &self.name, &self.uid].map(String::as_str).join("\n");
        hex(&text, 10)
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}

/// Hexadecimal digits of a digest's first bytes.
fn hex(text: &str, bytes: usize) -> String {
    let digest = digest::digest(&digest::SHA256, text.as_bytes());
    digest.as_ref().iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
}

/// Why a set could not be applied or removed.
#[derive(Debug, thiserror::Error)]
pub enum AppliedError {
    /// Nothing is wished for, which would delete everything.
    #[error("the set is empty, which would delete everything the owner has; if that is meant, remove it")]
    Empty,
    /// A wish is no object.
    #[error(
        "object {0} of the set has no usable apiVersion, kind, namespace or name; give them as Kubernetes spells them"
    )]
    NoObject(usize),
    /// The same object twice.
    #[error("{0} stands twice in the set; leave one out")]
    Twice(Id),
    /// The member does not serve the kind.
    #[error("the member does not serve {0}; install its definition first")]
    NoKind(String),
    /// Too many for one inventory.
    #[error("the set has {0} objects; more than {1} do not fit an inventory: split it")]
    TooMany(usize, usize),
    /// Somebody else wrote the same in the meantime.
    #[error("somebody else changed the inventory or an object on the member meanwhile; try again")]
    Crossed,
    /// The inventory cannot be understood, and guessing could delete the wrong thing.
    #[error("the inventory {0} on the member cannot be read ({1}); restore it, or delete it to let its objects go")]
    Inventory(String, String),
    /// An object was refused.
    #[error("{action} {id}: {source}")]
    Object {
        /// What was tried.
        action: &'static str,
        /// On which object.
        id: Id,
        /// What the member said.
        source: kube::Error,
    },
    /// The member said no, or nothing.
    #[error("{0}")]
    Api(#[from] kube::Error),
}

impl AppliedError {
    /// Whether the member could not be asked, so that the same may succeed later by itself.
    pub fn is_unreachable(&self) -> bool {
        match self {
            AppliedError::Api(error) | AppliedError::Object { source: error, .. } => {
                !matches!(error, kube::Error::Api(_))
            }
            _ => false,
        }
    }
}

/// An owner's objects on one member.
pub struct AppliedSet {
    client: Client,
    owner: Owner,
    policy: Policy,
}

impl AppliedSet {
    /// Of `owner`, on the member behind `client`.
    pub fn new(client: Client, owner: Owner, policy: Policy) -> Self {
        AppliedSet { client, owner, policy }
    }
}
