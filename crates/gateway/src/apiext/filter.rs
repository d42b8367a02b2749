//! The filter language: `phase eq Failed and (spec.replicas gt 3 or not labels.team exists)`.
//!
//! Words and nothing else, so that a filter survives a URL. `not` binds tighter than `and`, `and` tighter than `or`. Length,
//! depth and number of tests are bounded, and evaluation is one pass over cells taken from the row before.

use super::field::{Cell, FieldPath};
use super::words::{Token, What, words};

const LONGEST: usize = 4_096;
const DEEPEST: usize = 16;
const MOST_TESTS: usize = 64;
const MOST_VALUES: usize = 200;

/// A filter ready to run; its tests name columns, which [`Filter::columns`] lists.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    root: Node,
    columns: Vec<FieldPath>,
}

/// Where a filter is wrong and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at character {at} of the filter: {why}")]
pub struct FilterError {
    pub at: usize,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    Test { column: usize, test: Test },
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    Eq(Literal),
    Contains(String),
    StartsWith(String),
    In(Vec<Literal>),
    /// (less, equal, greater): which orders satisfy it.
    Order(Literal, [bool; 3]),
    Exists,
}

/// A value as written: bare `5` is the number and the text, quoted `'5'` is the text alone.
#[derive(Clone, Debug, PartialEq)]
struct Literal {
    text: String,
    number: Option<f64>,
    boolean: Option<bool>,
    null: bool,
}

impl Filter {
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        if text.len() > LONGEST {
            return Err(FilterError { at: LONGEST, why: format!("a filter has at most {LONGEST} bytes") });
        }
        let mut parser = Parser { tokens: words(text)?, at: 0, columns: vec![], tests: 0, end: text.chars().count() };
        let root = parser.any(0)?;
        match parser.peek() {
            None => Ok(Self { root, columns: parser.columns }),
            Some(token) => {
                Err(FilterError { at: token.at, why: format!("expected \"and\", \"or\" or the end, not {token}") })
            }
        }
    }

    pub(crate) fn columns(&self) -> &[FieldPath] {
        &self.columns
    }

    /// Whether a row passes.
    pub fn selects(&self, row: &serde_json::Value) -> bool {
        let cells: Vec<Cell> = self.columns.iter().map(|path| path.cell(row)).collect();
        self.matches(&cells)
    }

    /// `cells` are those of [`Filter::columns`], in order.
    pub(crate) fn matches(&self, cells: &[Cell]) -> bool {
        holds(&self.root, cells)
    }
}

fn holds(node: &Node, cells: &[Cell]) -> bool {
    match node {
        Node::All(nodes) => nodes.iter().all(|node| holds(node, cells)),
        Node::Any(nodes) => nodes.iter().any(|node| holds(node, cells)),
        Node::Not(node) => !holds(node, cells),
        Node::Test { column, test } => cells.get(*column).is_some_and(|cell| test.holds(cell)),
    }
}

impl Test {
    fn holds(&self, cell: &Cell) -> bool {
        if let Test::Exists = self {
            return !matches!(cell, Cell::Missing | Cell::Null);
        }
        if let Cell::Many(cells) = cell {
            return cells.iter().any(|cell| self.holds(cell));
        }
        match self {
            Test::Eq(literal) => literal.equals(cell),
            Test::In(literals) => literals.iter().any(|literal| literal.equals(cell)),
            Test::Contains(part) => matches!(cell, Cell::Text(text) if contains(text, part)),
            Test::StartsWith(part) => matches!(cell, Cell::Text(text) if text.starts_with(part.as_str())),
            Test::Order(literal, wanted) => match cell {
                Cell::Number(n) => literal.number.is_some_and(|other| wanted[(n.total_cmp(&other) as i8 + 1) as usize]),
                Cell::Text(text) => wanted[(text.as_ref().cmp(literal.text.as_str()) as i8 + 1) as usize],
                _ => false,
            },
            Test::Exists => true,
        }
    }
}

/// Case does not matter to people who search; `part` is lower case already.
pub(crate) fn contains(text: &str, part: &str) -> bool {
    text.contains(part) || text.to_lowercase().contains(part)
}

impl Literal {
    fn bare(word: &str) -> Self {
        let number = word.parse().ok().filter(|n: &f64| n.is_finite());
        Self { text: word.to_owned(), number, boolean: word.parse().ok(), null: word == "null" }
    }

    fn quoted(text: String) -> Self {
        Self { text, number: None, boolean: None, null: false }
    }

