//! What ownership must know of the built-in kinds, from the facts table.

use apply::managed::{Atom, Items, Node, Scalar, Schema};
use schema::{Facts, Field, Form, ListType, Shape, Type};
use serde_json::Value;

/// A place in an object of a built-in kind.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    Type(&'static Type),
    /// A field, or what the lists and maps in it hold.
    Value {
        shape: &'static Shape,
        field: Option<&'static Field>,
    },
}

/// The type of a kind's objects.
pub(crate) fn node(group: &str, version: &str, kind: &str) -> Option<Node<Place>> {
    Facts::builtin().kind(group, version, kind).map(|ty| Node::Known(Place::Type(ty)))
}

fn place(shape: &'static Shape, field: Option<&'static Field>) -> Node<Place> {
    match shape.form {
        Form::Raw => Node::Untyped,
        Form::IntOrString
        | Form::Json
        | Form::FieldsV1
        | Form::SchemaOrBool
        | Form::SchemaOrArray
        | Form::SchemaOrStrings => Node::Deduced,
        _ => Node::Known(Place::Value { shape, field }),
    }
}

impl Place {
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
}

impl Schema<'static> for Place {
    fn atom(self) -> Atom<Self> {
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

    fn field(self, name: &str) -> Option<Node<Self>> {
        let field = self.ty()?.field(name)?;
        Some(place(&field.shape, Some(field)))
    }

    fn key(self, at: usize) -> Option<&'static str> {
        self.items().1.get(at).copied()
    }

    fn default(self, name: &str) -> Option<Value> {
        self.ty()?.field(name)?.default()
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
            let (node, blank) =
                (node(group, version, kind).unwrap(), facts.blank(facts.kind(group, version, kind).unwrap()));
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
