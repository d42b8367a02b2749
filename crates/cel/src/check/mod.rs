//! The type checker: every node gets a type, every name and call its meaning, every mistake its place.

mod literals;
mod signatures;
pub(crate) mod types;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::decl::Decl;
use crate::error::Issues;
use crate::escape::{escape, is_keyword};
use crate::program::OldSelf;
use crate::syntax::ast::{Ast, Fold, Id, Kind, Literal};

pub(crate) use signatures::Overload;
use types::{Type, Unifier, most_general};

/// Types are trees, and nested maps can double them at every step.
const MAX_TYPE: usize = 1000;

/// What the checker found out, by node.
pub(crate) struct Checked {
    pub types: Vec<Type>,
    /// The overloads a call may turn out to be.
    pub overloads: Vec<Vec<&'static Overload>>,
    pub uses_old: bool,
}

/// Checks the tree and rewrites dotted names that are one name (`google.protobuf.Timestamp`, `sets.contains`).
pub(crate) fn check(ast: &mut Ast, root: Id, this: &Decl, old: OldSelf, issues: &mut Issues) -> Checked {
    let mut checker = Checker {
        types: vec![Type::Error; ast.len()],
        overloads: vec![Vec::new(); ast.len()],
        ast,
        issues,
        unifier: Unifier::default(),
        scopes: Vec::new(),
        objects: HashMap::new(),
        uses_old: false,
    };
    let this = checker.declared(this, "selfType");
    if old != OldSelf::Unbound {
        let old = if old == OldSelf::Optional { Type::optional(this.clone()) } else { this.clone() };
        checker.scopes.push(("oldSelf".into(), old));
    }
    checker.scopes.push(("self".into(), this));
    checker.check(root);
    let Checker { mut types, overloads, unifier, uses_old, .. } = checker;
    for of in &mut types {
        *of = unifier.settle(of);
    }
    let checked = Checked { types, overloads, uses_old };
    if issues.is_empty() {
        literals::check(ast, root, &checked, issues);
    }
    checked
}

struct Checker<'c> {
    ast: &'c mut Ast,
    issues: &'c mut Issues,
    types: Vec<Type>,
    overloads: Vec<Vec<&'static Overload>>,
    unifier: Unifier,
    /// Variables, innermost last.
    scopes: Vec<(String, Type)>,
    /// Fields of the objects met so far.
    objects: HashMap<Arc<str>, &'c BTreeMap<String, Decl>>,
    uses_old: bool,
}

impl<'c> Checker<'c> {
    /// The type of what the schema declares. Objects are entered when somebody selects from them.
    fn declared(&mut self, decl: &'c Decl, path: &str) -> Type {
        match decl {
            Decl::Dyn | Decl::IntOrString { .. } => Type::Dyn,
            Decl::Null => Type::Null,
            Decl::Bool => Type::Bool,
            Decl::Int => Type::Int,
            Decl::Double => Type::Double,
            Decl::String { .. } | Decl::Enum { .. } => Type::String,
            Decl::Bytes { .. } => Type::Bytes,
            Decl::Date | Decl::Timestamp => Type::Timestamp,
            Decl::Duration => Type::Duration,
            Decl::List { element, .. } => Type::list(self.declared(element, &format!("{path}.@idx"))),
            Decl::Map { value, .. } => Type::map(Type::String, self.declared(value, &format!("{path}.@elem"))),
            Decl::Object { fields, .. } => {
                let name: Arc<str> = path.into();
                self.objects.insert(name.clone(), fields);
                Type::Object(name)
            }
        }
    }

    fn field(&mut self, object: &Arc<str>, name: &str) -> Option<Type> {
        let fields = *self.objects.get(object)?;
        let decl = fields
            .get(name)
            .filter(|_| escape(name).as_deref() == Some(name))
            .or_else(|| fields.iter().find(|(raw, _)| escape(raw).as_deref() == Some(name)).map(|(_, decl)| decl))
            // Behind a dot a word is a name, whatever else it is.
            .or_else(|| fields.get(name).filter(|_| is_keyword(name)))?;
        Some(self.declared(decl, &format!("{object}.{name}")))
    }

    fn report(&mut self, id: Id, message: String) {
        let at = self.ast[id].at;
        self.issues.add(at, message);
    }

    fn type_of(&self, id: Id) -> &Type {
        &self.types[id as usize]
    }

