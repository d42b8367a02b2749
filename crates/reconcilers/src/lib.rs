//! The worked examples of the controller framework: one folder per reconciler (KC-7).

pub mod at;
pub mod redismigration;

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use runtime::{Controller, Filter, Registry, Tuning};

/// Adds all of them.
pub fn register(registry: &mut Registry) {
    registry
        .register("at", |setup| {
            let pods =
                Filter { labels: Some("app.kubernetes.io/managed-by=muster-at".to_owned()), ..Filter::default() };
            // A command may take a day, and waiting for it costs nothing.
            let tuning = Tuning { concurrency: 64, deadline: Duration::from_secs(25 * 3600), ..Tuning::default() };
            Ok(Controller::new(at::Ats::new(setup.options()?)).tuning(tuning).owns::<Pod>(pods))
        })
        .crd();
    let migrations = registry
        .register("redismigration", |_| {
            // A migration may take long; it goes on from its checkpoint all the same when it is cut off.
            let tuning = Tuning { deadline: Duration::from_secs(24 * 3600), ..Tuning::default() };
            Ok(Controller::new(redismigration::reconciler()?).tuning(tuning).ignore_status_changes())
        })
        .crd();
    if let Ok(machine) = redismigration::machine() {
        migrations.graph(machine.graph().clone());
    }
}
