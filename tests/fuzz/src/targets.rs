//! What must hold for any input. Rows B-1, B-2 and B-4: never a panic, never more than the limits.

use apply::managed::{Atom, FieldSet, Items, Managers, Node, Refused, Scalar, Schema, Scope};
use apply::strategic::{Facts, Field, MergeStrategy};
use cel::{Budget, Decl, Identity, OldSelf, Output, Program};
use meta::selector::{FieldSelector, LabelSelector};
use serde_json::Value;

/// A body is read strictly, and what was read renders to something that reads the same.
pub fn json(data: &[u8]) {
    match meta::json::parse(data) {
        Ok(parsed) => {
            assert!(depth(&parsed.value) <= meta::json::MAX_DEPTH);
            let again = meta::json::parse(parsed.value.to_string().as_bytes());
            assert_eq!(again.map(|again| again.value).as_ref(), Ok(&parsed.value));
            // serde_json stops at 128 levels; below that it must accept what we accept.
            if depth(&parsed.value) < 128 {
                assert!(serde_json::from_slice::<Value>(data).is_ok());
            }
        }
        Err(error) => assert!(error.offset <= data.len() && error.message.len() < 300, "{error:?}"),
    }
}

/// A body in YAML: bounded whatever its aliases say, and the same object as the same document in JSON.
pub fn yaml(data: &[u8]) {
    use meta::yaml::{MAX_DEPTH, MAX_TEXT, parse, parse_last};
    match parse(data) {
        Ok(value) => {
            assert!(depth(&value) <= MAX_DEPTH);
            let text = value.to_string();
            // Escapes render one byte as six; numbers and punctuation come from the events, which are bounded, too.
            assert!(text.len() <= 8 * MAX_TEXT, "{} bytes", text.len());
            assert_eq!(parse_last(data).as_ref(), Ok(&value));
            same_in_json(&value, &text);
        }
        Err(error) => assert!(error.len() < 1000 && !error.contains('\n'), "{error:?}"),
    }
    // JSON is YAML: a document that is both means the same.
    if let Ok(json) = meta::json::parse(data)
        && json.duplicates.is_empty()
    {
        if let Ok(value) = parse(data) {
            assert_eq!(value, json.value);
        }
        same_in_json(&json.value, &json.value.to_string());
    }
}

/// `text`, which is `value` in JSON, means the same to both readers, unless the YAML reader refuses it.
fn same_in_json(value: &Value, text: &str) {
    assert_eq!(meta::json::parse(text.as_bytes()).map(|parsed| parsed.value).as_ref(), Ok(value));
    match meta::yaml::parse(text.as_bytes()) {
        Ok(again) => assert_eq!(again, *value),
        Err(error) => assert!(too_much(value, text), "{error}: {text}"),
    }
}

/// What the YAML reader refuses of plain JSON: deep nesting, more than a kilobyte before a colon, characters that do not print.
fn too_much(value: &Value, text: &str) -> bool {
    let unprintable = |c: char| c.is_control() || matches!(c, '\u{feff}' | '\u{fffe}' | '\u{ffff}');
    depth(value) >= meta::yaml::MAX_DEPTH || text.len() > 1024 || text.contains(unprintable)
}

pub fn json_patch(data: &[u8]) {
    let Some((document, patch)) = document_and_patch(data) else { return };
    let Ok(patch) = apply::json_patch::Patch::parse(patch) else { return };
    if let Ok(result) = patch.apply(document) {
        check_result(&result, data.len() + apply::json_patch::COPY_LIMIT);
    }
}

pub fn merge_patch(data: &[u8]) {
    let Some((document, patch)) = document_and_patch(data) else { return };
    if let Ok(once) = apply::merge_patch::apply(document, &patch) {
        check_result(&once, data.len());
        assert_eq!(apply::merge_patch::apply(once.clone(), &patch), Ok(once));
    }
}

pub fn strategic_merge_patch(data: &[u8]) {
    let Some((document, patch)) = document_and_patch(data) else { return };
    if let Ok(result) = apply::strategic::apply(document.clone(), patch.clone(), AnyKind) {
        check_result(&result, data.len());
    }
    if let Ok(result) = apply::strategic::apply(document, patch, ()) {
        check_result(&result, data.len());
    }
}

