//! Reads the facts table: a line per type, an indented line per field. The grammar is told in the table's head.

use thiserror::Error;

use crate::facts::{Facts, Field, Form, Kind, ListType, Part, PartOf, Shape, Type, TypeId};

#[derive(Debug, Error, PartialEq, Eq)]
#[error("facts table, line {line}: {what}")]
pub struct TableError {
    pub line: usize,
    pub what: &'static str,
}

/// A type as its lines say it, before embedded structs are flattened.
struct Draft {
    fields: Vec<Field>,
    embedded: Vec<(TypeId, u32)>,
}

pub(crate) fn parse(table: &'static str) -> Result<Facts, TableError> {
    let names: Vec<&'static str> =
        table.lines().filter(|l| !l.starts_with([' ', '#'])).filter_map(|l| l.split(' ').next()).collect();
    if !names.is_sorted() || names.len() > usize::from(u16::MAX) {
        return Err(TableError { line: 0, what: "types are not sorted by name, or too many" });
    }
    let mut types: Vec<Type> = Vec::with_capacity(names.len());
    let mut drafts: Vec<Draft> = Vec::with_capacity(names.len());
    for (at, text) in table.lines().enumerate() {
        let fail = |what| TableError { line: at + 1, what };
        if text.starts_with('#') {
            continue;
        }
        match text.strip_prefix(' ') {
            None => {
                types.push(title(text, types.len()).map_err(fail)?);
                drafts.push(Draft { fields: Vec::new(), embedded: Vec::new() });
            }
            Some(rest) => {
                let draft = drafts.last_mut().ok_or_else(|| fail("a field before the first type"))?;
                field(rest, &names, draft).map_err(fail)?;
            }
        }
    }
    let inherited: Vec<Vec<Field>> = (0..drafts.len()).map(|at| inherit(at, &drafts)).collect();
    for ((ty, draft), inherited) in types.iter_mut().zip(drafts).zip(inherited) {
        complete(ty, draft, inherited);
    }
    let mut kinds: Vec<(Kind, TypeId)> = types.iter().filter_map(|t| t.kind.map(|k| (k, t.id))).collect();
    kinds.sort_unstable();
    Ok(Facts { types, kinds })
}

fn title(text: &'static str, at: usize) -> Result<Type, &'static str> {
    let mut words = text.split(' ');
    let name = words.next().unwrap_or_default();
    let mut kind = None;
    let mut atomic = false;
    for word in words {
        match word.split_once('=') {
            Some(("kind", gvk)) => {
                let mut parts = gvk.split('/');
                let (Some(group), Some(version), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
                    return Err("kind= needs group/version/kind");
                };
                kind = Some(Kind { group, version, kind: name });
            }
            None if word == "atomic" => atomic = true,
            _ => return Err("unknown word after a type"),
        }
    }
    let id = TypeId(u16::try_from(at).map_err(|_| "too many types")?);
    Ok(Type { id, name, kind, atomic, fields: Vec::new(), parts: Vec::new(), always: Vec::new() })
}

fn field(text: &'static str, names: &[&'static str], draft: &mut Draft) -> Result<(), &'static str> {
    let mut words = text.splitn(5, ' ');
    let (Some(name), Some(ty), Some(tag), Some(flags)) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err("a field needs name, type, tag and flags");
    };
    let tag = tag.parse().map_err(|_| "the protobuf tag is a number")?;
    let shape = shape(ty, names)?;
    if name == "^" {
        let Form::Struct(id) = shape.form else { return Err("only structs are embedded") };
        draft.embedded.push((id, tag));
        return Ok(());
    }
    let mut field = Field {
        name,
        shape,
        tag,
        omit_empty: flags.contains('e'),
        omit_zero: flags.contains('z'),
        required: flags.contains('r'),
        list_type: None,
        list_keys: Vec::new(),
        patch_strategy: None,
        merge_key: None,
        atomic: false,
        enumeration: None,
        default: None,
    };
    let mut rest = words.next().unwrap_or_default();
    while !rest.is_empty() {
        // Enumerated values may hold blanks, so they are the rest of the line.
        if let Some(values) = rest.strip_prefix("enum=") {
            field.enumeration = Some(values);
            break;
        }
        let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = after;
        match word.split_once('=') {
            Some(("list", "atomic")) => field.list_type = Some(ListType::Atomic),
            Some(("list", "set")) => field.list_type = Some(ListType::Set),
            Some(("list", "map")) => field.list_type = Some(ListType::Map),
            Some(("keys", keys)) => field.list_keys = keys.split(',').collect(),
            Some(("patch", strategy)) => field.patch_strategy = Some(strategy),
            Some(("merge", key)) => field.merge_key = Some(key),
            Some(("default", json)) => field.default = Some(json),
            None if word == "atomic" => field.atomic = true,
            _ => return Err("unknown word after a field"),
        }
    }
    draft.fields.push(field);
    Ok(())
}