    fn equals(&self, cell: &Cell) -> bool {
        match cell {
            Cell::Text(text) => text.as_ref() == self.text,
            Cell::Number(n) => self.number == Some(*n),
            Cell::Bool(b) => self.boolean == Some(*b),
            Cell::Null | Cell::Missing => self.null,
            Cell::Many(_) | Cell::Object => false,
        }
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    columns: Vec<FieldPath>,
    tests: usize,
    end: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self, expected: &str) -> Result<Token, FilterError> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token.ok_or_else(|| FilterError { at: self.end, why: format!("expected {expected}, not the end") })
    }

    fn take(&mut self, word: &str) -> bool {
        let there =
            matches!(self.peek(), Some(Token { what: What::Word(found), .. }) if found.eq_ignore_ascii_case(word));
        self.at += usize::from(there);
        there
    }

    fn any(&mut self, depth: usize) -> Result<Node, FilterError> {
        let mut nodes = vec![self.all(depth)?];
        while self.take("or") {
            nodes.push(self.all(depth)?);
        }
        Ok(one_or(nodes, Node::Any))
    }

    fn all(&mut self, depth: usize) -> Result<Node, FilterError> {
        let mut nodes = vec![self.unary(depth)?];
        while self.take("and") {
            nodes.push(self.unary(depth)?);
        }
        Ok(one_or(nodes, Node::All))
    }

    fn unary(&mut self, depth: usize) -> Result<Node, FilterError> {
        if depth >= DEEPEST {
            let at = self.peek().map_or(self.end, |token| token.at);
            return Err(FilterError { at, why: format!("a filter nests at most {DEEPEST} deep") });
        }
        if self.take("not") {
            return Ok(Node::Not(Box::new(self.unary(depth + 1)?)));
        }
        if matches!(self.peek(), Some(Token { what: What::Open, .. })) {
            self.at += 1;
            let inner = self.any(depth + 1)?;
            let close = self.next("\")\"")?;
            return match close.what {
                What::Close => Ok(inner),
                _ => Err(FilterError { at: close.at, why: format!("expected \")\", not {close}") }),
            };
        }
        self.test()
    }

    fn test(&mut self) -> Result<Node, FilterError> {
        let field = self.next("a field")?;
        let What::Word(path) = &field.what else {
            return Err(FilterError { at: field.at, why: format!("expected a field, not {field}") });
        };
        let path = FieldPath::parse(path).map_err(|why| FilterError { at: field.at, why })?;
        let operator = self.next("an operator")?;
        let What::Word(name) = &operator.what else {
            return Err(FilterError { at: operator.at, why: format!("expected an operator, not {operator}") });
        };
        self.tests += 1;
        if self.tests > MOST_TESTS {
            return Err(FilterError { at: field.at, why: format!("a filter has at most {MOST_TESTS} tests") });
        }
        let (test, negated) = match name.to_ascii_lowercase().as_str() {
            "eq" => (Test::Eq(self.literal()?), false),
            "ne" => (Test::Eq(self.literal()?), true),
            "contains" => (Test::Contains(self.literal()?.text.to_lowercase()), false),
            "startswith" => (Test::StartsWith(self.literal()?.text), false),
            "in" => (Test::In(self.literals()?), false),
            "notin" => (Test::In(self.literals()?), true),
            "lt" => (Test::Order(self.literal()?, [true, false, false]), false),
            "le" => (Test::Order(self.literal()?, [true, true, false]), false),
            "gt" => (Test::Order(self.literal()?, [false, false, true]), false),
            "ge" => (Test::Order(self.literal()?, [false, true, true]), false),
            "exists" => (Test::Exists, false),
            _ => {
                let known = "eq, ne, lt, le, gt, ge, in, notin, contains, startswith, exists";
                return Err(FilterError {
                    at: operator.at,
                    why: format!("{operator} is not an operator; there are {known}"),
                });
            }
        };
        let node = Node::Test { column: self.column(path), test };
        Ok(if negated { Node::Not(Box::new(node)) } else { node })
    }

    fn column(&mut self, path: FieldPath) -> usize {
        self.columns.iter().position(|known| *known == path).unwrap_or_else(|| {
            self.columns.push(path);
            self.columns.len() - 1
        })
    }

    fn literal(&mut self) -> Result<Literal, FilterError> {
        let token = self.next("a value")?;
        match token.what {
            What::Word(ref word) => Ok(Literal::bare(word)),
            What::Quoted(text) => Ok(Literal::quoted(text)),
            _ => Err(FilterError { at: token.at, why: format!("expected a value, not {token}") }),
        }
    }

    fn literals(&mut self) -> Result<Vec<Literal>, FilterError> {
        let open = self.next("\"(\"")?;
        if open.what != What::Open {
            return Err(FilterError { at: open.at, why: format!("expected a list as in (a, b), not {open}") });
        }
        let mut values = Vec::new();
        loop {
            values.push(self.literal()?);
            if values.len() > MOST_VALUES {
                return Err(FilterError { at: open.at, why: format!("a list has at most {MOST_VALUES} values") });
            }
            let next = self.next("\",\" or \")\"")?;
            match next.what {
                What::Comma => {}
                What::Close => return Ok(values),
                _ => return Err(FilterError { at: next.at, why: format!("expected \",\" or \")\", not {next}") }),
            }
        }
    }
}

