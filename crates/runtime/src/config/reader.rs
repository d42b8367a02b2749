//! Reads sections key by key: from a flag, else the environment, else the file. Remembers every problem and every key that exists.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
};

use super::{
    nearest::nearest,
    yaml::{Entry, Node, Value},
};

/// What stands above the file.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// The environment's variables.
    pub environment: BTreeMap<String, String>,
    /// `path.to.key` and value, as flags gave them; `*` stands for any one part of a path.
    pub flags: Vec<(String, String)>,
}

/// Variables that begin so are meant for the configuration.
const PREFIXES: [&str; 5] =
    ["MUSTER_LOGGING_", "MUSTER_TRACING_", "MUSTER_MANAGERS_", "MUSTER_FLEET_", "MUSTER_APIEXT_"];

pub struct Reader {
    file: String,
    overrides: Overrides,
    problems: Vec<String>,
    /// Keys and variables that exist, asked for or not.
    paths: BTreeSet<String>,
    variables: BTreeSet<String>,
    /// Sections that somebody else reads: whatever is below them is known.
    free: Vec<String>,
}

/// Where a value came from, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Flag,
    Environment(String),
    File(u64),
}

/// A value as text, not yet understood.
#[derive(Debug, Clone)]
pub struct Found {
    pub text: String,
    pub origin: Origin,
}

/// One level of the file.
pub struct Section {
    path: String,
    entries: Vec<Entry>,
    known: Vec<String>,
}

impl Reader {
    pub fn new(file: &str, overrides: Overrides) -> Reader {
        Reader {
            file: file.to_owned(),
            overrides,
            problems: Vec::new(),
            paths: BTreeSet::new(),
            variables: BTreeSet::new(),
            free: Vec::new(),
        }
    }

    /// The file as a section.
    pub fn root(&mut self, node: Node) -> Section {
        self.open("", Some(node))
    }

    /// Every problem, or none.
    pub fn finish(mut self) -> Vec<String> {
        for (path, _) in std::mem::take(&mut self.overrides.flags) {
            let is_free = self.free.iter().any(|section| below(&path, section).is_some());
            if !is_free && !self.paths.iter().any(|known| is_meant(&path, known)) {
                let meant = nearest(&path, self.paths.iter().map(String::as_str));
                self.problems.push(format!("flag --set {path}: unknown key{}", did_you_mean(meant)));
            }
        }
        for name in std::mem::take(&mut self.overrides.environment).into_keys() {
            if PREFIXES.iter().any(|prefix| name.starts_with(prefix)) && !self.variables.contains(&name) {
                let meant = nearest(&name, self.variables.iter().map(String::as_str));
                self.problems.push(format!("environment variable {name}: unknown key{}", did_you_mean(meant)));
            }
        }
        self.problems
    }

    /// A problem with a value.
    pub fn wrong(&mut self, path: &str, origin: &Origin, why: impl Display) {
        let place = match origin {
            Origin::Flag => format!("flag for {path}"),
            Origin::Environment(name) => format!("environment variable {name}"),
            Origin::File(line) => format!("{}:{line}: {path}", self.file),
        };
        self.problems.push(format!("{place}: {why}"));
    }

    /// A problem with several values together.
    pub fn wrong_together(&mut self, why: impl Display) {
        self.problems.push(format!("{}: {why}", self.file));
    }

    fn open(&mut self, path: &str, node: Option<Node>) -> Section {
        let entries = match node {
            None => Vec::new(),
            Some(Node { value: Value::Map(entries), .. }) => entries,
            Some(Node { value: Value::Null, .. }) => Vec::new(),
            Some(node) => {
                let shown = if path.is_empty() { "the file" } else { path };
                self.wrong(
                    shown,
                    &Origin::File(node.line),
                    format!("it must be a section with keys, not {}", node.kind()),
                );
                Vec::new()
            }
        };
        Section { path: path.to_owned(), entries, known: Vec::new() }
    }
}

