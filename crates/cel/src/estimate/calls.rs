//! What calls may cost.

use super::range::Range;
use super::{Entries, Estimator, Path};
use crate::check::Overload;
use crate::check::types::{self, Type};
use crate::syntax::ast::{Id, Kind, Literal};

/// The cost of a call itself, and the size of what it gives.
struct Estimate {
    cost: Range,
    size: Option<Range>,
}

impl From<Range> for Estimate {
    fn from(cost: Range) -> Self {
        Estimate { cost, size: None }
    }
}

const CIDR_SIZE: Range = Range { min: 4, max: 16 };
/// The longest expression behind a named format, by the reference's reckoning.
const FORMAT_REGEX_SIZE: f64 = 128.0;
const FORMAT_SIZE: u64 = 64;

impl Estimator<'_> {
    pub(super) fn call(&mut self, id: Id, function: &str, target: Option<Id>, args: &[Id]) -> Range {
        if let ("dyn", [arg]) = (function, args) {
            let cost = self.cost(*arg).plus(Range::ONE);
            self.sizes[id as usize] = self.size(*arg);
            self.entries[id as usize] = self.entries(*arg);
            return cost;
        }
        let costs: Vec<Range> = args.iter().map(|arg| self.cost(*arg)).collect();
        if function == "_?._" {
            return costs.iter().fold(Range::ONE, |sum, cost| sum.plus(*cost));
        }
        let receiver = target.map_or(Range::NOTHING, |target| self.cost(target));
        let mut total = Range::EMPTY;
        let mut size: Option<Range> = None;
        let overloads = &self.checked.overloads[id as usize];
        for overload in overloads {
            let mut estimate = self.overload(id, function, overload, target, args, &costs);
            if !matches!(function, "_&&_" | "_||_" | "_?_:_") {
                estimate.cost = costs.iter().fold(estimate.cost, |sum, cost| sum.plus(*cost));
            }
            total = total.union(estimate.cost);
            size = match (size, estimate.size) {
                (Some(one), Some(two)) => Some(one.union(two)),
                (one, two) => two.or(one),
            };
            let element = match (function, &overload.params[..]) {
                ("_[_]", [Type::List(_), _]) => Some("@items"),
                ("_[_]", [Type::Map(..), _]) => Some("@values"),
                _ => None,
            };
            if let Some(element) = element {
                size = self.entries(args[0]).map(|entries| entries.value);
                self.paths[id as usize] = self.step(self.path(args[0]), element);
            }
            if size.is_none() {
                size = self.size(id);
            }
        }
        if overloads.is_empty() {
            return Range::NOTHING;
        }
        if size.is_some() {
            self.sizes[id as usize] = size;
        }
        receiver.plus(total)
    }

    /// Without the cost of the arguments, except where not all of them are evaluated.
    fn overload(
        &mut self,
        id: Id,
        function: &str,
        overload: &Overload,
        target: Option<Id>,
        args: &[Id],
        costs: &[Range],
    ) -> Estimate {
        if let Some(estimate) = self.library(function, target, args, overload) {
            return estimate;
        }
        let params = &overload.params[..];
        match (function, params, args) {
            ("format", ..) => self.size_or_unknown(target.unwrap_or(id)).tenths().into(),
            ("bytes", [Type::String], [arg]) => {
                let size = self.size_or_unknown(*arg);
                let result = Range { min: size.min, max: size.max.wrapping_mul(4) };
                Estimate { cost: size.tenths(), size: Some(result) }
            }
            ("string", [Type::Bytes], [arg]) => {
                let size = self.size_or_unknown(*arg);
                Estimate { cost: size.tenths(), size: Some(Range { min: size.min / 4, max: size.max }) }
            }
            ("strings.quote", _, [arg]) => {
                let size = self.size_or_unknown(*arg);
                let result = Range { min: size.min + 2, max: size.max.wrapping_mul(2).wrapping_add(2) };
                Estimate { cost: size.tenths(), size: Some(result) }
            }
            ("startsWith" | "endsWith", _, [arg]) => self.size_or_unknown(*arg).tenths().into(),
            ("@in", [_, Type::List(_)], [_, list]) => self.size_or_unknown(*list).into(),
            ("matches", _, [pattern]) if target.is_some() => self.matching(target.unwrap_or(id), *pattern).into(),
            ("contains", _, [part]) => {
                let text = self.size_or_unknown(target.unwrap_or(id)).tenths();
                text.times(self.size_or_unknown(*part).tenths()).into()
            }
            ("_&&_" | "_||_", ..) => Range { min: costs[0].min, max: costs[0].plus(costs[1]).max }.into(),
            ("_?_:_", _, [_, yes, no]) => {
                let size = self.size_or_unknown(*yes).union(self.size_or_unknown(*no));
                self.entries[id as usize] = union(self.entries(*yes), self.entries(*no));
                Estimate { cost: costs[0].plus(costs[1].union(costs[2])), size: Some(size) }
            }
            ("_+_", [Type::String | Type::Bytes | Type::List(_), _], [left, right]) => {
                let size = self.size_or_unknown(*left).plus(self.size_or_unknown(*right));
                if let Some(entries) = union(self.entries(*left), self.entries(*right)) {
                    self.entries[id as usize] = Some(entries);
                }
                let cost = if matches!(params[0], Type::List(_)) { Range::ONE } else { size.tenths() };
                Estimate { cost, size: Some(size) }
            }
            ("_==_" | "_!=_", _, [left, right])
            | ("_<_" | "_<=_" | "_>_" | "_>=_", [Type::String | Type::Bytes, _], [left, right]) => {
                let smaller = self.size_or_unknown(*left).max.min(self.size_or_unknown(*right).max);
                Range { min: smaller.min(1), max: smaller }.tenths().into()
            }
            _ => Range::ONE.into(),
        }
    }

    fn matching(&mut self, text: Id, pattern: Id) -> Range {
        let text = self.size_or_unknown(text).plus(Range::ONE).tenths();
        text.times(self.size_or_unknown(pattern).scaled(0.25))
    }

    /// The functions Kubernetes has its own numbers for.
    fn library(&mut self, function: &str, target: Option<Id>, args: &[Id], overload: &Overload) -> Option<Estimate> {
        let first = args.first().copied();
        Some(match function {
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => self.traversal(target?),
            "url" => {
                let size = self.size_or_unknown(first?);
                Estimate { cost: size.tenths(), size: Some(size) }
            }
            "lowerAscii" | "upperAscii" | "substring" | "trim" => {
                let size = self.size_or_unknown(target?);
                Estimate { cost: size.tenths(), size: Some(size) }
            }
            "replace" => self.replacement(target?, args[0], args[1]),
            "split" => {
                let size = self.size_or_unknown(target?);
                let most = match args.get(1).map(|limit| &self.ast[*limit].kind) {
                    Some(Kind::Literal(Literal::Int(limit))) => *limit as u64,
                    _ => size.max,
                };
                Estimate { cost: size.scaled(0.2), size: Some(Range::up_to(most)) }
            }
            "join" => self.joined(target?, first),
            "find" | "findAll" => {
                let most = self.size_or_unknown(target?).max;
                Estimate { cost: self.matching(target?, first?), size: Some(Range::up_to(most)) }
            }
            "ip" if target.is_some() => Range::ONE.into(),
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
                self.size_or_unknown(first?).tenths().into()
            }
            "ip.isCanonical" => self.size_or_unknown(first?).scaled(0.2).into(),
            "containsIP" | "containsCIDR" => {
                let mut cost = CIDR_SIZE.plus(CIDR_SIZE).tenths();
                if function == "containsCIDR" {
                    cost = cost.plus(CIDR_SIZE.tenths()).plus(Range::ONE);
                }
                if overload.params[1] == Type::String {
                    cost = cost.plus(self.size_or_unknown(first?).tenths());
                }
                cost.into()
            }
            "validate" => self.size_or_unknown(first?).tenths().scaled(FORMAT_REGEX_SIZE * 0.25).into(),
            "sets.contains" | "sets.intersects" | "sets.equivalent" => {
                let product = self.size_or_unknown(args[0]).times(self.size_or_unknown(args[1]));
                let factor = if function == "sets.equivalent" { 2.0 } else { 1.0 };
                product.scaled(factor).plus(Range::ONE).into()
            }
            "_==_" if self.type_of(args[0]) == self.type_of(args[1]) => match self.type_of(args[0]) {
                Type::Named(types::IP | types::CIDR | types::QUANTITY | types::SEMVER) => Range::ONE.into(),
                Type::Named(types::FORMAT) => Range { min: 1, max: FORMAT_SIZE }.tenths().into(),
                Type::Named(types::URL) => {
                    let size = self.size(args[1]).unwrap_or(Range::ONE);
                    Range { min: 1, max: size.max }.tenths().into()
                }
                _ => return None,
            },
            _ => return None,
        })
    }

    /// Every element once, and the strings within.
    fn traversal(&mut self, list: Id) -> Estimate {
        let size = self.size_or_unknown(list);
        let element = match self.type_of(list) {
            Type::List(element) => element,
            _ => return size.tenths().into(),
        };
        let mut each = Range::ONE;
        if matches!(**element, Type::String | Type::Bytes) {
            each = each.plus(self.element_size(list).tenths());
        }
        size.times(each).into()
    }

    fn element_size(&self, list: Id) -> Range {
        match self.path(list) {
            Path::None => Range::UNKNOWN,
            path => Self::path_size(self.step(path, "@items")).unwrap_or(Range::UNKNOWN),
        }
    }

    fn joined(&mut self, list: Id, separator: Option<Id>) -> Estimate {
        let count = self.size_or_unknown(list);
        let mut size = match self.type_of(list) {
            Type::List(_) => count.times(self.element_size(list)),
            _ => Range::NOTHING,
        };
        if let Some(separator) = separator {
            let between = Range { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
            size = size.plus(self.size_or_unknown(separator).times(between));
        }
        Estimate { cost: size.tenths(), size: Some(size) }
    }

    fn replacement(&mut self, text: Id, old: Id, new: Id) -> Estimate {
        let (size, old, new) = (self.size_or_unknown(text), self.size_or_unknown(old), self.size_or_unknown(new));
        let mut count = Range::NOTHING;
        let mut kept = Range::NOTHING;
        // At most: nothing is replaced between all characters, or the shortest by the longest everywhere.
        if old.min == 0 {
            count.max = size.max.saturating_add(1);
            kept.max = size.max;
        } else if new.max <= old.min {
            kept.max = size.max;
        } else {
            count.max = (size.max as f64 / old.min as f64).ceil() as u64;
        }
        // At least: the same the other way round.
        if old.max == 0 {
            count.min = size.min.saturating_add(1);
            kept.min = size.min;
        } else if old.max <= new.min {
            kept.min = size.min;
        } else {
            count.min = (size.min as f64 / old.max as f64).ceil() as u64;
        }
        Estimate { cost: size.scaled(0.2), size: Some(count.times(new).plus(kept)) }
    }
}

fn union(one: Option<Entries>, two: Option<Entries>) -> Option<Entries> {
    let (one, two) = (one?, two?);
    Some(Entries { list: one.list, key: one.key.union(two.key), value: one.value.union(two.value) })
}
