//! What a list may be asked: paging, order, filter, search, projection. Typed here, so that nothing else reads the query string.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::field::{Cell, FieldPath};
use super::filter::Filter;
use super::labels::Selector;
use crate::options::Limits;
use crate::problem::Problem;

/// Each has at most 64 tests.
const MOST_FILTERS: usize = 4;
const MOST_SORTS: usize = 8;
const MOST_FIELDS: usize = 64;
const LONGEST_SEARCH: usize = 256;

/// The parameters of a list, for the parser and for the OpenAPI document: name, JSON type, what it does.
pub(crate) const PARAMETERS: &[(&str, &str, &str)] = &[
    ("page", "integer", "Which page, from 1. Not together with cursor."),
    ("pageSize", "integer", "Rows on a page; 0 gives the count alone."),
    (
        "cursor",
        "string",
        "The cursor of the page before: goes on exactly behind its last row, whatever changed meanwhile.",
    ),
    ("sort", "string", "Fields in order of weight, a minus for descending: -created,name. What is missing comes last."),
    (
        "filter",
        "string",
        "Which rows: phase eq Failed and spec.replicas gt 3. Operators eq, ne, lt, le, gt, ge, in, notin, contains, startswith, exists; and, or, not, parentheses. Several are joined by and.",
    ),
    ("labelSelector", "string", "Which rows, by labels, as in Kubernetes: app=web,tier in (a,b),!canary."),
    (
        "q",
        "string",
        "Rows whose name, namespace, labels, phase, display name or description contain this text, whatever its case.",
    ),
    (
        "fields",
        "string",
        "Only these fields of each row: name,spec.replicas. A Secret's data is shown only when named here.",
    ),
    ("countBy", "string", "Counts the rows of all pages by what stands in this field: counts in the answer."),
];

#[derive(Clone, Debug)]
pub(crate) struct ListQuery {
    pub(crate) from: From,
    pub(crate) page_size: usize,
    pub(crate) sort: Vec<Sort>,
    pub(crate) filters: Vec<Filter>,
    pub(crate) labels: Selector,
    pub(crate) label_text: String,
    pub(crate) search: Option<String>,
    pub(crate) fields: Vec<FieldPath>,
    /// Rows are counted by what stands here.
    pub(crate) count_by: Option<FieldPath>,
    /// Stands for everything but the place in the list: a cursor is of one question.
    question: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum From {
    /// From 1.
    Page(usize),
    After(Position),
}

/// Behind the row with these sort keys.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Position {
    pub(crate) keys: Vec<Cell>,
    /// The member; empty in the meta API.
    pub(crate) cluster: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sort {
    pub(crate) field: FieldPath,
    pub(crate) descending: bool,
}

impl ListQuery {
    pub(crate) fn parse(query: &str, limits: &Limits) -> Result<Self, Problem> {
        let mut list = ListQuery {
            from: From::Page(1),
            page_size: limits.page_size,
            sort: vec![],
            filters: vec![],
            labels: Selector::default(),
            label_text: String::new(),
            search: None,
            fields: vec![],
            count_by: None,
            question: String::new(),
        };
        let (mut page, mut cursor) = (None, None);
        let mut seen: Vec<String> = Vec::new();
        let mut asked = Vec::new();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            if key != "filter" && seen.iter().any(|known| *known == key) {
                return Err(wrong(&key, "stands twice in the query"));
            }
            seen.push(key.clone().into_owned());
            match key.as_ref() {
                "page" => page = Some(whole(&key, &value, 1, 1_000_000_000)?),
                "pageSize" => list.page_size = whole(&key, &value, 0, limits.max_page_size)?,
                "cursor" => cursor = Some(value.into_owned()),
                "sort" => list.sort = sorts(&value)?,
                "filter" => {
                    if list.filters.len() >= MOST_FILTERS {
                        return Err(wrong("filter", &format!("stands more than {MOST_FILTERS} times in the query")));
                    }
                    let filter =
                        Filter::parse(&value).map_err(|why| wrong("filter", &why.to_string()).with("at", why.at))?;
                    list.filters.push(filter);
                    asked.push(format!("f{value}"));
                }
                "labelSelector" => {
                    list.labels = Selector::parse(&value).map_err(|why| wrong("labelSelector", &why))?;
                    list.label_text = value.into_owned();
                }
                "q" => {
                    if value.len() > LONGEST_SEARCH {
                        return Err(wrong("q", &format!("has more than {LONGEST_SEARCH} bytes")));
                    }
                    list.search = Some(value.trim().to_lowercase()).filter(|text| !text.is_empty());
                }
                "fields" => list.fields = paths("fields", &value, MOST_FIELDS)?,
                "countBy" => list.count_by = paths("countBy", &value, 1)?.pop(),
                _ => {
                    let known: Vec<&str> = PARAMETERS.iter().map(|(name, ..)| *name).collect();
                    return Err(wrong(&key, &format!("is not a parameter of a list; there are {}", known.join(", "))));
                }
            }
        }
        asked.push(format!("s{:?}", list.sort));
        asked.push(format!("l{}q{:?}", list.label_text, list.search));
        list.question = BASE64_URL_SAFE_NO_PAD.encode(&digest(&SHA256, asked.join("\n").as_bytes()).as_ref()[..9]);
        list.from = match (page, cursor) {
            (Some(_), Some(_)) => {
                return Err(wrong("cursor", "and page exclude each other: a cursor already says where to go on"));
            }
            (page, None) => From::Page(page.unwrap_or(1)),
            (None, Some(cursor)) => From::After(list.position(&cursor)?),
        };
        Ok(list)
    }