/// An expression on the first line, an object on the rest: whatever compiles runs, and stays within its budget.
pub fn cel(data: &[u8]) {
    const LIMIT: u64 = 20_000;
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (expression, object) = text.split_once('\n').unwrap_or((text, "{}"));
    let object = meta::json::parse(object.as_bytes()).map_or(Value::Null, |parsed| parsed.value);
    for output in [Output::Bool, Output::String] {
        let Ok(program) = Program::compile(expression, &cel_object(), OldSelf::Bound, output) else { continue };
        let mut budget = Budget::new(LIMIT, 2 * LIMIT);
        let _ = program.evaluate(&object, Some(&object), &mut budget);
        assert!(budget.remaining() >= LIMIT, "spent {}", 2 * LIMIT - budget.remaining());
    }
}

/// An object with a field of every kind.
fn cel_object() -> Decl {
    let list = |element, identity| Decl::List { element: Box::new(element), max: Some(10), identity };
    let keyed =
        Decl::Object { fields: [("k".into(), Decl::String { max: None })].into(), required: Default::default() };
    let fields = [
        ("any", Decl::Dyn),
        ("number", Decl::Int),
        ("double", Decl::Double),
        ("text", Decl::String { max: Some(20) }),
        ("either", Decl::IntOrString { max: None }),
        ("bytes", Decl::Bytes { max: None }),
        ("time", Decl::Timestamp),
        ("span", Decl::Duration),
        ("list", list(Decl::Int, Identity::Atomic)),
        ("set", list(Decl::String { max: None }, Identity::Set)),
        ("keyed", list(keyed, Identity::Map(vec!["k".into()]))),
        ("map", Decl::Map { value: Box::new(Decl::String { max: None }), max: None }),
    ];
    let fields = fields.into_iter().map(|(name, decl)| (name.to_string(), decl)).collect();
    Decl::Object { fields, required: Default::default() }
}

/// Owners from a client: what is read is written such that it reads the same.
pub fn managed_fields(data: &[u8]) {
    let Ok(parsed) = meta::json::parse(data) else { return };
    let Ok(mut managers) = Managers::decode(Some(&parsed.value)) else { return };
    let (mut text, mut again) = (Vec::new(), Vec::new());
    managers.encode(&mut text);
    let Ok(parsed) = meta::json::parse(&text) else { panic!("{}", text.escape_ascii()) };
    let Ok(mut managers) = Managers::decode(Some(&parsed.value)) else { panic!("{}", text.escape_ascii()) };
    managers.encode(&mut again);
    assert_eq!(text.escape_ascii().to_string(), again.escape_ascii().to_string());
}

/// Applying by force does what it says, once; the owners it leaves can be stored.
pub fn server_side_apply(data: &[u8]) {
    let Some((Value::Object(live), Value::Object(configuration))) = document_and_patch(data) else { return };
    let (blank, ignored) = (serde_json::Map::new(), FieldSet::default());
    let scope = Scope {
        api_version: "v1",
        subresource: "",
        node: Node::Known(Place::Object),
        blank: &blank,
        ignored: &ignored,
        versions: &|_| None,
        convert: &|_, _, _| None,
        now: "2026-01-01T00:00:00Z",
    };
    let applied = match scope.apply(Managers::default(), &live, &configuration, "fuzz", true) {
        Ok(applied) => applied,
        Err(Refused::Conflicts(conflicts)) => panic!("forced: {conflicts}"),
        Err(_) => return,
    };
    let mut managers = applied.managers;
    let mut text = Vec::new();
    managers.encode(&mut text);
    assert!(meta::json::parse(&text).is_ok());
    let Some(object) = applied.object else { return };
    check_result(&Value::Object(object.clone()), data.len());
    match scope.apply(managers, &object, &configuration, "fuzz", false) {
        Ok(again) => assert_eq!(again.object, None),
        Err(refused) => panic!("again: {refused}"),
    }
}

pub fn label_selector(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(selector) = LabelSelector::parse(text) {
        assert_eq!(LabelSelector::parse(&selector.to_string()).as_ref(), Ok(&selector));
        selector.matches(&[("a".into(), "b".into()), ("n".into(), "7".into())]);
        assert!(!selector.is_everything() || selector.matches(&[]));
    }
}

