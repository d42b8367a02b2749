//! APIExt beside the hub: the configuration's section as the gateway takes it.

use gateway::{Actions, Face, Limits, Listening, Options, ServeError, Tls, Upstream};
use runtime::{
    Metrics,
    config::{ApiExt, Gateway},
};

use crate::{
    hub,
    problem::{Kind, Problem},
};

/// Takes the address; nothing is answered yet.
pub async fn bind(section: &ApiExt, gateway: Gateway, metrics: Option<&Metrics>) -> Result<Listening, Problem> {
    let unusable = |why: String| {
        Problem::new(Kind::Usage, "the API of apiExt cannot be used", why)
            .next("mend apiExt.api, or leave it out to use the first manager's")
    };
    let config = runtime::app::api_config(&section.api).await.map_err(|why| unusable(why.to_string()))?;
    let upstream = Upstream::from_config(config).map_err(|error| unusable(error.to_string()))?;
    let tls = section.tls.as_ref().map(|files| Tls {
        certificate: files.certificate.clone(),
        key: files.key.clone(),
        client_ca: section.client_ca.clone(),
    });
    let options = Options {
        tls,
        kinds: section.kinds.clone(),
        hosts: section.hosts.clone(),
        origins: section.origins.clone(),
        limits: Limits::paced(gateway.requests_per_second),
        ..Options::new(section.address)
    };
    let face = Face::new(options, upstream).actions(actions());
    let face = match metrics {
        Some(metrics) => face.measure(metrics),
        None => face,
    };
    let listening = face.bind().await.map_err(problem)?;
    tracing::info!(address = %listening.address(), "APIExt is listening");
    Ok(listening)
}

/// What can be done to objects: what every kind can, and what our phase machines honour.
pub fn actions() -> Actions {
    let registry = hub::registry();
    let driven: Vec<_> = registry.iter().filter(|one| one.graph.is_some()).cloned().collect();
    let by_machine =
        move |kind: &gateway::Kind| driven.iter().any(|one| (&*one.group, &*one.kind) == (&*kind.group, &*kind.kind));
    Actions::default().with_phases(by_machine)
}

fn problem(error: ServeError) -> Problem {
    match &error {
        ServeError::Bind { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse => {
            Problem::new(Kind::InUse, "cannot listen", error)
                .next("stop that program, or choose another apiExt.bindAddress")
        }
        _ => Problem::new(Kind::Usage, "APIExt cannot be served", error).next("mend the section apiExt"),
    }
}