    fn check(&mut self, id: Id) {
        let of = match self.ast[id].kind.clone() {
            Kind::Broken => Type::Error,
            Kind::Literal(literal) => literal_type(&literal),
            Kind::Ident(name) => self.ident(id, &name),
            Kind::Select { operand, field, test } => self.select(id, operand, &field, test),
            Kind::Call { function, target, args } => self.call(id, &function, target, &args),
            Kind::List(elements) => {
                let mut joined = None;
                for element in elements {
                    self.check(element.value);
                    let of = self.unwrap_optional(element.value, element.optional);
                    joined = Some(self.join(joined, of));
                }
                Type::list(joined.unwrap_or_else(|| self.unifier.fresh()))
            }
            Kind::Map(entries) => {
                let mut joined = None;
                for entry in entries {
                    self.check(entry.key);
                    let key = self.type_of(entry.key).clone();
                    self.check(entry.value);
                    let value = self.unwrap_optional(entry.value, entry.optional);
                    let (keys, values) = joined.map_or((None, None), |(keys, values)| (Some(keys), Some(values)));
                    joined = Some((self.join(keys, key), self.join(values, value)));
                }
                let (key, value) = joined.unwrap_or_else(|| (self.unifier.fresh(), self.unifier.fresh()));
                Type::map(key, value)
            }
            Kind::Message(name) => self.undeclared(id, &name),
            Kind::Fold(fold) => self.fold(&fold),
        };
        self.types[id as usize] = match of.is_larger_than(MAX_TYPE) {
            true => {
                self.report(id, "type is too large".into());
                Type::Error
            }
            false => of,
        };
    }

    fn undeclared(&mut self, id: Id, name: &str) -> Type {
        self.report(id, format!("undeclared reference to '{name}' (in container '')"));
        Type::Error
    }

    fn lookup(&mut self, name: &str) -> Option<Type> {
        let found = self.scopes.iter().rposition(|(known, _)| known == name);
        if let Some(place) = found {
            self.uses_old |= name == "oldSelf" && place == 0;
            return Some(self.scopes[place].1.clone());
        }
        type_named(name).map(|of| Type::Meta(Some(Arc::new(of))))
    }

    fn ident(&mut self, id: Id, name: &str) -> Type {
        match self.lookup(name) {
            Some(of) => of,
            None => self.undeclared(id, name),
        }
    }

    fn select(&mut self, id: Id, operand: Id, field: &str, test: bool) -> Type {
        if !test
            && let Some(name) = self.ast.qualified_name(id)
            && let Some(of) = type_named(&name)
        {
            *self.ast.kind_mut(id) = Kind::Ident(name);
            return Type::Meta(Some(Arc::new(of)));
        }
        let of = self.select_field(id, operand, field, false);
        if test { Type::Bool } else { of }
    }

