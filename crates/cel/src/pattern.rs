//! Regular expressions as Go reads them, compiled by Rust's engine. Both are linear in time; the syntax differs in corners.

use regex::{Regex, RegexBuilder};
use std::fmt::Write as _;
use std::iter::Peekable;
use std::str::CharIndices;

/// What a matcher may keep of the states it has seen.
const MATCHER: usize = 256 << 10;

/// How large the patterns of an expression may get.
const LARGEST: usize = 2 << 20;

/// A pattern of an expression, or what is wrong with it.
pub(crate) fn regex(pattern: &str) -> Result<Regex, String> {
    compile(pattern, LARGEST).map_err(|why| why.to_string())
}

/// Why a pattern is refused, worded as Go's `regexp` words it, where we know how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// It compiles to more than is allowed.
    TooLarge,
    Syntax(String),
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refused::TooLarge => f.write_str("error parsing regexp: expression too large"),
            Refused::Syntax(why) => write!(f, "error parsing regexp: {why}"),
        }
    }
}

/// Compiles a Go pattern into at most `limit` bytes.
pub fn compile(pattern: &str, limit: usize) -> Result<Regex, Refused> {
    let translated = translate(pattern).map_err(Refused::Syntax)?;
    let built = RegexBuilder::new(&translated).size_limit(limit).dfa_size_limit(MATCHER).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => Refused::TooLarge,
        error => Refused::Syntax(in_go_words(pattern, &error)),
    })
}

fn in_go_words(pattern: &str, error: &regex::Error) -> String {
    let text = error.to_string();
    let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
    match reason {
        "unclosed group" => format!("missing closing ): `{pattern}`"),
        "unopened group" => format!("unexpected ): `{pattern}`"),
        "unclosed character class" => format!("missing closing ]: `{}`", &pattern[pattern.rfind('[').unwrap_or(0)..]),
        "repetition operator missing expression" => {
            let operator = pattern.chars().find(|c| "*+?".contains(*c)).unwrap_or('*');
            format!("missing argument to repetition operator: `{operator}`")
        }
        _ if reason.starts_with("look-around") => {
            let at = ["(?=", "(?!", "(?<"].iter().find(|part| pattern.contains(**part)).unwrap_or(&"(?");
            format!("invalid or unsupported Perl syntax: `{at}`")
        }
        _ if reason.starts_with("invalid character class range") => {
            format!("invalid character class range: `{}`", pattern.trim_matches(['[', ']']))
        }
        _ if reason.contains("Unicode") => {
            let from = pattern.find(r"\p").or_else(|| pattern.find(r"\P")).unwrap_or_default();
            let to = pattern[from..].find('}').map_or(pattern.len(), |end| from + end + 1);
            format!("invalid character class range: `{}`", &pattern[from..to])
        }
        _ if reason.contains("escape sequence") => format!("invalid escape sequence: `{pattern}`"),
        _ => format!("{reason}: `{pattern}`"),
    }
}

type Chars<'a> = Peekable<CharIndices<'a>>;

/// Go's classes are ASCII, its `{` and `[` are literal where they open nothing, and it knows no set operations.
/// It refuses repetitions of repetitions, and long ones.
fn translate(pattern: &str) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut chars = pattern.char_indices().peekable();
    let mut repeated_from = None;
    while let Some((at, c)) = chars.next() {
        let mut repetition = None;
        match c {
            '\\' => escape(pattern, &mut chars, &mut out)?,
            '[' => class(pattern, &mut chars, &mut out)?,
            '*' | '+' | '?' if !out.ends_with('(') && !out.is_empty() => {
                out.push(c);
                repetition = Some(at + 1);
            }
            '{' => match repeats(&pattern[at..]) {
                None => out.push_str(r"\{"),
                Some((length, allowed)) => {
                    let text = &pattern[at..at + length];
                    if !allowed {
                        return Err(format!("invalid repeat count: `{text}`"));
                    }
                    out.push_str(text);
                    while chars.next_if(|(next, _)| *next < at + length).is_some() {}
                    repetition = Some(at + length);
                }
            },
            _ => out.push(c),
        }
        if let Some(mut end) = repetition {
            if chars.next_if(|(_, next)| *next == '?').is_some() {
                out.push('?');
                end += 1;
            }
            if let Some(start) = repeated_from {
                return Err(format!("invalid nested repetition operator: `{}`", &pattern[start..end]));
            }
        }
        repeated_from = repetition.map(|_| at);
    }
    Ok(out)
}

