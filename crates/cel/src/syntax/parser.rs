//! The grammar, by recursive descent. One syntax error ends the reading.

use super::ast::{Ast, Element, Entry, Id, Kind, Literal, TooLarge};
use super::lexer::{Lexeme, Token, tokens};
use super::{literal, macros};
use crate::error::Issues;
use crate::escape::RESERVED;

/// Longer sources are refused unread, counted in characters.
const MAX_SOURCE: usize = 100_000;
/// How deep parentheses, brackets and calls may nest.
const MAX_NESTING: usize = 250;

const OPERAND: &str =
    "'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER";
const OPTIONAL_OPERAND: &str = "'[', '{', '(', '.', '-', '!', '?', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER";

/// Binary operators, loosest first, and the functions they stand for.
const LEVELS: [&[(&str, &str)]; 5] = [
    &[("||", "_||_")],
    &[("&&", "_&&_")],
    &[("<", "_<_"), ("<=", "_<=_"), (">=", "_>=_"), (">", "_>_"), ("==", "_==_"), ("!=", "_!=_"), ("in", "@in")],
    &[("+", "_+_"), ("-", "_-_")],
    &[("*", "_*_"), ("/", "_/_"), ("%", "_%_")],
];

/// The tree of `source` and its root. With issues, parts of it are [`Kind::Broken`].
pub(crate) fn parse(source: &str, issues: &mut Issues) -> Option<(Ast, Id)> {
    let size = source.chars().count();
    if size > MAX_SOURCE {
        issues.add_everywhere(format!("expression code point size exceeds limit: size: {size}, limit {MAX_SOURCE}"));
        return None;
    }
    let lexemes = tokens(source, issues);
    let mut parser = Parser { lexemes, next: 0, nesting: 0, ast: Ast::default(), issues };
    match parser.whole() {
        Ok(root) => Some((parser.ast, root)),
        Err(Stop::Reported) => None,
        Err(Stop::TooLarge(TooLarge(why))) => {
            parser.issues.add_everywhere(why.to_string());
            None
        }
    }
}

pub(super) enum Stop {
    /// The issues say why.
    Reported,
    TooLarge(TooLarge),
}

impl From<TooLarge> for Stop {
    fn from(error: TooLarge) -> Self {
        Stop::TooLarge(error)
    }
}

pub(super) struct Parser<'s, 'i> {
    lexemes: Vec<Lexeme<'s>>,
    next: usize,
    nesting: usize,
    pub ast: Ast,
    pub issues: &'i mut Issues,
}

type Parsed<T = Id> = Result<T, Stop>;

