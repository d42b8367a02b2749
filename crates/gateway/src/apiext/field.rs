//! Fields of a row by path (`spec.replicas`, `labels."app.kubernetes.io/name"`) and their values in a form that compares fast.

use std::cmp::Ordering;
use std::sync::Arc;

use serde_json::{Map, Value};

/// Keys to follow from the top of a row. A number picks one element of a list, any other key looks into all of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldPath {
    segments: Vec<String>,
}

const LONGEST_PATH: usize = 512;
const DEEPEST: usize = 16;
/// Values one path may find in one row: a list of lists must not be a way to use memory.
pub(crate) const MOST_CELLS: usize = 1_000;
/// Of a long text only the beginning decides the order.
const SORTED_BYTES: usize = 256;

impl FieldPath {
    /// Segments are parted by dots; one that holds dots or other marks stands in double quotes.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST_PATH {
            return Err(format!("a field path has at most {LONGEST_PATH} bytes"));
        }
        let mut segments = Vec::new();
        let mut rest = text;
        loop {
            let (segment, after) = match rest.strip_prefix('"') {
                Some(quoted) => {
                    let end = quoted.find('"').ok_or_else(|| format!("the field {text:?} has an open quote"))?;
                    (&quoted[..end], &quoted[end + 1..])
                }
                None => rest.split_at(rest.find('.').unwrap_or(rest.len())),
            };
            let plain = !rest.starts_with('"');
            if segment.is_empty() || (plain && !segment.chars().all(is_plain)) {
                return Err(format!(
                    "{text:?} is not a field path: write a.b.c, and keys with dots or other marks in double quotes (labels.\"app.kubernetes.io/name\")"
                ));
            }
            segments.push(segment.to_owned());
            if segments.len() > DEEPEST {
                return Err(format!("a field path has at most {DEEPEST} parts"));
            }
            match after.strip_prefix('.') {
                Some(more) => rest = more,
                None if after.is_empty() => return Ok(Self { segments }),
                None => return Err(format!("{text:?} is not a field path: a quoted part ends at a dot")),
            }
        }
    }

    /// Of segments that are known to be plain.
    pub(crate) fn of<'a>(segments: impl Iterator<Item = &'a str>) -> Self {
        Self { segments: segments.map(str::to_owned).collect() }
    }

    pub fn segments(&self) -> &[String] {
        &self.segments
    }

    /// What stands there in `row`.
    pub fn cell(&self, row: &Value) -> Cell {
        let mut found = Vec::new();
        let through_list = walk(row, &self.segments, &mut found);
        Cell::found(found, through_list)
    }

    /// Copies what stands there into `into`, under the same keys.
    pub fn project(&self, row: &Value, into: &mut Map<String, Value>) {
        copy(row, &self.segments, into);
    }
}

fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '$')
}

/// Collects the values at the end of the path and says whether it went through a list.
fn walk(value: &Value, path: &[String], found: &mut Vec<Cell>) -> bool {
    if found.len() >= MOST_CELLS {
        return true;
    }
    match (value, path.split_first()) {
        (Value::Array(items), None) => {
            found.extend(items.iter().take(MOST_CELLS - found.len()).map(Cell::of));
            true
        }
        (scalar, None) => {
            found.push(Cell::of(scalar));
            false
        }
        (Value::Object(map), Some((key, rest))) => map.get(key).is_some_and(|inner| walk(inner, rest, found)),
        (Value::Array(items), Some((key, rest))) => match key.parse::<usize>() {
            Ok(index) => items.get(index).is_some_and(|inner| walk(inner, rest, found)),
            Err(_) => {
                for item in items {
                    walk(item, path, found);
                }
                true
            }
        },
        _ => false,
    }
}

fn copy(value: &Value, path: &[String], into: &mut Map<String, Value>) {
    let (Value::Object(map), Some((key, rest))) = (value, path.split_first()) else { return };
    let Some(inner) = map.get(key) else { return };
    match inner {
        Value::Object(_) if !rest.is_empty() => {
            let slot = into.entry(key.clone()).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(slot) = slot {
                copy(inner, rest, slot);
            }
        }
        // Within a list, each element is shown with the asked parts only; elements keep their places.
        Value::Array(items) if !rest.is_empty() && rest[0].parse::<usize>().is_err() => {
            let slot = into.entry(key.clone()).or_insert_with(|| vec![Value::Object(Map::new()); items.len()].into());
            for (item, shown) in items.iter().zip(slot.as_array_mut().into_iter().flatten()) {
                if let Value::Object(shown) = shown {
                    copy(item, rest, shown);
                }
            }
        }
        // A path that goes on where the value ends shows nothing; a numbered element shows its list.
        Value::Array(_) => {
            into.insert(key.clone(), inner.clone());
        }
        _ if rest.is_empty() => {
            into.insert(key.clone(), inner.clone());
        }
        _ => {}
    }
}

/// A value as filters and orders see it.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Missing,
    Null,
    Bool(bool),
    Number(f64),
    Text(Arc<str>),
    /// Of a list: a test holds when it holds for one of them.
    Many(Arc<[Cell]>),
    Object,
}

impl Cell {
    /// Of what stands at the end of a path.
    pub(crate) fn found(mut found: Vec<Cell>, through_list: bool) -> Self {
        match found.len() {
            0 if through_list => Cell::Many(Arc::from([])),
            0 => Cell::Missing,
            1 if !through_list => found.swap_remove(0),
            _ => Cell::Many(found.into()),
        }
    }

