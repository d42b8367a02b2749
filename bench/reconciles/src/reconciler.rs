//! Our side of the comparison: a reconciler as anybody would write it. `tests/clients/go/reconciles` is its twin.
//!
//!   muster-bench-reconciler KUBECONFIG OBJECTS WRITE(0|1)
//!
//! Says `cold SECONDS` when every object has been reconciled once, then answers `report` with the delays between the stamp in
//! an object's spec and its reconcile: `latency P50 P99 MAX COUNT`, in microseconds.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used, unused_crate_dependencies)]

use std::collections::{BTreeMap, HashSet};
use std::io::BufRead;
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, CustomResource, ResourceExt};
use runtime::{Context, Controller, Failure, Key, Manager, Next, Options, Reconciler, Registry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

// As the product's own binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(CustomResource, Deserialize, Serialize, Clone, Debug, JsonSchema)]
#[kube(group = "bench.muster.dev", version = "v1", kind = "Item", namespaced, status = "ItemStatus")]
struct ItemSpec {
    /// When it was written, in nanoseconds since 1970; 0 for not at all.
    stamp: i64,
    payload: String,
}

#[derive(Deserialize, Serialize, Clone, Debug, Default, JsonSchema)]
struct ItemStatus {
    #[serde(default)]
    seen: BTreeMap<String, i64>,
}

struct Items {
    start: Instant,
    objects: usize,
    write: bool,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    seen: HashSet<Key>,
    cold: bool,
    delays: Vec<i64>,
}

impl Reconciler for Items {
    type Object = Item;

    async fn reconcile(&self, item: Arc<Item>, context: &Context) -> Result<Next, Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as i64);
        let seen = item.status.as_ref().and_then(|status| status.seen.get("rust"));
        if self.write && seen != Some(&item.spec.stamp) {
            let api: Api<Item> = Api::namespaced(context.client.clone(), &item.namespace().unwrap_or_default());
            let patch = serde_json::json!({"status": {"seen": {"rust": item.spec.stamp}}});
            api.patch_status(&item.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
        }
        let mut state = self.state.lock().unwrap();
        if state.cold {
            state.delays.push((now - item.spec.stamp) / 1000);
        } else if state.seen.insert(Key::of(&*item)) && state.seen.len() == self.objects {
            state.cold = true;
            state.seen = HashSet::new();
            println!("cold {}", self.start.elapsed().as_secs_f64());
        }
        Ok(Next::Wait)
    }
}

fn report(state: &Mutex<State>) {
    let mut delays = std::mem::take(&mut state.lock().unwrap().delays);
    delays.sort_unstable();
    let at = |part: f64| delays.get(((delays.len() as f64 - 1.0) * part).max(0.0) as usize).copied().unwrap_or(0);
    println!("latency {} {} {} {}", at(0.5), at(0.99), at(1.0), delays.len());
}

#[tokio::main]
async fn main() {
    let start = Instant::now();
    let words: Vec<String> = std::env::args().collect();
    let kubeconfig = Kubeconfig::read_from(&words[1]).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let client = Client::try_from(config).unwrap();
    let (objects, write) = (words[2].parse().unwrap(), words[3] == "1");
    let state: Arc<Mutex<State>> = Arc::default();
    let shared = state.clone();
    let mut registry = Registry::new();
    registry.register("items", move |_| {
        Ok(Controller::new(Items { start, objects, write, state: shared.clone() })
            .ignore_status_changes()
            .concurrency(10))
    });
    let stop = CancellationToken::new();
    let manager = Manager::new(client, registry, Options::default()).unwrap();
    let commands = tokio::task::spawn_blocking({
        let stop = stop.clone();
        move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                if line == "report" {
                    report(&state);
                }
            }
            stop.cancel();
        }
    });
    manager.run(stop).await.unwrap();
    commands.await.unwrap();
}
