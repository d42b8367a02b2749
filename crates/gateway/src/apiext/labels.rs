//! Label selectors in the syntax of Kubernetes: `app=web,tier in (a,b),!canary`.

const LONGEST: usize = 4_096;
const MOST: usize = 64;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Selector {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq)]
struct Term {
    key: String,
    /// `None`: the key must be there (or not, when negated).
    values: Option<Vec<String>>,
    negated: bool,
}

impl Selector {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("a label selector has at most {LONGEST} bytes"));
        }
        let mut terms = Vec::new();
        for part in split(text)? {
            terms.push(term(part.trim())?);
            if terms.len() > MOST {
                return Err(format!("a label selector has at most {MOST} terms"));
            }
        }
        Ok(Self { terms })
    }

    pub(crate) fn matches(&self, labels: &[(Box<str>, Box<str>)]) -> bool {
        self.terms.iter().all(|term| {
            let value = labels.iter().find(|(key, _)| **key == *term.key).map(|(_, value)| &**value);
            match (&term.values, value) {
                (None, value) => value.is_some() != term.negated,
                (Some(_), None) => term.negated,
                (Some(values), Some(value)) => values.iter().any(|v| v == value) != term.negated,
            }
        })
    }
}

/// At commas outside parentheses.
fn split(text: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '(' if !inside => inside = true,
            ')' if inside => inside = false,
            '(' | ')' => return Err(format!("the label selector {text:?} has unbalanced parentheses")),
            ',' if !inside => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err(format!("the label selector {text:?} has unbalanced parentheses"));
    }
    if !text.trim().is_empty() {
        parts.push(&text[start..]);
    }
    Ok(parts)
}

fn term(text: &str) -> Result<Term, String> {
    let wrong = || {
        format!("{text:?} is not a label term: write key=value, key!=value, key in (a,b), key notin (a,b), key or !key")
    };
    let key = |key: &str| {
        let key = key.trim();
        let fine =
            !key.is_empty() && key.len() <= 317 && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
        if fine { Ok(key.to_owned()) } else { Err(wrong()) }
    };
    let value = |value: &str| {
        let value = value.trim();
        let fine = value.len() <= 63 && value.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        if fine { Ok(value.to_owned()) } else { Err(wrong()) }
    };
    if let Some(list) = text.strip_suffix(')') {
        let (head, list) = list.split_once('(').ok_or_else(wrong)?;
        let mut words = head.split_whitespace();
        let (name, operator) = (words.next().ok_or_else(wrong)?, words.next().ok_or_else(wrong)?);
        let negated = match operator {
            "in" => false,
            "notin" => true,
            _ => return Err(wrong()),
        };
        let values = list.split(',').map(value).collect::<Result<_, _>>()?;
        return if words.next().is_none() {
            Ok(Term { key: key(name)?, values: Some(values), negated })
        } else {
            Err(wrong())
        };
    }
    if let Some((name, wanted)) = text.split_once("!=") {
        return Ok(Term { key: key(name)?, values: Some(vec![value(wanted)?]), negated: true });
    }
    if let Some((name, wanted)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Ok(Term { key: key(name)?, values: Some(vec![value(wanted)?]), negated: false });
    }
    match text.strip_prefix('!') {
        Some(name) => Ok(Term { key: key(name)?, values: None, negated: true }),
        None => Ok(Term { key: key(text)?, values: None, negated: false }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn selectors_select_as_kubernetes_does() {
        let labels: Vec<(Box<str>, Box<str>)> = vec![("app".into(), "web".into()), ("a.b/c".into(), "".into())];
        let selects = |text: &str| Selector::parse(text).unwrap().matches(&labels);
        for yes in [
            "",
            "app=web",
            "app == web",
            "app!=db",
            "gone!=x",
            "app in (db, web)",
            "gone notin (a)",
            "app",
            "!gone",
            "a.b/c=",
            "app,!gone,a.b/c",
        ] {
            assert!(selects(yes), "{yes}");
        }
        for no in ["app=db", "app!=web", "app notin (web)", "!app", "gone", "gone=x", "gone in (a)", "app,gone"] {
            assert!(!selects(no), "{no}");
        }
    }

    #[test]
    fn what_is_not_a_selector_is_refused() {
        for bad in [
            "=x",
            "a b",
            "a in",
            "a in (",
            "a in b)",
            "a=b=c d",
            ",",
            "a,,b",
            "a like (b)",
            "a=é",
            "((a))",
            "a in x (b)",
        ] {
            assert!(Selector::parse(bad).is_err(), "{bad}");
        }
    }
}
