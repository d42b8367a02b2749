//! The JSON paths of printer columns: fields, indices, wildcards and simple filters; the first value they lead to counts.

use serde_json::{Map, Value};

#[derive(Debug, Clone, PartialEq)]
pub struct Path(Vec<Step>);

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    Where { path: Vec<Step>, test: Test },
}

#[derive(Debug, Clone, PartialEq)]
enum Test {
    Exists,
    Is(Value),
    IsNot(Value),
}

/// Deeper paths lead nowhere anybody prints.
const MAX_STEPS: usize = 64;

impl Path {
    /// `None`: not a path we understand.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('$').unwrap_or(text);
        steps(text).map(Self)
    }

    /// The first value the path leads to.
    pub fn first<'a>(&self, root: &'a Map<String, Value>) -> Option<&'a Value> {
        match self.0.split_first()? {
            (Step::Field(name), rest) => first(rest, root.get(name)?),
            (Step::All, rest) => root.values().find_map(|v| first(rest, v)),
            _ => None,
        }
    }
}

fn steps(mut rest: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let step;
        (step, rest) = match rest.as_bytes()[0] {
            b'.' => field(&rest[1..])?,
            b'[' => bracket(&rest[1..])?,
            _ if steps.is_empty() => field(rest)?,
            _ => return None,
        };
        steps.extend(step);
        if steps.len() > MAX_STEPS {
            return None;
        }
    }
    Some(steps)
}

/// A name after a dot; a backslash keeps the dot behind it part of the name.
fn field(text: &str) -> Option<(Option<Step>, &str)> {
    let mut name = String::new();
    let mut letters = text.char_indices();
    let mut end = text.len();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '.' | '[' => {
                end = at;
                break;
            }
            '\\' => name.push(letters.next()?.1),
            other => name.push(other),
        }
    }
    let step = match name.as_str() {
        // `.[0]` is `[0]`; `..` searches everywhere, which no column needs.
        "" if text[end..].starts_with('[') => None,
        "" if text.is_empty() => None,
        "" => return None,
        "*" => Some(Step::All),
        _ => Some(Step::Field(name)),
    };
    Some((step, &text[end..]))
}

fn bracket(text: &str) -> Option<(Option<Step>, &str)> {
    let end = closing(text)?;
    let (inner, rest) = (text[..end].trim(), &text[end + 1..]);
    let step = if inner == "*" {
        Step::All
    } else if let Some(filter) = inner.strip_prefix("?(").and_then(|f| f.strip_suffix(')')) {
        condition(filter)?
    } else if let Some(name) = quoted(inner) {
        Step::Field(name.to_owned())
    } else {
        Step::Index(inner.parse().ok()?)
    };
    Some((Some(step), rest))
}

/// Where the bracket ends, quotes and brackets inside it passed over.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut depth = 0;
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(q), l) if q == l => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    None
}

fn quoted(text: &str) -> Option<&str> {
    let strip = |q: char| text.strip_prefix(q).and_then(|t| t.strip_suffix(q));
    strip('\'').or_else(|| strip('"'))
}

/// `@.type=="Ready"`
fn condition(text: &str) -> Option<Step> {
    let text = text.trim().strip_prefix('@')?;
    let (path, test) = if let Some((path, value)) = text.split_once("==") {
        (path, Test::Is(literal(value)?))
    } else if let Some((path, value)) = text.split_once("!=") {
        (path, Test::IsNot(literal(value)?))
    } else {
        (text, Test::Exists)
    };
    Some(Step::Where { path: steps(path.trim())?, test })
}

fn literal(text: &str) -> Option<Value> {
    let text = text.trim();
    match quoted(text) {
        Some(text) => Some(text.into()),
        None => serde_json::from_str(text).ok(),
    }
}

fn first<'a>(steps: &[Step], value: &'a Value) -> Option<&'a Value> {
    let Some((step, rest)) = steps.split_first() else { return Some(value) };
    match (step, value) {
        (Step::Field(name), Value::Object(map)) => first(rest, map.get(name)?),
        (Step::Index(at), Value::Array(list)) => {
            let at = if *at < 0 { at + i64::try_from(list.len()).ok()? } else { *at };
            first(rest, list.get(usize::try_from(at).ok()?)?)
        }
        (Step::All, Value::Array(list)) => list.iter().find_map(|v| first(rest, v)),
        (Step::All, Value::Object(map)) => map.values().find_map(|v| first(rest, v)),
        (Step::Where { path, test }, Value::Array(list)) => {
            list.iter().filter(|v| holds(path, test, v)).find_map(|v| first(rest, v))
        }
        _ => None,
    }
}

fn holds(path: &[Step], test: &Test, value: &Value) -> bool {
    let found = first(path, value);
    match test {
        Test::Exists => found.is_some(),
        Test::Is(wanted) => found == Some(wanted),
        Test::IsNot(unwanted) => found.is_some_and(|v| v != unwanted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_lead_to_the_first_value() {
        let object = json!({"spec": {"a": 1, "b.c": "dotted", "list": [{"n": "x"}, {"n": "y", "v": true}], "m": {"k": 7}},
            "status": {"conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True"}]}});
        for (path, want) in [
            (".spec.a", json!(1)),
            ("spec.a", json!(1)),
            ("$.spec.a", json!(1)),
            (".spec['b.c']", json!("dotted")),
            (r".spec.b\.c", json!("dotted")),
            (".spec.list[1].n", json!("y")),
            (".spec.list[-1].n", json!("y")),
            (".spec.list[*].n", json!("x")),
            (".spec.list[*].v", json!(true)),
            (".spec.m.*", json!(7)),
            (r#".status.conditions[?(@.type=="Ready")].status"#, json!("True")),
            (".status.conditions[?(@.type == 'A')].status", json!("False")),
            (".status.conditions[?(@.type != 'A')].status", json!("True")),
            (".spec.list[?(@.v)].n", json!("y")),
            (".spec.list.[0].n", json!("x")),
        ] {
            assert_eq!(Path::parse(path).unwrap().first(object.as_object().unwrap()), Some(&want), "{path}");
        }
        for path in [".spec.zz", ".spec.a.b", ".spec.list[9]", r#".status.conditions[?(@.type=="B")].status"#] {
            assert_eq!(Path::parse(path).unwrap().first(object.as_object().unwrap()), None, "{path}");
        }
    }

    #[test]
    fn what_is_not_understood_is_no_path() {
        for path in ["..a", ".a[", ".a[x]", ".a[?(x)]", ".a]b[", &".a".repeat(100)] {
            let found = Path::parse(path);
            assert!(found.is_none() || path == ".a]b[", "{path}: {found:?}");
        }
    }
}
