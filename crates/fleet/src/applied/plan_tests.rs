//! The laws of the plan, on a member made of a map.

use proptest::prelude::*;

use super::*;

const OURS: &str = "ours";

#[derive(Debug, Clone, PartialEq)]
struct Object {
    uid: u64,
    owner: Option<&'static str>,
    /// Which version of the wish it was made from; `None` when somebody changed it.
    content: Option<u8>,
    /// It takes one more round to go.
    slow: bool,
    going: bool,
}

#[derive(Debug, Clone, Default)]
struct World {
    inventory: BTreeSet<Id>,
    objects: BTreeMap<Id, Object>,
    next: u64,
    /// Objects that change just before they are deleted, so that the first try is refused.
    busy: BTreeSet<Id>,
}

fn id(number: u8) -> Id {
    let (group, kind) =
        [("", "Namespace"), ("", "ConfigMap"), ("apps", "Deployment"), ("", "Secret")][number as usize % 4];
    let namespace = (kind != "Namespace").then(|| "n".to_owned());
    Id {
        group: group.to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        namespace,
        name: format!("o{number}"),
    }
}

impl World {
    fn plan(&self, wanted: &BTreeSet<Id>, version: u8, policy: Policy) -> Plan {
        let live = |(id, object): (&Id, &Object)| {
            let live = Live {
                uid: object.uid.to_string(),
                owner: object.owner.map(str::to_owned),
                differs: object.content != Some(version),
                going: object.going,
            };
            (id.clone(), live)
        };
        plan(OURS, &self.inventory, wanted, &self.objects.iter().map(live).collect(), policy)
    }

    /// Does one action as a server would: with its preconditions.
    fn act(&mut self, action: &Action, version: u8) {
        match action {
            Action::Record(inventory) => self.inventory = inventory.clone(),
            Action::Apply(id, uid) => {
                assert!(self.inventory.contains(id), "{id} is made before it is remembered");
                self.next += 1;
                let made =
                    Object { uid: self.next, owner: Some(OURS), content: Some(version), slow: false, going: false };
                let object = self.objects.entry(id.clone()).or_insert(made);
                if uid.as_ref().is_none_or(|uid| *uid == object.uid.to_string()) {
                    assert!(object.owner.is_none_or(|owner| owner == OURS), "{id} is stolen");
                    (object.owner, object.content) = (Some(OURS), Some(version));
                }
            }
            Action::Release(id, uid) => {
                if let Some(object) = self.objects.get_mut(id).filter(|object| object.uid.to_string() == *uid) {
                    assert_eq!(object.owner, Some(OURS));
                    object.owner = None;
                }
            }
            Action::Delete(id, uid) => {
                let Some(object) = self.objects.get_mut(id).filter(|object| object.uid.to_string() == *uid) else {
                    return;
                };
                assert_eq!(object.owner, Some(OURS), "{id} is not ours to delete");
                if self.busy.remove(id) {
                    return;
                }
                if object.slow {
                    object.going = true;
                } else {
                    self.objects.remove(id);
                }
            }
        }
    }

    /// What was going is gone.
    fn time_passes(&mut self) {
        self.objects.retain(|_, object| !object.going);
    }

    fn settle(&mut self, wanted: &BTreeSet<Id>, version: u8, policy: Policy) -> Plan {
        for _ in 0..6 {
            let plan = self.plan(wanted, version, policy);
            let quiet = !self.objects.values().any(|object| object.going);
            if plan.actions.is_empty() && plan.leaving.is_empty() && quiet {
                return plan;
            }
            plan.actions.iter().for_each(|action| self.act(action, version));
            self.time_passes();
        }
        panic!("it does not settle: {self:?}");
    }
}

fn ids() -> impl Strategy<Value = BTreeSet<Id>> {
    proptest::collection::btree_set((0u8..12).prop_map(id), 0..8)
}

fn policies() -> impl Strategy<Value = Policy> {
    let take_over = prop_oneof![Just(TakeOver::Never), Just(TakeOver::IfSame), Just(TakeOver::Always)];
    (take_over, any::<bool>()).prop_map(|(take_over, delete_containers)| Policy { take_over, delete_containers })
}

/// Objects of others and of nobody.
fn strangers() -> impl Strategy<Value = Vec<(u8, bool, bool)>> {
    proptest::collection::vec((0u8..12, any::<bool>(), any::<bool>()), 0..6)
}

fn world(strangers: Vec<(u8, bool, bool)>) -> World {
    let mut world = World::default();
    for (number, held, going) in strangers {
        world.next += 1;
        let owner = held.then_some("theirs");
        world.objects.insert(id(number), Object { uid: world.next, owner, content: None, slow: true, going });
    }
    world
}

fn theirs(world: &World) -> BTreeSet<Id> {
    let held = world.objects.iter().filter(|(_, object)| object.owner == Some("theirs") && !object.going);
    held.map(|(id, _)| id.clone()).collect()
}

