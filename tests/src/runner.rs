//! Runs cases: every case on every peer it is meant for, several at once, each named `peer::module::case`.
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::{Kind, Peer};

pub type CaseFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum On {
    Both,
    /// What Kubernetes does in another process (its controller manager), or what only we promise.
    MusterOnly,
    /// Facts about Kubernetes that we do not copy on purpose.
    KubernetesOnly,
}

#[derive(Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    pub on: On,
    pub run: fn(Arc<Peer>) -> CaseFuture,
}

impl Case {
    fn is_of(&self, module: &str) -> bool {
        self.name.split("::").next() == Some(module)
    }
}

/// `cases![module: a, b, c]` makes cases of `async fn a(peer: &Peer)`; `cases![muster module: …]` only runs them on us.
#[macro_export]
macro_rules! cases {
    (muster $module:ident: $($case:ident),* $(,)?) => { $crate::cases!(@ MusterOnly, $module: $($case),*) };
    (kubernetes $module:ident: $($case:ident),* $(,)?) => { $crate::cases!(@ KubernetesOnly, $module: $($case),*) };
    ($module:ident: $($case:ident),* $(,)?) => { $crate::cases!(@ Both, $module: $($case),*) };
    (@ $on:ident, $module:ident: $($case:ident),*) => {
        vec![$($crate::runner::Case {
            name: concat!(stringify!($module), "::", stringify!($case)),
            on: $crate::runner::On::$on,
            run: |peer| Box::pin(async move { $case(&peer).await }),
        }),*]
    };
}

tokio::task_local! {
    static NAME: String;
}

/// Whether cases run at their full length (`MUSTER_LONG=1`), which may be an hour.
pub fn is_long() -> bool {
    std::env::var_os("MUSTER_LONG").is_some_and(|value| !value.is_empty() && value != "0")
}

/// Which peers to run on: `MUSTER_TEST_PEERS=kubernetes,muster` (the default is both).
pub fn chosen_peers() -> Vec<Kind> {
    chosen_of(&[Kind::Kubernetes, Kind::Muster])
}

fn chosen_of(kinds: &[Kind]) -> Vec<Kind> {
    let chosen = std::env::var("MUSTER_TEST_PEERS").ok();
    let is_chosen = |kind: &Kind| chosen.as_ref().is_none_or(|all| all.split(',').any(|name| name == kind.name()));
    kinds.iter().copied().filter(is_chosen).collect()
}

/// Words of the command line that are not flags filter cases by substring, as with the standard runner; `--list` lists.
pub struct Arguments {
    pub filters: Vec<String>,
    pub list: bool,
}

pub fn arguments() -> Arguments {
    let words: Vec<String> = std::env::args().skip(1).collect();
    Arguments {
        list: words.iter().any(|word| word == "--list"),
        filters: words.into_iter().filter(|word| !word.starts_with('-')).collect(),
    }
}

impl Arguments {
    pub fn wants(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter.as_str()))
    }
}

pub fn install_panic_hook() {
    std::panic::set_hook(Box::new(|info| {
        let name = NAME.try_with(Clone::clone).unwrap_or_default();
        let message = info.payload_as_str().unwrap_or("panic");
        let place = info.location().map(|l| format!("{}:{}", l.file(), l.line())).unwrap_or_default();
        let message: String = message.chars().take(4000).collect();
        eprintln!("--- {name} at {place}\n{message}\n");
    }));
}

/// Runs the cases and ends the process with 1 when one failed.
pub fn main(cases: Vec<Case>) {
    run(cases, chosen_peers(), &[]);
}

/// As `main`, and those of the cases that are of these modules also on muster with an etcd (`muster-on-etcd`).
pub fn main_with_etcd(cases: Vec<Case>, modules: &[&str]) {
    run(cases, chosen_of(&[Kind::Kubernetes, Kind::Muster, Kind::MusterOnEtcd]), modules);
}

fn run(cases: Vec<Case>, kinds: Vec<Kind>, on_etcd: &[&str]) {
    install_panic_hook();
    let arguments = arguments();
    let mut failed = Vec::new();
    let mut passed = 0;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for kind in kinds {
        let wanted: Vec<(String, Case)> = cases
            .iter()
            .filter(|case| match case.on {
                On::Both => true,
                On::MusterOnly => kind.is_muster(),
                On::KubernetesOnly => kind == Kind::Kubernetes,
            })
            .filter(|case| kind != Kind::MusterOnEtcd || on_etcd.iter().any(|module| case.is_of(module)))
            .map(|case| (format!("{}::{}", kind.name(), case.name), *case))
            .filter(|(name, _)| arguments.wants(name))
            .collect();
        if arguments.list {
            wanted.iter().for_each(|(name, _)| println!("{name}: test"));
            continue;
        }
        if wanted.is_empty() {
            continue;
        }
        let peer = Arc::new(runtime.block_on(Peer::start(kind)).unwrap_or_else(|why| panic!("{}: {why}", kind.name())));
        for (name, took, ok) in runtime.block_on(run_all(&peer, wanted)) {
            println!("test {name} ... {} ({} ms)", if ok { "ok" } else { "FAILED" }, took.as_millis());
            if ok {
                passed += 1;
            } else {
                failed.push(name);
            }
        }
        if let Some(panic) = peer.panic_in_log() {
            println!("test {}::no_panic_in_the_log ... FAILED\n{panic}", kind.name());
            failed.push(format!("{}::no_panic_in_the_log", kind.name()));
        }
    }
    println!("\ntest result: {} passed; {} failed", passed, failed.len());
    failed.iter().for_each(|name| println!("    {name}"));
    drop(runtime);
    if !failed.is_empty() {
        std::process::exit(1);
    }
}

async fn run_all(peer: &Arc<Peer>, cases: Vec<(String, Case)>) -> Vec<(String, Duration, bool)> {
    let width: usize = std::env::var("MUSTER_TEST_WIDTH").ok().and_then(|w| w.parse().ok()).unwrap_or(8);
    let gate = Arc::new(Semaphore::new(width));
    let mut running = JoinSet::new();
    for (name, case) in cases {
        let (peer, gate) = (peer.clone(), gate.clone());
        running.spawn(async move {
            let _turn = gate.acquire_owned().await.unwrap();
            let start = Instant::now();
            let limit = Duration::from_secs(if is_long() { 3600 } else { 600 });
            let work = NAME.scope(name.clone(), async move {
                if tokio::time::timeout(limit, (case.run)(peer)).await.is_err() {
                    panic!("did not end within {limit:?}");
                }
            });
            let ok = tokio::spawn(work).await.is_ok();
            (name, start.elapsed(), ok)
        });
    }
    let mut results = Vec::new();
    while let Some(done) = running.join_next().await {
        results.push(done.unwrap());
    }
    results.sort_by(|a, b| a.0.cmp(&b.0));
    results
}
