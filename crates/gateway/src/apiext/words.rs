//! Cuts a filter into words: bare ones, quoted ones, parentheses, commas.

use std::fmt;

use super::filter::FilterError;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    /// Counted in characters.
    pub(crate) at: usize,
    pub(crate) what: What,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    Word(String),
    Quoted(String),
    Open,
    Close,
    Comma,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Word(text) | What::Quoted(text) => write!(f, "{:?}", text.chars().take(40).collect::<String>()),
            What::Open => f.write_str("\"(\""),
            What::Close => f.write_str("\")\""),
            What::Comma => f.write_str("\",\""),
        }
    }
}

/// The words of a filter, with their places.
pub(crate) fn words(text: &str) -> Result<Vec<Token>, FilterError> {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        let start = at;
        let what = match c {
            _ if c.is_whitespace() => {
                at += 1;
                continue;
            }
            '(' | ')' | ',' => {
                at += 1;
                match c {
                    '(' => What::Open,
                    ')' => What::Close,
                    _ => What::Comma,
                }
            }
            '\'' | '"' if !is_path_start(&chars, at) => What::Quoted(quoted(&chars, &mut at)?),
            _ => What::Word(word(&chars, &mut at)?),
        };
        tokens.push(Token { at: start, what });
    }
    Ok(tokens)
}

/// `"a.b".c`: a field whose first key is quoted. A quoted value is never followed by a dot.
fn is_path_start(chars: &[char], at: usize) -> bool {
    if chars[at] != '"' {
        return false;
    }
    let rest = chars.get(at + 1..).unwrap_or_default();
    let Some(end) = rest.iter().position(|c| *c == '"') else { return false };
    rest.get(end + 1) == Some(&'.')
}

/// A bare word runs to the next space or mark; a quote after a dot opens a quoted key within it.
fn word(chars: &[char], at: &mut usize) -> Result<String, FilterError> {
    let start = *at;
    while let Some(&c) = chars.get(*at) {
        if c.is_whitespace() || matches!(c, '(' | ')' | ',') {
            break;
        }
        if c == '"' && (*at == start || chars[*at - 1] == '.') {
            let close = chars[*at + 1..].iter().position(|c| *c == '"');
            *at += close.ok_or_else(|| FilterError { at: *at, why: "this quote is never closed".to_owned() })? + 1;
        }
        *at += 1;
    }
    Ok(chars[start..*at].iter().collect())
}

fn quoted(chars: &[char], at: &mut usize) -> Result<String, FilterError> {
    let start = *at;
    let quote = chars[start];
    let mut text = String::new();
    *at += 1;
    while let Some(&c) = chars.get(*at) {
        *at += 1;
        match c {
            '\\' => match chars.get(*at) {
                Some(next) => {
                    text.push(*next);
                    *at += 1;
                }
                None => break,
            },
            c if c == quote => return Ok(text),
            c => text.push(c),
        }
    }
    Err(FilterError { at: start, why: "this quote is never closed".to_owned() })
}
