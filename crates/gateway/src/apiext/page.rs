//! Answers a list question from rows: select, order, cut out the page, count. Pure; one pass, and only the page is rendered.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::field::{Cell, FieldPath};
use super::query::{From, ListQuery, Position, Sort};
use super::row::Row;

/// Different values that are counted by; the others are left out of the counts.
const MOST_COUNTS: usize = 200;
/// Of a long text only the beginning is counted by.
const COUNTED_CHARACTERS: usize = 100;

/// Gives a column its number in the rows that keep cells, or none.
pub(crate) type Number<'a> = &'a dyn Fn(&FieldPath) -> Option<u32>;

pub(crate) struct Page {
    /// The rows of the page, each as JSON.
    pub(crate) items: Vec<Vec<u8>>,
    /// Rows that the question selects, on all pages.
    pub(crate) count: usize,
    /// How to go on; none on the last page.
    pub(crate) cursor: Option<String>,
    /// How many of the selected rows have which value, if that was asked for.
    pub(crate) counts: Option<Value>,
}

/// `rows` are in order of cluster, namespace and name, which decides between rows that are equal otherwise. They may come from
/// several sources, one after the other.
pub(crate) fn answer<'a>(rows: impl IntoIterator<Item = &'a Arc<Row>>, query: &ListQuery, number: Number<'_>) -> Page {
    let numbered = |path: &FieldPath| (number(path), path.clone());
    let selected = select(rows, query, &numbered);
    let count = selected.len();
    let counts = query.count_by.as_ref().map(|field| tally(&selected, &numbered(field)));
    let keys = Keys::new(&selected, query, &numbered);
    let mut order: Vec<u32> = (0..u32::try_from(count).unwrap_or(u32::MAX)).collect();
    if let From::After(position) = &query.from {
        order.retain(|at| keys.is_after(*at, selected[*at as usize], position));
    }
    let begin = match &query.from {
        From::Page(page) => page.saturating_sub(1).saturating_mul(query.page_size).min(order.len()),
        From::After(_) => 0,
    };
    let end = begin.saturating_add(query.page_size).min(order.len());
    let more = end < order.len() && query.page_size > 0;
    if !query.sort.is_empty() {
        order = keys.front(order, end);
    }
    let page = &order[begin..end];
    let cursor = page.last().filter(|_| more).map(|last| {
        let row = selected[*last as usize];
        query.cursor(&Position {
            keys: keys.of(*last).to_vec(),
            cluster: row.cluster.to_string(),
            namespace: row.namespace.to_string(),
            name: row.name.to_string(),
        })
    });
    Page { items: page.iter().map(|at| render(selected[*at as usize], &query.fields)).collect(), count, cursor, counts }
}

/// How many rows have which value at a path; one that has none counts nowhere.
fn tally(rows: &[&Arc<Row>], column: &(Option<u32>, FieldPath)) -> Value {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut cells = Vec::new();
    for row in rows {
        cells.clear();
        row.cells(std::slice::from_ref(column), &mut cells);
        let word = match cells.first() {
            Some(Cell::Text(text)) => text.chars().take(COUNTED_CHARACTERS).collect(),
            Some(Cell::Bool(value)) => value.to_string(),
            Some(Cell::Number(value)) => value.to_string(),
            _ => continue,
        };
        if counts.len() < MOST_COUNTS || counts.contains_key(&word) {
            *counts.entry(word).or_default() += 1;
        }
    }
    counts.into_iter().map(|(word, count)| (word, Value::from(count))).collect::<Map<_, _>>().into()
}

type Numbered<'a> = &'a dyn Fn(&FieldPath) -> (Option<u32>, FieldPath);

