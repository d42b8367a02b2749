//! Does what the plan says, on the member.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, TryStreamExt, stream};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy},
    core::DynamicObject,
};
use serde_json::{Value, json};

use super::{
    APPLIED, AppliedError, AppliedSet, Conflict, Id, MANAGER, OWNER,
    drift::differences,
    hex,
    inventory::Inventory,
    kinds::Kinds,
    plan::{Action, Live, Plan, plan},
};

/// Objects read at once.
const WIDTH: usize = 8;

/// What a run did and what is left to do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Made or changed.
    pub applied: Vec<Id>,
    /// Told to go.
    pub deleted: Vec<Id>,
    /// No longer ours, and left where they are.
    pub released: Vec<Id>,
    /// Wanted and left alone, with the reason.
    pub conflicts: BTreeMap<Id, Conflict>,
    /// Ours, no longer wanted, and not seen to be gone yet: run again.
    pub leaving: BTreeSet<Id>,
}

impl Report {
    /// Whether there is nothing to come back for.
    pub fn is_done(&self) -> bool {
        self.conflicts.is_empty() && self.leaving.is_empty()
    }
}

/// One object that is not as it was wished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// Which.
    pub id: Id,
    /// Where; empty when it is missing or not ours.
    pub paths: Vec<String>,
}

/// A wish, labelled and with its digest.
struct Wish {
    object: Value,
    digest: String,
}

type Found = BTreeMap<Id, DynamicObject>;

impl AppliedSet {
    /// Makes the member hold exactly these objects for the owner: the missing are made, the changed set right, the others deleted.
    pub async fn apply(&self, objects: Vec<DynamicObject>) -> Result<Report, AppliedError> {
        if objects.is_empty() {
            return Err(AppliedError::Empty);
        }
        self.make_so(objects).await
    }

    async fn make_so(&self, objects: Vec<DynamicObject>) -> Result<Report, AppliedError> {
        let mut kinds = Kinds::new(&self.client);
        let wishes = self.wishes(objects, &mut kinds).await?;
        let mut inventory = Inventory::read(&self.client, &self.owner).await?;
        let ids: BTreeSet<Id> = inventory.ids.iter().chain(wishes.keys()).cloned().collect();
        let found = self.find(&ids, &mut kinds).await?;
        let live = found.iter().map(|(id, object)| (id.clone(), self.live(object, wishes.get(id)))).collect();
        let wanted: BTreeSet<Id> = wishes.keys().cloned().collect();
        let plan = plan(&self.owner.label(), &inventory.ids, &wanted, &live, self.policy);
        self.act(plan, &wishes, &found, &mut inventory, &mut kinds).await
    }

    /// Deletes everything the owner has on the member. Done when the report says so; until then, ask again.
    pub async fn remove(&self) -> Result<Report, AppliedError> {
        self.make_so(Vec::new()).await
    }

    /// What on the member is not as wished, without changing anything.
    pub async fn verify(&self, objects: Vec<DynamicObject>) -> Result<Vec<Drift>, AppliedError> {
        let mut kinds = Kinds::new(&self.client);
        let wishes = self.wishes(objects, &mut kinds).await?;
        let ids: BTreeSet<Id> = wishes.keys().cloned().collect();
        let found = self.find(&ids, &mut kinds).await?;
        let mut drifts = Vec::new();
        for (id, wish) in &wishes {
            let Some(object) = found.get(id).filter(|object| self.is_ours(object)) else {
                drifts.push(Drift { id: id.clone(), paths: Vec::new() });
                continue;
            };
            let live = serde_json::to_value(object).map_err(kube::Error::SerdeError)?;
            if differences(&wish.object, &live).is_empty() {
                continue;
            }
            // The member may write the same otherwise ("1" for "1000m"): what it would make of the wish decides.
            let api = kinds.served(id, false).await?;
            let dry = PatchParams { dry_run: true, ..PatchParams::apply(MANAGER).force() };
            let would = api.patch(&id.name, &dry, &Patch::Apply(&wish.object)).await.map_err(failed("compare", id))?;
            let would = serde_json::to_value(&would).map_err(kube::Error::SerdeError)?;
            let paths = differences(&without_bookkeeping(would), &live);
            if !paths.is_empty() {
                drifts.push(Drift { id: id.clone(), paths });
            }
        }
        Ok(drifts)
    }

    async fn wishes(&self, objects: Vec<DynamicObject>, kinds: &mut Kinds) -> Result<BTreeMap<Id, Wish>, AppliedError> {
        let mut wishes = BTreeMap::new();
        for (at, mut object) in objects.into_iter().enumerate() {
            let mut id = Id::of(&object).ok_or(AppliedError::NoObject(at))?;
            kinds.api(&id).await?;
            match kinds.is_namespaced(&id) {
                Some(true) if id.namespace.is_none() => id.namespace = Some(self.client.default_namespace().to_owned()),
                Some(false) => id.namespace = None,
                _ => {}
            }
            object.metadata.namespace = id.namespace.clone();
            // Facts of the server, not wishes.
            object.metadata.managed_fields = None;
            object.metadata.resource_version = None;
            object.metadata.uid = None;
            object.metadata.creation_timestamp = None;
            object.metadata.generation = None;
            object.labels_mut().insert(OWNER.to_owned(), self.owner.label());
            let mut value = serde_json::to_value(&object).map_err(kube::Error::SerdeError)?;
            if let Some(value) = value.as_object_mut() {
                value.remove("status");
            }
            let digest = hex(&value.to_string(), 16);
            value["metadata"]["annotations"][APPLIED] = json!(digest);
            if wishes.insert(id.clone(), Wish { object: value, digest }).is_some() {
                return Err(AppliedError::Twice(id));
            }
        }
        Ok(wishes)
    }