pub fn label_selector_object(data: &[u8]) {
    let Ok(parsed) = meta::json::parse(data) else { return };
    if let Ok(selector) = LabelSelector::from_object(&parsed.value) {
        selector.matches(&[("a".into(), "b".into())]);
        // Only the selector of nothing has no query form.
        if !parsed.value.is_null() {
            assert_eq!(LabelSelector::parse(&selector.to_string()).as_ref(), Ok(&selector));
        }
    }
}

pub fn field_selector(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(selector) = FieldSelector::parse(text) {
        assert_eq!(FieldSelector::parse(&selector.to_string()).as_ref(), Ok(&selector));
        selector.matches(|field| (field == "metadata.name").then_some("x"));
        if let Some(name) = selector.exact_name() {
            assert!(!selector.matches(|_| Some("")) || name.is_empty());
        }
    }
}

/// A name that passes can be a path segment, a file name and a DNS name without further care.
pub fn name(data: &[u8]) {
    use meta::name::{self, Rule};
    let Ok(text) = std::str::from_utf8(data) else { return };
    let strict: [Rule; 4] = [name::dns1123_subdomain, name::dns1123_label, name::dns1035_label, name::config_key];
    for rule in strict {
        if rule(text).is_empty() {
            assert!(!text.is_empty() && text.len() <= 253 && text.is_ascii(), "{text:?}");
            assert!(!text.contains(['/', '\\', '%', '\0', '\n']) && text != "." && !text.starts_with(".."), "{text:?}");
        }
    }
    let loose: [Rule; 5] =
        [name::qualified_name, name::label_value, name::path_segment, name::path_segment_prefix, name::env_var];
    for rule in loose {
        rule(text);
    }
    let random = data.iter().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    assert!(name::generated(text, 253, random).len() <= 253);
}

/// Facts without a kind behind them: fields known by name wherever they stand, so that every strategy meets every shape.
#[derive(Clone, Copy)]
struct AnyKind;

impl Facts<'static> for AnyKind {
    fn field(self, name: &str) -> Option<Field<'static, Self>> {
        let strategy = match name {
            "containers" | "env" | "volumes" => MergeStrategy::MergeBy("name"),
            "ports" => MergeStrategy::MergeBy("containerPort"),
            "finalizers" => MergeStrategy::MergeSet,
            "selector" => MergeStrategy::Replace,
            "metadata" | "spec" | "tolerations" => MergeStrategy::Default,
            _ => return None,
        };
        Some(Field { facts: Some(AnyKind), strategy })
    }
}

/// The same for ownership: places known by name.
#[derive(Clone, Copy)]
enum Place {
    Object,
    Keyed(&'static [&'static str]),
    Set,
    Whole,
    Text,
}

impl Schema<'static> for Place {
    fn atom(self) -> Atom<Self> {
        match self {
            Self::Object => Atom::map(false, Some(Node::Deduced)),
            Self::Keyed(_) => Atom::list(Items::Keyed, Node::Known(Self::Object)),
            Self::Set => Atom::list(Items::Set, Node::Known(Self::Text)),
            Self::Whole => Atom::map(true, Some(Node::Untyped)),
            Self::Text => Atom::scalar(Scalar::String),
        }
    }

    fn field(self, name: &str) -> Option<Node<Self>> {
        Some(Node::Known(match name {
            "metadata" | "spec" => Self::Object,
            "containers" | "env" => Self::Keyed(&["name"]),
            "ports" => Self::Keyed(&["containerPort", "protocol"]),
            "finalizers" => Self::Set,
            "selector" => Self::Whole,
            "name" | "protocol" => Self::Text,
            _ => return None,
        }))
    }

    fn key(self, at: usize) -> Option<&'static str> {
        match self {
            Self::Keyed(keys) => keys.get(at).copied(),
            _ => None,
        }
    }

    fn default(self, name: &str) -> Option<Value> {
        (name == "protocol").then(|| "TCP".into())
    }
}

/// The first line is the document, the rest the patch.
fn document_and_patch(data: &[u8]) -> Option<(Value, Value)> {
    let at = data.iter().position(|byte| *byte == b'\n')?;
    let read = |part: &[u8]| meta::json::parse(part).ok().map(|parsed| parsed.value);
    Some((read(&data[..at])?, read(&data[at + 1..])?))
}

