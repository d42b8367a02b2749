//! What ownership must know of a kind: the facts table of the built-in ones, the schemas of the custom ones.

use crate::kinds::Kind;
use apply::managed::{Atom, Items, Node, Scalar, Schema};
use schema::structural::{self, Additional};
use schema::{Facts, Field, Form, ListType, Shape, Type};
use serde_json::Value;

/// A place in an object.
#[derive(Clone, Copy)]
pub(crate) enum Place<'t> {
    Builtin(Builtin),
    Custom(Custom<'t>),
}

/// The type of a kind's objects.
pub(crate) fn node(kind: &Kind) -> Node<Place<'_>> {
    match &kind.custom {
        Some(custom) => {
            let node = custom.schema().root();
            Node::Known(Place::Custom(Custom { node, object: true, keeps: node.preserve_unknown() }))
        }
        None => builtin(&kind.group, &kind.version, &kind.kind),
    }
}

pub(crate) fn builtin(group: &str, version: &str, kind: &str) -> Node<Place<'static>> {
    match Facts::builtin().kind(group, version, kind) {
        Some(ty) => Node::Known(Place::Builtin(Builtin::Type(ty))),
        None => Node::Deduced,
    }
}

impl<'t> Schema<'t> for Place<'t> {
    fn atom(self) -> Atom<Self> {
        match self {
            Self::Builtin(place) => place.atom(),
            Self::Custom(place) => place.atom(),
        }
    }

    fn field(self, name: &str) -> Option<Node<Self>> {
        match self {
            Self::Builtin(place) => place.member(name),
            Self::Custom(place) => place.member(name),
        }
    }

    fn key(self, at: usize) -> Option<&'t str> {
        match self {
            Self::Builtin(place) => place.items().1.get(at).copied(),
            Self::Custom(place) => match place.node.list_type() {
                structural::ListType::Map(keys) => keys.get(at).map(String::as_str),
                _ => None,
            },
        }
    }

    fn default(self, name: &str) -> Option<Value> {
        match self {
            Self::Builtin(place) => {
                let ty = place.ty()?;
                let field = ty.field(name)?;
                // What Go always writes is zero when it is left out; so is the name of a reference, which it does not.
                let zero = !field.omit_empty || ty.name == "core/v1.LocalObjectReference";
                field
                    .default()
                    .or_else(|| zero.then(|| Facts::builtin().zero(&field.shape)).filter(|zero| !zero.is_null()))
            }
            Self::Custom(place) => place.node.property(name)?.default().cloned(),
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Builtin {
    Type(&'static Type),
    /// A field, or what the lists and maps in it hold.
    Value {
        shape: &'static Shape,
        field: Option<&'static Field>,
    },
}

fn place<'t>(shape: &'static Shape, field: Option<&'static Field>) -> Node<Place<'t>> {
    match shape.form {
        Form::Raw => Node::Untyped,
        Form::IntOrString
        | Form::Json
        | Form::FieldsV1
        | Form::SchemaOrBool
        | Form::SchemaOrArray
        | Form::SchemaOrStrings => Node::Deduced,
        _ => Node::Known(Place::Builtin(Builtin::Value { shape, field })),
    }
}

impl Builtin {
    fn ty(self) -> Option<&'static Type> {
        match self {
            Self::Type(ty) => Some(ty),
            Self::Value { shape, .. } => match shape.form {
                Form::Struct(id) => Some(Facts::builtin().get(id)),
                _ => None,
            },
        }
    }

    fn field(self) -> Option<&'static Field> {
        match self {
            Self::Type(_) => None,
            Self::Value { field, .. } => field,
        }
    }

    fn member<'t>(self, name: &str) -> Option<Node<Place<'t>>> {
        let field = self.ty()?.field(name)?;
        Some(place(&field.shape, Some(field)))
    }

    /// How the items of a list are told apart: said outright, or by the way strategic merge patches merge it.
    fn items(self) -> (Items, &'static [&'static str]) {
        let Some(field) = self.field() else { return (Items::Atomic, &[]) };
        let merges = field.patch_strategy.is_some_and(|s| matches!(s, "merge" | "merge,retainKeys"));
        match (field.list_type, field.merge_key.as_ref()) {
            (Some(ListType::Atomic), _) => (Items::Atomic, &[]),
            (Some(ListType::Set), _) => (Items::Set, &[]),
            (Some(ListType::Map), _) => (Items::Keyed, &field.list_keys),
            (None, Some(key)) if merges => (Items::Keyed, std::slice::from_ref(key)),
            (None, None) if merges => (Items::Set, &[]),
            (None, _) => (Items::Atomic, &[]),
        }
    }

    fn atom<'t>(self) -> Atom<Place<'t>> {
        let whole = self.field().is_some_and(|field| field.atomic);
        if let Some(ty) = self.ty() {
            let free = ty.fields.is_empty().then_some(Node::Deduced);
            let parts = self.field().is_some_and(|field| field.granular);
            return Atom::map(whole || (ty.atomic && !parts), free);
        }
        let Self::Value { shape, .. } = self else { return Atom::NONE };
        match &shape.form {
            Form::String | Form::Bytes => Atom::scalar(Scalar::String),
            Form::Bool => Atom::scalar(Scalar::Boolean),
            Form::Int32 | Form::Int64 | Form::Double => Atom::scalar(Scalar::Number),
            Form::List(element) => Atom::list(self.items().0, place(element, None)),
            Form::Map(element) => Atom::map(whole, Some(place(element, None))),
            Form::Items => Atom::list(Items::Atomic, Node::Untyped),
            _ => Atom::scalar(Scalar::Any),
        }
    }
}

