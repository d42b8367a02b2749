//! Types of expressions, and when one may stand for another.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Type {
    /// Known at run time only.
    Dyn,
    /// The type of what did not check; fits everywhere, so that one mistake is reported once.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    /// The type of a type.
    Meta(Option<Arc<Type>>),
    List(Arc<Type>),
    Map(Arc<Type>, Arc<Type>),
    Optional(Arc<Type>),
    /// An object of the schema, by the path that leads to it.
    Object(Arc<str>),
    /// A type of one of the libraries.
    Named(&'static str),
    /// A type not yet known, to be found by unification; in signatures, a parameter.
    Variable(u32),
}

pub(crate) const QUANTITY: &str = "kubernetes.Quantity";
pub(crate) const URL: &str = "kubernetes.URL";
pub(crate) const FORMAT: &str = "kubernetes.NamedFormat";
pub(crate) const SEMVER: &str = "kubernetes.Semver";
pub(crate) const IP: &str = "net.IP";
pub(crate) const CIDR: &str = "net.CIDR";

impl Type {
    pub fn list(element: Type) -> Type {
        Type::List(Arc::new(element))
    }

    pub fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new(key), Arc::new(value))
    }

    pub fn optional(of: Type) -> Type {
        Type::Optional(Arc::new(of))
    }

    pub fn is_dyn(&self) -> bool {
        matches!(self, Type::Dyn)
    }

    fn is_dyn_or_error(&self) -> bool {
        matches!(self, Type::Dyn | Type::Error)
    }

    fn parts(&self) -> Vec<&Arc<Type>> {
        match self {
            Type::List(one) | Type::Optional(one) | Type::Meta(Some(one)) => vec![one],
            Type::Map(key, value) => vec![key, value],
            _ => Vec::new(),
        }
    }

    /// Whether it is made of more than `most` parts.
    pub fn is_larger_than(&self, most: usize) -> bool {
        let (mut seen, mut left) = (0, vec![self]);
        while let Some(of) = left.pop() {
            seen += 1;
            if seen > most {
                return true;
            }
            left.extend(of.parts().into_iter().map(|part| &**part));
        }
        false
    }

    /// The type with each of its parts replaced.
    pub fn map_parts(&self, change: &mut dyn FnMut(&Type) -> Type) -> Type {
        let mut part = |one: &Arc<Type>| Arc::new(change(one));
        match self {
            Type::List(one) => Type::List(part(one)),
            Type::Optional(one) => Type::Optional(part(one)),
            Type::Meta(Some(one)) => Type::Meta(Some(part(one))),
            Type::Map(key, value) => Type::Map(part(key), part(value)),
            other => other.clone(),
        }
    }

    /// Whether `null` may stand for a value of this type.
    fn is_nullable(&self) -> bool {
        matches!(
            self,
            Type::Null | Type::Optional(_) | Type::Object(_) | Type::Named(_) | Type::Timestamp | Type::Duration
        )
    }

    fn same_constructor(&self, other: &Type) -> bool {
        matches!(
            (self, other),
            (Type::List(_), Type::List(_)) | (Type::Map(..), Type::Map(..)) | (Type::Optional(_), Type::Optional(_))
        )
    }

    /// Whether it says no more than `other`, given that the two unify.
    fn is_as_general(&self, other: &Type) -> bool {
        match (self, other) {
            (Type::Dyn | Type::Variable(_), _) => true,
            (_, Type::Dyn | Type::Variable(_)) => false,
            (Type::Meta(_), Type::Meta(_)) => true,
            _ if self.same_constructor(other) => {
                self.parts().into_iter().zip(other.parts()).all(|(one, two)| one.is_as_general(two))
            }
            _ => self == other,
        }
    }
}

pub(crate) fn most_general(one: &Type, two: &Type) -> Type {
    if one.is_as_general(two) { one.clone() } else { two.clone() }
}