fn one_or(mut nodes: Vec<Node>, many: fn(Vec<Node>) -> Node) -> Node {
    if nodes.len() == 1 { nodes.swap_remove(0) } else { many(nodes) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn selects(filter: &str, row: &Value) -> bool {
        Filter::parse(filter).unwrap_or_else(|why| panic!("{filter}: {why}")).selects(row)
    }

    #[test]
    fn every_operator_does_what_its_word_says() {
        let row = json!({"name": "web-1", "phase": "Running", "labels": {"team": "a", "x.y/z": "q"}, "created": "2026-01-02T00:00:00Z",
            "spec": {"replicas": 3, "paused": false, "images": ["nginx:1", "redis:2"], "text": "5", "none": null}});
        let yes = [
            "phase eq Running",
            "phase ne Failed",
            "spec.replicas eq 3",
            "spec.replicas eq 3.0",
            "spec.replicas gt 2",
            "spec.replicas ge 3",
            "spec.replicas lt 4",
            "spec.replicas le 3",
            "spec.paused eq false",
            "spec.text eq 5",
            "spec.text eq '5'",
            "name contains EB-",
            "name startswith web",
            "phase in (Failed, Running)",
            "phase notin (Failed)",
            "spec.images contains redis",
            "spec.images eq nginx:1",
            "labels.team exists",
            "labels.\"x.y/z\" eq q",
            "not labels.owner exists",
            "spec.none eq null",
            "gone eq null",
            "gone ne 5",
            "created gt 2026-01-01",
            "created lt '2026-02-01T00:00:00Z'",
            "phase eq Failed or phase eq Running and spec.replicas eq 3",
            "(phase eq Failed or phase eq Running) and not (spec.replicas gt 3)",
            "PHASE exists or phase EXISTS",
        ];
        let no = [
            "phase eq running",
            "spec.replicas eq '3'",
            "spec.replicas gt 3",
            "spec.none exists",
            "gone exists",
            "gone lt 5",
            "gone contains x",
            "spec.images ne redis:2",
            "spec eq x",
            "phase eq Running and phase eq Failed",
            "spec.replicas lt abc",
            "not phase eq Running",
        ];
        for filter in yes {
            assert!(selects(filter, &row), "{filter}");
        }
        for filter in no {
            assert!(!selects(filter, &row), "{filter}");
        }
    }

    #[test]
    fn a_wrong_filter_says_where_and_what_was_expected() {
        let cases = [
            ("", 0, "a field"),
            ("phase", 5, "an operator"),
            ("phase like x", 6, "not an operator"),
            ("phase eq", 8, "a value"),
            ("phase eq 'x", 9, "never closed"),
            ("phase in Running", 9, "a list"),
            ("phase in (a b)", 12, "\",\" or"),
            ("(phase eq x", 11, "\")\""),
            ("phase eq x)", 10, "the end"),
            ("phase eq x y", 11, "\"and\""),
            ("a..b eq 1", 0, "not a field path"),
            ("x.\"open eq 1", 2, "never closed"),
            ("and eq 1 and", 12, "a field"),
        ];
        for (filter, at, why) in cases {
            let error = Filter::parse(filter).unwrap_err();
            assert!(error.at == at && error.why.contains(why), "{filter}: {error:?}");
        }
    }

    #[test]
    fn length_depth_and_number_of_tests_are_bounded() {
        assert!(Filter::parse(&"(".repeat(5_000)).unwrap_err().why.contains("bytes"));
        assert!(
            Filter::parse(&format!("{}a exists{}", "(".repeat(20), ")".repeat(20))).unwrap_err().why.contains("deep")
        );
        assert!(Filter::parse(&format!("{}a exists", "not ".repeat(100))).unwrap_err().why.contains("deep"));
        assert!(Filter::parse(&vec!["a exists"; 65].join(" and ")).unwrap_err().why.contains("tests"));
        assert!(Filter::parse(&format!("a in ({})", vec!["1"; 201].join(","))).unwrap_err().why.contains("values"));
    }

    proptest! {
        #[test]
        fn the_parser_never_panics(text in "[ -~é\"'().,\\\\]{0,80}") {
            let _ = Filter::parse(&text);
        }

        #[test]
        fn words_of_the_language_in_any_order_never_panic(words in prop::collection::vec(prop::sample::select(vec![
            "and", "or", "not", "(", ")", ",", "eq", "in", "exists", "phase", "'a b'", "5", "a.\"b.c\"", "lt", "null"]), 0..30)) {
            if let Ok(filter) = Filter::parse(&words.join(" ")) {
                let cells: Vec<Cell> = filter.columns().iter().map(|path| path.cell(&json!({"phase": ["x", 5]}))).collect();
                let _ = filter.matches(&cells);
            }
        }

        /// Any text, quoted, is found again.
        #[test]
        fn a_quoted_value_means_itself(value in ".{0,40}") {
            let quoted = value.replace('\\', "\\\\").replace('\'', "\\'");
            let row = json!({"name": value});
            let (eq, ne) = (format!("name eq '{quoted}'"), format!("name ne '{quoted}'"));
            prop_assert!(selects(&eq, &row) && !selects(&ne, &row));
        }
    }
}