/// A place in the structural schema of a custom kind.
#[derive(Clone, Copy)]
pub(crate) struct Custom<'t> {
    node: &'t structural::Node,
    /// An object with type and metadata: the root, or an embedded one.
    object: bool,
    /// It or something above it keeps fields that are not declared.
    keeps: bool,
}

impl<'t> Custom<'t> {
    fn below(self, node: &'t structural::Node) -> Node<Place<'t>> {
        match node.kind() {
            // Of a place without a type nothing is known but, perhaps, some of its fields.
            structural::Kind::IntOrString => Node::Deduced,
            structural::Kind::Any if node.properties().len() == 0 => Node::Deduced,
            _ => {
                let keeps = self.keeps || node.preserve_unknown();
                Node::Known(Place::Custom(Custom { node, object: node.embedded(), keeps }))
            }
        }
    }

    fn member(self, name: &str) -> Option<Node<Place<'t>>> {
        match name {
            "metadata" if self.object => Some(match Facts::builtin().named("meta/v1.ObjectMeta") {
                Some(ty) => Node::Known(Place::Builtin(Builtin::Type(ty))),
                None => Node::Deduced,
            }),
            "apiVersion" | "kind" if self.object => Some(Node::Untyped),
            _ => self.node.property(name).map(|node| self.below(node)),
        }
    }

    fn atom(self) -> Atom<Place<'t>> {
        let node = self.node;
        match node.kind() {
            structural::Kind::Object | structural::Kind::Any => {
                let element = match node.additional() {
                    Some(Additional::Typed(node)) => Some(self.below(node)),
                    Some(Additional::Untyped { allowed }) => allowed.then_some(Node::Deduced),
                    None => (self.keeps || node.properties().len() == 0).then_some(Node::Deduced),
                };
                Atom::map(node.atomic_map(), element)
            }
            structural::Kind::List => {
                let items = match node.list_type() {
                    structural::ListType::Atomic => Items::Atomic,
                    structural::ListType::Set => Items::Set,
                    structural::ListType::Map(_) => Items::Keyed,
                };
                Atom::list(items, node.items().map_or(Node::Untyped, |node| self.below(node)))
            }
            structural::Kind::String => Atom::scalar(Scalar::String),
            structural::Kind::Integer | structural::Kind::Number => Atom::scalar(Scalar::Number),
            structural::Kind::Boolean => Atom::scalar(Scalar::Boolean),
            structural::Kind::IntOrString => Atom::scalar(Scalar::Any),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apply::managed::{Element, FieldSet, compare, fields_of};

    fn without<'a>(fields: FieldSet<'a>, paths: &[&'static str]) -> FieldSet<'a> {
        let mut gone = FieldSet::default();
        for path in paths {
            gone.insert(&path.split('.').map(Element::field).collect::<Vec<_>>());
        }
        fields.recursive_difference(&gone)
    }

    /// Objects of many kinds as kube-apiserver stored them, with the owners it gave to who created them, and to who applied the same.
    #[test]
    fn fields_are_owned_as_kubernetes_has_it() {
        let cases: Vec<Value> = serde_json::from_str(include_str!("../../testdata/owners.json")).unwrap();
        assert!(cases.len() > 15);
        for case in cases {
            let object = case["object"].as_object().unwrap();
            let (group, version) = meta::split_api_version(object["apiVersion"].as_str().unwrap());
            let kind = object["kind"].as_str().unwrap();
            let facts = Facts::builtin();
            let (node, blank) = (builtin(group, version, kind), facts.blank(facts.kind(group, version, kind).unwrap()));
            let nobodys = ["apiVersion", "kind", "metadata.name", "status"];

            let changes = compare(blank, object, node).unwrap();
            let owned = without(changes.added.union(changes.modified), &nobodys);
            assert_eq!(owned.to_value(), case["created"], "{kind}");

            let configuration = case["configuration"].as_object().unwrap().clone();
            let mut bare = configuration.clone();
            bare.insert("metadata".into(), serde_json::json!({"name": "x"}));
            let owned = without(fields_of(&bare, node).unwrap(), &nobodys);
            assert_eq!(owned.to_value(), case["applied"], "{kind}");
        }
    }
}