fn escape(pattern: &str, chars: &mut Chars<'_>, out: &mut String) -> Result<(), String> {
    let Some((at, c)) = chars.next() else {
        return Err("trailing backslash at end of expression: ``".into());
    };
    match c {
        'd' => out.push_str("[0-9]"),
        'D' => out.push_str("[^0-9]"),
        'w' => out.push_str("[0-9A-Za-z_]"),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        's' => out.push_str(r"[\t\n\f\r ]"),
        'S' => out.push_str(r"[^\t\n\f\r ]"),
        'b' => out.push_str(r"(?-u:\b)"),
        'B' => out.push_str(r"(?-u:\B)"),
        '<' | '>' => out.push(c),
        'Q' => {
            let rest = &pattern[at + 1..];
            let quoted = rest.find(r"\E").map_or(rest, |end| &rest[..end]);
            out.push_str(&regex::escape(quoted));
            let end = at + 1 + quoted.len() + if quoted.len() < rest.len() { 2 } else { 0 };
            while chars.next_if(|(at, _)| *at < end).is_some() {}
        }
        _ => {
            out.push('\\');
            out.push(c);
        }
    }
    Ok(())
}

fn class(pattern: &str, chars: &mut Chars<'_>, out: &mut String) -> Result<(), String> {
    out.push('[');
    if chars.next_if(|(_, c)| *c == '^').is_some() {
        out.push('^');
    }
    let mut first = true;
    while let Some((at, c)) = chars.next() {
        match c {
            ']' if !first => {
                out.push(']');
                return Ok(());
            }
            '[' if pattern[at..].starts_with("[:") && pattern[at..].contains(":]") => {
                let name = &pattern[at..at + pattern[at..].find(":]").unwrap_or_default() + 2];
                if !POSIX.contains(&name.trim_matches(['[', ':', '^', ']'])) {
                    return Err(format!("invalid character class range: `{name}`"));
                }
                out.push_str(name);
                while chars.next_if(|(next, _)| *next < at + name.len()).is_some() {}
            }
            '[' | ']' | '&' | '~' => _ = write!(out, "\\{c}"),
            '\\' => match chars.next() {
                Some((_, 'd')) => out.push_str("0-9"),
                Some((_, 'w')) => out.push_str("0-9A-Za-z_"),
                Some((_, 's')) => out.push_str(r"\t\n\f\r "),
                Some((_, 'D')) => out.push_str("[^0-9]"),
                Some((_, 'W')) => out.push_str("[^0-9A-Za-z_]"),
                Some((_, 'S')) => out.push_str(r"[^\t\n\f\r ]"),
                Some((_, c @ ('<' | '>'))) => out.push(c),
                Some((_, c)) => {
                    out.push('\\');
                    out.push(c);
                }
                None => out.push('\\'),
            },
            // A range whose end is a dash, or dashes in a row: never a set operation.
            '-' if matches!(chars.peek(), Some((_, '-'))) => out.push_str(r"\-"),
            _ => out.push(c),
        }
        first = false;
    }
    Ok(())
}

const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];

