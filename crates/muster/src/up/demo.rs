//! `--demo`: three simulated clusters with sample applications, as members of the fleet.

use std::{collections::BTreeMap, time::Duration};

use fleet::{Connection, Fleet};
use futures_util::future::join_all;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, TypeMeta},
};
use simulator::{Member, NodePool, Settings};
use tokio::time::timeout;

use crate::problem::{Kind, Problem};

/// For one object to be written.
const PATIENCE: Duration = Duration::from_secs(30);

/// A simulated cluster and what it is called by.
struct Site {
    name: &'static str,
    region: &'static str,
    zone: &'static str,
    unit: &'static str,
    ldc: &'static str,
    nodes: usize,
}

const SITES: [Site; 3] = [
    Site { name: "beijing", region: "north", zone: "north-1", unit: "unit-1", ldc: "bj1", nodes: 4 },
    Site { name: "shanghai", region: "east", zone: "east-2", unit: "unit-1", ldc: "sh1", nodes: 3 },
    Site { name: "guangzhou", region: "south", zone: "south-1", unit: "unit-2", ldc: "gz1", nodes: 3 },
];

/// The sample applications, and where they run if not everywhere.
const SAMPLES: [(&str, Option<&str>); 5] = [
    (include_str!("../../../../deploy/demo/platform.yaml"), None),
    (include_str!("../../../../deploy/demo/shop.yaml"), None),
    (include_str!("../../../../deploy/demo/data.yaml"), None),
    (include_str!("../../../../deploy/demo/releases.yaml"), None),
    (include_str!("../../../../deploy/demo/trouble.yaml"), Some("shanghai")),
];

/// The simulated members while they run.
pub struct Demo {
    members: Vec<Member>,
}

impl Demo {
    /// When this returns they are declared and hold their applications, whose pods are starting.
    pub async fn start(fleet: &Fleet) -> Result<Demo, Problem> {
        let mut demo = Demo { members: Vec::new() };
        let mut outcome = Ok(());
        for started in join_all(SITES.iter().map(|site| site.start(fleet))).await {
            match started {
                Ok(member) => demo.members.push(member),
                Err(problem) => outcome = Err(problem),
            }
        }
        match outcome {
            Ok(()) => Ok(demo),
            Err(problem) => {
                demo.stop().await;
                Err(problem)
            }
        }
    }

    pub async fn stop(self) {
        join_all(self.members.iter().map(Member::stop)).await;
    }
}

impl Site {
    async fn start(&self, fleet: &Fleet) -> Result<Member, Problem> {
        let mut settings = Settings::new(self.name);
        let topology = [("region", self.region), ("zone", self.zone)];
        let labels = topology.map(|(key, value)| (format!("topology.kubernetes.io/{key}"), value.to_owned()));
        let prefix = format!("{}-node", self.ldc);
        settings.nodes = vec![NodePool { prefix, count: self.nodes, labels: labels.into(), ..NodePool::default() }];
        let failed = |why: String| Problem::new(Kind::Failed, "the demo cannot start", why);
        let member = Member::start(settings).await.map_err(|e| failed(e.to_string()))?;
        let client = Client::new(member.service(), "default");
        if let Err(why) = self.fill(&client).await {
            member.stop().await;
            return Err(failed(format!("{}: {why}", self.name)));
        }
        fleet.declare(self.name, self.labels(), Connection::through(client));
        Ok(member)
    }

    fn labels(&self) -> BTreeMap<String, String> {
        let labels = [("region", self.region), ("zone", self.zone), ("sym-unit", self.unit), ("sym-ldc", self.ldc)];
        labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    }

    /// Applies the samples, in order.
    async fn fill(&self, client: &Client) -> Result<(), String> {
        let apply = PatchParams::apply("muster-demo").force();
        for object in self.objects()? {
            let types = object.types.clone().unwrap_or_default();
            let kind = GroupVersionKind::try_from(&types).map_err(|e| e.to_string())?;
            let resource = ApiResource::from_gvk(&kind);
            let api: Api<DynamicObject> = match &object.metadata.namespace {
                Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
                None => Api::all_with(client.clone(), &resource),
            };
            let name = object.metadata.name.clone().unwrap_or_default();
            let TypeMeta { kind, .. } = types;
            let applied = timeout(PATIENCE, api.patch(&name, &apply, &Patch::Apply(&object))).await;
            applied.map_err(|_| format!("{kind} {name}: no answer"))?.map_err(|e| format!("{kind} {name}: {e}"))?;
        }
        Ok(())
    }

    /// The samples of this site in its own words.
    fn objects(&self) -> Result<Vec<DynamicObject>, String> {
        let words = [
            ("${cluster}", self.name),
            ("${region}", self.region),
            ("${zone}", self.zone),
            ("${unit}", self.unit),
            ("${ldc}", self.ldc),
        ];
        let here = SAMPLES.iter().filter(|(_, only)| only.is_none_or(|only| only == self.name));
        let mut objects = Vec::new();
        for (text, _) in here {
            let text = words.iter().fold((*text).to_owned(), |text, (word, meaning)| text.replace(word, meaning));
            for document in text.split("\n---\n") {
                let value = meta::yaml::parse(document.as_bytes())?;
                objects.push(serde_json::from_value(value).map_err(|e| e.to_string())?);
            }
        }
        Ok(objects)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
    use kube::api::ListParams;

    use super::*;

    #[test]
    fn every_word_of_the_samples_is_known_and_every_object_has_its_place() {
        for site in &SITES {
            let objects = site.objects().unwrap();
            assert!(!objects.is_empty());
            for object in &objects {
                let text = serde_json::to_string(object).unwrap();
                assert!(!text.contains("${"), "{}: {text}", site.name);
                let kind = object.types.as_ref().unwrap().kind.as_str();
                assert_eq!(object.metadata.namespace.is_none(), kind == "Namespace", "{kind}");
            }
        }
        let failing = |site: &Site| {
            let objects = site.objects().unwrap();
            objects.iter().filter(|object| object.data.to_string().contains(simulator::FAIL)).count()
        };
        assert_eq!(SITES.each_ref().map(failing), [0, 1, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_members_join_and_their_applications_come_up_in_groups() {
        let fleet = Fleet::new(fleet::Care::default());
        let demo = Demo::start(&fleet).await.unwrap();
        let names: Vec<String> = fleet.members().iter().map(|member| member.name().to_string()).collect();
        assert_eq!(names, ["beijing", "guangzhou", "shanghai"]);
        let shanghai = demo.members.iter().find(|member| member.name() == "shanghai").unwrap();
        let client = Client::new(shanghai.service(), "default");
        let pods: Api<Pod> = Api::namespaced(client.clone(), "shop");
        let web = ListParams::default().labels("app=web,sym-group=blue,sym-ldc=sh1,sym-unit=unit-1");
        tokio::time::timeout(Duration::from_secs(120), async {
            loop {
                let list = pods.list(&web).await.unwrap();
                let phases = list.iter().filter_map(|pod| pod.status.as_ref()?.phase.as_deref());
                if phases.filter(|phase| *phase == "Running").count() == 3 {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        })
        .await
        .unwrap();
        let deployments: Api<Deployment> = Api::namespaced(client, "shop");
        assert!(deployments.get("recommend").await.is_ok());
        demo.stop().await;
    }
}
