//! The labels of a row, and selectors of them in the syntax of Kubernetes: `app=web,tier in (a,b),!canary`.

const LONGEST: usize = 4_096;
const MOST: usize = 64;

/// The labels of one row in one piece: a fleet has hundreds of thousands of rows, and a piece of memory for each key and each value
/// would cost more than their text.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    /// Keys and values by turns, a line break behind each.
    text: Box<str>,
    /// Where the line break behind each stands. What is before it can hold line breaks, too.
    ends: Box<[u32]>,
}

impl Labels {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let begin = |at: usize| at.checked_sub(1).map_or(0, |before| self.ends[before] as usize + 1);
        let piece = move |at: usize| self.text.get(begin(at)..self.ends[at] as usize).unwrap_or_default();
        (0..self.ends.len() / 2).map(move |pair| (piece(pair * 2), piece(pair * 2 + 1)))
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    /// All keys and values, each on a line.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(labels: I) -> Self {
        let (mut text, mut ends) = (String::new(), Vec::new());
        for (key, value) in labels {
            for piece in [key.as_ref(), value.as_ref()] {
                text.push_str(piece);
                // Objects are at most a few megabytes.
                ends.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
                text.push('\n');
            }
        }
        Self { text: text.into(), ends: ends.into() }
    }
}

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

    /// Whether it selects everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    pub(crate) fn matches(&self, labels: &Labels) -> bool {
        self.terms.iter().all(|term| {
            let value = labels.get(&term.key);
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
        let labels: Labels = [("app", "web"), ("a.b/c", "")].into_iter().collect();
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

    proptest::proptest! {
        /// Whatever they hold: a member may send anything.
        #[test]
        fn labels_are_read_back_as_they_were(labels in proptest::collection::btree_map("\\PC{0,5}|[a\n]{0,3}", "[aé\n]{0,4}", 0..6)) {
            let kept: Labels = labels.iter().collect();
            let read: Vec<(String, String)> = kept.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
            proptest::prop_assert_eq!(read, labels.clone().into_iter().collect::<Vec<_>>());
            for (key, value) in &labels {
                proptest::prop_assert_eq!(kept.get(key), Some(value.as_str()));
            }
            proptest::prop_assert_eq!(kept.get("no such key"), None);
        }
    }
}
