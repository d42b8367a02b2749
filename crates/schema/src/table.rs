//! Reads the facts table: a line per type, an indented line per field. The grammar is told in the table's head.
//!
//! Loading only finds where each type stands; a type's fields are read when it is first asked for.

use std::sync::OnceLock;

use crate::facts::{Facts, Field, Form, Kind, ListType, Part, PartOf, Shape, Type, TypeId};

/// What is wrong with a table, for whoever changes its generator.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TableError {
    /// The type it is wrong in.
    pub of: &'static str,
    pub what: &'static str,
}

/// Finds the types of a table.
pub(crate) fn index(table: &'static str) -> Result<Facts, TableError> {
    let (mut names, mut blocks, mut kinds) = (Vec::new(), Vec::new(), Vec::new());
    let mut rest = table;
    while !rest.is_empty() {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        if line.starts_with('#') {
            rest = after;
            continue;
        }
        let fields = after.len() - skip_fields(after).len();
        let (block, after) = rest.split_at(rest.len() - after.len() + fields);
        rest = after;
        let name = line.split(' ').next().unwrap_or_default();
        let fail = |what| TableError { of: name, what };
        let id = TypeId(u16::try_from(names.len()).map_err(|_| fail("too many types"))?);
        if names.last().is_some_and(|last| *last >= name) {
            return Err(fail("types are not sorted by name"));
        }
        if let (Some(kind), _) = title(line).map_err(fail)? {
            kinds.push((kind, id));
        }
        names.push(name);
        blocks.push(block);
    }
    kinds.sort_unstable();
    let types = names.iter().map(|_| OnceLock::new()).collect();
    Ok(Facts { names, blocks, types, kinds })
}

fn skip_fields(mut text: &str) -> &str {
    while text.starts_with(' ') {
        text = text.split_once('\n').map_or("", |(_, after)| after);
    }
    text
}

/// Reads one type; the types embedded in it are read with it.
pub(crate) fn read(facts: &Facts, id: TypeId) -> Result<Type, TableError> {
    let name = facts.names[usize::from(id.0)];
    let fail = |what| TableError { of: name, what };
    let mut lines = facts.blocks[usize::from(id.0)].lines();
    let (kind, atomic) = title(lines.next().unwrap_or_default()).map_err(fail)?;
    let mut ty = Type {
        id,
        name,
        kind,
        atomic,
        fields: Vec::new(),
        parts: Vec::new(),
        always: Vec::new(),
        blank: OnceLock::new(),
    };
    for line in lines {
        match member(line.trim_start(), &facts.names).map_err(fail)? {
            Member::Field(field) => ty.fields.push(field),
            Member::Embedded(inner, tag) => {
                // The inner fields are the type's own in JSON; their tags are the embedded message's.
                ty.fields.extend(facts.get(inner).fields.iter().map(|f| Field { tag: 0, ..f.clone() }));
                if tag != 0 {
                    ty.parts.push(Part { tag, of: PartOf::Embedded(inner) });
                }
            }
        }
    }
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
    ty.parts.sort_by_key(|p| p.tag);
    Ok(ty)
}

fn title(line: &'static str) -> Result<(Option<Kind>, bool), &'static str> {
    let mut kind = None;
    let mut atomic = false;
    for word in line.split(' ').skip(1) {
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
    Ok((kind, atomic))
}

enum Member {
    Field(Field),
    /// An embedded struct with the tag of its message.
    Embedded(TypeId, u32),
}

fn member(text: &'static str, names: &[&'static str]) -> Result<Member, &'static str> {
    let mut words = text.splitn(5, ' ');
    let (Some(name), Some(ty), Some(tag), Some(flags)) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err("a field needs name, type, tag and flags");
    };
    let tag = tag.parse().map_err(|_| "the protobuf tag is a number")?;
    let shape = shape(ty, names)?;
    if name == "^" {
        let Form::Struct(id) = shape.form else { return Err("only structs are embedded") };
        return Ok(Member::Embedded(id, tag));
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
        granular: false,
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
            None if word == "granular" => field.granular = true,
            _ => return Err("unknown word after a field"),
        }
    }
    Ok(Member::Field(field))
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
    fn a_broken_table_is_refused_with_the_type_it_is_wrong_in() {
        let error = |table| match index(table) {
            Ok(facts) => read(&facts, TypeId(0)).map(|_| ()).unwrap_err(),
            Err(error) => error,
        };
        for table in
            ["# head\na\n x what 1 -\n", "a\n x string one -\n", "a\n x string 1\n", "a odd\n", "b\na\n", "a\na\n"]
        {
            assert_eq!(error(table).of, "a", "{table}");
        }
    }

    #[test]
    fn every_type_reads_and_its_fields_are_unique() {
        let facts = Facts::builtin();
        assert!(facts.types().count() > 400);
        for id in (0..).map(TypeId).take(facts.types().count()) {
            let ty = read(facts, id).unwrap();
            assert!(ty.fields.is_sorted_by(|a, b| a.name < b.name), "{}", ty.name);
            assert!(ty.parts.is_sorted_by(|a, b| a.tag < b.tag), "{}", ty.name);
        }
    }
}
