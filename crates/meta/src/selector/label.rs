//! Label selectors: `a=b,c!=d,e in (x,y),f notin (z),g,!h,x>1`, and the same as an object (`matchLabels`, `matchExpressions`).
//!
//! Syntax, order and messages follow Kubernetes; oddities too: `a in ()` selects the empty value, `,` inside a set is an empty value.

use std::fmt;

use serde_json::Value;

use crate::name;

/// How an object's labels are stored: sorted by key, each key once.
pub type Labels = [(Box<str>, Box<str>)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Equals,
    DoubleEquals,
    NotEquals,
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelRequirement {
    key: Box<str>,
    operator: Operator,
    /// Sorted and without repeats. Exactly one for the comparing operators, none for (not) existing.
    values: Vec<Box<str>>,
}

/// All requirements must hold. Sorted by key; several with one key keep the order they were written in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelSelector {
    requirements: Vec<LabelRequirement>,
    /// The absent selector object selects nothing, while the empty one selects everything.
    nothing: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LabelError(String);

impl LabelSelector {
    pub fn everything() -> Self {
        Self::default()
    }

    pub fn nothing() -> Self {
        Self { requirements: Vec::new(), nothing: true }
    }

    /// Reads the query form (`labelSelector=…`, already percent-decoded).
    pub fn parse(text: &str) -> Result<Self, LabelError> {
        Parser { tokens: tokens(text), at: 0 }.selector()
    }

    /// Reads a `metav1.LabelSelector` object; `null` selects nothing.
    pub fn from_object(object: &Value) -> Result<Self, LabelError> {
        let object = match object {
            Value::Null => return Ok(Self::nothing()),
            Value::Object(object) => object,
            _ => return Err(LabelError("label selector must be an object".into())),
        };
        let mut requirements = Vec::new();
        match object.get("matchLabels") {
            None | Some(Value::Null) => {}
            Some(Value::Object(labels)) => {
                for (key, value) in labels {
                    let value =
                        value.as_str().ok_or_else(|| LabelError(format!("matchLabels[{key}] must be a string")))?;
                    requirements.push(LabelRequirement::new(key, Operator::Equals, vec![value.into()])?);
                }
            }
            Some(_) => return Err(LabelError("matchLabels must be an object".into())),
        }
        match object.get("matchExpressions") {
            None | Some(Value::Null) => {}
            Some(Value::Array(expressions)) => {
                for expression in expressions {
                    requirements.push(LabelRequirement::from_object(expression)?);
                }
            }
            Some(_) => return Err(LabelError("matchExpressions must be an array".into())),
        }
        Ok(Self::of(requirements))
    }

    fn of(mut requirements: Vec<LabelRequirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self { requirements, nothing: false }
    }

    /// Selects without looking at the labels.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty() && !self.nothing
    }

    pub fn requirements(&self) -> &[LabelRequirement] {
        &self.requirements
    }

    pub fn matches(&self, labels: &Labels) -> bool {
        self.matches_with(|key| {
            labels.binary_search_by(|(have, _)| (**have).cmp(key)).ok().map(|found| &*labels[found].1)
        })
    }

    pub fn matches_with<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.nothing && self.requirements.iter().all(|requirement| requirement.matches(lookup(&requirement.key)))
    }
}

impl LabelRequirement {
    /// Checks key and values by the rules of labels and by what the operator needs.
    pub fn new(key: &str, operator: Operator, mut values: Vec<Box<str>>) -> Result<Self, LabelError> {
        let mut errors = Vec::new();
        let complaints = name::qualified_name(key);
        if !complaints.is_empty() {
            errors.push(invalid("key", key, &complaints.join("; ")));
        }
        values.sort_unstable();
        values.dedup();
        let arity = match operator {
            Operator::In | Operator::NotIn => {
                values.is_empty().then_some("for 'in', 'notin' operators, values set can't be empty")
            }
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals => {
                (values.len() != 1).then_some("exact-match compatibility requires one single value")
            }
            Operator::Exists | Operator::DoesNotExist => {
                (!values.is_empty()).then_some("values set must be empty for exists and does not exist")
            }
            Operator::GreaterThan | Operator::LessThan => {
                (values.len() != 1).then_some("for 'Gt', 'Lt' operators, exactly one value is required")
            }
        };
        if let Some(detail) = arity {
            let shown =
                serde_json::to_string(&values.iter().map(|value| &**value).collect::<Vec<_>>()).unwrap_or_default();
            errors.push(format!("values: Invalid value: {shown}: {detail}"));
        }
        for (index, value) in values.iter().enumerate() {
            if matches!(operator, Operator::GreaterThan | Operator::LessThan) && value.parse::<i64>().is_err() {
                let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.push(invalid(&format!("values[{index}]"), value, detail));
            }
            let complaints = name::label_value(value);
            if !complaints.is_empty() {
                errors.push(invalid(&format!("values[{index}][{key}]"), value, &complaints.join("; ")));
            }
        }
        match errors.len() {
            0 => Ok(Self { key: key.into(), operator, values }),
            1 => Err(LabelError(errors.swap_remove(0))),
            _ => Err(LabelError(format!("[{}]", errors.join(", ")))),
        }
    }

