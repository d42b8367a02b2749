//! Field names as identifiers: how an expression reaches fields whose names CEL cannot spell.

/// Words that are no identifiers although the language has no use for them.
pub(crate) const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];
const SEQUENCES: [(&str, &str); 4] =
    [("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")];

pub(crate) fn is_keyword(word: &str) -> bool {
    RESERVED.contains(&word) || matches!(word, "true" | "false" | "null" | "in")
}

/// The identifier for a field, or nothing if the field cannot be reached.
pub fn escape(field: &str) -> Option<String> {
    if field.is_empty() || field.as_bytes()[0].is_ascii_digit() {
        return None;
    }
    if is_keyword(field) {
        return Some(format!("__{field}__"));
    }
    let mut out = String::with_capacity(field.len());
    let mut rest = field;
    while let Some(first) = rest.chars().next() {
        if let Some((plain, escaped)) = SEQUENCES.iter().find(|(plain, _)| rest.starts_with(plain)) {
            out.push_str(escaped);
            rest = &rest[plain.len()..];
        } else if first.is_ascii_alphanumeric() || first == '_' {
            out.push(first);
            rest = &rest[1..];
        } else {
            return None;
        }
    }
    Some(out)
}

/// The field an identifier stands for, or nothing if it holds an unknown escape sequence.
pub fn unescape(identifier: &str) -> Option<String> {
    let mut out = String::with_capacity(identifier.len());
    let mut rest = identifier;
    while let Some(start) = rest.find("__") {
        let inside = &rest[start + 2..];
        let length = inside.find('_').unwrap_or(inside.len());
        if length == 0 || !inside[length..].starts_with("__") {
            // Not a sequence: take one underscore and look again.
            out.push_str(&rest[..=start]);
            rest = &rest[start + 1..];
            continue;
        }
        let word = &inside[..length];
        out.push_str(&rest[..start]);
        match SEQUENCES.iter().find(|(_, escaped)| escaped[2..].strip_suffix("__") == Some(word)) {
            Some((plain, _)) => out.push_str(plain),
            None if is_keyword(word) && word.len() + 4 == identifier.len() => out.push_str(word),
            None => return None,
        }
        rest = &inside[length + 2..];
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_identifiers_and_names_again() {
        let cases = [
            ("plain", "plain"),
            ("_a_b", "_a_b"),
            ("namespace", "__namespace__"),
            ("a.b-c/d", "a__dot__b__dash__c__slash__d"),
            ("a__b", "a__underscores__b"),
            ("a___b", "a__underscores___b"),
            ("-", "__dash__"),
        ];
        for (name, identifier) in cases {
            assert_eq!(escape(name).as_deref(), Some(identifier));
            assert_eq!(unescape(identifier).as_deref(), Some(name));
        }
    }

    #[test]
    fn some_names_cannot_be_reached() {
        for name in ["", "1a", "a b", "é", "$ref"] {
            assert_eq!(escape(name), None, "{name}");
        }
        assert_eq!(unescape("a__unknown__b"), None);
        assert_eq!(unescape("x__if__"), None);
    }
}
