//! The hub's reconcilers for the console: asked and steered through their managers.

use futures_util::future::BoxFuture;
use gateway::{Controllers, Problem};
use runtime::{Handle, HandleError, Key, Patterns, Registry, app::App, config::Config, phase::Graph};
use serde_json::{Value, json};

/// Every reconciler, with the manager that answers for it.
pub struct Reconcilers {
    managers: Vec<(Patterns, Handle)>,
    registry: Registry,
}

impl Reconcilers {
    pub fn of(app: &App, config: &Config, registry: Registry) -> Reconcilers {
        let patterns = config.managers.iter().map(|manager| manager.controllers.clone());
        Reconcilers { managers: patterns.zip(app.handles()).collect(), registry }
    }

    /// The manager that is to run it; the first one for what nobody is to run.
    fn manager(&self, name: &str) -> Option<&Handle> {
        let meant = self.managers.iter().find(|(patterns, _)| patterns.allows(name));
        meant.or(self.managers.first()).map(|(_, handle)| handle)
    }

    async fn rows(&self) -> Result<Vec<Value>, Problem> {
        let mut rows = Vec::new();
        for registration in self.registry.iter() {
            let Some(handle) = self.manager(&registration.name) else { continue };
            let all = handle.list().await.map_err(problem)?;
            let Some(status) = all.into_iter().find(|status| *status.name == *registration.name) else { continue };
            let mut row = serde_json::to_value(&status)
                .map_err(|e| Problem::new(500, "InternalError", format!("a reconciler cannot be shown: {e}")))?;
            if let Some(graph) = &registration.graph {
                row["graph"] = drawn(graph);
            }
            rows.push(row);
        }
        Ok(rows)
    }
}

fn drawn(graph: &Graph) -> Value {
    let phases: Vec<Value> =
        graph.nodes.iter().map(|node| json!({"name": node.name, "terminal": node.kind.is_terminal()})).collect();
    let edges: Vec<Value> =
        graph.edges.iter().map(|edge| json!({"from": edge.from, "to": edge.to, "on": edge.reason.label()})).collect();
    json!({"phases": phases, "edges": edges})
}

fn problem(error: HandleError) -> Problem {
    match error {
        HandleError::Unknown { .. } => Problem::not_found(error.to_string()),
        HandleError::Disabled(_) => Problem::new(409, "Conflict", error.to_string()),
        HandleError::Setup(_) => Problem::new(422, "Invalid", error.to_string()),
        HandleError::Stopped => Problem::unavailable(error.to_string()),
    }
}

impl Controllers for Reconcilers {
    fn list(&self) -> BoxFuture<'_, Result<Vec<Value>, Problem>> {
        Box::pin(self.rows())
    }

    fn switch<'a>(&'a self, name: &'a str, on: bool) -> BoxFuture<'a, Result<(), Problem>> {
        Box::pin(async move {
            let unknown = || Problem::not_found(format!("there is no reconciler {name}"));
            let handle = self.manager(name).ok_or_else(unknown)?;
            let switched = if on { handle.enable(name).await } else { handle.disable(name).await };
            switched.map_err(problem)
        })
    }

    fn requeue<'a>(&'a self, name: &'a str, key: Option<&'a str>) -> BoxFuture<'a, Result<usize, Problem>> {
        Box::pin(async move {
            let unknown = || Problem::not_found(format!("there is no reconciler {name}"));
            let handle = self.manager(name).ok_or_else(unknown)?;
            handle.requeue(name, key.map(Key::parse)).await.map_err(problem)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_drawn_as_phases_and_the_ways_between_them() {
        // KC-6
        let registry = crate::hub::registry();
        let graph = registry.iter().find_map(|registration| registration.graph.as_ref()).unwrap();
        let drawn = drawn(graph);
        let phases = drawn["phases"].as_array().unwrap();
        assert!(phases.iter().any(|phase| phase["terminal"] == true));
        assert!(phases.iter().any(|phase| phase["terminal"] == false));
        let names: Vec<&Value> = phases.iter().map(|phase| &phase["name"]).collect();
        for edge in drawn["edges"].as_array().unwrap() {
            assert!(names.contains(&&edge["from"]) && names.contains(&&edge["to"]), "{edge}");
            assert!(["success", "failure", "cancel", "forced"].contains(&edge["on"].as_str().unwrap()));
        }
    }
}