fn shape(text: &'static str, names: &[&'static str]) -> Result<Shape, &'static str> {
    if let Some(rest) = text.strip_prefix('*') {
        return Ok(Shape { pointer: true, ..shape(rest, names)? });
    }
    if let Some(rest) = text.strip_prefix("[]") {
        let (go, rest) = go_name(rest);
        return Ok(Shape { form: Form::List(Box::new(shape(rest, names)?)), pointer: false, go });
    }
    if let Some(rest) = text.strip_prefix("map").filter(|rest| rest.starts_with([':', '<'])) {
        let (go, rest) = go_name(rest);
        let element = rest.strip_prefix(':').ok_or("a map needs its element type")?;
        return Ok(Shape { form: Form::Map(Box::new(shape(element, names)?)), pointer: false, go });
    }
    let (word, go) = match text.split_once('<') {
        Some((word, named)) => (word, named.strip_suffix('>')),
        None => (text, None),
    };
    let form = match word {
        "string" => Form::String,
        "bool" => Form::Bool,
        "int32" => Form::Int32,
        "int64" => Form::Int64,
        "double" => Form::Double,
        "bytes" => Form::Bytes,
        "time" => Form::Time,
        "microtime" => Form::MicroTime,
        "quantity" => Form::Quantity,
        "intorstring" => Form::IntOrString,
        "raw" => Form::Raw,
        "fieldsv1" => Form::FieldsV1,
        "json" => Form::Json,
        "schemaorbool" => Form::SchemaOrBool,
        "schemaorarray" => Form::SchemaOrArray,
        "schemaorstrings" => Form::SchemaOrStrings,
        "items" => Form::Items,
        name => {
            let at = names.binary_search(&name).map_err(|_| "a type that the table does not hold")?;
            Form::Struct(TypeId(u16::try_from(at).map_err(|_| "too many types")?))
        }
    };
    Ok(Shape { form, pointer: false, go })
}

/// Splits `<map[v1.ResourceName]string>:…`: the Go name may itself hold no `>`.
fn go_name(text: &'static str) -> (Option<&'static str>, &'static str) {
    match text.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        Some((go, rest)) => (Some(go), rest),
        None => (None, text),
    }
}

/// The fields of a type's embedded structs, and of those embedded in them. Their protobuf tags are the embedded message's, not the type's.
fn inherit(at: usize, drafts: &[Draft]) -> Vec<Field> {
    let mut fields = Vec::new();
    for (id, _) in &drafts[at].embedded {
        let inner = usize::from(id.0);
        fields.extend(drafts[inner].fields.iter().map(|f| Field { tag: 0, ..f.clone() }));
        fields.extend(inherit(inner, drafts));
    }
    fields
}

/// Joins own and embedded fields and indexes the protobuf members.
fn complete(ty: &mut Type, draft: Draft, inherited: Vec<Field>) {
    ty.fields = draft.fields;
    ty.fields.extend(inherited);
    ty.fields.sort_by_key(|f| f.name);
    ty.fields.shrink_to_fit();
    for (index, field) in (0u16..).zip(&ty.fields) {
        if field.tag != 0 {
            ty.parts.push(Part { tag: field.tag, of: PartOf::Field(index) });
        }
        if field.written_always() {
            ty.always.push(index);
        }
    }
    let embedded = draft.embedded.into_iter().filter(|(_, tag)| *tag != 0);
    ty.parts.extend(embedded.map(|(id, tag)| Part { tag, of: PartOf::Embedded(id) }));
    ty.parts.sort_by_key(|p| p.tag);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_table_knows_the_built_in_kinds() {
        let facts = Facts::builtin();
        let map = facts.kind("", "v1", "ConfigMap").unwrap();
        assert_eq!(map.name, "core/v1.ConfigMap");
        assert!(map.field("data").is_some() && map.field("kind").is_some());
        assert_eq!(facts.kind("apps", "v1", "DeleteOptions").unwrap().name, "meta/v1.DeleteOptions");
        assert!(facts.kind("", "v1", "Nothing").is_none());
        let ports = facts.named("core/v1.ServiceSpec").unwrap().field("ports").unwrap();
        assert_eq!((ports.patch_strategy, ports.merge_key), (Some("merge"), Some("port")));
        assert_eq!(ports.list_type, Some(ListType::Map));
        assert_eq!(ports.list_keys, ["port", "protocol"]);
        let protocol = facts.inner(&ports.shape).unwrap().field("protocol").unwrap();
        assert_eq!(protocol.default(), Some("TCP".into()));
        assert!(protocol.enumeration().eq(["SCTP", "TCP", "UDP"]));
    }

    #[test]
    fn embedded_structs_are_inline_in_json_and_members_in_protobuf() {
        let facts = Facts::builtin();
        let volume = facts.named("core/v1.Volume").unwrap();
        assert_eq!(volume.field("configMap").unwrap().tag, 0);
        assert!(matches!(volume.part(2), Some(PartOf::Embedded(id)) if facts.get(id).name == "core/v1.VolumeSource"));
    }

    #[test]
    fn a_broken_table_is_refused_with_its_line() {
        for (table, line) in
            [("# head\n x string 1 -\n", 2), ("a\n x what 1 -\n", 2), ("a\n x string one -\n", 2), ("b\na\n", 0)]
        {
            assert_eq!(parse(table).unwrap_err().line, line, "{table}");
        }
    }

    #[test]
    fn every_type_is_sorted_and_its_fields_are_unique() {
        for ty in Facts::builtin().types() {
            assert!(ty.fields.is_sorted_by(|a, b| a.name < b.name), "{}", ty.name);
            assert!(ty.parts.is_sorted_by(|a, b| a.tag < b.tag), "{}", ty.name);
        }
    }
}
