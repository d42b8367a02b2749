//! Expressions with what kube-apiserver 1.34 answers: type, value or error, worst-case estimate, actual cost.
//!
//! `CEL_TABLE` names another table than `conformance.txt`, which has two lines for each: the expression, then `== value`, `!! error` or `?? compile error`, and for those that
//! compile ` : type <= estimate cost`.
#![allow(clippy::unwrap_used)]

mod common;

use std::fmt::Write;

use common::{decl, object};

#[test]
fn expressions_mean_and_cost_what_they_do_on_kube_apiserver() {
    let table = match std::env::var_os("CEL_TABLE") {
        Some(path) => std::fs::read_to_string(path).unwrap(),
        None => include_str!("conformance.txt").to_string(),
    };
    let (decl, object) = (decl(), object());
    let mut lines = table.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let (mut wrong, mut count) = (String::new(), 0);
    while let (Some(expression), Some(expected)) = (lines.next(), lines.next()) {
        count += 1;
        let answer = match cel::explain(expression, &decl, &object, Some(&object)) {
            Ok((of, estimate, outcome, cost)) => {
                let outcome = outcome.map_or_else(|error| format!("!! {error}"), |value| format!("== {value}"));
                format!("  {outcome} : {of} <= {estimate} {cost}")
            }
            Err(error) => format!("  ?? {error}"),
        };
        let answer = answer.replace('\n', "\\n");
        if answer != expected {
            writeln!(wrong, "{expression}\n{answer}\n  but kube-apiserver:\n{expected}").unwrap();
        }
    }
    assert!(count > 400, "only {count} expressions");
    assert!(wrong.is_empty(), "{wrong}");
}
