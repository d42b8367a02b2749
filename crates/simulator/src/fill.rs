//! Applications for a member that shall not be empty: so many pods, ten to an application, of the size pods usually have.

use meta::{Object, Status};
use serde_json::{Value, json};

use crate::member::Member;

/// Pods of one application.
const EACH: usize = 10;
/// Applications are spread over so many namespaces.
const TEAMS: usize = 10;

impl Member {
    /// Makes Deployments `app-1`, `app-2`, … with so many pods together, in the namespaces `team-1` to `team-10`. Returns when they
    /// are written; their pods start as any others do. Done twice it fails: what is there is not touched.
    pub async fn fill(&self, pods: usize) -> Result<(), Status> {
        let find = |group: &str, plural: &str| {
            let why = || Status::internal(format!("the API server does not serve {plural} of {group:?}"));
            self.api().resource(group, "v1", plural).ok_or_else(why)
        };
        let (namespaces, deployments) = (find("", "namespaces")?, find("apps", "deployments")?);
        let apps = pods.div_ceil(EACH);
        for team in 1..=apps.min(TEAMS) {
            namespaces.create("", object(json!({"metadata": {"name": team_name(team)}}))).await?;
        }
        for app in 1..=apps {
            let replicas = EACH.min(pods - (app - 1) * EACH);
            deployments.create(&team_name((app - 1) % TEAMS + 1), object(deployment(app, replicas))).await?;
        }
        Ok(())
    }
}

fn team_name(team: usize) -> String {
    format!("team-{team}")
}

fn object(value: Value) -> Object {
    Object::from_value(value).unwrap_or_default()
}

fn deployment(app: usize, replicas: usize) -> Value {
    let name = format!("app-{app}");
    let group = if app.is_multiple_of(2) { "green" } else { "blue" };
    let labels = json!({"app": name, "app.kubernetes.io/part-of": "fleet", "app.kubernetes.io/version": "1.4.2", "sym-group": group});
    let env: Vec<Value> = ["LOG_LEVEL", "DATABASE_URL", "CACHE_URL", "QUEUE_URL", "REGION", "FEATURES"]
        .iter()
        .map(|variable| json!({"name": variable, "value": format!("{name}.example.svc:5432/setting")}))
        .collect();
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": "http"}, "periodSeconds": 10});
    let container = json!({
        "name": "main", "image": format!("registry.example.com/fleet/{name}:1.4.2"), "env": env,
        "ports": [{"name": "http", "containerPort": 8080}, {"name": "metrics", "containerPort": 9090}],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}},
        "readinessProbe": probe("/ready"), "livenessProbe": probe("/live"),
        "volumeMounts": [{"name": "settings", "mountPath": "/etc/app", "readOnly": true}],
    });
    let annotations = json!({"prometheus.io/scrape": "true", "prometheus.io/port": "9090"});
    json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": labels, "annotations": annotations},
                "spec": {"containers": [container], "volumes": [{"name": "settings", "configMap": {"name": "settings"}}]},
            },
        },
    })
}
