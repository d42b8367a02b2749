//! Size and depth of a value, without recursion: the answer decides whether recursing is safe.

use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Measure {
    /// Nearly the length of its JSON text; numbers count as eight bytes.
    pub bytes: usize,
    pub nodes: usize,
    /// Nested objects and arrays; 0 for a scalar.
    pub depth: usize,
}

pub(crate) fn measure(value: &Value) -> Measure {
    let mut total = Measure::default();
    let mut todo = vec![(value, 0)];
    while let Some((value, depth)) = todo.pop() {
        total.nodes += 1;
        total.bytes += match value {
            Value::Null | Value::Bool(_) => 5,
            Value::Number(_) => 8,
            Value::String(text) => text.len() + 3,
            Value::Array(items) => {
                todo.extend(items.iter().map(|item| (item, depth + 1)));
                total.depth = total.depth.max(depth + 1);
                2
            }
            Value::Object(members) => {
                todo.extend(members.values().map(|member| (member, depth + 1)));
                total.depth = total.depth.max(depth + 1);
                2 + members.keys().map(|key| key.len() + 3).sum::<usize>()
            }
        };
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn depth_counts_containers() {
        for (value, depth, nodes) in
            [(json!(1), 0, 1), (json!([]), 1, 1), (json!({"a": [1, {}]}), 3, 4), (json!([[], [[]], 1]), 3, 5)]
        {
            let measure = measure(&value);
            assert_eq!((measure.depth, measure.nodes), (depth, nodes), "{value}");
        }
        assert!(measure(&json!({"key": "x".repeat(1000)})).bytes > 1000);
    }
}
