//! Lists over members: what may be asked, and the answer `{items, count, page, pageSize, unanswered, stale}`.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use regex::{Regex, RegexBuilder};
use serde_json::json;

use super::gather::Gathered;
use super::reach::Scope;
use super::views::{GROUP, LDC, UNIT};
use crate::apiext::page::{Page, answer};
use crate::apiext::query::{From, ListQuery};
use crate::apiext::row::Row;
use crate::options::Limits;
use crate::problem::Problem;

/// Rows looked at on the way of a request; more are looked at on a thread that may be held up.
const FEW: usize = 5_000;
const MOST_NAMES: usize = 1_000;

/// Parameters of a query by name; one that is not known is refused, and so is one that stands twice.
pub(super) struct Parameters {
    taken: Vec<(String, String)>,
    /// What is left for the list itself.
    rest: String,
}

impl Parameters {
    /// Takes those of `own` (several times where `many` says so) and leaves the rest.
    pub(super) fn take(query: &str, own: &[&str], many: &[&str]) -> Result<Self, Problem> {
        let mut taken: Vec<(String, String)> = Vec::new();
        let mut rest = form_urlencoded::Serializer::new(String::new());
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            let several = many.contains(&&*key);
            if !several && !own.contains(&&*key) {
                rest.append_pair(&key, &value);
                continue;
            }
            if !several && taken.iter().any(|(known, _)| *known == key) {
                let why = format!("{key} stands twice in the query");
                return Err(Problem::bad_request(why).with("parameter", &*key));
            }
            taken.push((key.into_owned(), value.into_owned()));
        }
        Ok(Self { taken, rest: rest.finish() })
    }

    /// Those alone: anything else is refused.
    pub(super) fn only(query: &str, own: &[&str], many: &[&str]) -> Result<Self, Problem> {
        let parameters = Self::take(query, own, many)?;
        if let Some((key, _)) = form_urlencoded::parse(parameters.rest.as_bytes()).next() {
            let shown: String = key.chars().take(60).collect();
            let there = own.iter().chain(many).copied().collect::<Vec<_>>().join(", ");
            let why = format!("{shown} is not a parameter here; there are {there}");
            return Err(Problem::bad_request(why).with("parameter", shown));
        }
        Ok(parameters)
    }

    /// Of one that is there and not empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.taken
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// All of one that may stand several times.
    pub(super) fn all(&self, name: &str) -> Vec<String> {
        self.taken.iter().filter(|(key, _)| key == name).map(|(_, value)| value.clone()).collect()
    }

    /// What was left.
    pub(super) fn rest(&self) -> &str {
        &self.rest
    }

    pub(super) fn needed(&self, name: &str) -> Result<&str, Problem> {
        self.get(name)
            .ok_or_else(|| Problem::bad_request(format!("the parameter {name} is missing")).with("parameter", name))
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, Problem> {
        match self.get(name) {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(_) => Err(Problem::bad_request(format!("{name} is true or false")).with("parameter", name)),
        }
    }

    pub(super) fn number(&self, name: &str, most: u64) -> Result<Option<u64>, Problem> {
        let Some(text) = self.get(name) else { return Ok(None) };
        match text.parse::<u64>().ok().filter(|number| *number <= most) {
            Some(number) => Ok(Some(number)),
            None => {
                let why = format!("{name} must be a whole number up to {most}");
                Err(Problem::bad_request(why).with("parameter", name))
            }
        }
    }
}

/// What every list over members takes beside APIExt's parameters.
const OWN: [&str; 5] = ["cluster", "namespace", "group", "unit", "ldc"];

/// A list that was asked for.
pub(super) struct Listing {
    pub(super) scope: Scope,
    pub(super) namespace: Option<String>,
    pub(super) parts: Parts,
    pub(super) query: ListQuery,
}

impl Listing {
    /// `name` is that of the path: a member, or `all`.
    pub(super) fn parse(name: &str, query: &str, limits: &Limits) -> Result<Self, Problem> {
        let parameters = Parameters::take(query, &OWN, &[])?;
        Ok(Self {
            scope: scope(name, parameters.get("cluster"))?,
            namespace: parameters.get("namespace").map(str::to_owned),
            parts: Parts::exact(&parameters),
            query: ListQuery::parse(&parameters.rest, limits)?,
        })
    }

