//! Expressions with what kube-apiserver's CEL libraries (1.34) answer: type, value or error, worst-case estimate, actual cost.
//!
//! Each has two lines: the expression, then `== value`, `!! error` or `?? compile error`, and for those that compile
//! ` : type <= estimate cost`. `CEL_TABLE` names another table to be read in place of `conformance.txt`.
#![allow(clippy::unwrap_used)]

mod common;

use std::fmt::Write;

use cel::{Decl, OldSelf};
use common::{decl, declare, object};
use serde_json::Value;

fn answer(expression: &str, decl: &Decl, binding: OldSelf, this: &Value, old: &Value) -> String {
    let answer = match cel::explain(expression, decl, binding, this, Some(old)) {
        Ok(found) => {
            let outcome = found.outcome.map_or_else(|error| format!("!! {error}"), |value| format!("== {value}"));
            format!("  {outcome} : {} <= {} {}", found.of, found.estimate, found.cost)
        }
        Err(error) => format!("  ?? {error}"),
    };
    answer.replace('\n', "\\n")
}

/// Every row of the table whose answer differs, and how many rows there are.
fn differences(table: &str, mut ask: impl FnMut(&str) -> String) -> (String, usize) {
    let mut lines = table.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let (mut wrong, mut count) = (String::new(), 0);
    while let (Some(question), Some(expected)) = (lines.next(), lines.next()) {
        count += 1;
        let answer = ask(question);
        if answer != expected {
            writeln!(wrong, "{question}\n{answer}\n  but kube-apiserver:\n{expected}").unwrap();
        }
    }
    (wrong, count)
}

#[test]
fn expressions_mean_and_cost_what_they_do_on_kube_apiserver() {
    let table = match std::env::var_os("CEL_TABLE") {
        Some(path) => std::fs::read_to_string(path).unwrap(),
        None => include_str!("conformance.txt").to_string(),
    };
    let (decl, object) = (decl(), object());
    let (wrong, count) = differences(&table, |expression| answer(expression, &decl, OldSelf::Bound, &object, &object));
    assert!(count > 900, "only {count} expressions");
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn rules_on_any_part_of_a_schema_agree() {
    let (wrong, count) = differences(include_str!("roots.txt"), |row| {
        let [schema, this, old, binding, expression] = row.split('\t').collect::<Vec<_>>()[..] else { panic!("{row}") };
        let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let binding = if binding == "optional" { OldSelf::Optional } else { OldSelf::Bound };
        answer(expression, &declare(&json(schema)), binding, &json(this), &json(old))
    });
    assert!(count > 100, "only {count} expressions");
    assert!(wrong.is_empty(), "{wrong}");
}