    fn from_object(expression: &Value) -> Result<Self, LabelError> {
        let text = |field: &str| expression.get(field).and_then(Value::as_str).unwrap_or_default();
        let operator = match text("operator") {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => return Err(LabelError(format!("{other:?} is not a valid label selector operator"))),
        };
        let values = match expression.get("values") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(values)) => values
                .iter()
                .map(|value| value.as_str().map(Into::into))
                .collect::<Option<Vec<_>>>()
                .ok_or_else(|| LabelError("values of a label selector must be strings".into()))?,
            Some(_) => return Err(LabelError("values of a label selector must be an array".into())),
        };
        Self::new(text("key"), operator, values)
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn operator(&self) -> Operator {
        self.operator
    }

    pub fn values(&self) -> &[Box<str>] {
        &self.values
    }

    /// `value` is the label's value, if the object has the label.
    pub fn matches(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|wanted| **wanted == *value);
        match self.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => value.is_some_and(listed),
            Operator::NotEquals | Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.compare(value).is_some_and(|(have, limit)| have > limit),
            Operator::LessThan => self.compare(value).is_some_and(|(have, limit)| have < limit),
        }
    }

    fn compare(&self, value: Option<&str>) -> Option<(i64, i64)> {
        Some((value?.parse().ok()?, self.values.first()?.parse().ok()?))
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            write!(f, "{}{requirement}", if index > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, operator, values } = self;
        let values = values.join(",");
        match operator {
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
        }
    }
}

fn invalid(path: &str, value: &str, detail: &str) -> String {
    format!("{path}: Invalid value: {value:?}: {detail}")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    /// A key, a value, or the words `in` and `notin`, which are only operators where an operator is expected.
    Word(&'a str),
    /// One of `( ) , ! = == != > <`.
    Sign(&'a str),
    End,
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::Word(text) | Self::Sign(text) => text,
            Self::End => "",
        }
    }
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let sign = |b: u8| b"=!(),><".contains(&b);
    let space = |b: u8| b" \t\r\n".contains(&b);
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let start = at;
        if space(byte) {
            at += 1;
            continue;
        }
        if sign(byte) {
            let double = matches!(byte, b'=' | b'!') && bytes.get(at + 1) == Some(&b'=');
            at += if double { 2 } else { 1 };
            tokens.push(Token::Sign(&text[start..at]));
        } else {
            // Only ASCII bytes end a word, so the cut is always between characters.
            at += bytes[at..].iter().position(|&b| sign(b) || space(b)).unwrap_or(bytes.len() - at);
            tokens.push(Token::Word(&text[start..at]));
        }
    }
    tokens.push(Token::End);
    tokens
}

