//! Brings an answer into the form in which two servers can be compared: what must differ (ids, times, revisions) is masked.
use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::Answer;

/// Values a sequence saved from this peer's answers, by name; they are masked wherever they show.
pub type Saved = BTreeMap<String, String>;

/// Status code, media type and body of an answer, comparable between peers.
pub fn normal(answer: &Answer, saved: &Saved) -> Value {
    let media = answer.header("content-type").to_owned();
    let mut body = if media.contains("json") || answer.body.first() == Some(&b'{') {
        documents(&answer.body).unwrap_or_else(|| Value::String(answer.text()))
    } else {
        Value::String(answer.text())
    };
    mask(&mut body, "", saved);
    let mut warnings = answer.warnings();
    warnings.iter_mut().for_each(|warning| *warning = mask_text(warning, saved));
    json!({"code": answer.status, "media": media, "warnings": warnings, "body": body})
}

/// A watch stream holds several documents: then an array of them.
fn documents(bytes: &[u8]) -> Option<Value> {
    let mut all: Vec<Value> = Vec::new();
    for document in serde_json::Deserializer::from_slice(bytes).into_iter() {
        all.push(document.ok()?);
    }
    if all.len() == 1 && all[0]["type"].is_null() { all.pop() } else { Some(Value::Array(all)) }
}

fn mask(value: &mut Value, key: &str, saved: &Saved) {
    match value {
        Value::Object(map) => {
            if let Some(Value::Array(owners)) = map.get_mut("managedFields") {
                // The order is that of the seconds in which they wrote.
                owners.sort_by_key(|owner| {
                    ["operation", "manager", "apiVersion", "subresource"].map(|key| owner[key].to_string())
                });
            }
            if map.get("kind").is_some_and(|kind| kind == "Table") {
                mask_ages(map);
            }
            // List items may be owned by an id.
            if map.keys().any(|key| key.starts_with("k:") && key.contains("-")) {
                let masked = |key: String| {
                    key.split('"').map(|word| if is_uuid(word) { "<uid>" } else { word }).collect::<Vec<_>>().join("\"")
                };
                *map = std::mem::take(map).into_iter().map(|(key, value)| (masked(key), value)).collect();
            }
            let prefix = map.get("generateName").and_then(Value::as_str).unwrap_or("").to_owned();
            if let Some(Value::String(name)) = map.get_mut("name")
                && !prefix.is_empty()
                && name.len() == prefix.len() + 5
                && name.starts_with(&prefix)
            {
                *name = "<generated>".to_owned();
            }
            map.iter_mut().for_each(|(key, value)| mask(value, key, saved));
        }
        Value::Array(list) => {
            list.retain(|item| !is_plain_bookmark(item));
            list.iter_mut().for_each(|item| mask(item, key, saved));
        }
        Value::String(text) => {
            let masked = match key {
                "uid" if is_uuid(text) => "<uid>".to_owned(),
                "resourceVersion" if !text.is_empty() && text != "0" => "<revision>".to_owned(),
                "continue" if !text.is_empty() => "<token>".to_owned(),
                _ if is_time(text) => "<time>".to_owned(),
                _ => mask_text(text, saved),
            };
            *text = masked;
        }
        _ => {}
    }
}

/// A bookmark has an object with a revision alone; when it comes is up to the server.
fn is_plain_bookmark(item: &Value) -> bool {
    item["type"] == "BOOKMARK" && item["object"]["metadata"]["annotations"].is_null()
}

/// Cells of columns that show ages are times in disguise.
fn mask_ages(table: &mut serde_json::Map<String, Value>) {
    let aged: Vec<usize> = match table.get("columnDefinitions").and_then(Value::as_array) {
        Some(columns) => (0..columns.len()).filter(|i| is_age_column(&columns[*i]["name"])).collect(),
        None => vec![],
    };
    // A watched table names its columns in the first event alone: mask by look.
    for row in table.get_mut("rows").and_then(Value::as_array_mut).into_iter().flatten() {
        for (i, cell) in row["cells"].as_array_mut().into_iter().flatten().enumerate() {
            let look = cell.as_str().is_some_and(is_age);
            if look || (aged.contains(&i) && cell != "<unknown>") {
                *cell = json!("<age>");
            }
        }
    }
}

fn is_age_column(name: &Value) -> bool {
    matches!(name.as_str(), Some("Age" | "Last Seen" | "First Seen"))
}

fn is_age(text: &str) -> bool {
    text.len() < 8 && text.ends_with(['s', 'm', 'h', 'd']) && text.starts_with(|c: char| c.is_ascii_digit())
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text
            .bytes()
            .enumerate()
            .all(|(i, b)| if [8, 13, 18, 23].contains(&i) { b == b'-' } else { b.is_ascii_hexdigit() })
}

/// A recent time: fixed times in the data are compared as they are.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 20
        && bytes[4] == b'-'
        && bytes[10] == b'T'
        && text.ends_with('Z')
        && text.starts_with("202")
        && !text.starts_with("2020")
}

/// A uuid may stand in a selector or within quotes.
fn mask_uuids(text: &str) -> String {
    let mut masked = text.to_owned();
    while let Some(at) = (0..masked.len()).find(|at| masked.get(*at..at + 36).is_some_and(is_uuid)) {
        masked.replace_range(at..at + 36, "<uid>");
    }
    masked
}

/// Masks saved values, uuids and revisions within prose.
fn mask_text(text: &str, saved: &Saved) -> String {
    let mut masked = mask_uuids(&mask_object(text));
    for (name, value) in saved.iter().filter(|(_, value)| !value.bytes().all(|b| b.is_ascii_digit())) {
        if value.len() > 2 {
            masked = masked.replace(value.as_str(), &format!("<{name}>"));
        }
    }
    let mut words: Vec<String> = Vec::new();
    let lower = masked.to_lowercase();
    let about_revisions = lower.contains("resource version") || lower.contains("resourceversion");
    for word in masked.split(' ') {
        let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        if about_revisions && bare.len() > 1 && bare.bytes().all(|b| b.is_ascii_digit()) {
            words.push(word.replace(bare, "<revision>"));
        } else {
            words.push(word.to_owned());
        }
    }
    words.join(" ")
}

/// Kubernetes quotes the whole patched object in some messages, ids and managedFields included.
fn mask_object(text: &str) -> String {
    match (text.find("\"{\\\"apiVersion"), text.rfind("}\": ")) {
        (Some(start), Some(end)) if start < end => format!("{}\"<object>\"{}", &text[..start], &text[end + 2..]),
        _ => text.to_owned(),
    }
}

/// One place where two answers differ, as a JSON pointer with both sides.
#[derive(Debug, Clone)]
pub struct Difference {
    pub path: String,
    pub left: Value,
    pub right: Value,
}

pub fn differences(left: &Value, right: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(String::new(), left, right, &mut found);
    found
}

fn compare(path: String, left: &Value, right: &Value, found: &mut Vec<Difference>) {
    match (left, right) {
        (Value::Object(a), Value::Object(b)) => {
            let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let (l, r) = (a.get(key).unwrap_or(&Value::Null), b.get(key).unwrap_or(&Value::Null));
                compare(format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")), l, r, found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (i, (l, r)) in a.iter().zip(b).enumerate() {
                compare(format!("{path}/{i}"), l, r, found);
            }
        }
        _ if left == right => {}
        _ => found.push(Difference { path, left: left.clone(), right: right.clone() }),
    }
}
