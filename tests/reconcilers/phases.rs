//! The phase machine's journal in real objects: conflicts, broken and deleted statuses, an API server that restarts.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Client, CustomResource, CustomResourceExt, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use muster_tests::{Peer, cases, runner::Case};
use runtime::{
    Context, Controller, Registry,
    phase::{Effect, Handler, Machine, Phase, PhaseKind, PhaseStatus, Phased, Phases, Plan, Progress, Step, Trouble},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::stage::{Running, Stage, annotated, until};

pub fn cases() -> Vec<Case> {
    cases![
        phases: an_errand_is_run_with_each_effect_once,
        somebody_who_edits_all_the_time_does_not_stop_an_errand,
        a_broken_status_is_marked_and_goes_on_when_mended,
        an_api_server_that_restarts_is_waited_for,
    ]
}

/// Writes some ConfigMaps, one after the other.
#[derive(CustomResource, Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[kube(group = "tests.muster.dev", version = "v1", kind = "Errand", namespaced, status = "ErrandStatus")]
struct ErrandSpec {
    notes: u32,
}

/// A kind may have more in its status than the journal.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
struct ErrandStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    remark: Option<String>,
    #[serde(flatten)]
    phases: PhaseStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Way {
    Pending,
    Running,
    Succeeded,
    Failed,
}

impl Phase for Way {
    fn all() -> &'static [Self] {
        &[Self::Pending, Self::Running, Self::Succeeded, Self::Failed]
    }
    fn name(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }
    fn kind(self) -> PhaseKind {
        match self {
            Self::Pending => PhaseKind::Initial,
            Self::Running => PhaseKind::Normal,
            Self::Succeeded => PhaseKind::Succeeded,
            Self::Failed => PhaseKind::Failed,
        }
    }
}

struct Env {
    errand: Arc<Errand>,
    client: Client,
    made: Arc<AtomicUsize>,
}

impl Env {
    fn notes(&self) -> kube::Api<ConfigMap> {
        kube::Api::namespaced(self.client.clone(), &self.errand.namespace().unwrap())
    }

    async fn has(&self, name: &str) -> Result<bool, Trouble> {
        Ok(self.notes().get_opt(name).await?.is_some())
    }

    async fn make(&self, name: &str) -> Result<(), Trouble> {
        let note = ConfigMap {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            ..ConfigMap::default()
        };
        self.notes().create(&PostParams::default(), &note).await?;
        self.made.fetch_add(1, SeqCst);
        Ok(())
    }
}

