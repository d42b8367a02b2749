//! Regular expressions in Go's syntax, run by a linear-time engine.

use regex::{Regex, RegexBuilder};

/// How large a compiled expression may get; beyond it, it is refused.
const MAX_COMPILED: usize = 2 << 20;

/// What the engine complains of, and how Go says it.
const WORDS: [(&str, &str); 5] = [
    ("unclosed group", "missing closing )"),
    ("unopened group", "unexpected )"),
    ("unclosed character class", "missing closing ]"),
    ("repetition operator missing expression", "missing argument to repetition operator"),
    ("unrecognized escape sequence", "invalid escape sequence"),
];

/// Compiles a pattern, or says what is wrong with it.
pub(crate) fn regex(pattern: &str) -> Result<Regex, String> {
    let compiled = RegexBuilder::new(&translate(pattern)).size_limit(MAX_COMPILED).build();
    compiled.map_err(|error| {
        let text = error.to_string();
        let why = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
        let known = WORDS.iter().find(|(ours, _)| *ours == why);
        format!("error parsing regexp: {}: `{pattern}`", known.map_or(why, |(_, theirs)| theirs))
    })
}

/// Go's classes `\d \s \w \b` are ASCII, its `[` within brackets and its lone `{` are plain characters.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    let mut in_class = false;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        match c {
            '\\' => {
                let used = escape(&mut out, after, in_class);
                rest = &after[used..];
                continue;
            }
            '[' if in_class && !after.starts_with(':') => out.push_str("\\["),
            '[' if in_class => {
                // A named class such as `[:alpha:]`, copied whole.
                let length = after.find(":]").map_or(0, |end| end + 2);
                out.push('[');
                out.push_str(&after[..length]);
                rest = &after[length..];
                continue;
            }
            '[' => {
                in_class = true;
                out.push('[');
                let negated = after.starts_with('^');
                if negated {
                    out.push('^');
                }
                rest = &after[usize::from(negated)..];
                // A bracket that closes before anything is in it is a plain character.
                if let Some(plain) = rest.strip_prefix(']') {
                    out.push_str("\\]");
                    rest = plain;
                }
                continue;
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            '-' if in_class && after.starts_with('-') => out.push_str("\\-"),
            '{' if !in_class && !is_repetition(after) => out.push_str("\\{"),
            _ => out.push(c),
        }
        rest = after;
    }
    out
}

/// Writes what an escape means; gives how much of what follows the backslash it used.
fn escape(out: &mut String, after: &str, in_class: bool) -> usize {
    let Some(c) = after.chars().next() else {
        out.push('\\');
        return 0;
    };
    let class = |out: &mut String, members: &str, negated: bool| match (in_class, negated) {
        (true, false) => out.push_str(members),
        (_, negated) => {
            out.push('[');
            if negated {
                out.push('^');
            }
            out.push_str(members);
            out.push(']');
        }
    };
    const SPACE: &str = "\\t\\n\\f\\r ";
    const WORD: &str = "0-9A-Za-z_";
    match c {
        'd' => class(out, "0-9", false),
        'D' => class(out, "0-9", true),
        's' => class(out, SPACE, false),
        'S' => class(out, SPACE, true),
        'w' => class(out, WORD, false),
        'W' => class(out, WORD, true),
        'b' if !in_class => out.push_str("(?-u:\\b)"),
        // To this engine they are word edges.
        '<' | '>' => out.push(c),
        'Q' => {
            let length = after.find("\\E").unwrap_or(after.len());
            out.push_str(&regex::escape(&after[1..length]));
            return (length + 2).min(after.len());
        }
        _ => {
            out.push('\\');
            out.push(c);
        }
    }
    c.len_utf8()
}

fn is_repetition(after: &str) -> bool {
    let Some((inside, _)) = after.split_once('}') else { return false };
    let (low, high) = inside.split_once(',').unwrap_or((inside, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !low.is_empty() && digits(low) && digits(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        let cases = [
            ("^\\d$", "1", true),
            ("^\\d$", "١", false),
            ("^[\\d-]+$", "1-2", true),
            ("[[]", "a[b", true),
            ("a{b", "a{b", true),
            ("^a{2}$", "aa", true),
            ("^a{2,}$", "aaa", true),
            ("a{,2}", "a{,2}", true),
            ("^[^\\s]+$", "ab", true),
            ("\\bfoo\\b", "a foo b", true),
            ("^[[:alpha:]]+$", "abc", true),
            ("^[]a]+$", "]a", true),
            ("^\\Qa.b\\E$", "a.b", true),
            ("^\\Qa.b\\E$", "axb", false),
            ("^\\<a\\>$", "<a>", true),
            ("(?i)HELLO", "hello", true),
            ("^[a&&b]+$", "a&b", true),
        ];
        for (pattern, text, matches) in cases {
            assert_eq!(regex(pattern).unwrap().is_match(text), matches, "{pattern} on {text}");
        }
    }

    #[test]
    fn bad_and_huge_patterns_are_refused() {
        for pattern in ["(", "[a", "*", "\\", "(?<", "((a{1000}){1000}){1000}"] {
            assert!(regex(pattern).is_err(), "{pattern}");
        }
    }
}
