//! The face of the crate: compile once, evaluate often.

use serde_json::Value;

use crate::check::check;
use crate::check::types::Type;
use crate::error::Issues;
use crate::estimate::estimate;
use crate::eval::plan::{Op, plan};
use crate::eval::{Bindings, Room, run};
use crate::syntax::parse;
use crate::value::Val;
use crate::{Budget, CompileError, Decl, EvalError};

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Program {
    plan: Op,
    room: Room,
    decl: Decl,
    uses_old: bool,
    optional_old: bool,
    estimated_cost: u64,
}

/// Whether `oldSelf` is bound: not at all, as the old value, or as an optional of it (`optionalOldSelf: true`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldSelf {
    Unbound,
    Bound,
    Optional,
}

/// What an expression must return: rules a bool, messages a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    Bool,
    String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Bool(bool),
    String(String),
}

impl Program {
    pub fn compile(source: &str, this: &Decl, old: OldSelf, output: Output) -> Result<Program, CompileError> {
        let (program, of) = Program::build(source, this, old)?;
        match (output, of) {
            (Output::Bool, Type::Bool) | (Output::String, Type::String) => Ok(program),
            (Output::Bool, _) => Err(CompileError::Output("bool")),
            (Output::String, _) => Err(CompileError::Output("string")),
        }
    }

    /// Compiles whatever the expression returns, and says what that is.
    fn build(source: &str, this: &Decl, old: OldSelf) -> Result<(Program, Type), CompileError> {
        let mut issues = Issues::default();
        let parsed = parse(source, &mut issues);
        let Some((mut ast, root)) = parsed.filter(|_| issues.is_empty()) else {
            return Err(CompileError::Source(issues.render(source)));
        };
        let checked = check(&mut ast, root, this, old, &mut issues);
        if !issues.is_empty() {
            return Err(CompileError::Source(issues.render(source)));
        }
        let (plan, room) = plan(&ast, root, &checked)?;
        let estimated_cost = estimate(&ast, root, &checked, this);
        let optional_old = old == OldSelf::Optional;
        let program =
            Program { plan, room, decl: this.clone(), uses_old: checked.uses_old, optional_old, estimated_cost };
        Ok((program, checked.types[root as usize].clone()))
    }

    /// Whether the expression mentions `oldSelf`: such a rule only runs when there is an old value.
    pub fn uses_old(&self) -> bool {
        self.uses_old
    }

    /// The worst that one evaluation may cost, reckoned from the maxima in the declaration.
    pub fn estimated_cost(&self) -> u64 {
        self.estimated_cost
    }

    pub fn evaluate(&self, this: &Value, old: Option<&Value>, budget: &mut Budget) -> Result<Outcome, EvalError> {
        match self.value(this, old, budget)? {
            Val::Bool(value) => Ok(Outcome::Bool(value)),
            Val::String(text) => Ok(Outcome::String(text.to_string())),
            other => Err(EvalError::Failed(format!("unexpected result of type {}", other.type_name()))),
        }
    }

    fn value<'a>(&'a self, this: &'a Value, old: Option<&'a Value>, budget: &mut Budget) -> Result<Val<'a>, EvalError> {
        let bindings = Bindings { this, old, optional_old: self.optional_old, decl: &self.decl };
        let limit = budget.limit();
        let (outcome, cost) = run(&self.plan, bindings, self.room, limit);
        let total = budget.remaining() < budget.per_call();
        budget.charge(cost.min(limit));
        match outcome {
            Err(EvalError::CostLimit { .. }) => Err(EvalError::CostLimit { total }),
            other => other,
        }
    }
}

/// An expression looked at from all sides, for tests that compare with the reference.
#[doc(hidden)]
pub struct Explanation {
    pub of: String,
    pub estimate: u64,
    pub outcome: Result<String, EvalError>,
    pub cost: u64,
}

#[doc(hidden)]
pub fn explain(
    source: &str,
    decl: &Decl,
    binding: OldSelf,
    this: &Value,
    old: Option<&Value>,
) -> Result<Explanation, CompileError> {
    let (program, of) = Program::build(source, decl, binding)?;
    let mut budget = Budget::new(crate::PER_CALL_LIMIT, crate::OBJECT_BUDGET);
    let outcome = program.value(this, old, &mut budget).map(|value| crate::explain::show(&value));
    let cost = crate::OBJECT_BUDGET - budget.remaining();
    Ok(Explanation { of: of.to_string(), estimate: program.estimated_cost, outcome, cost })
}
