//! Regular expressions as Go reads them, compiled by Rust's engine. Both are linear in time; the syntax differs in corners.

use regex::{Regex, RegexBuilder};
use std::fmt::Write as _;
use std::iter::Peekable;
use std::str::CharIndices;

/// Most patterns compile to a few KiB; the rare large one pays from the schema's allowance.
const SMALL: usize = 32 << 10;
const LARGE: usize = 1 << 20;
const MATCHER: usize = 256 << 10;

/// What the patterns of one schema may take together.
pub(crate) const ALLOWANCE: usize = 256 << 20;

/// Compiles a Go pattern and charges `allowance` for it. The error is worded as Go's `regexp` words it, where we know how.
pub(crate) fn compile(pattern: &str, allowance: &mut usize) -> Result<Regex, String> {
    let translated = translate(pattern);
    let build = |limit| RegexBuilder::new(&translated).size_limit(limit).dfa_size_limit(MATCHER).build();
    let (regex, size) = match build(SMALL) {
        Err(regex::Error::CompiledTooBig(_)) => (build(LARGE), LARGE),
        other => (other, SMALL),
    };
    let regex = regex.map_err(|error| in_go_words(pattern, &error))?;
    *allowance =
        allowance.checked_sub(size).ok_or("error parsing regexp: expression nests too deeply: too many patterns")?;
    Ok(regex)
}

fn in_go_words(pattern: &str, error: &regex::Error) -> String {
    let text = error.to_string();
    let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
    let go = match reason {
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
        _ if reason.starts_with("Compiled regex exceeds") => "expression too large".to_owned(),
        _ if reason.contains("escape sequence") => format!("invalid escape sequence: `{pattern}`"),
        _ => format!("{reason}: `{pattern}`"),
    };
    format!("error parsing regexp: {go}")
}

type Chars<'a> = Peekable<CharIndices<'a>>;

/// Go's classes are ASCII, its `{` and `[` are literal where they open nothing, and it knows no set operations.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut chars = pattern.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => escape(pattern, &mut chars, &mut out),
            '[' => class(pattern, &mut chars, &mut out),
            '{' if !opens_repetition(&pattern[at..]) => out.push_str(r"\{"),
            _ => out.push(c),
        }
    }
    out
}

fn escape(pattern: &str, chars: &mut Chars<'_>, out: &mut String) {
    let Some((at, c)) = chars.next() else {
        out.push('\\');
        return;
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
}

fn class(pattern: &str, chars: &mut Chars<'_>, out: &mut String) {
    out.push('[');
    if chars.next_if(|(_, c)| *c == '^').is_some() {
        out.push('^');
    }
    let mut first = true;
    while let Some((at, c)) = chars.next() {
        match c {
            ']' if !first => {
                out.push(']');
                return;
            }
            '[' if pattern[at..].starts_with("[:") && pattern[at..].contains(":]") => {
                out.push('[');
                for (_, inner) in chars.by_ref() {
                    out.push(inner);
                    if inner == ']' {
                        break;
                    }
                }
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
}

/// `{2}`, `{2,}` and `{2,3}` repeat; anything else that begins with a brace is text.
fn opens_repetition(text: &str) -> bool {
    let Some(end) = text.find('}') else { return false };
    let (low, high) = text[1..end].split_once(',').unwrap_or((&text[1..end], ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    !low.is_empty() && digits(low) && digits(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        compile(pattern, &mut ALLOWANCE.clone()).unwrap_or_else(|e| panic!("{pattern}: {e}")).is_match(text)
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
            ("a(?=b)", "error parsing regexp: invalid or unsupported Perl syntax: `(?=`"),
        ];
        for (pattern, message) in cases {
            assert_eq!(compile(pattern, &mut ALLOWANCE.clone()).map(|_| ()), Err(message.to_owned()));
        }
    }

    #[test]
    fn patterns_cannot_take_more_than_their_allowance() {
        assert!(compile(r"\pL{900}\pL{900}", &mut ALLOWANCE.clone()).is_err());
        let mut little = SMALL;
        assert!(compile("a", &mut little).is_ok());
        assert!(compile("a", &mut little).is_err());
    }
}
