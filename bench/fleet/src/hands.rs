//! Hands on the members themselves, past the gateway: they change pods, and see when all have started.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::rc::Rc;
use std::time::{Duration, Instant as Wall};

use http::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval, sleep};

use crate::Failure;
use crate::load::{Run, micros};
use crate::peers::{Cluster, PATIENCE};
use crate::wire::{Door, Wire};

/// A pod of a member.
#[derive(Clone)]
pub struct Pod {
    pub cluster: String,
    pub namespace: String,
    pub name: String,
}

pub struct Hands {
    clients: BTreeMap<String, Client>,
}

impl Hands {
    pub async fn on(clusters: &[Cluster]) -> Result<Hands, Failure> {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // Somebody else may have been faster: fine.
            let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        }
        let mut clients = BTreeMap::new();
        for cluster in clusters {
            let file = Kubeconfig::from_yaml(&fs::read_to_string(&cluster.kubeconfig)?)?;
            let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
            clients.insert(cluster.name.clone(), Client::try_from(config)?);
        }
        Ok(Hands { clients })
    }

    async fn ask(&self, cluster: &str, path: &str) -> Result<Value, Failure> {
        let client = self.clients.get(cluster).ok_or("no such cluster")?;
        Ok(client.request(Request::get(path).body(Vec::new())?).await?)
    }

    /// Waits until so many pods are ready on each.
    pub async fn until_filled(&self, pods: usize) -> Result<(), Failure> {
        let begun = Wall::now();
        for cluster in self.clients.keys() {
            loop {
                let all = self.ask(cluster, "/apis/apps/v1/deployments").await?;
                let items = all["items"].as_array().map(Vec::as_slice).unwrap_or_default();
                let ready: u64 = items.iter().filter_map(|one| one["status"]["readyReplicas"].as_u64()).sum();
                if ready >= pods as u64 {
                    break;
                }
                if begun.elapsed() > PATIENCE {
                    return Err(format!("{cluster} has {ready} of {pods} pods ready").into());
                }
                sleep(Duration::from_millis(500)).await;
            }
        }
        Ok(())
    }

    /// Bytes of a pod as its cluster serves it, without the bookkeeping of who wrote which field.
    pub async fn size(&self, pod: &Pod) -> Result<usize, Failure> {
        let mut whole = self.ask(&pod.cluster, &path(pod)).await?;
        if let Some(metadata) = whole["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        Ok(whole.to_string().len())
    }

    pub async fn label(&self, pod: &Pod, value: &str) -> Result<(), Failure> {
        let client = self.clients.get(&pod.cluster).ok_or("no such cluster")?;
        let patch = json!({"metadata": {"labels": {"bench": value}}}).to_string().into_bytes();
        let request = Request::patch(path(pod)).header("content-type", "application/merge-patch+json").body(patch)?;
        client.request_text(request).await?;
        Ok(())
    }
}

fn path(pod: &Pod) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name)
}

/// Changes that go on in the background until this is dropped.
pub struct Ticking {
    task: JoinHandle<()>,
    made: Rc<Cell<usize>>,
    begun: Instant,
}

impl Ticking {
    /// So many changes a second, over these pods one after the other. One that takes long delays no other.
    pub fn start(hands: &Rc<Hands>, pods: Vec<Pod>, per_second: usize) -> Ticking {
        let (hands, made) = (Rc::clone(hands), Rc::new(Cell::new(0)));
        let counted = Rc::clone(&made);
        let task = tokio::task::spawn_local(async move {
            let mut ticks = interval(Duration::from_secs_f64(1.0 / per_second as f64));
            for (n, pod) in pods.into_iter().cycle().enumerate() {
                ticks.tick().await;
                let (hands, counted) = (Rc::clone(&hands), Rc::clone(&counted));
                tokio::task::spawn_local(async move {
                    match hands.label(&pod, &format!("tick-{n}")).await {
                        Ok(()) => counted.set(counted.get() + 1),
                        Err(why) => eprintln!("a pod of {} could not be changed: {why}", pod.cluster),
                    }
                });
            }
        });
        Ticking { task, made, begun: Instant::now() }
    }

    pub fn per_second(&self) -> f64 {
        self.made.get() as f64 / self.begun.elapsed().as_secs_f64()
    }
}

impl Drop for Ticking {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Changes these pods one after the other; how long it took, from before the change was sent, until the REST API showed it.
pub async fn visible(hands: &Hands, door: &Door, app: &str, pods: &[Pod], count: usize) -> Result<Run, Failure> {
    let mut wire = Wire::connect(door.address).await?;
    let (begun, mut took) = (Instant::now(), Vec::with_capacity(count));
    for (n, pod) in pods.iter().cycle().take(count).enumerate() {
        let value = format!("seen-{n}");
        let path = format!("/api/cluster/all/appPod/{app}?labelSelector=bench%3D{value}&pageSize=1&fields=name");
        let request = door.get(&path);
        let sent = Instant::now();
        hands.label(pod, &value).await?;
        while memchr::memmem::find(wire.good(&request).await?, b"\"count\":1").is_none() {
            if sent.elapsed() > Duration::from_secs(30) {
                return Err(format!("a change of {}/{} was not seen in 30 s", pod.cluster, pod.name).into());
            }
            sleep(Duration::from_millis(1)).await;
        }
        took.push(micros(sent));
    }
    Ok(Run::new(took, begun, 0))
}
