//! Applications for a member that shall not be empty: so many pods, ten to an application, of the size pods usually have.

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::Service;

use crate::member::{Member, MemberError};

/// Pods of one application.
const EACH: usize = 10;
/// Applications are spread over so many namespaces.
const TEAMS: usize = 10;

impl Member {
    /// Makes Deployments `app-1`, `app-2`, … with so many pods together, in the namespaces `team-1` to `team-10`. Returns when they
    /// are written; their pods start as any others do. Done twice it fails: what is there is not touched.
    pub async fn fill(&self, pods: usize) -> Result<(), MemberError> {
        let apps = pods.div_ceil(EACH);
        for team in 1..=apps.min(TEAMS) {
            self.make("/api/v1/namespaces", json!({"metadata": {"name": format!("team-{team}")}})).await?;
        }
        for app in 1..=apps {
            let replicas = EACH.min(pods - (app - 1) * EACH);
            let path = format!("/apis/apps/v1/namespaces/team-{}/deployments", (app - 1) % TEAMS + 1);
            self.make(&path, deployment(app, replicas)).await?;
        }
        Ok(())
    }

    /// As a client would, so that nothing is left out of what the API server adds.
    async fn make(&self, path: &str, object: Value) -> Result<(), MemberError> {
        let failed = |why: String| MemberError::Fill { name: self.name().to_owned(), why };
        let request =
            Request::builder().method(Method::POST).uri(path).header(header::CONTENT_TYPE, "application/json");
        let body = Full::new(Bytes::from(object.to_string()));
        let request = request.body(body).map_err(|error| failed(error.to_string()))?;
        let answer = self.service().call(request).await.map_err(|error| failed(error.to_string()))?;
        if answer.status().is_success() {
            return Ok(());
        }
        let said = answer.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        Err(failed(format!("{path}: {}", String::from_utf8_lossy(&said))))
    }
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