/// The rows that the question is about.
fn select<'a>(
    rows: impl IntoIterator<Item = &'a Arc<Row>>,
    query: &ListQuery,
    numbered: Numbered<'_>,
) -> Vec<&'a Arc<Row>> {
    let filters: Vec<(Vec<_>, _)> =
        query.filters.iter().map(|filter| (filter.columns().iter().map(numbered).collect(), filter)).collect();
    if filters.is_empty() && query.labels.is_empty() && query.search.is_none() {
        // Rows that are only counted need not be looked at.
        return rows.into_iter().collect();
    }
    let mut cells = Vec::new();
    let passes = |row: &&Arc<Row>| {
        query.labels.matches(&row.labels)
            && query.search.as_deref().is_none_or(|text| row.contains(text))
            && filters.iter().all(|(columns, filter)| {
                cells.clear();
                row.cells(columns, &mut cells);
                filter.matches(&cells)
            })
    };
    rows.into_iter().filter(passes).collect()
}

/// The sort keys of all selected rows, one row after the other.
struct Keys<'a> {
    sort: &'a [Sort],
    cells: Vec<Cell>,
}

impl<'a> Keys<'a> {
    fn new(selected: &[&Arc<Row>], query: &'a ListQuery, numbered: Numbered<'_>) -> Self {
        let columns: Vec<_> = query.sort.iter().map(|sort| numbered(&sort.field)).collect();
        let mut cells = Vec::with_capacity(selected.len() * columns.len());
        if !columns.is_empty() {
            selected.iter().for_each(|row| row.cells(&columns, &mut cells));
            cells.iter_mut().for_each(Cell::make_sort_key);
        }
        Self { sort: &query.sort, cells }
    }

    fn of(&self, at: u32) -> &[Cell] {
        let (at, width) = (at as usize, self.sort.len());
        &self.cells[at * width..(at + 1) * width]
    }

    fn order(&self, a: &[Cell], b: &[Cell]) -> Ordering {
        let keys = self.sort.iter().zip(a.iter().zip(b)).map(|(sort, (a, b))| a.compare(b, sort.descending));
        keys.fold(Ordering::Equal, Ordering::then)
    }

    /// Rows that are equal stay as they came: in order of cluster, namespace and name.
    fn compare(&self, a: u32, b: u32) -> Ordering {
        self.order(self.of(a), self.of(b)).then(a.cmp(&b))
    }

    /// The first `end` of these, in order. Most rows are compared once, with the last that still counts.
    fn front(&self, rows: Vec<u32>, end: usize) -> Vec<u32> {
        let mut front = Vec::with_capacity(rows.len().min(end * 2));
        let mut last = None;
        for at in rows {
            if last.is_some_and(|last| self.compare(at, last) == Ordering::Greater) {
                continue;
            }
            front.push(at);
            if front.len() >= (end * 2).max(1) {
                last = self.cut(&mut front, end);
            }
        }
        self.cut(&mut front, end);
        front.sort_unstable_by(|a, b| self.compare(*a, *b));
        front
    }

    /// Drops all but the first `end` and says which is the last of them.
    fn cut(&self, rows: &mut Vec<u32>, end: usize) -> Option<u32> {
        if (1..rows.len()).contains(&end) {
            rows.select_nth_unstable_by(end - 1, |a, b| self.compare(*a, *b));
        }
        rows.truncate(end);
        rows.get(end.checked_sub(1)?).copied()
    }

    fn is_after(&self, at: u32, row: &Row, position: &Position) -> bool {
        let place = (&*row.cluster, &*row.namespace, &*row.name).cmp(&(
            &*position.cluster,
            &*position.namespace,
            &*position.name,
        ));
        self.order(self.of(at), &position.keys).then(place) == Ordering::Greater
    }
}