    /// Another order where none was asked for.
    pub(super) fn or_sorted(mut self, by: &str) -> Self {
        if self.query.sort.is_empty()
            && let Ok(sorted) = ListQuery::parse(&format!("sort={by}"), &Limits::default())
        {
            self.query.sort = sorted.sort;
        }
        self
    }

    /// The answer from what was gathered: all rows, or those found by a word, that the question selects.
    pub(super) async fn answer(self, gathered: Gathered, word: Option<String>) -> Result<Bytes, Problem> {
        let size = gathered.size(word.as_deref());
        let evaluate = move || {
            let rows = gathered.rows(word.as_deref()).filter(|row| self.parts.fit(row));
            let page = answer(rows, &self.query, &|path| gathered.number(path));
            body(&self.query, &page, &gathered)
        };
        if size <= FEW {
            return Ok(evaluate());
        }
        let worked = tokio::task::spawn_blocking(evaluate).await;
        worked.map_err(|_| Problem::new(500, "InternalError", "the list could not be worked out"))
    }
}

/// Which members a name and a list of names mean.
pub(super) fn scope(name: &str, names: Option<&str>) -> Result<Scope, Problem> {
    if name != "all" {
        return Ok(Scope::One(name.to_owned()));
    }
    let Some(names) = names else { return Ok(Scope::All) };
    let names: std::collections::BTreeSet<String> = names.split(',').map(|name| name.trim().to_owned()).collect();
    if names.len() > MOST_NAMES {
        let why = format!("cluster names more than {MOST_NAMES} clusters");
        return Err(Problem::bad_request(why).with("parameter", "cluster"));
    }
    Ok(Scope::Some(names))
}

/// Parts of an application: those of a group, a unit, an LDC.
#[derive(Clone, Default)]
pub(super) struct Parts(Vec<(&'static str, Wanted)>);

#[derive(Clone)]
enum Wanted {
    /// One of these.
    Words(Vec<String>),
    Pattern(Regex),
}

const LABELS: [(&str, &str); 3] = [("group", GROUP), ("unit", UNIT), ("ldc", LDC)];

impl Parts {
    /// Labels that are one of the words given, parted by commas.
    pub(super) fn exact(parameters: &Parameters) -> Self {
        let words = |text: &str| Wanted::Words(text.split(',').map(|word| word.trim().to_owned()).collect());
        Self(LABELS.into_iter().filter_map(|(name, label)| Some((label, words(parameters.get(name)?)))).collect())
    }

    /// Regular expressions, each for the whole of a value.
    pub(super) fn patterns(parameters: &Parameters) -> Result<Self, Problem> {
        let mut parts = Vec::new();
        for (name, label) in LABELS {
            let Some(text) = parameters.get(name) else { continue };
            let wrong = |_| {
                Problem::bad_request(format!("{name} is not a regular expression that can be used"))
                    .with("parameter", name)
            };
            // Linear in the text whatever the pattern, and bounded in size.
            let pattern = RegexBuilder::new(&format!("^(?:{text})$")).size_limit(1 << 18).build().map_err(wrong)?;
            parts.push((label, Wanted::Pattern(pattern)));
        }
        Ok(Self(parts))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn fit(&self, row: &Row) -> bool {
        self.0.is_empty() || self.fit_labels(|label| row.labels.get(label))
    }

    pub(super) fn fit_labels<'a>(&self, value: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|(label, wanted)| {
            let value = value(label).unwrap_or_default();
            match wanted {
                Wanted::Words(words) => words.iter().any(|word| word == value),
                Wanted::Pattern(pattern) => pattern.is_match(value),
            }
        })
    }

    /// Whether a name has a part that fits each of them: `web-blue-a` for the group `blue`. For what carries no labels.
    pub(super) fn fit_name(&self, name: &str) -> bool {
        self.0.iter().all(|(_, wanted)| {
            name.split('-').any(|part| match wanted {
                Wanted::Words(words) => words.iter().any(|word| word == part),
                Wanted::Pattern(pattern) => pattern.is_match(part),
            })
        })
    }
}

