//! What ownership must know of a kind: which maps and lists are owned as a whole, and how list items are told apart.

use serde_json::Value;

/// What is known of the values at one place. Cheap to copy: usually a reference into a table that lives for `'t`.
pub trait Schema<'t>: Copy {
    /// What the values may be.
    fn atom(self) -> Atom<Self>;

    /// The declared field of an object. What is not declared may still be allowed: see [`Map::element`].
    fn field(self, name: &str) -> Option<Node<Self>>;

    /// The names of the keys of a list of [`Items::Keyed`], by place.
    fn key(self, at: usize) -> Option<&'t str>;

    /// The value of a declared field that was left out.
    fn default(self, name: &str) -> Option<Value>;
}

/// A place with a schema, or one without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node<T> {
    Known(T),
    /// Nothing is known: objects are owned field by field, lists as a whole.
    Deduced,
    /// Nothing is known, and whatever is there is owned as a whole.
    Untyped,
}

/// The forms a value may take; most places allow one.
#[derive(Debug, Clone, Copy)]
pub struct Atom<T> {
    pub scalar: Option<Scalar>,
    pub list: Option<List<T>>,
    pub map: Option<Map<T>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    Number,
    String,
    Boolean,
    Any,
}

#[derive(Debug, Clone, Copy)]
pub struct List<T> {
    pub items: Items,
    pub element: Node<T>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Items {
    /// The list is owned as a whole.
    Atomic,
    /// Scalars, each owned by its value.
    Set,
    /// Objects, each owned by the value of its keys.
    Keyed,
}

#[derive(Debug, Clone, Copy)]
pub struct Map<T> {
    /// The object is owned as a whole.
    pub atomic: bool,
    /// The type of fields that are not declared; none are allowed without.
    pub element: Option<Node<T>>,
}

/// The form a value has at a place that may allow several.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form<T> {
    Scalar(Scalar),
    List(List<T>),
    Map(Map<T>),
}

impl<T> Atom<T> {
    pub const NONE: Self = Self { scalar: None, list: None, map: None };

    pub fn scalar(scalar: Scalar) -> Self {
        Self { scalar: Some(scalar), ..Self::NONE }
    }

    pub fn list(items: Items, element: Node<T>) -> Self {
        Self { list: Some(List { items, element }), ..Self::NONE }
    }

    pub fn map(atomic: bool, element: Option<Node<T>>) -> Self {
        Self { map: Some(Map { atomic, element }), ..Self::NONE }
    }
}

impl<'t, T: Schema<'t>> Node<T> {
    pub(super) fn atom(self) -> Atom<T> {
        let any = |map| Atom {
            scalar: Some(Scalar::Any),
            list: Some(List { items: Items::Atomic, element: Node::Untyped }),
            map: Some(map),
        };
        match self {
            Self::Known(schema) => schema.atom(),
            Self::Deduced => any(Map { atomic: false, element: Some(Node::Deduced) }),
            Self::Untyped => any(Map { atomic: true, element: Some(Node::Untyped) }),
        }
    }

    pub(super) fn declared(self, name: &str) -> Option<Self> {
        match self {
            Self::Known(schema) => schema.field(name),
            _ => None,
        }
    }

    /// The type of a field of an object, declared or not.
    pub(super) fn child(self, map: &Map<T>, name: &str) -> Self {
        self.declared(name).or(map.element).unwrap_or(Node::Deduced)
    }

    /// The form of a value; that of the place when the value (null, or of a form not allowed) does not say.
    pub(super) fn form(self, value: Option<&Value>) -> Option<Form<T>> {
        let atom = self.atom();
        let stated = match value {
            None | Some(Value::Null) => None,
            Some(Value::Array(_)) => atom.list.map(Form::List),
            Some(Value::Object(_)) => atom.map.map(Form::Map),
            Some(_) => atom.scalar.map(Form::Scalar),
        };
        stated.or(atom.map.map(Form::Map)).or(atom.scalar.map(Form::Scalar)).or(atom.list.map(Form::List))
    }
}

impl<T> Form<T> {
    pub(super) fn same(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}
