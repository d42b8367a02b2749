//! Whatever is asked, it ends soon: with an answer, a refusal or a spent budget.
#![allow(clippy::unwrap_used)]

mod common;

use cel::{Budget, CompileError, Decl, EvalError, Identity, OldSelf, Output, Program};
use common::{decl, fields, list, object, text};
use serde_json::{Value, json};

fn compile(source: &str, decl: &Decl) -> Result<Program, CompileError> {
    Program::compile(source, decl, OldSelf::Bound, Output::Bool)
}

fn evaluate(source: &str, decl: &Decl, value: &Value) -> Result<cel::Outcome, EvalError> {
    // A tenth of what a call may cost, so that spending it does not take long.
    let mut budget = Budget::new(cel::PER_CALL_LIMIT / 10, cel::OBJECT_BUDGET);
    compile(source, decl).unwrap().evaluate(value, None, &mut budget)
}

fn nested(open: &str, inner: &str, close: &str, times: usize) -> String {
    format!("{}{inner}{}", open.repeat(times), close.repeat(times))
}

#[test]
fn nesting_is_read_up_to_a_limit_and_refused_beyond() {
    for (open, inner, close) in [
        ("(", "true", ")"),
        ("[", "true", "][0]"),
        ("{'a': ", "true", "}.a"),
        ("true ? ", "true", " : false"),
        ("!(", "true", ")"),
        ("[1].all(x, ", "true", ")"),
        ("self.l.exists(x, self.l.map(y, x).exists(z, ", "true", "))"),
        ("optional.of(", "true", ").value()"),
        ("bool(string(", "true", "))"),
        ("size(", "'a'", ") > 0"),
        ("-(", "1", ")"),
        ("true && (", "true", ")"),
    ] {
        for times in [1, 20, 60, 120, 240, 1000, 10_000] {
            match compile(&nested(open, inner, close, times), &decl()) {
                Ok(program) => {
                    let mut budget = Budget::new(10_000, 10_000);
                    let _ = program.evaluate(&object(), None, &mut budget);
                }
                Err(error) => assert!(times > 1 || matches!(error, CompileError::Output(_) | CompileError::Source(_))),
            }
        }
    }
}

#[test]
fn long_chains_are_balanced_or_refused() {
    let many = vec!["self.b"; 4000].join(" && ");
    assert!(compile(&many, &decl()).is_ok());
    let sum = vec!["1"; 4000].join(" + ");
    let refused = compile(&format!("{sum} > 0"), &decl()).unwrap_err().to_string();
    assert_eq!(refused, "ERROR: <input>:-1:0: max recursion depth exceeded");
    let long = "a".repeat(100_001);
    let refused = compile(&long, &decl()).unwrap_err().to_string();
    assert!(refused.contains("expression code point size exceeds limit: size: 100001, limit 100000"));
}

#[test]
fn macros_cannot_grow_without_bound() {
    let doubling = format!("optional.of(1){}.hasValue()", ".optMap(x, x)".repeat(40));
    assert!(matches!(compile(&doubling, &decl()), Err(CompileError::Source(_))));
    let pairs = format!("[1]{} == []", ".map(x, {x: x})".repeat(40));
    assert!(matches!(compile(&pairs, &decl()), Err(CompileError::Source(_))));
    let literals = format!("size([{}]) > 0", "[],".repeat(30_000));
    assert!(compile(&literals, &decl()).is_ok());
}

#[test]
fn loops_stop_when_the_budget_is_spent() {
    let numbers = json!({ "l": (0..2000).collect::<Vec<i64>>() });
    let limit = EvalError::CostLimit { total: false };
    for source in [
        "self.l.all(x, self.l.all(y, self.l.all(z, x + y + z >= 0)))",
        "self.l.map(x, self.l.map(y, self.l.map(z, [x, y, z]))).size() > 0",
        "self.l.all(x, self.l.map(y, 'abc').join('abc').size() > 0)",
        "self.l.all(x, self.l + self.l + self.l + self.l != [])",
        "self.l.all(x, self.l.all(y, self == self))",
        "self.l.map(x, self.l.transformMap(i, v, v)).size() > 0",
        "self.l.all(x, sets.contains(self.l, self.l))",
    ] {
        assert_eq!(evaluate(source, &decl(), &numbers), Err(limit.clone()), "{source}");
    }
}

#[test]
fn strings_do_not_outgrow_the_budget() {
    let long = json!({ "s": "a".repeat(1_000_000), "l": (0..1000).collect::<Vec<i64>>() });
    for source in [
        "self.l.all(x, self.s.replace('a', self.s).size() > 0)",
        "self.s.replace('', self.s) == ''",
        "self.l.all(x, (self.s + self.s).size() > 0)",
        "self.l.all(x, self.s.split('').size() > 0)",
        "self.l.all(x, '%s%s%s'.format([self.s, self.s, self.s]) != '')",
        "self.l.all(x, self.s.size() > 0 && self.s == self.s + 'a' || true)",
        "self.l.map(x, self.s).join(self.s).size() > 0",
        "self.l.all(x, self.s.matches(self.s + string(x)) || true)",
        "self.l.all(x, self.s.findAll('').size() > 0)",
        "self.l.all(x, bytes(self.s) + bytes(self.s) != b'')",
    ] {
        let outcome = evaluate(source, &decl(), &long);
        assert_eq!(outcome, Err(EvalError::CostLimit { total: false }), "{source}");
    }
}

#[test]
fn patterns_found_at_run_time_are_not_compiled_without_end() {
    let patterns: Vec<String> = (0..5000).map(|n| format!("(a{{0,900}}b{{0,{}}}){{0,20}}", n % 900)).collect();
    let schema = fields([("l", list(text(None), None, Identity::Atomic))], &[]);
    let value = json!({ "l": patterns });
    let outcome = evaluate("self.l.all(x, 'a'.matches(x) || true)", &schema, &value);
    assert_eq!(outcome, Err(EvalError::CostLimit { total: false }));
}

#[test]
fn the_shared_budget_is_told_apart_from_the_limit_of_one_call() {
    let program = compile("self.l.all(x, x > 0)", &decl()).unwrap();
    let mut budget = Budget::new(100, 40);
    assert!(program.evaluate(&object(), None, &mut budget).is_ok());
    assert_eq!(budget.remaining(), 22);
    assert!(program.evaluate(&object(), None, &mut budget).is_ok());
    assert_eq!(program.evaluate(&object(), None, &mut budget), Err(EvalError::CostLimit { total: true }));
    assert_eq!(budget.remaining(), 0);
}

#[test]
fn values_that_break_their_schema_are_errors_not_panics() {
    let broken = json!({
        "i": "x", "n": [], "s": 1, "b": null, "l": {}, "m": [], "o": 3, "ts": "never", "d": "long", "by": "%%%",
        "date": 7, "ios": 1.5, "ml": [1, null, {"k": {}}], "set": [[1], {}], "ls": [null, 3]
    });
    for field in ["i", "n", "s", "l", "m", "o", "ts", "d", "by", "date", "ios", "b"] {
        assert!(evaluate(&format!("self.{field} == self.{field}"), &decl(), &broken).is_err(), "{field}");
    }
    for field in ["ml", "set", "ls"] {
        let _ = evaluate(&format!("self.{field} == self.{field} + self.{field}"), &decl(), &broken);
    }
    assert!(evaluate("self.i == 1", &decl(), &json!([])).is_err());
}

#[test]
fn programs_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&compile("self.b", &decl()).unwrap());
}
