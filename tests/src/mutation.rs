//! Objects that are wrong in one place: every field of a sample removed, of another type, empty, too long, odd, or beside one nobody knows.
use serde_json::{Value, json};

/// A sample with one change.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// Where: `/spec/containers/0/name`.
    pub path: String,
    pub change: &'static str,
    pub object: Value,
}

/// All mutants of a sample, in the order of its fields.
pub fn mutants(sample: &Value) -> Vec<Mutant> {
    let mut out = Vec::new();
    visit(sample, "", &mut |path, value| {
        for (change, new) in changes(value) {
            out.push(Mutant { path: path.to_owned(), change, object: with(sample, path, Some(new)) });
        }
        if !path.is_empty() {
            out.push(Mutant { path: path.to_owned(), change: "removed", object: with(sample, path, None) });
        }
    });
    out
}

/// Every value of a document, with its JSON pointer.
fn visit(value: &Value, path: &str, see: &mut dyn FnMut(&str, &Value)) {
    see(path, value);
    match value {
        Value::Object(map) => {
            for (key, item) in map {
                visit(item, &format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")), see);
            }
        }
        Value::Array(list) => {
            for (i, item) in list.iter().enumerate() {
                visit(item, &format!("{path}/{i}"), see);
            }
        }
        _ => {}
    }
}

fn changes(value: &Value) -> Vec<(&'static str, Value)> {
    match value {
        Value::String(_) => vec![
            ("a number", json!(7)),
            ("empty", json!("")),
            ("too long", json!("a".repeat(300))),
            ("odd", json!("Odd, isn't it?")),
        ],
        Value::Number(_) => vec![
            ("a text", json!("seven")),
            ("zero", json!(0)),
            ("negative", json!(-1)),
            ("large", json!(2_147_483_647)),
            ("too large", json!(9_000_000_000_i64)),
        ],
        Value::Bool(on) => vec![("a text", json!("true")), ("the other", json!(!on))],
        Value::Array(list) => {
            let mut out = vec![("a text", json!("list")), ("empty", json!([]))];
            if let Some(first) = list.first() {
                let twice: Vec<&Value> = std::iter::once(first).chain(list).collect();
                out.push(("one twice", json!(twice)));
            }
            out
        }
        Value::Object(map) => {
            let mut more = map.clone();
            more.insert("nobodyKnows".to_owned(), json!("this"));
            vec![("a text", json!("object")), ("empty", json!({})), ("a field more", Value::Object(more))]
        }
        Value::Null => vec![],
    }
}

/// The document with another value at a pointer, or without the one there.
fn with(document: &Value, path: &str, new: Option<Value>) -> Value {
    let mut out = document.clone();
    if let Some(new) = new {
        if let Some(slot) = out.pointer_mut(path) {
            *slot = new;
        }
        return out;
    }
    let Some((parent, last)) = path.rsplit_once('/') else { return out };
    match out.pointer_mut(parent) {
        Some(Value::Object(map)) => {
            map.remove(&last.replace("~1", "/").replace("~0", "~"));
        }
        Some(Value::Array(list)) => {
            if let Ok(i) = last.parse::<usize>() {
                list.remove(i);
            }
        }
        _ => {}
    }
    out
}

/// So many of them, spread over all by a seed; all when there are no more.
pub fn chosen<T>(mut all: Vec<T>, most: usize, seed: u64) -> Vec<T> {
    let mut state = seed | 1;
    while all.len() > most {
        // xorshift: the same choice on every machine.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let place = usize::try_from(state % all.len() as u64).unwrap_or(0);
        all.swap_remove(place);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_changed_once_for_each_way() {
        let sample = json!({"metadata": {"name": "a"}, "spec": {"list": [1], "a/b": true}});
        let all = mutants(&sample);
        let of = |path: &str| all.iter().filter(|m| m.path == path).map(|m| m.change).collect::<Vec<_>>();
        assert_eq!(of("/metadata/name"), ["a number", "empty", "too long", "odd", "removed"]);
        assert_eq!(of("/spec/a~1b"), ["a text", "the other", "removed"]);
        assert!(of("").contains(&"a field more") && !of("").contains(&"removed"));
        let removed = all.iter().find(|m| m.path == "/spec/list/0" && m.change == "removed").unwrap();
        assert_eq!(removed.object["spec"]["list"], json!([]));
        assert!(all.iter().all(|m| m.object != sample || m.change == "empty"));
    }

    #[test]
    fn a_choice_is_bounded_and_the_same_again() {
        let all: Vec<usize> = (0..100).collect();
        let some = chosen(all.clone(), 10, 7);
        assert_eq!((some.len(), &some), (10, &chosen(all.clone(), 10, 7)));
        assert_ne!(some, chosen(all.clone(), 10, 8));
        assert_eq!(chosen(all.clone(), 1000, 7), all);
    }
}