    fn of(value: &Value) -> Self {
        match value {
            Value::Null => Cell::Null,
            Value::Bool(b) => Cell::Bool(*b),
            Value::Number(n) => Cell::Number(n.as_f64().unwrap_or(0.0)),
            Value::String(text) => Cell::Text(text.as_str().into()),
            Value::Array(_) | Value::Object(_) => Cell::Object,
        }
    }

    /// About how much memory it takes.
    pub fn bytes(&self) -> usize {
        match self {
            Cell::Text(text) => 24 + text.len(),
            Cell::Many(cells) => 24 + cells.iter().map(Cell::bytes).sum::<usize>(),
            _ => 24,
        }
    }

    pub fn text(text: &str) -> Self {
        Cell::Text(text.into())
    }

    /// Keeps what decides the place of a row: one scalar, and of a text its beginning.
    pub fn make_sort_key(&mut self) {
        match self {
            Cell::Many(cells) => {
                *self = cells.first().cloned().unwrap_or(Cell::Missing);
                self.make_sort_key();
            }
            Cell::Null | Cell::Object => *self = Cell::Missing,
            Cell::Text(text) if text.len() > SORTED_BYTES => {
                let end = (0..=SORTED_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
                *self = Cell::text(&text[..end]);
            }
            _ => {}
        }
    }

    /// Order of sort keys. What is missing comes last in either direction.
    pub fn compare(&self, other: &Cell, descending: bool) -> Ordering {
        let missing = |cell: &Cell| matches!(cell, Cell::Missing);
        match (missing(self), missing(other)) {
            (true, true) => return Ordering::Equal,
            (true, false) => return Ordering::Greater,
            (false, true) => return Ordering::Less,
            (false, false) => {}
        }
        let order = match (self, other) {
            (Cell::Bool(a), Cell::Bool(b)) => a.cmp(b),
            (Cell::Number(a), Cell::Number(b)) => a.total_cmp(b),
            (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()),
        };
        if descending { order.reverse() } else { order }
    }

    fn rank(&self) -> u8 {
        match self {
            Cell::Bool(_) => 0,
            Cell::Number(_) => 1,
            Cell::Text(_) => 2,
            _ => 3,
        }
    }

    /// A sort key as it travels in a cursor.
    pub fn to_json(&self) -> Value {
        match self {
            Cell::Bool(b) => (*b).into(),
            // Bit by bit: a decimal might come back as its neighbour.
            Cell::Number(n) => serde_json::json!({"n": n.to_bits()}),
            Cell::Text(text) => text.as_ref().into(),
            _ => Value::Null,
        }
    }

    pub fn from_json(value: &Value) -> Self {
        match Self::of(value) {
            Cell::Object => value["n"].as_u64().map_or(Cell::Missing, |bits| Cell::Number(f64::from_bits(bits))),
            Cell::Null => Cell::Missing,
            scalar => scalar,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn path(text: &str) -> FieldPath {
        FieldPath::parse(text).unwrap()
    }

    #[test]
    fn paths_name_nested_quoted_and_numbered_parts() {
        let row =
            json!({"spec": {"replicas": 3, "containers": [{"image": "a"}, {"image": "b"}]}, "labels": {"a.b/c": "x"}});
        assert_eq!(path("spec.replicas").cell(&row), Cell::Number(3.0));
        assert_eq!(path("labels.\"a.b/c\"").cell(&row), Cell::text("x"));
        assert_eq!(path("spec.containers.1.image").cell(&row), Cell::text("b"));
        let mut all = path("spec.containers.image").cell(&row);
        assert_eq!(all, Cell::Many([Cell::text("a"), Cell::text("b")].into()));
        all.make_sort_key();
        assert_eq!(all, Cell::text("a"));
        assert_eq!(path("spec.nothing.here").cell(&row), Cell::Missing);
        assert_eq!(path("spec.replicas.deeper").cell(&row), Cell::Missing);
    }

    #[test]
    fn what_is_not_a_path_is_refused() {
        for bad in [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "a b",
            "a\"b\"",
            "\"open",
            "\"a\"b",
            "a[0]",
            &"a.".repeat(20),
            &"x".repeat(600),
        ] {
            assert!(FieldPath::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_missing_sorts_last_both_ways() {
        for descending in [false, true] {
            assert_eq!(Cell::Missing.compare(&Cell::Number(1.0), descending), Ordering::Greater);
            assert_eq!(Cell::Number(1.0).compare(&Cell::Missing, descending), Ordering::Less);
        }
        assert_eq!(Cell::Number(1.0).compare(&Cell::Number(2.0), true), Ordering::Greater);
    }

    #[test]
    fn a_projection_keeps_the_shape_of_the_row() {
        let row = json!({"name": "x", "spec": {"a": 1, "b": 2, "list": [{"p": 1, "q": 2}, {"q": 3}]}});
        let mut shown = Map::new();
        for field in ["name", "spec.a", "spec.list.q", "spec.a.deeper", "gone"] {
            path(field).project(&row, &mut shown);
        }
        assert_eq!(Value::Object(shown), json!({"name": "x", "spec": {"a": 1, "list": [{"q": 2}, {"q": 3}]}}));
    }
}
