//! Validation rules of a schema: they must compile, be affordable, and ask for old values only where there are any.

use meta::{FieldError, FieldErrors};
use serde_json::Value;

use super::inner;
use crate::structural::path::Path;
use crate::structural::props::Props;
use crate::structural::rules::{self, Fault};

/// What one expression, and all of a schema together, may be estimated to cost.
const EXPRESSION_LIMIT: u64 = 10_000_000;
const SCHEMA_LIMIT: u64 = 100_000_000;
/// So many of the most expensive expressions are named when all together are too expensive.
const NAMED: usize = 4;

/// How often values of a schema can occur in one object; without a number, as often as they fit a request.
#[derive(Clone, Copy)]
pub(super) struct Scope(Option<u64>);

impl Scope {
    pub fn root() -> Self {
        Self(Some(1))
    }

    /// The scope of what stands in values of `props`.
    pub fn below(self, props: Props<'_>) -> Self {
        let limit = |name: &str| props.integer(name).map(|max| u64::try_from(max).unwrap_or_default());
        let elements = match props.kind() {
            "object" if props.additional().is_some() => limit("maxProperties"),
            "array" => limit("maxItems"),
            _ => Some(1),
        };
        Self(self.0.zip(elements).map(|(times, elements)| times.saturating_mul(elements)))
    }
}

#[derive(Default)]
pub(super) struct Judge {
    errors: FieldErrors,
    total: u64,
    expensive: Vec<(u64, String)>,
}

impl Judge {
    pub fn judge(
        &mut self,
        props: Props<'_>,
        written: &[Props<'_>],
        path: &Path<'_>,
        is_root: bool,
        scope: Scope,
        uncorrelated: Option<&Path<'_>>,
    ) {
        let all = path.field("x-kubernetes-validations");
        let Some(decl) = rules::declare(props, is_root || props.embedded()) else {
            let why = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
            self.errors.push(FieldError::internal(all.to_string(), why));
            return;
        };
        let times = scope.0.unwrap_or_else(|| decl.max_cardinality());
        for (at, rule) in written.iter().enumerate() {
            let place = all.index(at);
            let field = |name: &str| place.field(name).to_string();
            let compiled = match rules::compile(*rule, props, &decl) {
                None => continue,
                Some(Err(Fault::Rule(why))) => {
                    self.errors.push(inner::invalid(field("rule"), &inner::rule(*rule), &why));
                    if rule.get("optionalOldSelf").is_some() {
                        self.unused_old(*rule, field("optionalOldSelf"));
                    }
                    continue;
                }
                Some(Err(Fault::Message(compiled, why))) => {
                    self.errors.push(inner::invalid(field("messageExpression"), &inner::rule(*rule), &why));
                    *compiled
                }
                Some(Ok(compiled)) => compiled,
            };
            let cost = compiled.program.estimated_cost().saturating_mul(times);
            self.cost(cost, "estimated rule cost", field("rule"));
            if let Some((message, _)) = &compiled.message_expression {
                self.cost(message.estimated_cost(), "estimated messageExpression cost", field("messageExpression"));
            }
            match uncorrelated {
                Some(above) if compiled.program.uses_old() => {
                    let why =
                        format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {above}");
                    self.errors.push(FieldError::invalid(field("rule"), rule.text("rule"), why));
                }
                _ if !compiled.program.uses_old() && rule.get("optionalOldSelf").is_some() => {
                    self.unused_old(*rule, field("optionalOldSelf"));
                }
                _ => {}
            }
        }
    }

    fn unused_old(&mut self, rule: Props<'_>, field: String) {
        let optional = rule.get("optionalOldSelf").and_then(Value::as_bool).unwrap_or_default();
        self.errors.push(FieldError::invalid(field, optional, "may not be set if oldSelf is not used in rule"));
    }

    fn cost(&mut self, cost: u64, what: &str, field: String) {
        if cost > EXPRESSION_LIMIT {
            self.errors.push(FieldError::forbidden(&*field, too_expensive(what, cost, EXPRESSION_LIMIT)));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= SCHEMA_LIMIT / 100 {
            self.expensive.push((cost, field));
            self.expensive.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
            self.expensive.truncate(NAMED);
        }
    }

    /// Everything found, and whether all rules together can be afforded.
    pub fn finish(mut self, path: &Path<'_>) -> FieldErrors {
        if self.total > SCHEMA_LIMIT {
            let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            self.errors.extend(self.expensive.into_iter().map(|(_, field)| FieldError::forbidden(field, why)));
            let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
            let why = too_expensive(what, self.total, SCHEMA_LIMIT);
            self.errors.push(FieldError::forbidden(path.to_string(), why));
        }
        self.errors
    }
}

fn too_expensive(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}
