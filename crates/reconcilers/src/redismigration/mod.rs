//! The worked example of a phase machine: moves the keys of one Redis into another (KC-7).
//!
//! Pending finds the servers, Precheck looks whether it can work, Migrate copies (`copy`) and compares (`verify`). Both go
//! through the keys with SCAN and leave their cursor in `status.state`, so a restart goes on where it was.

mod compare;
mod copy;
mod endpoint;
mod pages;
mod precheck;
mod resp;
mod server;
mod types;
mod verify;

use std::{sync::Arc, time::Duration};

use kube::Client;
use runtime::{
    Context,
    phase::{
        Controls, Defects, Handler, Machine, PhaseStatus, Phased, Phases, Plan, Progress, Step, Trouble,
        annotated_controls,
    },
};

pub use types::{Overwrite, RedisMigration, RedisMigrationSpec, Stage};

use endpoint::{Endpoint, Side};

/// What the handlers work with.
pub struct Env {
    object: Arc<RedisMigration>,
    client: Client,
}

impl Env {
    fn spec(&self) -> &RedisMigrationSpec {
        &self.object.spec
    }

    /// One of the two servers. Read anew each time: a password may have been changed since.
    async fn endpoint(&self, side: Side) -> Result<Endpoint, Trouble> {
        let name = match side {
            Side::Source => &self.spec().source,
            Side::Dest => &self.spec().dest,
        };
        let namespace = self.object.metadata.namespace.as_deref().unwrap_or("default");
        Endpoint::resolve(&self.client, namespace, name, side).await
    }
}

/// The kind.
pub struct Migrations;

impl Phases for Migrations {
    type Object = RedisMigration;
    type Phase = Stage;
    type Env = Env;

    fn status(object: &RedisMigration) -> Option<&PhaseStatus> {
        object.status.as_ref()
    }

    fn env(&self, object: Arc<RedisMigration>, context: &Context) -> Env {
        Env { object, client: context.client.clone() }
    }

    fn controls(object: &RedisMigration) -> Controls {
        let mut controls = annotated_controls(object);
        controls.paused |= object.spec.paused;
        controls.cancelled |= object.spec.cancelled;
        controls
    }
}

/// The reconciler.
pub fn reconciler() -> Result<Phased<Migrations>, Defects> {
    Ok(Phased::new(Migrations, machine()?))
}

/// The machine: every phase with where it leads, and what is done in it.
pub fn machine() -> Result<Machine<Stage, Env>, Defects> {
    use Stage::{Failed, Migrate, Pending, PreFailed, Precheck, Succeeded};
    Machine::builder("RedisMigration")
        .success(Pending, Precheck)
        .success(Precheck, Migrate)
        .success(Migrate, Succeeded)
        .failure(Pending, PreFailed)
        .failure(Precheck, PreFailed)
        .failure(Migrate, Failed)
        .cancel(Pending, PreFailed)
        .cancel(Precheck, PreFailed)
        .cancel(Migrate, Failed)
        .handler(Pending, Plan::handler(Resolve))
        .handler(
            Precheck,
            Plan::series()
                .with(
                    "servers",
                    Plan::parallel()
                        .with("source", Plan::handler(precheck::Reachable(Side::Source)))
                        .with("dest", Plan::handler(precheck::Reachable(Side::Dest))),
                )
                .with("room", Plan::handler(precheck::Room)),
        )
        .handler(
            Migrate,
            Plan::series().with("copy", Plan::handler(copy::Copy)).with("verify", Plan::handler(verify::Verify)),
        )
        .deadline(Pending, Duration::from_secs(60))
        .deadline(Precheck, Duration::from_secs(120))
        .build()
}

/// Pending: both Secrets are there and make sense. One that is missing may come within the phase's deadline.
struct Resolve;

impl Handler<Stage, Env> for Resolve {
    async fn run(&self, env: &Env, progress: &mut Progress) -> Result<Step<Stage>, Trouble> {
        let source = env.endpoint(Side::Source).await?;
        let dest = env.endpoint(Side::Dest).await?;
        if (&source.address, source.db) == (&dest.address, dest.db) {
            let why = "source and dest are the same database; name two different ones";
            return Err(Trouble::fatal("SameDatabase", why));
        }
        progress.note(format!("{} to {}", source.address, dest.address));
        Ok(Step::Done)
    }
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;

    use super::*;

    #[test]
    fn the_machine_can_be_built_and_drawn() {
        // KC-7
        let machine = machine().unwrap();
        assert!(machine.graph().mermaid().contains("Migrate"));
    }

    #[test]
    fn the_sample_of_the_seed_is_valid_as_it_is() {
        // KC-7
        let spec: RedisMigrationSpec = serde_json::from_str(r#"{"source": "ali-123", "dest": "tx-123"}"#).unwrap();
        assert_eq!((spec.key_pattern.as_str(), spec.overwrite, spec.verify), ("*", Overwrite::Never, true));
        let crd = RedisMigration::crd();
        assert_eq!(crd.metadata.name.as_deref(), Some("redismigrations.database.cloud.tencent.com"));
        let schema = serde_json::to_value(&crd.spec.versions[0].schema).unwrap();
        let spec = &schema["openAPIV3Schema"]["properties"]["spec"];
        assert_eq!(spec["required"], serde_json::json!(["dest", "source"]));
    }
}