fn check_result(result: &Value, limit: usize) {
    assert!(depth(result) <= apply::MAX_DEPTH);
    // Numbers and escapes may render longer than they were written, but never by this much.
    let text = result.to_string();
    assert!(text.len() <= 6 * limit + 1000, "{} bytes out of {limit}", text.len());
    assert_eq!(meta::json::parse(text.as_bytes()).map(|parsed| parsed.value).as_ref(), Ok(result));
}

fn depth(value: &Value) -> usize {
    let mut deepest = 0;
    let mut todo = vec![(value, 0)];
    while let Some((value, depth)) = todo.pop() {
        match value {
            Value::Array(items) => todo.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(members) => todo.extend(members.values().map(|member| (member, depth + 1))),
            _ => continue,
        }
        deepest = deepest.max(depth + 1);
    }
    deepest
}

/// A protobuf body: whatever decodes must fit its type, and fitting it once more changes nothing.
pub fn protobuf(data: &[u8]) {
    if let Ok(mut decoded) = proto::decode(data) {
        let (group, version) = meta::split_api_version(&decoded.api_version);
        let facts = schema::Facts::builtin();
        let Some(ty) = facts.kind(group, version, &decoded.kind) else { return };
        fits(facts, ty, &mut decoded.value);
    }
}

/// A JSON body against the schema of a kind with every sort of field.
pub fn typed_body(data: &[u8]) {
    let facts = schema::Facts::builtin();
    let (Ok(parsed), Some(ty)) = (meta::json::parse(data), facts.kind("", "v1", "Pod")) else { return };
    let mut value = parsed.value;
    fits(facts, ty, &mut value);
}

/// The first line is the schema of a CRD, the rest an object: judged as CRD and object, whatever they are.
pub fn custom_resource(data: &[u8]) {
    let Some((props, Value::Object(object))) = document_and_patch(data) else { return };
    let version =
        serde_json::json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": props}});
    let names = serde_json::json!({"plural": "things", "kind": "Thing"});
    let spec = serde_json::json!({"group": "a.b", "scope": "Cluster", "names": names, "versions": [version]});
    let Value::Object(mut crd) = serde_json::json!({"metadata": {"name": "things.a.b"}, "spec": spec}) else { return };
    schema::crd::default(&mut crd);
    let errors = schema::crd::validate(&crd, None);
    let Ok(compiled) = schema::structural::Schema::compile(&props) else {
        assert!(!errors.is_empty(), "valid, but does not compile");
        return;
    };
    let mut pruned = object.clone();
    compiled.prune(&mut pruned);
    compiled.default(&mut pruned);
    let once = pruned.clone();
    // Only a valid schema has defaults that are pruned themselves.
    if errors.is_empty() {
        assert_eq!(compiled.prune(&mut pruned), Vec::<String>::new());
        compiled.default(&mut pruned);
        assert_eq!(pruned, once);
    }
    compiled.validate(&pruned, None);
    compiled.validate(&pruned, Some(&object));
    compiled.openapi_v3();
    compiled.openapi_v2();
}

fn fits(facts: &schema::Facts, ty: &schema::Type, value: &mut Value) {
    if schema::decode(facts, ty, value).is_ok() {
        let once = value.clone();
        let again = schema::decode(facts, ty, value).map(|d| d.unknown);
        assert_eq!(again, Ok(Vec::new()));
        assert_eq!(*value, once);
    }
}

/// The filter language of APIExt: an error points into the text, and a filter that is read says yes or its negation does.
pub fn filter(data: &[u8]) {
    use gateway::Filter;
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Filter::parse(text) {
        Err(error) => assert!(error.at <= text.chars().count() && error.why.len() < 2_000, "{error:?}"),
        Ok(filter) => {
            let row = serde_json::json!({"name": "x", "phase": "Running", "n": 5, "b": true, "none": null, "list": [{"a": 1}, {"a": "two"}], "labels": {"a.b/c": "d"}});
            let selected = filter.selects(&row);
            // Unless it is at its limits already.
            if let Ok(negated) = Filter::parse(&format!("not ({text})")) {
                assert_ne!(selected, negated.selects(&row));
            }
            if let Ok(doubled) = Filter::parse(&format!("({text}) or ({text})")) {
                assert_eq!(selected, doubled.selects(&row));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn patches_and_bodies_share_one_depth_limit() {
        assert_eq!(apply::MAX_DEPTH, meta::json::MAX_DEPTH);
    }
}