impl Section {
    /// The path of one of its keys.
    pub fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn take(&mut self, key: &str) -> Option<Entry> {
        self.known.push(key.to_owned());
        let at = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.remove(at))
    }

    /// A section below this one, empty when the file has none.
    pub fn section(&mut self, reader: &mut Reader, key: &str) -> Section {
        let node = self.take(key).map(|entry| entry.node);
        reader.open(&self.path_of(key), node)
    }

    /// Whether the file has this key.
    pub fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key && !matches!(entry.node.value, Value::Null))
    }

    /// The names of the sections below this one, where the user chooses them.
    pub fn names(&self) -> Vec<String> {
        self.entries.iter().map(|entry| entry.key.clone()).collect()
    }

    /// The names of sections below this one that flags speak of.
    pub fn names_in_flags(&self, reader: &Reader) -> Vec<String> {
        let flags = reader.overrides.flags.iter();
        let names = flags.filter_map(|(path, _)| below(path, &self.path)?.first().map(|name| (*name).to_owned()));
        names.filter(|name| name != "*").collect()
    }

    /// What a reconciler reads by itself.
    pub fn free(&mut self, reader: &mut Reader, key: &str) -> serde_json::Value {
        let path = self.path_of(key);
        let mut value = self.take(key).map_or(serde_json::Value::Null, |entry| entry.node.to_json());
        for (flag, text) in &reader.overrides.flags {
            if let Some(keys) = below(flag, &path) {
                set(&mut value, &keys, text);
            }
        }
        reader.free.push(path);
        value
    }

    /// A single value.
    pub fn value<T, E: Display>(
        &mut self,
        reader: &mut Reader,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let found = self.found(reader, key)?;
        match parse(&found.text) {
            Ok(value) => Some(value),
            Err(why) => {
                reader.wrong(&self.path_of(key), &found.origin, why);
                None
            }
        }
    }

    /// The text of a single value, and where it came from.
    pub fn found(&mut self, reader: &mut Reader, key: &str) -> Option<Found> {
        let path = self.path_of(key);
        let entry = self.take(key);
        if let Some(above) = above(reader, &path) {
            return Some(above);
        }
        let entry = entry?;
        let origin = Origin::File(entry.node.line.max(entry.line));
        match entry.node.value {
            Value::Scalar(text, _) => Some(Found { text, origin }),
            Value::Null => None,
            _ => {
                reader.wrong(&path, &origin, format!("it must be a single value, not {}", entry.node.kind()));
                None
            }
        }
    }

    /// Several values: a list in the file; elsewhere, or in one line, separated by commas.
    pub fn list(&mut self, reader: &mut Reader, key: &str) -> Option<Vec<Found>> {
        let path = self.path_of(key);
        let entry = self.take(key);
        let split = |found: Found| {
            let words = found.text.split(',').map(str::trim).filter(|word| !word.is_empty());
            words.map(|word| Found { text: word.to_owned(), origin: found.origin.clone() }).collect()
        };
        if let Some(above) = above(reader, &path) {
            return Some(split(above));
        }
        let entry = entry?;
        let origin = Origin::File(entry.line);
        match entry.node.value {
            Value::Null => None,
            Value::Scalar(text, _) => Some(split(Found { text, origin })),
            Value::Map(_) => {
                reader.wrong(&path, &origin, "it must be a list, not a section");
                None
            }
            Value::List(items) => {
                let mut list = Vec::new();
                for item in items {
                    let origin = Origin::File(item.line);
                    match item.value {
                        Value::Scalar(text, _) => list.push(Found { text, origin }),
                        _ => reader.wrong(
                            &path,
                            &origin,
                            format!("its parts must be single values, not {}", item.kind()),
                        ),
                    }
                }
                Some(list)
            }
        }
    }

    /// What is left is unknown.
    pub fn finish(self, reader: &mut Reader) {
        for entry in &self.entries {
            let meant = nearest(&entry.key, self.known.iter().map(String::as_str));
            let known = match meant {
                Some(_) => did_you_mean(meant),
                None => format!("; there are {}", self.known.join(", ")),
            };
            reader.wrong(&self.path_of(&entry.key), &Origin::File(entry.line), format!("unknown key{known}"));
        }
    }
}

/// What a flag says of this path, else the environment.
fn above(reader: &mut Reader, path: &str) -> Option<Found> {
    let variable = variable(path);
    reader.paths.insert(path.to_owned());
    reader.variables.insert(variable.clone());
    // The last flag wins, as on every command line.
    if let Some((_, text)) = reader.overrides.flags.iter().rev().find(|(pattern, _)| is_meant(pattern, path)) {
        return Some(Found { text: text.clone(), origin: Origin::Flag });
    }
    let text = reader.overrides.environment.get(&variable)?.clone();
    Some(Found { text, origin: Origin::Environment(variable) })
}

fn is_meant(pattern: &str, path: &str) -> bool {
    let (mut pattern, mut path) = (pattern.split('.'), path.split('.'));
    loop {
        match (pattern.next(), path.next()) {
            (None, None) => return true,
            (Some("*"), Some(_)) => (),
            (Some(a), Some(b)) if a == b => (),
            _ => return false,
        }
    }
}

/// The keys of a path below a section; `None` when it is not below it.
fn below<'a>(path: &'a str, section: &str) -> Option<Vec<&'a str>> {
    let (path, depth) = (path.split('.').collect::<Vec<_>>(), section.split('.').count());
    let (above, keys) = path.split_at_checked(depth)?;
    (!keys.is_empty() && is_meant(&above.join("."), section)).then(|| keys.to_vec())
}

/// Sets a value of which only its reader knows what it should be: what reads as a number or a truth value is one.
fn set(value: &mut serde_json::Value, keys: &[&str], text: &str) {
    let Some((key, rest)) = keys.split_first() else {
        *value = match serde_json::from_str(text) {
            Ok(json @ (serde_json::Value::Bool(_) | serde_json::Value::Number(_))) => json,
            _ => text.into(),
        };
        return;
    };
    if !value.is_object() {
        *value = serde_json::Map::new().into();
    }
    if let Some(map) = value.as_object_mut() {
        set(map.entry(*key).or_insert(serde_json::Value::Null), rest, text);
    }
}

/// `managers.default.metricsBindAddress` is `MUSTER_MANAGERS_DEFAULT_METRICS_BIND_ADDRESS`.
fn variable(path: &str) -> String {
    let mut name = "MUSTER_".to_owned();
    let mut after_lower = false;
    for c in path.chars() {
        if c.is_ascii_uppercase() && after_lower {
            name.push('_');
        }
        after_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
        name.push(if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
    }
    name
}

fn did_you_mean(meant: Option<&str>) -> String {
    meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_variables_and_patterns() {
        assert_eq!(variable("managers.default.metricsBindAddress"), "MUSTER_MANAGERS_DEFAULT_METRICS_BIND_ADDRESS");
        assert_eq!(variable("managers.my-team.api.caFile"), "MUSTER_MANAGERS_MY_TEAM_API_CA_FILE");
        assert!(is_meant("managers.*.concurrency", "managers.a.concurrency") && is_meant("a.b", "a.b"));
        assert!(!is_meant("managers.*", "managers.a.concurrency") && !is_meant("a.*.c", "a.c"));
    }
}