/// One ConfigMap, by check, act, verify.
struct Note(&'static str);

impl Effect<Env> for Note {
    async fn check(&self, env: &Env, _: &mut Progress) -> Result<bool, Trouble> {
        env.has(&format!("{}-{}", env.errand.name_any(), self.0)).await
    }
    async fn act(&self, env: &Env, _: &mut Progress) -> Result<(), Trouble> {
        env.make(&format!("{}-{}", env.errand.name_any(), self.0)).await
    }
}

/// Many ConfigMaps, with a checkpoint after each.
struct Notes;

impl Handler<Way, Env> for Notes {
    async fn run(&self, env: &Env, progress: &mut Progress) -> Result<Step<Way>, Trouble> {
        let mut at: u32 = progress.checkpoint()?;
        while at < env.errand.spec.notes {
            let name = format!("{}-note-{at}", env.errand.name_any());
            if !env.has(&name).await? {
                env.make(&name).await?;
            }
            at += 1;
            progress.note(format!("{at} of {} notes", env.errand.spec.notes));
            progress.save(&at).await?;
        }
        Ok(Step::Done)
    }
}

struct Errands(Arc<AtomicUsize>);

impl Phases for Errands {
    type Object = Errand;
    type Phase = Way;
    type Env = Env;

    fn status(errand: &Errand) -> Option<&PhaseStatus> {
        errand.status.as_ref().map(|status| &status.phases)
    }
    fn env(&self, errand: Arc<Errand>, context: &Context) -> Env {
        Env { errand, client: context.client.clone(), made: self.0.clone() }
    }
}

fn machine() -> Machine<Way, Env> {
    Machine::builder("Errand")
        .success(Way::Pending, Way::Running)
        .success(Way::Running, Way::Succeeded)
        .failure(Way::Pending, Way::Failed)
        .failure(Way::Running, Way::Failed)
        .handler(Way::Pending, Plan::effect(Note("begun")))
        .handler(
            Way::Running,
            Plan::series()
                .with(
                    "both",
                    Plan::parallel()
                        .with("left", Plan::effect(Note("left")))
                        .with("right", Plan::effect(Note("right"))),
                )
                .with("notes", Plan::handler(Notes)),
        )
        .build()
        .unwrap()
}

struct Scene {
    stage: Stage,
    made: Arc<AtomicUsize>,
}

impl Scene {
    async fn new(peer: &Peer) -> Self {
        let stage = Stage::new(peer).await;
        stage.define(vec![Errand::crd()]).await;
        Self { stage, made: Arc::default() }
    }

    fn manager(&self) -> Running {
        let mut registry = Registry::new();
        let made = self.made.clone();
        let build = move |_: &runtime::Setup| Ok(Controller::new(Phased::new(Errands(made.clone()), machine())));
        registry.register("errand", build).crd().graph(machine().graph().clone());
        assert_eq!(registry.graphs().next().unwrap().kind, "Errand");
        self.stage.manager_of(registry, &Value::Null)
    }

    async fn errand(&self, name: &str, notes: u32) {
        self.stage.api().create(&PostParams::default(), &Errand::new(name, ErrandSpec { notes })).await.unwrap();
    }

    /// An API that is restarting answers nothing; that is no status.
    async fn status(&self, name: &str) -> PhaseStatus {
        let found = self.stage.api::<Errand>().get(name).await.ok();
        found.and_then(|errand| errand.status).map(|status| status.phases).unwrap_or_default()
    }

    async fn succeeded(&self, name: &str, limit: u64) -> PhaseStatus {
        until(limit, name, || self.status(name), |status| status.phase.as_deref() == Some("Succeeded")).await
    }

    fn made(&self) -> usize {
        self.made.load(SeqCst)
    }
}

async fn an_errand_is_run_with_each_effect_once(peer: &Peer) {
    let scene = Scene::new(peer).await;
    let mut manager = scene.manager();
    scene.errand("plain", 40).await;
    // Crashes as it goes.
    for enough in [1, 5, 12, 20] {
        until(30, "notes", async || scene.made(), |made| *made >= enough).await;
        manager.crash().await;
        manager = scene.manager();
    }
    let status = scene.succeeded("plain", 60).await;
    let running = &status.state["Running"];
    assert!(
        running.done && running.steps["both"].steps["left"].done && running.steps["notes"].data == 40,
        "{status:#?}"
    );
    // What was being made when the process died may have been made without being counted: the API knows.
    let notes = scene.stage.api::<ConfigMap>().list(&Default::default()).await.unwrap();
    let ours = notes.iter().filter(|note| note.name_any().starts_with("plain-")).count();
    assert_eq!(ours, 43);
    assert!(scene.made() <= 43, "{} were made, some twice", scene.made());
    manager.stop().await;
}

async fn somebody_who_edits_all_the_time_does_not_stop_an_errand(peer: &Peer) {
    let scene = Scene::new(peer).await;
    let manager = scene.manager();
    scene.errand("busy", 30).await;
    let api = scene.stage.api::<Errand>();
    let remark = Patch::Merge(json!({"status": {"remark": "mine"}}));
    let edits = async {
        for number in 0u64.. {
            let _ =
                api.patch("busy", &PatchParams::default(), &annotated("tests/number", Some(&number.to_string()))).await;
            let _ = api.patch_status("busy", &PatchParams::default(), &remark).await;
        }
    };
    tokio::select! {
        _ = scene.succeeded("busy", 90) => {}
        () = edits => {}
    }
    assert_eq!(scene.made(), 33);
    let status = api.get("busy").await.unwrap().status.unwrap();
    assert_eq!(status.remark.as_deref(), Some("mine"), "the rest of the status is left alone");
    manager.stop().await;
}

async fn a_broken_status_is_marked_and_goes_on_when_mended(peer: &Peer) {
    let scene = Scene::new(peer).await;
    let api = scene.stage.api::<Errand>();
    scene.errand("broken", 2).await;
    let broken = json!({"phase": "Dancing", "state": {"Running": {"done": "perhaps"}}});
    api.patch_status("broken", &PatchParams::default(), &Patch::Merge(json!({"status": broken}))).await.unwrap();
    let manager = scene.manager();
    let stalled = |status: &PhaseStatus| status.conditions.iter().any(|c| c.type_ == "Stalled" && c.status == "True");
    until(30, "marked", || scene.status("broken"), stalled).await;
    let writes = api.get("broken").await.unwrap().resource_version();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(api.get("broken").await.unwrap().resource_version(), writes, "it is told once");
    assert_eq!(scene.made(), 0);
    let mended = json!({"status": {"phase": "Running", "state": null}});
    api.patch_status("broken", &PatchParams::default(), &Patch::Merge(mended)).await.unwrap();
    let status = scene.succeeded("broken", 30).await;
    assert!(!stalled(&status) && scene.made() == 4, "{} {status:#?}", scene.made());
    manager.stop().await;
}

async fn an_api_server_that_restarts_is_waited_for(peer: &Peer) {
    // A server of its own: the others' must not go down.
    let own = Peer::start(peer.kind).await.unwrap();
    let scene = Scene::new(&own).await;
    let manager = scene.manager();
    scene.errand("patient", 60).await;
    for enough in [10, 30] {
        until(60, "notes", async || scene.made(), |made| *made >= enough).await;
        own.kill();
        tokio::time::sleep(Duration::from_secs(1)).await;
        own.launch().unwrap();
        own.ready_again(muster_tests::PATIENCE).await.unwrap();
    }
    scene.succeeded("patient", 60).await;
    let notes = scene.stage.api::<ConfigMap>().list(&Default::default()).await.unwrap();
    assert_eq!(notes.iter().filter(|note| note.name_any().starts_with("patient-")).count(), 63);
    assert!(scene.made() <= 63, "{} were made, some twice", scene.made());
    manager.stop().await;
}