/// Recursive descent with one token of lookahead; `tokens` ends with `End`, which is never passed.
struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens.get(self.at).copied().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn selector(mut self) -> Result<LabelSelector, LabelError> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::End => return Ok(LabelSelector::of(requirements)),
                Token::Word(_) | Token::Sign("!") => {}
                other => return Err(found(other, ", expected: !, identifier, or 'end of string'")),
            }
            let requirement = self
                .requirement()
                .map_err(|LabelError(why)| LabelError(format!("unable to parse requirement: {why}")))?;
            requirements.push(requirement);
            match self.next() {
                Token::End => return Ok(LabelSelector::of(requirements)),
                Token::Sign(",") => match self.peek() {
                    Token::Word(_) | Token::Sign("!") => {}
                    other => return Err(found(other, ", expected: identifier after ','")),
                },
                other => return Err(found(other, ", expected: ',' or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<LabelRequirement, LabelError> {
        let mut token = self.next();
        let negated = token == Token::Sign("!");
        if negated {
            token = self.next();
        }
        let Token::Word(key) = token else { return Err(found(token, ", expected: identifier")) };
        let complaints = name::qualified_name(key);
        if !complaints.is_empty() {
            // A query has no field path, which Kubernetes prints so.
            return Err(LabelError(invalid("<nil>", key, &complaints.join("; "))));
        }
        if negated {
            return LabelRequirement::new(key, Operator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek(), Token::End | Token::Sign(",")) {
            return LabelRequirement::new(key, Operator::Exists, Vec::new());
        }
        let operator = match self.next() {
            Token::Word("in") => Operator::In,
            Token::Word("notin") => Operator::NotIn,
            Token::Sign("=") => Operator::Equals,
            Token::Sign("==") => Operator::DoubleEquals,
            Token::Sign("!=") => Operator::NotEquals,
            Token::Sign(">") => Operator::GreaterThan,
            Token::Sign("<") => Operator::LessThan,
            other => return Err(found(other, ", expected: in, notin, =, ==, !=, gt, lt")),
        };
        let values = match operator {
            Operator::In | Operator::NotIn => self.set()?,
            _ => vec![self.value()?.into()],
        };
        LabelRequirement::new(key, operator, values)
    }

    fn value(&mut self) -> Result<&'a str, LabelError> {
        match self.peek() {
            Token::End | Token::Sign(",") => Ok(""),
            Token::Word(value) => {
                self.at += 1;
                Ok(value)
            }
            other => Err(found(other, ", expected: identifier")),
        }
    }

    /// `(x,y)`: an absent value between commas or brackets is the empty one.
    fn set(&mut self) -> Result<Vec<Box<str>>, LabelError> {
        match self.next() {
            Token::Sign("(") => {}
            other => return Err(found(other, " expected: '('")),
        }
        let mut values = Vec::new();
        loop {
            match self.peek() {
                Token::Word(value) => {
                    values.push(value.into());
                    self.at += 1;
                }
                Token::Sign("," | ")") => values.push("".into()),
                other if values.is_empty() => return Err(found(other, ", expected: ',', ')' or identifier")),
                other => return Err(found(other, ", expected: ',', or identifier")),
            }
            match self.next() {
                Token::Sign(",") => {}
                Token::Sign(")") => return Ok(values),
                other => return Err(found(other, ", expected: ',' or ')'")),
            }
        }
    }
}

fn found(token: Token<'_>, expected: &str) -> LabelError {
    LabelError(format!("found '{}'{expected}", token.text()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use std::collections::BTreeMap;

    fn labels(pairs: &[(&str, &str)]) -> Vec<(Box<str>, Box<str>)> {
        let mut labels: Vec<_> = pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        labels.sort();
        labels
    }

    #[test]
    fn queries_select() {
        let have = labels(&[("app", "web"), ("tier", ""), ("n", "7"), ("example.com/x", "in")]);
        for (query, expected) in [
            ("", true),
            ("app", true),
            ("!app", false),
            ("!none", true),
            ("none", false),
            ("app=web", true),
            ("app == web", true),
            ("app=db", false),
            ("app!=web", false),
            ("app!=db", true),
            ("none!=x", true),
            ("tier=", true),
            ("tier=,app", true),
            ("app in (db,web)", true),
            ("app in (db)", false),
            ("app notin (db)", true),
            ("none notin (db)", true),
            ("none in (db)", false),
            ("tier in ()", true),
            ("tier in (,a)", true),
            ("tier in (a,)", true),
            ("example.com/x in (in,notin)", true),
            ("example.com/x=in", true),
            ("n>6,n<8", true),
            ("n>7", false),
            ("app>1", false),
            ("none<1", false),
            (" app = web , n ", true),
        ] {
            assert_eq!(LabelSelector::parse(query).unwrap().matches(&have), expected, "{query}");
        }
    }

    #[test]
    fn mistakes_are_told_in_kubernetes_words() {
        for (query, expected) in [
            (",", "found ',', expected: !, identifier, or 'end of string'"),
            ("a,", "found '', expected: identifier after ','"),
            ("a,,b", "found ',', expected: identifier after ','"),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
            ("a in (=", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
            ("a==(", "unable to parse requirement: found '(', expected: identifier"),
            (
                "n>x",
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
        ] {
            assert_eq!(LabelSelector::parse(query).unwrap_err().to_string(), expected, "{query}");
        }
        let key = LabelSelector::parse("-a=b").unwrap_err().to_string();
        assert!(
            key.starts_with("unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of"),
            "{key}"
        );
        let value = LabelSelector::parse("a=-b").unwrap_err().to_string();
        assert!(
            value.starts_with("unable to parse requirement: values[0][a]: Invalid value: \"-b\": a valid label must"),
            "{value}"
        );
    }

    #[test]
    fn objects_select() {
        let object = json!({"matchLabels": {"b": "1", "a": "2"}, "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["y", "x", "y"]}, {"key": "d", "operator": "NotIn", "values": ["z"]},
            {"key": "e", "operator": "Exists"}, {"key": "f", "operator": "DoesNotExist", "values": null}]});
        let selector = LabelSelector::from_object(&object).unwrap();
        assert_eq!(selector.to_string(), "a=2,b=1,c in (x,y),d notin (z),e,!f");
        assert!(selector.matches(&labels(&[("a", "2"), ("b", "1"), ("c", "x"), ("e", "")])));
        assert!(LabelSelector::from_object(&json!({})).unwrap().is_everything());
        assert!(LabelSelector::from_object(&json!({})).unwrap().matches(&[]));
        assert!(!LabelSelector::from_object(&json!(null)).unwrap().matches(&[]));
        let bad = |object| LabelSelector::from_object(&object).unwrap_err().to_string();
        assert_eq!(
            bad(json!({"matchExpressions": [{"key": "a", "operator": "in"}]})),
            "\"in\" is not a valid label selector operator"
        );
        assert_eq!(
            bad(json!({"matchExpressions": [{"key": "a", "operator": "In"}]})),
            "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
        );
        assert!(
            bad(json!([])).contains("must be an object") && bad(json!({"matchLabels": {"a": 1}})).contains("string")
        );
    }

    fn any_requirement() -> impl Strategy<Value = LabelRequirement> {
        let key = prop_oneof!["[a-c]", "in", "notin", r"example\.com/[a-c]"];
        let value = prop_oneof!["[x-z]?", "in", "[0-9]{1,2}"].prop_map(|value| value.into_boxed_str());
        (key, 0..9, prop::collection::vec(value, 1..4), -20i64..20).prop_map(|(key, operator, values, number)| {
            let one = vec![values[0].clone()];
            // A negative number is no label value, so a query cannot carry it.
            let number = vec![number.unsigned_abs().to_string().into()];
            let (operator, values) = match operator {
                0 => (Operator::Equals, one),
                1 => (Operator::DoubleEquals, one),
                2 => (Operator::NotEquals, one),
                3 => (Operator::In, values),
                4 => (Operator::NotIn, values),
                5 => (Operator::Exists, vec![]),
                6 => (Operator::DoesNotExist, vec![]),
                7 => (Operator::GreaterThan, number),
                _ => (Operator::LessThan, number),
            };
            LabelRequirement::new(&key, operator, values).unwrap()
        })
    }

    /// The meaning of a requirement in the plainest words.
    fn naive(requirement: &LabelRequirement, labels: &BTreeMap<String, String>) -> bool {
        let has = labels.contains_key(&*requirement.key);
        let value = labels.get(&*requirement.key).cloned().unwrap_or_default();
        let listed = requirement.values.iter().any(|v| **v == *value);
        let number = || Some((value.parse::<i64>().ok()?, requirement.values[0].parse::<i64>().ok()?));
        match requirement.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => has && listed,
            Operator::NotEquals | Operator::NotIn => !has || !listed,
            Operator::Exists => has,
            Operator::DoesNotExist => !has,
            Operator::GreaterThan => has && number().is_some_and(|(a, b)| a > b),
            Operator::LessThan => has && number().is_some_and(|(a, b)| a < b),
        }
    }

    proptest! {
        #[test]
        fn what_is_displayed_is_read_back(requirements in prop::collection::vec(any_requirement(), 0..5)) {
            let selector = LabelSelector::of(requirements);
            prop_assert_eq!(LabelSelector::parse(&selector.to_string()).unwrap(), selector);
        }

        #[test]
        fn matching_agrees_with_the_naive_reading(
            requirements in prop::collection::vec(any_requirement(), 0..4),
            have in prop::collection::btree_map(r"[a-c]|in|example\.com/[a-c]", "[x-z]?|in|[0-9]{1,2}", 0..5),
        ) {
            let stored: Vec<_> = have.iter().map(|(k, v)| (k.as_str().into(), v.as_str().into())).collect();
            let expected = requirements.iter().all(|requirement| naive(requirement, &have));
            prop_assert_eq!(LabelSelector::of(requirements).matches(&stored), expected);
        }

        #[test]
        fn b1_never_panics_and_what_is_accepted_round_trips(query in "[ab,=!()<> é/.\\-]{0,24}|.{0,40}") {
            if let Ok(selector) = LabelSelector::parse(&query) {
                prop_assert_eq!(LabelSelector::parse(&selector.to_string()).unwrap(), selector);
            }
        }
    }
}