/// The one shape of a list.
fn body(query: &ListQuery, page: &Page, gathered: &Gathered) -> Bytes {
    let mut tail = json!({"count": page.count, "pageSize": query.page_size,
        "unanswered": gathered.unanswered_json(), "stale": gathered.stale_json()});
    if let From::Page(number) = query.from {
        tail["page"] = number.into();
    }
    if let Some(cursor) = &page.cursor {
        tail["cursor"] = cursor.as_str().into();
    }
    if let Some(counts) = &page.counts {
        tail["counts"] = counts.clone();
    }
    with_items(&page.items, &tail.to_string())
}

/// `items` before the other fields.
pub(super) fn with_items(items: &[Vec<u8>], tail: &str) -> Bytes {
    let size = items.iter().map(|item| item.len() + 1).sum::<usize>();
    let mut body = BytesMut::with_capacity(tail.len() + size + 16);
    body.put_slice(b"{\"items\":[");
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            body.put_u8(b',');
        }
        body.put_slice(item);
    }
    body.put_slice(b"],");
    body.put_slice(tail.trim_start_matches('{').as_bytes());
    body.freeze()
}

/// The whole of some rows as one JSON list.
pub(super) fn array<'a>(rows: impl Iterator<Item = &'a Arc<Row>>) -> String {
    let mut text = String::from("[");
    for (i, row) in rows.enumerate() {
        if i > 0 {
            text.push(',');
        }
        text.push_str(&String::from_utf8_lossy(&row.json()));
    }
    text.push(']');
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_scope_is_one_all_or_some() {
        // SYM-13
        assert_eq!(scope("m", Some("x")).unwrap(), Scope::One("m".into()));
        assert_eq!(scope("all", None).unwrap(), Scope::All);
        assert_eq!(scope("all", Some("a, b,a")).unwrap(), Scope::Some(["a".into(), "b".into()].into()));
    }

    #[test]
    fn parts_fit_labels_by_words_and_by_patterns() {
        // SYM-13
        let parameters = |query: &str| Parameters::only(query, &["group", "unit", "ldc"], &[]).unwrap();
        let labels = |label: &str| match label {
            GROUP => Some("blue"),
            LDC => Some("bj5"),
            _ => None,
        };
        for (query, fits) in [
            ("", true),
            ("group=blue", true),
            ("group=green,blue", true),
            ("group=blu", false),
            ("group=bl.e", false),
            ("group=blue&ldc=bj5", true),
            ("group=blue&unit=u1", false),
        ] {
            assert_eq!(Parts::exact(&parameters(query)).fit_labels(labels), fits, "{query}");
        }
        for (query, fits) in [
            ("group=bl.e", true),
            ("group=b|blue", true),
            ("group=blu", false),
            ("unit=.%2B", false),
            ("unit=.*", true),
        ] {
            assert_eq!(Parts::patterns(&parameters(query)).unwrap().fit_labels(labels), fits, "{query}");
        }
        assert!(Parts::patterns(&parameters("group=(")).is_err());
        assert!(Parts::patterns(&parameters("group=((((a{1000}){1000}){1000}))")).is_err(), "bounded");
        assert!(Parts::patterns(&parameters("group=gr.*")).unwrap().fit_name("web-gz01-green"));
        assert!(!Parts::patterns(&parameters("group=blue")).unwrap().fit_name("web-gz01-green"));
    }

    #[test]
    fn parameters_that_are_not_known_or_stand_twice_are_refused() {
        assert!(Parameters::only("pod=a&command=b&command=c", &["pod"], &["command"]).is_ok());
        for (query, parameter) in [("pod=a&pod=b", "pod"), ("x=1", "x")] {
            let problem = Parameters::only(query, &["pod"], &["command"]).err().unwrap();
            assert_eq!((problem.code, problem.details["parameter"].as_str()), (400, Some(parameter)));
        }
        let parameters = Parameters::only("tail=5&follow=maybe", &["tail", "follow"], &[]).unwrap();
        assert_eq!(parameters.number("tail", 10).unwrap(), Some(5));
        assert!(parameters.number("tail", 4).is_err() && parameters.flag("follow").is_err());
    }
}
