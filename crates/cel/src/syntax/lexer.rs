//! Tokens. What no token begins with is reported and skipped, as the reference grammar's lexer does.

use crate::error::Issues;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Symbol(&'static str),
    Ident,
    Int,
    Uint,
    Float,
    String,
    Bytes,
    End,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Lexeme<'s> {
    pub token: Token,
    pub at: u32,
    pub text: &'s str,
}

/// Longest first, so that the first that fits is the right one. `in`, `true`, `false` and `null` are read as names first.
const SYMBOLS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":", "+", "*",
    "/", "%",
];
const WORDS: [&str; 4] = ["in", "true", "false", "null"];

pub(crate) fn tokens<'s>(source: &'s str, issues: &mut Issues) -> Vec<Lexeme<'s>> {
    let mut lexer = Lexer { source, at: 0 };
    let mut out = Vec::new();
    loop {
        lexer.skip_blank();
        let start = lexer.at;
        if start == source.len() {
            out.push(Lexeme { token: Token::End, at: start as u32, text: "<EOF>" });
            return out;
        }
        match lexer.next() {
            Some(token) => out.push(Lexeme { token, at: start as u32, text: &source[start..lexer.at] }),
            None => {
                // The character that fitted nothing is part of what was not recognised.
                lexer.at += lexer.peek().map_or(0, char::len_utf8);
                let text = &source[start..lexer.at];
                issues.add(start as u32, format!("Syntax error: token recognition error at: '{text}'"));
            }
        }
    }
}

struct Lexer<'s> {
    source: &'s str,
    at: usize,
}

impl<'s> Lexer<'s> {
    fn rest(&self) -> &'s str {
        &self.source[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.source.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn skip_blank(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches(['\t', ' ', '\r', '\n', '\u{c}']);
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with("//") {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    fn next(&mut self) -> Option<Token> {
        let first = self.byte(0);
        if first.is_ascii_digit() || first == b'.' && self.byte(1).is_ascii_digit() {
            return Some(self.number());
        }
        if let Some(token) = self.quoted() {
            return token;
        }
        if first.is_ascii_alphabetic() || first == b'_' {
            let start = self.at;
            self.skip_while(|c| c.is_ascii_alphanumeric() || c == b'_');
            let word = &self.source[start..self.at];
            return Some(WORDS.iter().find(|known| **known == word).map_or(Token::Ident, |word| Token::Symbol(word)));
        }
        let symbol = SYMBOLS.iter().find(|symbol| self.rest().starts_with(**symbol))?;
        self.at += symbol.len();
        Some(Token::Symbol(symbol))
    }

    fn skip_while(&mut self, accept: impl Fn(u8) -> bool) {
        while accept(self.byte(0)) {
            self.at += 1;
        }
    }

    fn number(&mut self) -> Token {
        let mut token = Token::Int;
        if self.rest().starts_with("0x") && self.byte(2).is_ascii_hexdigit() {
            self.at += 2;
            self.skip_while(|c| c.is_ascii_hexdigit());
        } else {
            self.skip_while(|c| c.is_ascii_digit());
            if self.byte(0) == b'.' && self.byte(1).is_ascii_digit() {
                token = Token::Float;
                self.at += 1;
                self.skip_while(|c| c.is_ascii_digit());
            }
            let sign = usize::from(matches!(self.byte(1), b'+' | b'-'));
            if matches!(self.byte(0), b'e' | b'E') && self.byte(1 + sign).is_ascii_digit() {
                token = Token::Float;
                self.at += 1 + sign;
                self.skip_while(|c| c.is_ascii_digit());
            }
        }
        if token == Token::Int && matches!(self.byte(0), b'u' | b'U') {
            self.at += 1;
            token = Token::Uint;
        }
        token
    }

    /// A string or bytes literal, if one begins here: `Some(None)` if it begins but never ends well.
    fn quoted(&mut self) -> Option<Option<Token>> {
        let mut prefix = 0;
        let bytes = matches!(self.byte(prefix), b'b' | b'B');
        prefix += usize::from(bytes);
        let raw = matches!(self.byte(prefix), b'r' | b'R');
        prefix += usize::from(raw);
        let quote = self.byte(prefix);
        if !matches!(quote, b'"' | b'\'') {
            return None;
        }
        self.at += prefix;
        let tripled = self.byte(1) == quote && self.byte(2) == quote;
        self.at += if tripled { 3 } else { 1 };
        Some(self.until_quote(quote, tripled, raw).then_some(if bytes { Token::Bytes } else { Token::String }))
    }

    fn until_quote(&mut self, quote: u8, tripled: bool, raw: bool) -> bool {
        while let Some(c) = self.peek() {
            if c as u32 == u32::from(quote) && (!tripled || self.byte(1) == quote && self.byte(2) == quote) {
                self.at += if tripled { 3 } else { 1 };
                return true;
            }
            match c {
                '\\' if !raw => {
                    if !self.escape() {
                        return false;
                    }
                }
                '\n' | '\r' if !tripled => return false,
                _ => self.at += c.len_utf8(),
            }
        }
        false
    }

    fn escape(&mut self) -> bool {
        self.at += 1;
        let kind = self.byte(0);
        let (digits, accept): (usize, fn(u8) -> bool) = match kind {
            b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`' => (0, |_| true),
            b'x' | b'X' => (2, |c| c.is_ascii_hexdigit()),
            b'u' => (4, |c| c.is_ascii_hexdigit()),
            b'U' => (8, |c| c.is_ascii_hexdigit()),
            b'0'..=b'3' => (2, |c| (b'0'..=b'7').contains(&c)),
            _ => return false,
        };
        self.at += 1;
        for _ in 0..digits {
            if !accept(self.byte(0)) {
                return false;
            }
            self.at += 1;
        }
        true
    }
}