pub(crate) fn render(row: &Row, fields: &[FieldPath]) -> Vec<u8> {
    if fields.is_empty() {
        return row.json().into_owned();
    }
    let whole = row.value();
    let mut shown = Map::new();
    for field in fields {
        field.project(&whole, &mut shown);
    }
    Value::Object(shown).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::catalog::Kind;
    use super::super::row::Show;
    use super::*;
    use crate::options::Limits;
    use proptest::prelude::*;
    use serde_json::json;

    fn rows(facts: &[(u8, Option<i32>, &str)]) -> Vec<Arc<Row>> {
        let kind = Kind::for_tests("demo.dev", "v1", "things", "Thing");
        let mut rows: Vec<Arc<Row>> = facts.iter().enumerate().map(|(i, (namespace, n, phase))| {
            let object = json!({"metadata": {"name": format!("t{i:03}"), "namespace": format!("ns{namespace}"), "labels": {"p": phase}},
                "spec": n.map_or(json!({}), |n| json!({"n": n})), "status": {"phase": phase}});
            Arc::new(Row::new(serde_json::from_value(object).unwrap(), &kind, Show::Public))
        }).collect();
        rows.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        rows
    }

    fn ask(rows: &[Arc<Row>], query: &str) -> Page {
        answer(rows, &ListQuery::parse(query, &Limits::default()).unwrap(), &|_| None)
    }

    fn names(page: &Page) -> Vec<String> {
        page.items
            .iter()
            .map(|item| serde_json::from_slice::<Value>(item).unwrap()["name"].as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn order_filter_search_and_count_work_together() {
        let rows = rows(&[(0, Some(5), "A"), (1, Some(3), "B"), (0, None, "A"), (1, Some(5), "A"), (0, Some(1), "C")]);
        assert_eq!(names(&ask(&rows, "")), ["t000", "t002", "t004", "t001", "t003"]);
        assert_eq!(names(&ask(&rows, "sort=spec.n")), ["t004", "t001", "t000", "t003", "t002"]);
        assert_eq!(names(&ask(&rows, "sort=-spec.n,-name")), ["t003", "t000", "t001", "t004", "t002"]);
        let page = ask(&rows, "filter=phase+eq+A&sort=name&pageSize=2&fields=name");
        assert_eq!((names(&page), page.count, page.cursor.is_some()), (vec!["t000".into(), "t002".into()], 3, true));
        assert_eq!(page.items[0], br#"{"name":"t000"}"#);
        assert_eq!(names(&ask(&rows, "labelSelector=p+in+(B,C)")), ["t004", "t001"]);
        assert_eq!(names(&ask(&rows, "q=NS1")), ["t001", "t003"]);
        let none = ask(&rows, "pageSize=0");
        assert_eq!((none.items.len(), none.count, none.cursor), (0, 5, None));
        assert!(ask(&rows, "page=99").items.is_empty());
    }

    #[test]
    fn rows_of_all_pages_are_counted_by_a_field() {
        // KC-10
        let rows = rows(&[(0, Some(5), "A"), (1, Some(3), "B"), (0, None, "A"), (1, Some(5), "A"), (0, Some(1), "C")]);
        let counts = |query: &str| ask(&rows, query).counts;
        assert_eq!(counts("pageSize=1&countBy=phase"), Some(json!({"A": 3, "B": 1, "C": 1})));
        assert_eq!(counts("pageSize=0&countBy=spec.n&filter=phase+eq+A"), Some(json!({"5": 2})));
        assert_eq!(counts("pageSize=0&countBy=spec.gone"), Some(json!({})));
        assert_eq!(counts(""), None);
        let many: Vec<(u8, Option<i32>, &str)> = (0..300).map(|n| (0, Some(n), "A")).collect();
        let page = ask(&super::tests::rows(&many), "pageSize=0&countBy=name");
        assert_eq!(page.counts.and_then(|counts| counts.as_object().map(Map::len)), Some(MOST_COUNTS));
    }

    /// `cargo test --release -p muster-gateway how_long -- --ignored --nocapture`
    #[test]
    #[ignore = "a measurement"]
    fn how_long_a_list_of_20_000_takes() {
        let kind = Kind::for_tests("", "v1", "pods", "Pod");
        let pod = |i: usize| {
            let env: Vec<Value> = (0..20)
                .map(|n| json!({"name": format!("VARIABLE_{n}"), "value": format!("value {n} of {i}")}))
                .collect();
            json!({"metadata": {"name": format!("pod-{:05}", i * 7919 % 20_000), "namespace": format!("ns{}", i % 40), "labels": {"app": format!("a{}", i % 100)}},
                "spec": {"nodeName": format!("node-{}", i % 300), "containers": [{"name": "c", "image": format!("registry/app{}:1", i % 50), "env": env}]},
                "status": {"phase": if i.is_multiple_of(9) { "Failed" } else { "Running" }, "startTime": format!("2026-01-01T00:{:02}:{:02}Z", i / 60 % 60, i % 60)}})
        };
        let mut rows: Vec<Arc<Row>> = (0..20_000)
            .map(|i| Arc::new(Row::new(serde_json::from_value(pod(i)).unwrap(), &kind, Show::Public)))
            .collect();
        rows.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        let bytes: usize = rows.iter().map(|row| row.bytes()).sum();
        eprintln!("20,000 rows in {} MiB", bytes >> 20);
        let columns = std::sync::Mutex::new(Vec::<FieldPath>::new());
        let number = |path: &FieldPath| {
            let mut columns = columns.lock().unwrap();
            let at = columns.iter().position(|known| known == path).unwrap_or_else(|| {
                columns.push(path.clone());
                columns.len() - 1
            });
            u32::try_from(at).ok()
        };
        for query in [
            "",
            "sort=-name",
            "filter=phase+eq+Failed&sort=-name",
            "sort=-status.startTime",
            "filter=spec.nodeName+eq+node-7",
            "q=pod-00",
            "filter=spec.containers.image+contains+app7&sort=spec.nodeName,-status.startTime",
        ] {
            let asked = ListQuery::parse(query, &Limits::default()).unwrap();
            let time = |_| {
                let start = std::time::Instant::now();
                answer(&rows, &asked, &number);
                start.elapsed()
            };
            let first = time(0);
            // The best of several: other programs run too.
            eprintln!("{first:?} first, then {:?}: {query:?}", (0..20).map(time).min().unwrap());
        }
    }

    proptest! {
        /// Under one snapshot, pages and cursors alike show every selected row exactly once and in the same order.
        #[test]
        fn paging_covers_every_row_exactly_once(
            facts in prop::collection::vec((0..3u8, prop::option::of(-2..3i32), prop::sample::select(vec!["A", "B"])), 0..40),
            size in 1..7usize,
            sort in prop::sample::select(vec!["", "&sort=spec.n", "&sort=-spec.n", "&sort=phase,-spec.n", "&sort=-namespace", "&sort=gone"]),
            filter in prop::sample::select(vec!["", "&filter=phase+eq+A", "&filter=spec.n+ge+0"]),
        ) {
            let rows = rows(&facts);
            let whole = ask(&rows, &format!("pageSize=1000{sort}{filter}"));
            let expected = names(&whole);
            let (mut by_page, mut by_cursor) = (Vec::new(), Vec::new());
            for page in 1..=expected.len() / size + 1 {
                by_page.extend(names(&ask(&rows, &format!("page={page}&pageSize={size}{sort}{filter}"))));
            }
            let mut cursor = String::new();
            loop {
                let page = ask(&rows, &format!("pageSize={size}{sort}{filter}{cursor}"));
                prop_assert_eq!(page.count, expected.len());
                by_cursor.extend(names(&page));
                match page.cursor {
                    Some(next) => cursor = format!("&cursor={next}"),
                    None => break,
                }
            }
            prop_assert_eq!(&by_page, &expected);
            prop_assert_eq!(&by_cursor, &expected);
        }

        /// Rows that neither change nor go are shown exactly once to who follows cursors, whatever else is deleted meanwhile.
        #[test]
        fn a_cursor_survives_the_deletion_of_rows(gone in prop::collection::vec(any::<bool>(), 30), size in 1..5usize) {
            let facts: Vec<_> = (0..30).map(|i| (0, Some(i % 4), "A")).collect();
            let all = rows(&facts);
            let kept: Vec<Arc<Row>> = all.iter().zip(&gone).filter(|(_, gone)| !**gone).map(|(row, _)| row.clone()).collect();
            let first = ask(&all, &format!("pageSize={size}&sort=-spec.n"));
            let mut seen = names(&first);
            let mut cursor = first.cursor;
            while let Some(next) = cursor {
                let page = ask(&kept, &format!("pageSize={size}&sort=-spec.n&cursor={next}"));
                seen.extend(names(&page));
                cursor = page.cursor;
            }
            for row in &kept {
                prop_assert_eq!(seen.iter().filter(|name| **name == *row.name).count(), 1);
            }
        }
    }
}