/// `{2}`, `{2,}` and `{2,3}` repeat, up to a thousand times; anything else that begins with a brace is text.
/// How long the repetition is, and whether Go allows it.
fn repeats(text: &str) -> Option<(usize, bool)> {
    let end = text.find('}')?;
    let (low, high) = text[1..end].split_once(',').unwrap_or((&text[1..end], &text[1..end]));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if low.is_empty() || !digits(low) || !digits(high) {
        return None;
    }
    let count = |part: &str| part.parse::<u32>().unwrap_or(u32::MAX);
    let high = if high.is_empty() { count(low) } else { count(high) };
    Some((end + 1, count(low) <= high && high <= 1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 2 << 20;

    fn matches(pattern: &str, text: &str) -> bool {
        compile(pattern, LIMIT).unwrap_or_else(|e| panic!("{pattern}: {e}")).is_match(text)
    }

    #[test]
    fn gos_corners_of_the_syntax_mean_what_they_mean_in_go() {
        let cases = [
            (r"^\d+$", "12", true),
            (r"^\d+$", "١٢", false),
            (r"^[\d\-]+$", "1-2", true),
            (r"^\w$", "é", false),
            (r"^[\w.]+$", "a.b", true),
            (r"^[^\s]+$", "a b", false),
            (r"^[\S]+$", "ab", true),
            (r"^\s$", "\u{a0}", false),
            (r"^\${[a-z]+}$", "${abc}", true),
            (r"^a{,2}$", "a{,2}", true),
            (r"^a{2,}$", "aaa", true),
            (r"^a*?b+?$", "aab", true),
            (r"^(?:a+)+$", "aa", true),
            (r"^[[a]$", "[", true),
            (r"^[]a]$", "]", true),
            (r"^[[:alpha:]0]+$", "ab0", true),
            (r"^[a&&b]+$", "&", true),
            (r"^[a--]+$", "-", true),
            (r"^\<x\>$", "<x>", true),
            (r"^\Qa.b*\E\d$", "a.b*1", true),
            (r"^\Qa.b", "axb", false),
            (r"^(?P<name>x)$", "x", true),
            (r"\bfoo\b", "a foo b", true),
            (r"^x\/y$", "x/y", true),
            (r"a$", "a\n", false),
            ("[[]", "a[b", true),
            ("a{b", "a{b", true),
            (r"^\Qa.b\E$", "axb", false),
            ("(?i)HELLO", "hello", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(matches(pattern, text), expected, "{pattern} on {text:?}");
        }
    }

    #[test]
    fn broken_patterns_are_told_in_gos_words() {
        let cases = [
            ("(", "error parsing regexp: missing closing ): `(`"),
            ("[a", "error parsing regexp: missing closing ]: `[a`"),
            ("*", "error parsing regexp: missing argument to repetition operator: `*`"),
            ("a)", "error parsing regexp: unexpected ): `a)`"),
            ("a**", "error parsing regexp: invalid nested repetition operator: `**`"),
            ("a{2}{3}", "error parsing regexp: invalid nested repetition operator: `{2}{3}`"),
            ("a{2,1}", "error parsing regexp: invalid repeat count: `{2,1}`"),
            ("a{1001}", "error parsing regexp: invalid repeat count: `{1001}`"),
            ("[z-a]", "error parsing regexp: invalid character class range: `z-a`"),
            ("[[:foo:]]", "error parsing regexp: invalid character class range: `[:foo:]`"),
            (r"\p{Foo}", r"error parsing regexp: invalid character class range: `\p{Foo}`"),
            ("a\\", "error parsing regexp: trailing backslash at end of expression: ``"),
            ("a(?=b)", "error parsing regexp: invalid or unsupported Perl syntax: `(?=`"),
        ];
        for (pattern, message) in cases {
            assert_eq!(compile(pattern, LIMIT).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn huge_patterns_are_refused() {
        for pattern in ["((a{1000}){1000}){1000}", r"\pL{900}\pL{900}"] {
            assert_eq!(compile(pattern, LIMIT).unwrap_err(), Refused::TooLarge, "{pattern}");
        }
        assert!(compile("(?<", LIMIT).is_err());
    }
}
