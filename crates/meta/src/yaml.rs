//! YAML as JSON: the reader's limits, and errors that do not repeat the document.

use serde_json::Value;

/// How deep a document may nest.
pub const MAX_DEPTH: usize = 64;

/// How much text a document may hold once its aliases are written out. The largest body has 3 MiB.
pub const MAX_TEXT: usize = 8 << 20;

/// Reads exactly one document; a field given twice is refused.
pub fn parse(bytes: &[u8]) -> Result<Value, String> {
    read(bytes, serde_saphyr::DuplicateKeyPolicy::Error)
}

/// The same, but the last of fields given twice counts.
pub fn parse_last(bytes: &[u8]) -> Result<Value, String> {
    read(bytes, serde_saphyr::DuplicateKeyPolicy::LastWins)
}

fn read(bytes: &[u8], duplicate_keys: serde_saphyr::DuplicateKeyPolicy) -> Result<Value, String> {
    let text = std::str::from_utf8(bytes).map_err(|e| e.to_string())?;
    // Aliases may repeat a little, never multiply: a kilobyte must not become a gigabyte, or seconds of work.
    let mut options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_aliases: 1_000,
            max_anchors: 1_000,
            max_total_scalar_bytes: MAX_TEXT,
            max_recorded_anchor_bytes: MAX_TEXT,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 20_000,
            max_replay_stack_depth: 16,
            max_alias_expansions_per_anchor: 1_000,
        },
    };
    options.duplicate_keys = duplicate_keys;
    serde_saphyr::from_str_with_options(text, options).map_err(|e| first_line(&e.to_string()))
}

/// The reader adds an excerpt of the document below its first line; errors do not repeat what may be secret.
fn first_line(error: &str) -> String {
    error.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // B-2
    #[test]
    fn aliases_repeat_a_little_and_never_multiply() {
        assert_eq!(parse(b"a: &x [1, 2]\nb: *x\n"), Ok(json!({"a": [1, 2], "b": [1, 2]})));
        let laughs: String =
            (1..12).map(|n| format!("l{n}: &l{n} [{}]\n", vec![format!("*l{}", n - 1); 9].join(", "))).collect();
        assert!(parse(format!("l0: &l0 [lol, lol]\n{laughs}").as_bytes()).is_err());
        // One long text, often: few aliases, much memory.
        let text = "x".repeat(1 << 20);
        for count in [2, 90] {
            let long = format!("a: &x {text}\nb: [{}]\n", vec!["*x"; count].join(", "));
            assert_eq!(parse(long.as_bytes()).is_ok(), count == 2, "{count}");
        }
    }

    #[test]
    fn errors_do_not_repeat_the_document() {
        let error = parse(b"password: hunter2\npassword: hunter3\n").unwrap_err();
        assert!(!error.contains("hunter") && !error.contains('\n'), "{error}");
        assert_eq!(parse_last(b"a: 1\na: 2\n"), Ok(json!({"a": 2})));
        assert!(parse(b"\xff").is_err());
    }
}
