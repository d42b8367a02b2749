//! Actions: things one does to an object that are not a change of its fields, as `POST …/{name}/{action}`.
//!
//! An action is a pure function from the object and the input to a plan, so that it is tested without an API; carrying the plan
//! out is the same for all: read as the caller, plan, patch as the caller with the version read, and again when somebody was faster.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::catalog::Kind;
use crate::problem::Problem;

/// Annotations that phase machines obey: `"true"` pauses and cancels, a new time in the last one asks for another try.
pub(crate) const PAUSE: &str = "muster.dev/pause";
pub(crate) const CANCEL: &str = "muster.dev/cancel";
pub(crate) const RETRY: &str = "muster.dev/retry";

const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";

/// What an action may look at.
pub struct Input<'a> {
    pub kind: &'a Kind,
    /// The object as the API has it.
    pub object: &'a Value,
    /// The body of the request; an empty object when there was none.
    pub body: &'a Value,
    pub now: Timestamp,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// A merge patch of the object.
    Patch(Value),
    /// A merge patch of its scale.
    Scale(Value),
    /// It is so already.
    Nothing,
}

type Applies = dyn Fn(&Kind) -> bool + Send + Sync;
type Decide = dyn Fn(&Input<'_>) -> Result<Plan, Problem> + Send + Sync;

/// One action on some kinds.
#[derive(Clone)]
pub struct Action {
    pub name: String,
    pub summary: String,
    /// JSON schema of the body.
    pub input: Value,
    applies: Arc<Applies>,
    decide: Arc<Decide>,
}

impl Action {
    pub fn new(
        name: &str,
        summary: &str,
        applies: impl Fn(&Kind) -> bool + Send + Sync + 'static,
        decide: impl Fn(&Input<'_>) -> Result<Plan, Problem> + Send + Sync + 'static,
    ) -> Self {
        let input = json!({"type": "object", "additionalProperties": false});
        Self {
            name: name.to_owned(),
            summary: summary.to_owned(),
            input,
            applies: Arc::new(applies),
            decide: Arc::new(decide),
        }
    }

    /// Says what the body may hold, for the OpenAPI document.
    pub fn with_input(mut self, schema: Value) -> Self {
        self.input = schema;
        self
    }

    pub(crate) fn plan(&self, input: &Input<'_>) -> Result<Plan, Problem> {
        if let (Some(body), Value::Object(known)) = (input.body.as_object(), &self.input["properties"])
            && let Some(unknown) = body.keys().find(|key| !known.contains_key(*key))
        {
            let known: Vec<&str> = known.keys().map(String::as_str).collect();
            return Err(Problem::bad_request(format!(
                "{unknown:?} is not a parameter of {}; there are {}",
                self.name,
                known.join(", ")
            )));
        }
        (self.decide)(input)
    }
}

/// The table of actions. A later one takes the place of an earlier one with the same name on the same kind.
#[derive(Clone)]
pub struct Actions {
    all: Vec<Action>,
}

impl Default for Actions {
    fn default() -> Self {
        Self { all: built_in() }
    }
}

impl Actions {
    pub fn with(mut self, action: Action) -> Self {
        self.all.push(action);
        self
    }

    /// Adds `pause`, `resume`, `cancel` and `retry` for kinds that phase machines drive. Which those are, only who runs them knows.
    pub fn with_phases(mut self, applies: impl Fn(&Kind) -> bool + Send + Sync + 'static) -> Self {
        self.all.extend(of_phases(Arc::new(applies)));
        self
    }

    pub(crate) fn find(&self, kind: &Kind, name: &str) -> Option<&Action> {
        self.all.iter().rev().find(|action| action.name == name && (action.applies)(kind))
    }

    /// Those of a kind, in order of their names.
    pub(crate) fn of(&self, kind: &Kind) -> Vec<&Action> {
        let mut actions: Vec<&Action> = self.all.iter().rev().filter(|action| (action.applies)(kind)).collect();
        actions.sort_by(|a, b| a.name.cmp(&b.name));
        actions.dedup_by(|later, earlier| later.name == earlier.name);
        actions
    }
}

fn is(kind: &Kind, group: &str, plurals: &[&str]) -> bool {
    kind.group == group && plurals.contains(&kind.plural.as_str())
}

/// Rows: what, on which kinds, how.
fn built_in() -> Vec<Action> {
    vec![
        Action::new("scale", "Sets the number of replicas.", |kind| kind.has_scale, scale).with_input(json!({
            "type": "object", "required": ["replicas"], "additionalProperties": false,
            "properties": {"replicas": {"type": "integer", "minimum": 0, "maximum": i32::MAX}}
        })),
        Action::new(
            "restart",
            "Replaces all pods, by the workload's own strategy.",
            |kind| is(kind, "apps", &["deployments", "statefulsets", "daemonsets"]),
            |input| {
                if input.object["spec"]["paused"] == true {
                    return Err(conflict("it is paused: resume it first, or nothing would happen"));
                }
                Ok(Plan::Patch(
                    json!({"spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: input.now.to_string()}}}}}),
                ))
            },
        ),
        switch("pause", "Holds the rollout.", true, |kind| is(kind, "apps", &["deployments"]), "paused"),
        switch("resume", "Goes on with the rollout.", false, |kind| is(kind, "apps", &["deployments"]), "paused"),
        switch("pause", "Starts no further runs.", true, |kind| is(kind, "batch", &["jobs", "cronjobs"]), "suspend"),
        switch("resume", "Starts runs again.", false, |kind| is(kind, "batch", &["jobs", "cronjobs"]), "suspend"),
    ]
}

/// What every phase machine understands.
fn of_phases(applies: Arc<Applies>) -> Vec<Action> {
    let of = |name: &str, summary: &str, decide: fn(&Input<'_>) -> Result<Plan, Problem>| {
        let applies = applies.clone();
        Action::new(name, summary, move |kind| applies(kind), decide)
    };
    vec![
        of("pause", "Asks the controller to wait at the next phase where it can.", |input| Ok(annotate(input, PAUSE))),
        of("resume", "Lets a paused object go on.", |input| {
            let paused = input.object["metadata"]["annotations"].get(PAUSE).is_some();
            Ok(if paused { Plan::Patch(json!({"metadata": {"annotations": {PAUSE: null}}})) } else { Plan::Nothing })
        }),
        of("cancel", "Asks the controller to give up what it is doing.", |input| Ok(annotate(input, CANCEL))),
        of("retry", "Asks the controller to try again now, from the beginning if it had failed.", |input| {
            Ok(Plan::Patch(json!({"metadata": {"annotations": {RETRY: input.now.to_string(), CANCEL: null}}})))
        }),
    ]
}

fn scale(input: &Input<'_>) -> Result<Plan, Problem> {
    let replicas = input.body["replicas"].as_u64().filter(|replicas| *replicas <= i32::MAX as u64);
    let replicas = replicas.ok_or_else(|| {
        Problem::bad_request("scale needs {\"replicas\": N} with a whole number from 0").with("field", "replicas")
    })?;
    Ok(Plan::Scale(json!({"spec": {"replicas": replicas}})))
}

/// Sets a boolean of the spec.
fn switch(
    name: &str,
    summary: &str,
    on: bool,
    applies: impl Fn(&Kind) -> bool + Send + Sync + 'static,
    field: &'static str,
) -> Action {
    Action::new(name, summary, applies, move |input| {
        let is_on = input.object["spec"][field] == true;
        Ok(if is_on == on { Plan::Nothing } else { Plan::Patch(json!({"spec": {field: on}})) })
    })
}

/// Asking twice changes nothing.
fn annotate(input: &Input<'_>, annotation: &str) -> Plan {
    if input.object["metadata"]["annotations"][annotation] == "true" {
        return Plan::Nothing;
    }
    Plan::Patch(json!({"metadata": {"annotations": {annotation: "true"}}}))
}

fn conflict(why: &str) -> Problem {
    Problem::new(409, "Conflict", why)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn kind(group: &str, plural: &str) -> Kind {
        let has_scale = plural == "deployments";
        Kind { has_scale, has_status: true, ..Kind::for_tests(group, "v1", plural, "X") }
    }

    fn plan(kind: &Kind, action: &str, object: Value, body: Value) -> Result<Plan, Problem> {
        let actions = with_ats();
        let now = Timestamp::from_second(0).unwrap();
        actions.find(kind, action).unwrap().plan(&Input { kind, object: &object, body: &body, now })
    }

    fn with_ats() -> Actions {
        Actions::default().with_phases(|kind| kind.plural == "ats")
    }

    #[test]
    fn each_kind_has_the_actions_that_mean_something_for_it() {
        let names =
            |kind: &Kind| with_ats().of(kind).iter().map(|action| action.name.clone()).collect::<Vec<_>>().join(" ");
        assert_eq!(names(&kind("apps", "deployments")), "pause restart resume scale");
        assert_eq!(names(&kind("apps", "daemonsets")), "restart");
        assert_eq!(names(&kind("batch", "jobs")), "pause resume");
        assert_eq!(names(&kind("demo.wukong.com", "ats")), "cancel pause resume retry");
        assert_eq!(names(&kind("", "configmaps")), "");
        assert_eq!(names(&kind("networking.k8s.io", "ingresses")), "");
    }

    #[test]
    fn plans_say_what_to_write_and_repeat_nothing() {
        let deployments = kind("apps", "deployments");
        assert_eq!(
            plan(&deployments, "scale", json!({}), json!({"replicas": 3})).unwrap(),
            Plan::Scale(json!({"spec": {"replicas": 3}}))
        );
        assert_eq!(
            plan(&deployments, "pause", json!({"spec": {}}), json!({})).unwrap(),
            Plan::Patch(json!({"spec": {"paused": true}}))
        );
        assert_eq!(plan(&deployments, "pause", json!({"spec": {"paused": true}}), json!({})).unwrap(), Plan::Nothing);
        assert_eq!(plan(&deployments, "restart", json!({"spec": {"paused": true}}), json!({})).unwrap_err().code, 409);
        let ats = kind("demo.wukong.com", "ats");
        let asked = json!({"metadata": {"annotations": {CANCEL: "true"}}});
        assert_eq!(plan(&ats, "cancel", json!({}), json!({})).unwrap(), Plan::Patch(asked.clone()));
        assert_eq!(plan(&ats, "cancel", asked, json!({})).unwrap(), Plan::Nothing);
        assert_eq!(plan(&ats, "resume", json!({}), json!({})).unwrap(), Plan::Nothing);
    }

    #[test]
    fn wrong_input_of_an_action_is_refused() {
        let deployments = kind("apps", "deployments");
        for body in [
            json!({}),
            json!({"replicas": -1}),
            json!({"replicas": "3"}),
            json!({"replicas": 1.5}),
            json!({"replicas": 1u64 << 40}),
            json!({"replicas": 1, "x": 1}),
        ] {
            assert_eq!(plan(&deployments, "scale", json!({}), body.clone()).unwrap_err().code, 400, "{body}");
        }
    }

    #[test]
    fn a_registered_action_takes_the_place_of_the_built_in_one() {
        let own = Action::new("cancel", "Ours.", |kind| kind.plural == "ats", |_| Ok(Plan::Nothing));
        let actions = Actions::default().with_phases(|kind| kind.group == "demo.wukong.com").with(own);
        assert_eq!(actions.find(&kind("demo.wukong.com", "ats"), "cancel").unwrap().summary, "Ours.");
        assert_ne!(actions.find(&kind("demo.wukong.com", "others"), "cancel").unwrap().summary, "Ours.");
        assert_eq!(
            actions
                .of(&kind("demo.wukong.com", "ats"))
                .iter()
                .filter(|action| action.name == "cancel")
                .map(|action| action.summary.as_str())
                .collect::<Vec<_>>(),
            ["Ours."]
        );
    }
}