    /// The cursor that goes on behind this row.
    pub(crate) fn cursor(&self, position: &Position) -> String {
        let keys: Vec<Value> = position.keys.iter().map(Cell::to_json).collect();
        let content = json!([self.question, keys, position.namespace, position.name, position.cluster]);
        BASE64_URL_SAFE_NO_PAD.encode(content.to_string())
    }

    fn position(&self, cursor: &str) -> Result<Position, Problem> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(cursor).unwrap_or_default();
        let content: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let (Some(question), Some(keys), Some(namespace), Some(name)) =
            (content[0].as_str(), content[1].as_array(), content[2].as_str(), content[3].as_str())
        else {
            return Err(wrong(
                "cursor",
                "is not one that this server gave: take it from the answer as it is, or start without it",
            ));
        };
        if question != self.question || keys.len() != self.sort.len() {
            return Err(wrong(
                "cursor",
                "belongs to another question: keep sort, filter, labelSelector and q as they were, or start without it",
            ));
        }
        let keys = keys.iter().map(Cell::from_json).collect();
        let cluster = content[4].as_str().unwrap_or_default().to_owned();
        Ok(Position { keys, cluster, namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// Whether the answer shows private parts, which asks for more rights.
    pub(crate) fn names(&self, private: &[&str]) -> bool {
        self.fields
            .iter()
            .chain(&self.count_by)
            .any(|field| field.segments().first().is_some_and(|first| private.contains(&first.as_str())))
    }
}

fn sorts(value: &str) -> Result<Vec<Sort>, Problem> {
    let mut sorts = Vec::new();
    for part in split(value) {
        let (text, descending) = match part.strip_prefix('-') {
            Some(text) => (text, true),
            None => (part, false),
        };
        sorts.push(Sort { field: FieldPath::parse(text).map_err(|why| wrong("sort", &why))?, descending });
    }
    if sorts.len() > MOST_SORTS {
        return Err(wrong("sort", &format!("names more than {MOST_SORTS} fields")));
    }
    Ok(sorts)
}

fn paths(parameter: &str, value: &str, most: usize) -> Result<Vec<FieldPath>, Problem> {
    let paths: Vec<FieldPath> = split(value)
        .into_iter()
        .map(FieldPath::parse)
        .collect::<Result<_, _>>()
        .map_err(|why| wrong(parameter, &why))?;
    if paths.len() > most { Err(wrong(parameter, &format!("names more than {most} fields"))) } else { Ok(paths) }
}

/// At commas outside quotes.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '"' => inside = !inside,
            ',' if !inside => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

fn whole(key: &str, value: &str, least: usize, most: usize) -> Result<usize, Problem> {
    let number = value.parse::<usize>().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| wrong(key, &format!("must be a whole number from {least} to {most}")))
}

fn wrong(parameter: &str, why: &str) -> Problem {
    let shown: String = parameter.chars().take(60).collect();
    Problem::bad_request(format!("{shown} {why}")).with("parameter", shown)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn parse(query: &str) -> Result<ListQuery, Problem> {
        ListQuery::parse(query, &Limits::default())
    }

    #[test]
    fn every_parameter_of_the_table_is_understood() {
        let values = ["2", "10", "", "-created,name", "phase%20eq%20x", "a=b", "x", "name,spec.a"];
        for ((name, ..), value) in PARAMETERS.iter().zip(values).filter(|((name, ..), _)| *name != "cursor") {
            assert!(parse(&format!("{name}={value}")).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_wrong_parameter_is_named() {
        let cases = [
            ("page=0", "page"),
            ("page=x", "page"),
            ("pageSize=1001", "pageSize"),
            ("pageSize=-1", "pageSize"),
            ("sort=", "sort"),
            ("sort=a b", "sort"),
            ("filter=phase", "filter"),
            ("labelSelector=%3Dx", "labelSelector"),
            ("fields=a,,b", "fields"),
            ("cursor=abc", "cursor"),
            ("cursor=", "cursor"),
            ("limit=5", "limit"),
            ("page=1&page=2", "page"),
            ("q=", ""),
            ("page=2&cursor=x", "cursor"),
        ];
        for (query, parameter) in cases {
            match parse(query) {
                Ok(_) => assert!(parameter.is_empty(), "{query}"),
                Err(problem) => {
                    assert!(problem.code == 400 && problem.details["parameter"] == parameter, "{query}: {problem:?}")
                }
            }
        }
    }

    #[test]
    fn a_cursor_belongs_to_its_question() {
        let position =
            Position { keys: vec![Cell::Number(5.0)], cluster: "m".into(), namespace: "a".into(), name: "b".into() };
        let cursor = parse("sort=spec.n&q=x").unwrap().cursor(&position);
        assert_eq!(parse(&format!("sort=spec.n&q=x&pageSize=3&cursor={cursor}")).unwrap().from, From::After(position));
        for other in ["sort=spec.n", "sort=-spec.n&q=x", "sort=spec.m&q=x", "sort=spec.n&q=x&filter=a%20exists"] {
            assert!(
                parse(&format!("{other}&cursor={cursor}"))
                    .is_err_and(|problem| problem.message.contains("another question")),
                "{other}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_query_string_makes_the_parser_panic(query in "[a-zA-Z=&%0-9+,.\"'()é-]{0,120}") {
            let _ = parse(&query);
        }
    }
}