/// In the words of the reference checker.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Type::Dyn => "dyn",
            Type::Error => "!error!",
            Type::Null => "null",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Timestamp => "timestamp",
            Type::Duration => "duration",
            Type::Meta(None) => "type",
            Type::Meta(Some(of)) => return write!(f, "type({of})"),
            Type::List(element) => return write!(f, "list({element})"),
            Type::Map(key, value) => return write!(f, "map({key}, {value})"),
            Type::Optional(of) => return write!(f, "optional_type({of})"),
            Type::Object(name) => name,
            Type::Named(name) => name,
            Type::Variable(number) => return write!(f, "_var{number}"),
        })
    }
}

/// What the type variables have turned out to be.
#[derive(Default)]
pub(crate) struct Unifier {
    bound: HashMap<u32, Type>,
    next: u32,
    /// What the attempt under way has overwritten.
    undo: Vec<(u32, Option<Type>)>,
}

impl Unifier {
    pub fn fresh(&mut self) -> Type {
        self.next += 1;
        Type::Variable(self.next - 1)
    }

    /// Whether the types agree pairwise; only then what was learnt on the way is kept.
    pub fn assignable(&mut self, pairs: &[(&Type, &Type)]) -> bool {
        let agree = pairs.iter().all(|(from, to)| self.unify(from, to));
        while let Some((variable, before)) = self.undo.pop() {
            match before {
                _ if agree => {}
                Some(before) => drop(self.bound.insert(variable, before)),
                None => drop(self.bound.remove(&variable)),
            }
        }
        agree
    }

    fn bind(&mut self, variable: u32, to: Type) {
        let before = self.bound.insert(variable, to);
        self.undo.push((variable, before));
    }

    fn unify(&mut self, from: &Type, to: &Type) -> bool {
        if let Type::Variable(variable) = to {
            match self.substitute_variable(from, *variable) {
                Ok(()) => return true,
                Err(known) if known => return false,
                Err(_) => {}
            }
        }
        if let Type::Variable(variable) = from {
            return self.substitute_variable(to, *variable).is_ok();
        }
        if from.is_dyn_or_error() || to.is_dyn_or_error() {
            return true;
        }
        match (from, to) {
            (Type::Null, other) | (other, Type::Null) => other.is_nullable(),
            (Type::Meta(_), Type::Meta(_)) => true,
            _ if from.same_constructor(to) => {
                from.parts().into_iter().zip(to.parts()).all(|(one, two)| self.unify(one, two))
            }
            _ => from == to,
        }
    }

    /// Lets the variable stand for `value`. If it cannot, the error says whether the variable was already known.
    fn substitute_variable(&mut self, value: &Type, variable: u32) -> Result<(), bool> {
        if *value == Type::Variable(variable) {
            return Ok(());
        }
        if let Some(known) = self.bound.get(&variable).cloned() {
            if *value == known {
                return Ok(());
            }
            if !self.unify(value, &known) {
                return Err(true);
            }
            let general = most_general(value, &known);
            if !self.occurs(variable, &general) {
                self.bind(variable, general);
            }
            return Ok(());
        }
        if self.occurs(variable, value) {
            return Err(false);
        }
        self.bind(variable, value.clone());
        Ok(())
    }

    fn occurs(&self, variable: u32, within: &Type) -> bool {
        match within {
            Type::Variable(other) if *other == variable => true,
            Type::Variable(other) => self.bound.get(other).is_some_and(|known| self.occurs(variable, known)),
            other => other.parts().into_iter().any(|part| self.occurs(variable, part)),
        }
    }

    pub fn resolve(&self, of: &Type) -> Type {
        match of {
            Type::Variable(variable) => match self.bound.get(variable) {
                Some(known) => self.resolve(known),
                None => of.clone(),
            },
            other => other.map_parts(&mut |part| self.resolve(part)),
        }
    }

    /// As [`Unifier::resolve`], with what is still unknown as `dyn`.
    pub fn settle(&self, of: &Type) -> Type {
        match self.resolve(of) {
            Type::Variable(_) => Type::Dyn,
            other => other.map_parts(&mut |part| self.settle(part)),
        }
    }
}