impl<'s> Parser<'s, '_> {
    fn whole(&mut self) -> Parsed {
        let root = self.expression(OPERAND)?;
        if self.peek().token == Token::End {
            return Ok(root);
        }
        let word = if self.ahead(1).token == Token::End { "extraneous" } else { "mismatched" };
        let found = self.peek();
        self.syntax(found.at, format!("{word} input '{}' expecting <EOF>", found.text))
    }

    fn peek(&self) -> Lexeme<'s> {
        self.ahead(0)
    }

    /// The token so many places on; the last one never ends.
    fn ahead(&self, places: usize) -> Lexeme<'s> {
        self.lexemes[(self.next + places).min(self.lexemes.len() - 1)]
    }

    fn advance(&mut self) -> Lexeme<'s> {
        let lexeme = self.peek();
        self.next += 1;
        lexeme
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.peek().token, Token::Symbol(found) if found == symbol)
    }

    fn eat(&mut self, symbol: &str) -> Option<u32> {
        self.is(symbol).then(|| self.advance().at)
    }

    fn syntax<T>(&mut self, at: u32, message: String) -> Parsed<T> {
        self.issues.add(at, format!("Syntax error: {message}"));
        Err(Stop::Reported)
    }

    fn expect(&mut self, symbol: &'static str, expected: &str) -> Parsed<u32> {
        if let Some(at) = self.eat(symbol) {
            return Ok(at);
        }
        let found = self.peek();
        // One expected token that the end could follow is called missing; one token too many, extraneous.
        let message = if found.token == Token::End && expected.starts_with('\'') && symbol != ":" {
            format!("missing {expected} at '{}'", found.text)
        } else if self.ahead(1).token == Token::Symbol(symbol) {
            format!("extraneous input '{}' expecting {expected}", found.text)
        } else {
            format!("mismatched input '{}' expecting {expected}", found.text)
        };
        self.syntax(found.at, message)
    }

    /// Something wrong with one part; the rest is still read.
    pub fn broken(&mut self, at: u32, message: String) -> Parsed {
        self.issues.add(at, message);
        Ok(self.ast.add(at, Kind::Broken)?)
    }

    fn expression(&mut self, expected: &'static str) -> Parsed {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            self.issues.add_everywhere(format!("expression recursion limit exceeded: {MAX_NESTING}"));
            return Err(Stop::Reported);
        }
        let condition = self.binary(0, expected)?;
        let result = match self.eat("?") {
            None => condition,
            Some(at) => {
                let yes = self.binary(0, OPERAND)?;
                self.expect(":", "':'")?;
                let no = self.expression(OPERAND)?;
                self.call(at, "_?_:_", vec![condition, yes, no])?
            }
        };
        self.nesting -= 1;
        Ok(result)
    }

    /// Operands joined by operators no looser than a level.
    fn binary(&mut self, loosest: usize, expected: &'static str) -> Parsed {
        let mut left = self.unary(expected)?;
        for level in (loosest..LEVELS.len()).rev() {
            left = self.chain(level, left)?;
        }
        Ok(left)
    }

    /// What follows an operand by operators of one level; all of them associate to the left.
    fn chain(&mut self, level: usize, mut left: Id) -> Parsed {
        let operators = LEVELS[level];
        let mut terms = vec![left];
        let mut places = Vec::new();
        while let Some((symbol, function)) = operators.iter().find(|(symbol, _)| self.is(symbol)) {
            let at = self.advance().at;
            let right = self.binary(level + 1, OPERAND)?;
            if matches!(*symbol, "||" | "&&") {
                terms.push(right);
                places.push(at);
            } else {
                left = self.call(at, function, vec![left, right])?;
            }
        }
        if places.is_empty() { Ok(left) } else { self.balanced(operators[0].1, &terms, &places) }
    }

    /// Long chains of `&&` and `||` become a balanced tree: their order does not matter, their depth does.
    fn balanced(&mut self, function: &str, terms: &[Id], places: &[u32]) -> Parsed {
        if let [only] = terms {
            return Ok(*only);
        }
        let middle = places.len() / 2;
        let left = self.balanced(function, &terms[..=middle], &places[..middle])?;
        let right = self.balanced(function, &terms[middle + 1..], &places[middle + 1..])?;
        self.call(places[middle], function, vec![left, right])
    }

    fn unary(&mut self, expected: &'static str) -> Parsed {
        for (symbol, function) in [("!", "!_"), ("-", "-_")] {
            let Some(at) = self.eat(symbol) else { continue };
            let mut odd = true;
            let mut last = at;
            while let Some(again) = self.eat(symbol) {
                odd = !odd;
                last = again;
            }
            // One minus before a number belongs to the number.
            if symbol == "-" && last == at && matches!(self.peek().token, Token::Int | Token::Float) {
                let literal = self.literal(at, true)?;
                return self.suffixes(literal);
            }
            let operand = self.member(OPERAND)?;
            return if odd { self.call(at, function, vec![operand]) } else { Ok(operand) };
        }
        self.member(expected)
    }

    fn member(&mut self, expected: &'static str) -> Parsed {
        let primary = self.primary(expected)?;
        self.suffixes(primary)
    }

    fn suffixes(&mut self, mut operand: Id) -> Parsed {
        loop {
            if let Some(at) = self.eat(".") {
                let optional = self.eat("?").is_some();
                let name = self.peek();
                if name.token != Token::Ident {
                    let text = if name.token == Token::End { "" } else { name.text };
                    return self.syntax(name.at, format!("no viable alternative at input '.{text}'"));
                }
                self.advance();
                let field = name.text.to_string();
                operand = if optional {
                    let field = self.ast.add(name.at, Kind::Literal(Literal::String(field)))?;
                    self.call(at, "_?._", vec![operand, field])?
                } else if let Some(open) = self.eat("(") {
                    let args = self.arguments()?;
                    macros::member_call(self, open, operand, field, args)?
                } else {
                    self.ast.add(at, Kind::Select { operand, field, test: false })?
                };
            } else if let Some(at) = self.eat("[") {
                let function = if self.eat("?").is_some() { "_[?_]" } else { "_[_]" };
                let index = self.expression(if function == "_[?_]" { OPERAND } else { OPTIONAL_OPERAND })?;
                self.expect("]", "']'")?;
                operand = self.call(at, function, vec![operand, index])?;
            } else {
                return Ok(operand);
            }
        }
    }

    fn primary(&mut self, expected: &'static str) -> Parsed {
        let lexeme = self.peek();
        match lexeme.token {
            Token::Symbol("(") => {
                self.advance();
                let inner = self.expression(OPERAND)?;
                self.expect(")", "')'")?;
                Ok(inner)
            }
            Token::Symbol("[") => {
                self.advance();
                self.list(lexeme.at)
            }
            Token::Symbol("{") => {
                self.advance();
                self.map(lexeme.at)
            }
            Token::Symbol(".") if self.ahead(1).token == Token::Ident => {
                self.advance();
                self.name(lexeme.at)
            }
            Token::Ident => self.name(lexeme.at),
            Token::End | Token::Symbol(_) if !matches!(lexeme.text, "true" | "false" | "null") => {
                // With the token gone the rest would fit: the reference parser calls it extraneous.
                let next = self.ahead(1).token;
                let fits = !matches!(next, Token::End | Token::Symbol(_)) && lexeme.token != Token::End;
                let word = if fits { "extraneous" } else { "mismatched" };
                self.syntax(lexeme.at, format!("{word} input '{}' expecting {{{expected}}}", lexeme.text))
            }
            _ => self.literal(lexeme.at, false),
        }
    }

    fn name(&mut self, at: u32) -> Parsed {
        let name = self.advance();
        if self.begins_message() {
            let mut whole = name.text.to_string();
            while self.eat(".").is_some() {
                whole = format!("{whole}.{}", self.advance().text);
            }
            return self.message(whole);
        }
        let reserved = RESERVED.contains(&name.text);
        if let Some(open) = self.eat("(") {
            let args = self.arguments()?;
            if reserved {
                return self.broken(at, format!("reserved identifier: {}", name.text));
            }
            return macros::global_call(self, open, name.text.to_string(), args);
        }
        if reserved {
            return self.broken(at, format!("reserved identifier: {}", name.text));
        }
        Ok(self.ast.add(name.at, Kind::Ident(name.text.to_string()))?)
    }

    /// Whether what follows a name makes it `a.b.c{`.
    fn begins_message(&self) -> bool {
        let mut place = 0;
        while self.ahead(place).token == Token::Symbol(".") && self.ahead(place + 1).token == Token::Ident {
            place += 2;
        }
        self.ahead(place).token == Token::Symbol("{")
    }

    fn message(&mut self, name: String) -> Parsed {
        let at = self.advance().at;
        while !self.is("}") {
            self.eat("?");
            let field = self.peek();
            if field.token != Token::Ident {
                return self.syntax(field.at, format!("mismatched input '{}' expecting IDENTIFIER", field.text));
            }
            self.advance();
            self.expect(":", "':'")?;
            self.expression(OPERAND)?;
            if self.eat(",").is_none() {
                break;
            }
        }
        self.expect("}", "{'}', ','}")?;
        Ok(self.ast.add(at, Kind::Message(name))?)
    }

    fn arguments(&mut self) -> Parsed<Vec<Id>> {
        let mut args = Vec::new();
        if self.eat(")").is_some() {
            return Ok(args);
        }
        loop {
            args.push(self.expression(OPERAND)?);
            if self.eat(",").is_none() {
                self.expect(")", "')'")?;
                return Ok(args);
            }
        }
    }

    fn list(&mut self, at: u32) -> Parsed {
        let mut elements = Vec::new();
        while !self.is("]") {
            if self.peek().token == Token::End && !elements.is_empty() {
                self.expect("]", "']'")?;
            }
            let optional = self.eat("?").is_some();
            elements.push(Element { value: self.expression(OPTIONAL_OPERAND)?, optional });
            if self.eat(",").is_none() {
                break;
            }
        }
        self.expect("]", "{']', ','}")?;
        Ok(self.ast.add(at, Kind::List(elements))?)
    }

    fn map(&mut self, at: u32) -> Parsed {
        let mut entries = Vec::new();
        while !self.is("}") {
            let optional = self.eat("?").is_some();
            let key = self.expression(OPTIONAL_OPERAND)?;
            self.expect(":", "':'")?;
            let value = self.expression(OPERAND)?;
            entries.push(Entry { key, value, optional });
            if self.eat(",").is_none() {
                break;
            }
        }
        self.expect("}", "{'}', ','}")?;
        Ok(self.ast.add(at, Kind::Map(entries))?)
    }

    /// The literal that comes next; `at` is where its sign stands, if it has one.
    fn literal(&mut self, at: u32, negative: bool) -> Parsed {
        let lexeme = self.advance();
        let value = match lexeme.token {
            Token::Int => literal::int(lexeme.text, negative).ok_or("invalid int literal"),
            Token::Uint => literal::uint(lexeme.text).ok_or("invalid uint literal"),
            Token::Float => literal::double(lexeme.text, negative).ok_or("invalid double literal"),
            Token::String => literal::string(lexeme.text),
            Token::Bytes => literal::bytes(lexeme.text),
            _ => Ok(match lexeme.text {
                "true" => Literal::Bool(true),
                "false" => Literal::Bool(false),
                _ => Literal::Null,
            }),
        };
        match value {
            Ok(value) => Ok(self.ast.add(at, Kind::Literal(value))?),
            Err(why) => self.broken(at, why.to_string()),
        }
    }

    pub fn call(&mut self, at: u32, function: &str, args: Vec<Id>) -> Parsed {
        Ok(self.ast.add(at, Kind::Call { function: function.to_string(), target: None, args })?)
    }
}
