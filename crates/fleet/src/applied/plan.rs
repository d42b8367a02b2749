//! What to do so that a member holds exactly an owner's objects. Pure: inventory, wanted and live in, actions out.
//!
//! Two rules make it safe. The inventory names an object before it is made and until its absence was seen, so that a crash leaves
//! nothing behind that nobody remembers. And an object is changed or deleted only while it carries the owner's label, so that a
//! stale inventory harms nobody.

use std::collections::{BTreeMap, BTreeSet};

use super::Id;

/// What to do with an object that is there already and belongs to nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TakeOver {
    /// Leave it and say so.
    #[default]
    Never,
    /// Take it if it is already as wanted.
    IfSame,
    /// Take it.
    Always,
}

/// How careful to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    /// Objects of nobody.
    pub take_over: TakeOver,
    /// Also delete namespaces and definitions of ours, with everything others have put into them. Otherwise they are let go.
    pub delete_containers: bool,
}

/// An object as it is on the member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Live {
    pub uid: String,
    /// Whose label it carries.
    pub owner: Option<String>,
    /// Whether something that is wanted is not so, or was wanted otherwise when it was applied.
    pub differs: bool,
    /// It is being deleted.
    pub going: bool,
}

/// One step. Each is safe to repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Write the inventory.
    Record(BTreeSet<Id>),
    /// Make it so; only the object with this uid, if one was there.
    Apply(Id, Option<String>),
    /// Take our label off and leave it.
    Release(Id, String),
    /// Delete it, only the one with this uid and only while the label is ours.
    Delete(Id, String),
}

/// Why a wanted object is left alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// It is another owner's.
    #[error("another owner ({0}) holds it; delete it there first")]
    Held(String),
    /// It is nobody's and may not be taken over.
    #[error("it exists already and belongs to nobody here; delete it, or allow it to be taken over")]
    Exists,
    /// It is being deleted; it is made anew when it is gone.
    #[error("it is being deleted; it is made anew when it is gone")]
    Going,
}

/// What to do, and what cannot be done now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Plan {
    pub actions: Vec<Action>,
    pub conflicts: BTreeMap<Id, Conflict>,
    /// Ours, no longer wanted, and not gone yet.
    pub leaving: BTreeSet<Id>,
}

/// Plans for the owner with the label value `owner`.
pub(crate) fn plan(
    owner: &str,
    inventory: &BTreeSet<Id>,
    wanted: &BTreeSet<Id>,
    live: &BTreeMap<Id, Live>,
    policy: Policy,
) -> Plan {
    let mut plan = Plan::default();
    let mut apply = Vec::new();
    for id in wanted {
        let found = live.get(id);
        let verdict = match found {
            None => Ok(true),
            Some(found) if found.going => Err(Conflict::Going),
            Some(found) => match found.owner.as_deref() {
                Some(other) if other != owner => Err(Conflict::Held(other.to_owned())),
                Some(_) => Ok(found.differs),
                None if policy.take_over == TakeOver::Always => Ok(true),
                // The label itself is missing, so there is something to apply even if the rest is the same.
                None if policy.take_over == TakeOver::IfSame && !found.differs => Ok(true),
                None => Err(Conflict::Exists),
            },
        };
        match verdict {
            Ok(true) => apply.push(Action::Apply(id.clone(), found.map(|found| found.uid.clone()))),
            Ok(false) => {}
            Err(conflict) => {
                plan.conflicts.insert(id.clone(), conflict);
            }
        }
    }
    // One object may be known by two names (an Ingress by two groups): it does not leave while one of them is wanted.
    let kept: BTreeSet<&str> = wanted.iter().filter_map(|id| live.get(id)).map(|found| found.uid.as_str()).collect();
    let mut leave = Vec::new();
    for id in inventory.difference(wanted) {
        let ours = |found: &&Live| found.owner.as_deref() == Some(owner) && !kept.contains(found.uid.as_str());
        let Some(found) = live.get(id).filter(ours) else { continue };
        if id.is_container() && !policy.delete_containers && !found.going {
            leave.push(Action::Release(id.clone(), found.uid.clone()));
            continue;
        }
        plan.leaving.insert(id.clone());
        if !found.going {
            leave.push(Action::Delete(id.clone(), found.uid.clone()));
        }
    }
    apply.sort_by_key(|action| action.id().map(Id::rank));
    leave.sort_by_key(|action| std::cmp::Reverse(action.id().map(Id::rank)));

    // An object of ours that is going is remembered; others' are not our business.
    let ours = |id: &&Id| match plan.conflicts.get(*id) {
        None => true,
        Some(Conflict::Going) => live.get(*id).is_some_and(|found| found.owner.as_deref() == Some(owner)),
        Some(_) => false,
    };
    let after: BTreeSet<Id> = wanted.iter().filter(ours).chain(&plan.leaving).cloned().collect();
    let during: BTreeSet<Id> =
        if apply.is_empty() && leave.is_empty() { after.clone() } else { inventory.union(&after).cloned().collect() };
    if during != *inventory {
        plan.actions.push(Action::Record(during.clone()));
    }
    plan.actions.append(&mut apply);
    plan.actions.append(&mut leave);
    if after != during {
        plan.actions.push(Action::Record(after));
    }
    plan
}

impl Action {
    fn id(&self) -> Option<&Id> {
        match self {
            Action::Record(_) => None,
            Action::Apply(id, _) | Action::Release(id, _) | Action::Delete(id, _) => Some(id),
        }
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
