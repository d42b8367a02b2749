//! What the types alone do not tell: lists and maps of one type, and arguments that can be judged before anything runs.

use super::Checked;
use super::types::Type;
use crate::error::Issues;
use crate::functions::check_format;
use crate::syntax::ast::{Ast, Id, Kind, Literal};
use crate::value::time;

pub(super) fn check(ast: &Ast, root: Id, checked: &Checked, issues: &mut Issues) {
    Literals { ast, checked, issues }.walk(root, false);
}

struct Literals<'c> {
    ast: &'c Ast,
    checked: &'c Checked,
    issues: &'c mut Issues,
}

impl Literals<'_> {
    /// `mixed`: within the arguments of `format`, which takes values of any type.
    fn walk(&mut self, id: Id, mixed: bool) {
        let kind = &self.ast[id].kind;
        match kind {
            Kind::List(elements) if !mixed => {
                let of = elements.iter().map(|element| (element.value, self.element(element.value, element.optional)));
                self.same(of.collect(), true);
            }
            Kind::Map(entries) if !mixed => {
                self.same(entries.iter().map(|entry| (entry.key, self.element(entry.key, false))).collect(), false);
                let of = entries.iter().map(|entry| (entry.value, self.element(entry.value, entry.optional)));
                self.same(of.collect(), false);
            }
            Kind::Call { function, target: Some(target), args } if function == "format" => {
                self.format(id, *target, args)
            }
            Kind::Call { function, args, .. } => self.argument(function, args),
            _ => {}
        }
        let mixed = mixed || matches!(kind, Kind::Call { function, .. } if function == "format");
        for child in kind.children() {
            self.walk(child, mixed);
        }
    }

    fn element(&self, id: Id, optional: bool) -> Type {
        match &self.checked.types[id as usize] {
            Type::Optional(of) if optional => (**of).clone(),
            other => other.clone(),
        }
    }

    fn same(&mut self, elements: Vec<(Id, Type)>, first_only: bool) {
        let Some((_, wanted)) = elements.first() else { return };
        for (id, found) in elements.iter().filter(|(_, found)| !equivalent(wanted, found)) {
            self.issues.add(self.ast[*id].at, format!("expected type '{wanted}' but found '{found}'"));
            if first_only {
                return;
            }
        }
    }

    fn format(&mut self, id: Id, target: Id, args: &[Id]) {
        let (Kind::Literal(Literal::String(text)), [arg]) = (&self.ast[target].kind, args) else { return };
        let Kind::List(elements) = &self.ast[*arg].kind else { return };
        let types: Vec<Type> = elements.iter().map(|element| self.element(element.value, element.optional)).collect();
        if let Some((place, why)) = check_format(text, &types) {
            let at = place.map_or(id, |place| elements[place].value);
            self.issues.add(self.ast[at].at, why);
        }
    }

    fn argument(&mut self, function: &str, args: &[Id]) {
        let Some(id) = args.first() else { return };
        let node = &self.ast[*id];
        let Kind::Literal(literal) = &node.kind else { return };
        let valid = match (function, literal) {
            ("duration", Literal::Int(_)) => false,
            ("duration", Literal::String(text)) => time::parse_duration(text).is_some(),
            ("timestamp", Literal::String(text)) => time::parse_timestamp(text).is_some(),
            ("timestamp", Literal::Int(seconds)) => time::timestamp_from_seconds(*seconds).is_some(),
            ("matches", Literal::String(pattern)) => crate::pattern::regex(pattern).is_ok(),
            _ => true,
        };
        if !valid {
            self.issues.add(node.at, format!("invalid {function} argument"));
        }
    }
}

/// Equal, but for what is left open: an empty list fits any list.
fn equivalent(one: &Type, two: &Type) -> bool {
    match (one, two) {
        (Type::List(one), Type::List(two)) | (Type::Optional(one), Type::Optional(two)) => equivalent(one, two),
        (Type::Map(k1, v1), Type::Map(k2, v2)) => equivalent(k1, k2) && equivalent(v1, v2),
        _ => one == two,
    }
}
