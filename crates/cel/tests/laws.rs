//! What holds for all expressions and values.
#![allow(clippy::unwrap_used)]

mod common;

use cel::{Budget, Decl, EvalError, OldSelf, Outcome, Output, Program, escape, unescape};
use common::{decl, object};
use proptest::prelude::*;
use serde_json::{Value, json};

fn truth(source: &str, this: &Value) -> Result<bool, String> {
    let program = Program::compile(source, &Decl::Dyn, OldSelf::Unbound, Output::Bool).map_err(|e| e.to_string())?;
    match program.evaluate(this, None, &mut Budget::new(1_000_000, 1_000_000)) {
        Ok(Outcome::Bool(value)) => Ok(value),
        Ok(other) => Err(format!("{other:?}")),
        Err(error) => Err(error.to_string()),
    }
}

fn text(source: &str) -> Result<String, String> {
    let program = Program::compile(source, &Decl::Dyn, OldSelf::Unbound, Output::String).map_err(|e| e.to_string())?;
    match program.evaluate(&Value::Null, None, &mut Budget::new(1_000_000, 1_000_000)) {
        Ok(Outcome::String(text)) => Ok(text),
        Ok(other) => Err(format!("{other:?}")),
        Err(error) => Err(error.to_string()),
    }
}

/// Pieces that make up expressions more often than random text does.
fn fragment() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "self",
        ".",
        "l",
        "i",
        "s",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        "?",
        ":",
        "+",
        "-",
        "*",
        "/",
        "%",
        "!",
        "&&",
        "||",
        "==",
        "<",
        " in ",
        "1",
        "2.5",
        "3u",
        "'a'",
        "b'x'",
        "true",
        "null",
        ".all(x, ",
        ".map(x, ",
        ".exists(x, ",
        "x",
        "has(self.",
        "size(",
        ".?",
        "[?",
        "optional.of(",
        ".orValue(",
        "dyn(",
        "string(",
        ".matches('",
        "r'",
        "\"\"\"",
        ".format([",
        "%s",
        "quantity(",
        ".transformMap(k, v, ",
        "oldSelf",
        "\n",
        "//",
        "é",
        "\\",
    ]);
    prop::collection::vec(prop_oneof![9 => words.prop_map(str::to_string), 1 => ".{0,3}"], 0..24)
        .prop_map(|parts| parts.concat())
}

/// JSON of every shape, with numbers that are equal across types.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..4).prop_map(Value::from),
        (-3i32..4).prop_map(|n| Value::from(f64::from(n) / 2.0)),
        "[ab]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[ab]", inner, 0..3).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A value written as an expression.
fn literal(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            format!("[{}]", items.iter().map(|item| format!("dyn({})", literal(item))).collect::<Vec<_>>().join(", "))
        }
        Value::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| format!("'{key}': dyn({})", literal(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::String(text) => format!("'{text}'"),
        other => other.to_string(),
    }
}

proptest! {
    #[test]
    fn any_text_compiles_or_is_refused(source in ".{0,60}") {
        let _ = Program::compile(&source, &decl(), OldSelf::Bound, Output::Bool);
    }

    #[test]
    fn what_compiles_runs_within_its_budget(source in fragment(), limit in 0u64..2000) {
        if let Ok(program) = Program::compile(&source, &decl(), OldSelf::Optional, Output::Bool) {
            let mut budget = Budget::new(limit, limit * 2);
            let outcome = program.evaluate(&object(), None, &mut budget);
            prop_assert!(budget.remaining() >= limit, "spent {} of {limit}", limit * 2 - budget.remaining());
            if outcome == Err(EvalError::CostLimit { total: false }) {
                prop_assert_eq!(budget.remaining(), limit);
            }
        }
    }

    #[test]
    fn equality_is_symmetric_and_reflexive(one in value(), two in value()) {
        let pair = Value::Null;
        let (left, right) = (format!("dyn({})", literal(&one)), format!("dyn({})", literal(&two)));
        prop_assert_eq!(truth(&format!("{left} == {right}"), &pair), truth(&format!("{right} == {left}"), &pair));
        prop_assert_eq!(truth(&format!("{left} == {left}"), &pair), Ok(true));
        prop_assert_eq!(truth(&format!("{left} != {right}"), &pair), truth(&format!("!({left} == {right})"), &pair));
    }

    #[test]
    fn borrowed_json_equals_the_same_value_written_out(one in value(), two in value()) {
        let this = json!({ "a": one, "b": two });
        let written = format!("dyn({}) == dyn({})", literal(&one), literal(&two));
        // Lists and maps from an object refuse to be compared with anything else; written ones are just different.
        if let Ok(equal) = truth("self.a == self.b", &this) {
            prop_assert_eq!(Ok(equal), truth(&written, &this));
        }
    }

    #[test]
    fn integers_add_up_as_they_do_in_rust(a in any::<i64>(), b in any::<i64>()) {
        let checked = |result: Option<i64>, operator: &str| match result {
            Some(result) => holds(&format!("{a} {operator} ({b}) == {result}")),
            None => truth(&format!("{a} {operator} ({b}) == 0"), &Value::Null).is_err(),
        };
        prop_assert!(checked(a.checked_add(b), "+"));
        prop_assert!(checked(a.checked_sub(b), "-"));
        prop_assert!(checked(a.checked_mul(b), "*"));
        prop_assert!(checked(a.checked_div(b), "/"));
        prop_assert!(checked(a.checked_rem(b), "%"));
        prop_assert_eq!(truth(&format!("{a} < ({b})"), &Value::Null), Ok(a < b));
        prop_assert_eq!(text(&format!("string({a})")), Ok(a.to_string()));
    }

    #[test]
    fn doubles_are_read_as_they_are_written(a in any::<f64>().prop_filter("finite", |a| a.is_finite())) {
        let written = text(&format!("string({a:e})")).or_else(|_| text(&format!("string({a:?})"))).unwrap();
        prop_assert_eq!(written.parse::<f64>().unwrap(), a);
        prop_assert_eq!(truth(&format!("double('{written}') == {a:e}"), &Value::Null), Ok(true));
    }

    #[test]
    fn quoted_text_means_itself(words in "[^\\\\'\"\r\n]{0,20}") {
        prop_assert_eq!(text(&format!("'{words}'")), Ok(words.clone()));
        prop_assert_eq!(text(&format!("r\"{words}\"")), Ok(words.clone()));
        prop_assert_eq!(text(&format!("'''{words} '''")), Ok(format!("{words} ")));
        prop_assert_eq!(truth(&format!("'{words}'.size() == {}", words.chars().count()), &Value::Null), Ok(true));
    }

    #[test]
    fn a_field_of_any_reachable_name_is_found(name in "[a-zA-Z_./-][a-zA-Z0-9_./-]{0,8}") {
        let identifier = escape(&name).unwrap();
        prop_assert_eq!(unescape(&identifier), Some(name.clone()));
        let decl = Decl::Object { fields: [(name.clone(), Decl::Int)].into(), required: Default::default() };
        let program = Program::compile(&format!("self.{identifier} == 7"), &decl, OldSelf::Unbound, Output::Bool);
        let outcome = program.unwrap().evaluate(&json!({ name: 7 }), None, &mut Budget::new(100, 100));
        prop_assert_eq!(outcome, Ok(Outcome::Bool(true)));
    }
}

fn holds(source: &str) -> bool {
    truth(source, &Value::Null) == Ok(true)
}