    /// The objects as they are. One whose kind is not served is not there.
    async fn find(&self, ids: &BTreeSet<Id>, kinds: &mut Kinds) -> Result<Found, AppliedError> {
        let mut asked: Vec<(Id, Api<DynamicObject>)> = Vec::new();
        for id in ids {
            if let Some(api) = kinds.any(id).await? {
                asked.push((id.clone(), api));
            }
        }
        let found = stream::iter(asked.into_iter().map(|(id, api)| async move {
            let object = api.get_opt(&id.name).await.map_err(failed("read", &id))?;
            Ok::<_, AppliedError>(object.map(|object| (id, object)))
        }));
        let found: Vec<_> = found.buffer_unordered(WIDTH).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    fn is_ours(&self, object: &DynamicObject) -> bool {
        object.labels().get(OWNER) == Some(&self.owner.label())
    }

    fn live(&self, object: &DynamicObject, wish: Option<&Wish>) -> Live {
        let differs = wish.is_some_and(|wish| {
            let applied = object.annotations().get(APPLIED);
            let taken = self.is_ours(object) && applied != Some(&wish.digest);
            // Of an object that is not ours yet, label and digest are of course missing.
            let mut wanted = wish.object.clone();
            if !self.is_ours(object) {
                for (map, name) in [("labels", OWNER), ("annotations", APPLIED)] {
                    if let Some(map) = wanted["metadata"][map].as_object_mut() {
                        map.remove(name);
                    }
                }
            }
            taken || serde_json::to_value(object).map_or(true, |live| !differences(&wanted, &live).is_empty())
        });
        Live {
            uid: object.uid().unwrap_or_default(),
            owner: object.labels().get(OWNER).cloned(),
            differs,
            going: object.metadata.deletion_timestamp.is_some(),
        }
    }

    async fn act(
        &self,
        plan: Plan,
        wishes: &BTreeMap<Id, Wish>,
        found: &Found,
        inventory: &mut Inventory,
        kinds: &mut Kinds,
    ) -> Result<Report, AppliedError> {
        let mut report = Report { conflicts: plan.conflicts, leaving: plan.leaving, ..Report::default() };
        let mut changed = false;
        let defines = wishes.keys().any(|id| id.kind == "CustomResourceDefinition");
        for action in plan.actions {
            match action {
                // What could not be let go of must not be forgotten.
                Action::Record(_) if changed => {}
                Action::Record(ids) => inventory.write(ids).await?,
                Action::Apply(id, uid) => {
                    let Some(wish) = wishes.get(&id) else { continue };
                    let api = kinds.served(&id, defines).await?;
                    self.apply_one(&api, &id, wish, uid).await?;
                    report.applied.push(id);
                }
                Action::Release(id, uid) => {
                    let Some(api) = kinds.any(&id).await? else { continue };
                    let version = found.get(&id).and_then(ResourceExt::resource_version);
                    let patch = json!({"metadata": {"uid": uid, "resourceVersion": version,
                        "labels": {OWNER: null}, "annotations": {APPLIED: null}}});
                    match api.patch(&id.name, &PatchParams::default(), &Patch::Merge(&patch)).await {
                        // It changed under our hands: it stays in the inventory, and the next run looks again.
                        Err(kube::Error::Api(status)) if status.code == 409 => changed = true,
                        patched => {
                            gone_is_fine(patched.map(|_| ())).map_err(failed("let go of", &id))?;
                            report.released.push(id);
                        }
                    }
                }
                Action::Delete(id, uid) => {
                    let Some(api) = kinds.any(&id).await? else { continue };
                    let version = found.get(&id).and_then(ResourceExt::resource_version);
                    // The version too: the label was ours in this one.
                    let only = Preconditions { uid: Some(uid), resource_version: version };
                    let parameters = DeleteParams {
                        preconditions: Some(only),
                        propagation_policy: Some(PropagationPolicy::Background),
                        ..DeleteParams::default()
                    };
                    match api.delete(&id.name, &parameters).await {
                        // It changed under our hands: the next run looks again.
                        Err(kube::Error::Api(status)) if status.code == 409 => {}
                        deleted => {
                            gone_is_fine(deleted.map(|_| ())).map_err(failed("delete", &id))?;
                            report.deleted.push(id);
                        }
                    }
                }
            }
        }
        if changed {
            return Err(AppliedError::Crossed);
        }
        Ok(report)
    }

    async fn apply_one(
        &self,
        api: &Api<DynamicObject>,
        id: &Id,
        wish: &Wish,
        uid: Option<String>,
    ) -> Result<(), AppliedError> {
        let mut object = wish.object.clone();
        let parameters = match uid {
            // Only this very object; what others changed of our fields is set right.
            Some(uid) => {
                object["metadata"]["uid"] = json!(uid);
                PatchParams::apply(MANAGER).force()
            }
            // Whoever made one in the meantime keeps their fields.
            None => PatchParams::apply(MANAGER),
        };
        api.patch(&id.name, &parameters, &Patch::Apply(&object)).await.map_err(failed("apply", id))?;
        Ok(())
    }
}

fn failed(action: &'static str, id: &Id) -> impl FnOnce(kube::Error) -> AppliedError {
    let id = id.clone();
    move |source| AppliedError::Object { action, id, source }
}

/// What is to go and is not there is gone.
fn gone_is_fine(done: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match done {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        done => done,
    }
}

/// Without what the server counts up by itself.
fn without_bookkeeping(mut object: Value) -> Value {
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for name in ["managedFields", "resourceVersion", "generation"] {
            meta.remove(name);
        }
    }
    if let Some(object) = object.as_object_mut() {
        object.remove("status");
    }
    object
}