proptest! {
    #[test]
    fn a_crash_after_any_action_ends_as_the_quiet_run_does(
        strangers in strangers(), first in ids(), second in ids(), policy in policies(), crash in 0usize..20, slow in ids(), busy in ids(),
    ) {
        // KC-6, P-2: nothing is left behind that nobody remembers
        let mut world = world(strangers);
        let held = theirs(&world);
        world.settle(&first, 1, policy);
        for (id, object) in &mut world.objects {
            object.slow |= slow.contains(id);
        }
        let mut quiet = world.clone();
        world.busy = busy;
        let plan = world.plan(&second, 2, policy);
        plan.actions.iter().take(crash).for_each(|action| world.act(action, 2));
        let last = world.settle(&second, 2, policy);
        quiet.settle(&second, 2, policy);

        prop_assert_eq!(&world.inventory, &quiet.inventory);
        prop_assert_eq!(world.objects.keys().collect::<Vec<_>>(), quiet.objects.keys().collect::<Vec<_>>());
        prop_assert!(held.iter().all(|id| world.objects.contains_key(id)), "another's object is gone");
        for (id, object) in &world.objects {
            if object.owner == Some(OURS) {
                prop_assert!(second.contains(id) && world.inventory.contains(id), "{} is left behind", id);
                prop_assert_eq!(object.content, Some(2));
            }
        }
        for id in &second {
            let is_ours = world.objects.get(id).is_some_and(|object| object.owner == Some(OURS));
            prop_assert!(is_ours || last.conflicts.contains_key(id), "{} is missing", id);
        }
    }

    #[test]
    fn what_is_done_stays_done(strangers in strangers(), wanted in ids(), policy in policies()) {
        let mut world = world(strangers);
        world.settle(&wanted, 1, policy);
        let before = world.clone();
        let again = world.plan(&wanted, 1, policy);
        prop_assert_eq!(again.actions, vec![]);
        prop_assert_eq!(before.objects, world.objects);
    }

    #[test]
    fn whatever_others_do_in_between_is_never_deleted_or_taken(
        wanted in ids(), moves in proptest::collection::vec((0u8..12, 0u8..4), 0..10), policy in policies(),
    ) {
        // Others take labels over, remove them, replace and change objects between the plan and its actions.
        let mut world = World::default();
        world.settle(&wanted, 1, policy);
        let plan = world.plan(&BTreeSet::new(), 1, policy);
        for (number, what) in moves {
            world.next += 1;
            let new = Object { uid: world.next, owner: Some("theirs"), content: None, slow: false, going: false };
            match what {
                0 => { world.objects.insert(id(number), new); }
                1 => { world.objects.remove(&id(number)); }
                _ => if let Some(object) = world.objects.get_mut(&id(number)) { object.content = None },
            }
        }
        let held = theirs(&world);
        plan.actions.iter().for_each(|action| world.act(action, 1));
        world.settle(&BTreeSet::new(), 1, policy);
        prop_assert_eq!(theirs(&world), held);
        prop_assert!(world.inventory.is_empty());
        prop_assert!(world.objects.values().all(|object| object.owner != Some(OURS)));
    }
}

#[test]
fn namespaces_come_first_and_go_last_and_are_let_go_unless_allowed() {
    let wanted: BTreeSet<Id> = (0..4).map(id).collect();
    let mut world = World::default();
    let kinds = |plan: &Plan| -> Vec<String> {
        plan.actions.iter().filter_map(|action| action.id().map(|id| id.kind.clone())).collect()
    };
    let made = world.plan(&wanted, 1, Policy::default());
    assert_eq!(kinds(&made), ["Namespace", "ConfigMap", "Secret", "Deployment"]);
    world.settle(&wanted, 1, Policy::default());
    let gone = world.plan(&BTreeSet::new(), 1, Policy { delete_containers: true, ..Policy::default() });
    assert_eq!(kinds(&gone).last().map(String::as_str), Some("Namespace"));
    let gone = world.plan(&BTreeSet::new(), 1, Policy::default());
    assert!(gone.actions.iter().any(|action| matches!(action, Action::Release(id, _) if id.kind == "Namespace")));
}

#[test]
fn an_object_without_our_label_is_neither_changed_nor_deleted() {
    let mut world = World::default();
    let wanted = BTreeSet::from([id(1)]);
    world.settle(&wanted, 1, Policy::default());
    world.objects.get_mut(&id(1)).unwrap().owner = None;
    let plan = world.plan(&BTreeSet::new(), 1, Policy::default());
    assert_eq!(plan.actions, [Action::Record(BTreeSet::new())]);
    let plan = world.plan(&wanted, 2, Policy::default());
    assert_eq!(plan.conflicts[&id(1)], Conflict::Exists);
}

#[test]
fn an_object_known_by_another_name_is_not_deleted_when_it_is_renamed() {
    let of = |group: &str| Id { group: group.to_owned(), kind: "Ingress".to_owned(), ..id(1) };
    let live = Live { uid: "7".to_owned(), owner: Some(OURS.to_owned()), differs: false, going: false };
    let both = BTreeMap::from([(of("extensions"), live.clone()), (of("networking.k8s.io"), live)]);
    let (before, wanted) = (BTreeSet::from([of("extensions")]), BTreeSet::from([of("networking.k8s.io")]));
    let plan = plan(OURS, &before, &wanted, &both, Policy::default());
    assert_eq!(plan.actions, [Action::Record(wanted)]);
}
