//! The face: what compiling and evaluating promise.
#![allow(clippy::unwrap_used)]

mod common;

use cel::{Budget, CompileError, Decl, EvalError, OldSelf, Outcome, Output, Program};
use common::{decl, fields, list, object, text};
use serde_json::{Value, json};

fn budget() -> Budget {
    Budget::new(cel::PER_CALL_LIMIT, cel::OBJECT_BUDGET)
}

fn rule(source: &str, old: OldSelf) -> Result<Program, CompileError> {
    Program::compile(source, &decl(), old, Output::Bool)
}

#[test]
fn rules_return_bools_and_messages_strings() {
    assert_eq!(
        rule("self.i > 3", OldSelf::Bound).unwrap().evaluate(&object(), None, &mut budget()),
        Ok(Outcome::Bool(true))
    );
    assert_eq!(rule("self.i", OldSelf::Bound).unwrap_err(), CompileError::Output("bool"));
    assert_eq!(rule("dyn(self.b)", OldSelf::Bound).unwrap_err().to_string(), "must evaluate to a bool");
    let message = Program::compile("'i is ' + string(self.i)", &decl(), OldSelf::Bound, Output::String).unwrap();
    assert_eq!(message.evaluate(&object(), None, &mut budget()), Ok(Outcome::String("i is 5".into())));
    let wrong = Program::compile("self.b", &decl(), OldSelf::Bound, Output::String).unwrap_err();
    assert_eq!(wrong.to_string(), "must evaluate to a string");
}

#[test]
fn a_compile_error_shows_where() {
    let error = rule("self.i > 1 &&\n  self.foo == self.s", OldSelf::Bound).unwrap_err();
    assert_eq!(error.to_string(), "ERROR: <input>:2:7: undefined field 'foo'\n |   self.foo == self.s\n | ......^");
    let constant = rule("int('x') == 1", OldSelf::Bound).unwrap_err();
    assert_eq!(constant.to_string(), "program instantiation failed: type conversion error from 'string' to 'int'");
}

#[test]
fn only_what_names_the_old_value_uses_it() {
    assert!(rule("self.i >= oldSelf.i", OldSelf::Bound).unwrap().uses_old());
    assert!(rule("self.l.all(x, has(oldSelf.i))", OldSelf::Bound).unwrap().uses_old());
    assert!(!rule("self.i > 3", OldSelf::Bound).unwrap().uses_old());
    assert!(!rule("self.l.all(oldSelf, oldSelf > 0)", OldSelf::Bound).unwrap().uses_old());
    let unbound = rule("oldSelf.i == 1", OldSelf::Unbound).unwrap_err().to_string();
    assert!(
        unbound.starts_with("ERROR: <input>:1:1: undeclared reference to 'oldSelf' (in container '')"),
        "{unbound}"
    );
}

#[test]
fn an_optional_old_value_may_be_missing() {
    let program = rule("oldSelf.hasValue() ? oldSelf.value().i < self.i : self.i == 5", OldSelf::Optional).unwrap();
    assert!(program.uses_old());
    assert_eq!(program.evaluate(&object(), None, &mut budget()), Ok(Outcome::Bool(true)));
    let old = json!({ "i": 4 });
    assert_eq!(program.evaluate(&object(), Some(&old), &mut budget()), Ok(Outcome::Bool(true)));
    let later = json!({ "i": 9 });
    assert_eq!(program.evaluate(&object(), Some(&later), &mut budget()), Ok(Outcome::Bool(false)));
}

#[test]
fn a_missing_old_value_is_an_error_where_it_is_not_optional() {
    let outcome = rule("oldSelf.i == 1", OldSelf::Bound).unwrap().evaluate(&object(), None, &mut budget());
    assert_eq!(outcome, Err(EvalError::Failed("no such attribute(s): oldSelf".into())));
}

#[test]
fn every_evaluation_is_charged_to_the_budget() {
    let program = rule("self.l.all(x, x > 0)", OldSelf::Bound).unwrap();
    let mut budget = Budget::new(1000, 1000);
    program.evaluate(&object(), None, &mut budget).unwrap();
    assert_eq!(budget.remaining(), 1000 - 18);
}

#[test]
fn a_resource_has_its_names_whatever_its_schema_says() {
    let root = fields([("spec", fields([], &[]))], &[]).with_object_meta();
    let source = "self.metadata.name == 'a' && self.kind == 'Foo' && !has(self.metadata.generateName)";
    let program = Program::compile(source, &root, OldSelf::Unbound, Output::Bool).unwrap();
    let object = json!({ "apiVersion": "v1", "kind": "Foo", "metadata": { "name": "a", "labels": {} }, "spec": {} });
    assert_eq!(program.evaluate(&object, None, &mut budget()), Ok(Outcome::Bool(true)));
    assert!(Program::compile("self.metadata.labels == {}", &root, OldSelf::Unbound, Output::Bool).is_err());
    assert_eq!(Decl::Int.with_object_meta(), Decl::Int);
}

#[test]
fn what_must_be_there_bounds_how_much_fits_a_request() {
    let small = fields([("a", Decl::Int)], &[]);
    let large = fields([("a", Decl::Int), ("name", text(None))], &["name"]);
    assert_eq!((small.min_size(), large.min_size()), (2, 12));
    assert_eq!(small.max_cardinality(), 1_048_576);
    assert!(large.max_cardinality() < small.max_cardinality());
    let estimate = |element: Decl| {
        let this = list(element, None, cel::Identity::Atomic);
        Program::compile("self.all(x, has(x.a))", &this, OldSelf::Unbound, Output::Bool).unwrap().estimated_cost()
    };
    assert!(estimate(large) < estimate(small));
}

#[test]
fn fields_the_schema_does_not_know_are_compared_but_not_reached() {
    let program = rule("self.p == oldSelf.p", OldSelf::Bound).unwrap();
    let with = |value: i64| json!({ "p": { "hidden": { "n": value } } });
    let judge = |one: &Value, two: &Value| program.evaluate(one, Some(two), &mut budget());
    assert_eq!(judge(&with(1), &with(1)), Ok(Outcome::Bool(true)));
    assert_eq!(judge(&with(1), &with(2)), Ok(Outcome::Bool(false)));
    assert!(rule("self.p.hidden.n == 1", OldSelf::Bound).is_err());
}