    fn select_field(&mut self, id: Id, operand: Id, field: &str, optional: bool) -> Type {
        self.check(operand);
        let operand = self.unifier.resolve(self.type_of(operand));
        let (target, was_optional) = match &operand {
            Type::Optional(of) => ((**of).clone(), true),
            other => (other.clone(), false),
        };
        let result = match &target {
            Type::Map(_, value) => (**value).clone(),
            Type::Object(object) => match self.field(object, field) {
                Some(of) => of,
                None => {
                    self.report(id, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Named(_) => {
                self.report(id, format!("undefined field '{field}'"));
                Type::Error
            }
            Type::Variable(_) => {
                self.unifier.assignable(&[(&Type::Dyn, &target)]);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                self.report(id, format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        };
        let result = if was_optional || optional { Type::optional(result) } else { result };
        self.unifier.resolve(&result)
    }

    fn call(&mut self, id: Id, function: &str, target: Option<Id>, args: &[Id]) -> Type {
        if function == "_?._" {
            let Kind::Literal(Literal::String(field)) = self.ast[args[1]].kind.clone() else { return Type::Error };
            return self.select_field(id, args[0], &field, true);
        }
        for arg in args {
            self.check(*arg);
        }
        if let Some(target) = target
            && let Some(namespace) = self.ast.qualified_name(target)
        {
            let name = format!("{namespace}.{function}");
            if let Some(overloads) = signatures::overloads(&name) {
                *self.ast.kind_mut(id) = Kind::Call { function: name.clone(), target: None, args: args.to_vec() };
                return self.resolve(id, &name, overloads, None, args);
            }
        }
        if let Some(target) = target {
            self.check(target);
        }
        match signatures::overloads(function) {
            Some(overloads) => self.resolve(id, function, overloads, target, args),
            None => self.undeclared(id, function),
        }
    }

    fn resolve(&mut self, id: Id, name: &str, overloads: &'static [Overload], target: Option<Id>, args: &[Id]) -> Type {
        let operands: Vec<Id> = target.into_iter().chain(args.iter().copied()).collect();
        if matches!(name, "_&&_" | "_||_") {
            return self.logical(id, &overloads[0], &operands);
        }
        let given: Vec<Type> = operands.iter().map(|operand| self.type_of(*operand).clone()).collect();
        let mut result = None;
        for overload in overloads.iter().filter(|overload| overload.member == target.is_some()) {
            let instance = [self.unifier.fresh(), self.unifier.fresh()];
            let params: Vec<Type> = overload.params.iter().map(|param| instantiate(param, &instance)).collect();
            if params.len() != given.len() {
                continue;
            }
            let pairs: Vec<_> = given.iter().zip(&params).collect();
            if !self.unifier.assignable(&pairs) {
                continue;
            }
            self.overloads[id as usize].push(overload);
            let of = self.unifier.resolve(&instantiate(&overload.result, &instance));
            result = Some(match result {
                None => of,
                Some(known) if known == of => known,
                Some(_) => Type::Dyn,
            });
        }
        result.unwrap_or_else(|| {
            let shown: Vec<_> = given.iter().map(|of| self.unifier.settle(of).to_string()).collect();
            let signature = match target {
                Some(_) => format!("{}.({})", shown[0], shown[1..].join(", ")),
                None => format!("({})", shown.join(", ")),
            };
            self.report(id, format!("found no matching overload for '{name}' applied to '{signature}'"));
            Type::Error
        })
    }

    fn logical(&mut self, id: Id, overload: &'static Overload, operands: &[Id]) -> Type {
        self.overloads[id as usize].push(overload);
        let mut result = Type::Bool;
        for operand in operands {
            if !self.expect(*operand, &Type::Bool) {
                result = Type::Error;
            }
        }
        result
    }

    /// Reports the node unless its type is assignable to `wanted`.
    fn expect(&mut self, id: Id, wanted: &Type) -> bool {
        let found = self.type_of(id).clone();
        let fits = self.unifier.assignable(&[(&found, wanted)]);
        if !fits {
            let found = self.unifier.resolve(&found);
            self.report(id, format!("expected type '{wanted}' but found '{found}'"));
        }
        fits
    }

    fn unwrap_optional(&mut self, id: Id, optional: bool) -> Type {
        let of = self.type_of(id).clone();
        match of {
            Type::Optional(inner) if optional => (*inner).clone(),
            _ if optional && !of.is_dyn() => {
                self.report(id, format!("expected type 'optional_type({of})' but found '{of}'"));
                of
            }
            _ => of,
        }
    }

    /// Mixed literals are `dyn` here; [`literals`] refuses them where they are not wanted.
    fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        match previous {
            None => current,
            Some(previous) if self.unifier.assignable(&[(&previous, &current)]) => most_general(&previous, &current),
            Some(_) => Type::Dyn,
        }
    }

    fn fold(&mut self, fold: &Fold) -> Type {
        self.check(fold.range);
        self.check(fold.init);
        let range = self.unifier.resolve(self.type_of(fold.range));
        let accumulator = self.type_of(fold.init).clone();
        let (first, second) = match &range {
            Type::List(element) if fold.second.is_some() => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Error),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Error | Type::Variable(_) => {
                self.unifier.assignable(&[(&Type::Dyn, &range)]);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let why = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.report(fold.range, why);
                (Type::Error, Type::Error)
            }
        };
        let outside = self.scopes.len();
        self.scopes.push((fold.accumulator.clone(), accumulator.clone()));
        self.scopes.push((fold.variable.clone(), first));
        if let Some(name) = &fold.second {
            self.scopes.push((name.clone(), second));
        }
        self.check(fold.condition);
        self.expect(fold.condition, &Type::Bool);
        self.check(fold.step);
        self.expect(fold.step, &accumulator);
        self.scopes.truncate(outside + 1);
        self.check(fold.result);
        self.scopes.truncate(outside);
        self.unifier.resolve(self.type_of(fold.result))
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

fn instantiate(of: &Type, instance: &[Type; 2]) -> Type {
    match of {
        Type::Variable(number) => instance[*number as usize & 1].clone(),
        other => other.map_parts(&mut |part| instantiate(part, instance)),
    }
}

/// Types that can be named in an expression.
pub(crate) fn type_named(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "string" => Type::String,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "null_type" => Type::Null,
        "type" => Type::Meta(None),
        "google.protobuf.Timestamp" => Type::Timestamp,
        "google.protobuf.Duration" => Type::Duration,
        "optional_type" => Type::optional(Type::Dyn),
        _ => {
            let known = [types::QUANTITY, types::URL, types::FORMAT, types::SEMVER, types::IP, types::CIDR];
            Type::Named(known.into_iter().find(|known| *known == name)?)
        }
    })
}
