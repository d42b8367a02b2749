//! Field selectors: `metadata.name=x,metadata.namespace!=y`. A backslash escapes `,` `=` and itself in values.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldRequirement {
    pub field: Box<str>,
    pub value: Box<str>,
    /// `field=value` (also written `==`), otherwise `field!=value`.
    pub equals: bool,
}

/// All requirements must hold. Sorted as Kubernetes sorts them: by the text of the term.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    Term { selector: String, term: String },
    #[error("invalid field selector: invalid escape sequence: {0}")]
    Escape(String),
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*.0))]
    Unescaped(char),
    #[error("field label not supported: {0}")]
    Unsupported(String),
}

impl FieldSelector {
    pub fn everything() -> Self {
        Self::default()
    }

    /// Reads the query form (`fieldSelector=…`, already percent-decoded).
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let mut requirements = Vec::new();
        for term in terms(text) {
            let understood =
                operator(term).ok_or_else(|| FieldError::Term { selector: text.to_owned(), term: term.to_owned() })?;
            let (at, length, equals) = understood;
            let value = unescape(&term[at + length..])?;
            if at == 0 && value.is_empty() {
                continue; // "=" and "!=" alone ask for nothing
            }
            requirements.push(FieldRequirement { field: term[..at].into(), value: value.into(), equals });
        }
        Ok(Self::of(requirements))
    }

    fn of(mut requirements: Vec<FieldRequirement>) -> Self {
        requirements.sort_by_cached_key(ToString::to_string);
        Self { requirements }
    }

    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// `lookup` gives the value of a field; a field the object does not have is empty.
    pub fn matches<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| {
            (lookup(&requirement.field).unwrap_or_default() == &*requirement.value) == requirement.equals
        })
    }

    /// The value a field must have, if the selector says so: `metadata.name=x` turns a list into a get.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.requirements.iter().find(|have| have.equals && *have.field == *field).map(|found| &*found.value)
    }

    pub fn exact_name(&self) -> Option<&str> {
        self.exact("metadata.name")
    }

    pub fn exact_namespace(&self) -> Option<&str> {
        self.exact("metadata.namespace")
    }

    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.requirements.iter().map(|requirement| &*requirement.field)
    }

    /// Refuses a selector that uses a field the kind does not offer.
    pub fn only(&self, supported: impl Fn(&str) -> bool) -> Result<(), FieldError> {
        match self.fields().find(|field| !supported(field)) {
            Some(field) => Err(FieldError::Unsupported(field.to_owned())),
            None => Ok(()),
        }
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            write!(f, "{}{requirement}", if index > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for FieldRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.field, if self.equals { "=" } else { "!=" })?;
        for c in self.value.chars() {
            if matches!(c, '\\' | ',' | '=') {
                f.write_str("\\")?;
            }
            write!(f, "{c}")?;
        }
        Ok(())
    }
}

/// Splits at commas that no backslash escapes; empty terms say nothing.
fn terms(text: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    text.split(move |c| {
        let cut = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        cut
    })
    .filter(|term| !term.is_empty())
}

/// The first operator of a term: where, how long, and whether it asks for equality.
fn operator(term: &str) -> Option<(usize, usize, bool)> {
    let bytes = term.as_bytes();
    bytes.iter().enumerate().find_map(|(at, byte)| match (byte, bytes.get(at + 1)) {
        (b'!', Some(b'=')) => Some((at, 2, false)),
        (b'=', Some(b'=')) => Some((at, 2, true)),
        (b'=', _) => Some((at, 1, true)),
        _ => None,
    })
}

fn unescape(value: &str) -> Result<String, FieldError> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(c) => return Err(FieldError::Escape(format!("\\{c}"))),
                None => return Err(FieldError::Escape("\\".into())),
            },
            ',' | '=' => return Err(FieldError::Unescaped(c)),
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> FieldSelector {
        FieldSelector::parse(text).unwrap()
    }

    #[test]
    fn queries_select() {
        let lookup = |field: &str| match field {
            "metadata.name" => Some("x"),
            "type" => Some("a,b=c\\d"),
            _ => None,
        };
        for (query, expected) in [
            ("", true),
            (",,", true),
            ("!=,=", true),
            ("metadata.name=x", true),
            ("metadata.name==x", true),
            ("metadata.name!=x", false),
            ("metadata.name=x,metadata.namespace=", true),
            ("metadata.name=x,metadata.namespace=y", false),
            ("metadata.namespace!=y", true),
            (r"type=a\,b\=c\\d", true),
            (r"type!=a\,b\=c\\d", false),
        ] {
            assert_eq!(parse(query).matches(lookup), expected, "{query}");
        }
    }

    #[test]
    fn exact_fields_are_found() {
        let selector = parse("metadata.namespace!=y,metadata.name=x,type=Opaque");
        assert_eq!((selector.exact_name(), selector.exact_namespace()), (Some("x"), None));
        assert_eq!(selector.to_string(), "metadata.name=x,metadata.namespace!=y,type=Opaque");
        let known = |field: &str| field.starts_with("metadata.");
        assert_eq!(selector.only(known).unwrap_err().to_string(), "field label not supported: type");
        assert!(parse("metadata.name=x").only(known).is_ok());
    }

    #[test]
    fn mistakes_are_told_in_kubernetes_words() {
        for (query, expected) in [
            ("a", "invalid selector: 'a'; can't understand 'a'"),
            ("a=b,c", "invalid selector: 'a=b,c'; can't understand 'c'"),
            (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
            (r"a=b\", r"invalid field selector: invalid escape sequence: \"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        ] {
            assert_eq!(FieldSelector::parse(query).unwrap_err().to_string(), expected, "{query}");
        }
    }

    proptest! {
        #[test]
        fn what_is_displayed_is_read_back(
            requirements in prop::collection::vec(("[a-z.]{1,8}", "[a,=\\\\!é]{0,6}", any::<bool>()), 0..5),
        ) {
            let selector = FieldSelector::of(
                requirements
                    .iter()
                    .map(|(field, value, equals)| FieldRequirement {
                        field: field.as_str().into(),
                        value: value.as_str().into(),
                        equals: *equals,
                    })
                    .collect(),
            );
            prop_assert_eq!(parse(&selector.to_string()), selector.clone());
            let holds = |field: &str| field.len().is_multiple_of(2).then_some("a");
            let naive = requirements.iter().all(|(f, v, equals)| (holds(f).unwrap_or("") == v) == *equals);
            prop_assert_eq!(selector.matches(holds), naive);
        }

        #[test]
        fn b1_never_panics_and_what_is_accepted_round_trips(query in "[ab,=!\\\\é.]{0,20}|.{0,40}") {
            if let Ok(selector) = FieldSelector::parse(&query) {
                prop_assert_eq!(parse(&selector.to_string()), selector);
            }
        }
    }
}
