//! Sequences of requests as data, sent to both peers and compared step by step.
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine;
use serde::Deserialize;
use serde_json::Value;

use crate::normal::{Difference, Saved, differences, normal};
use crate::{Answer, Call, PATIENCE, Peer};

/// Requests that belong together. `each` repeats the sequence with other words for the `{words}` in it.
#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct Sequence {
    pub sequence: String,
    #[serde(default)]
    pub each: Vec<BTreeMap<String, Value>>,
    pub steps: Vec<Step>,
}

#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Method and path: `GET /api/v1/namespaces`. `{ns}` is the sequence's namespace.
    #[serde(rename = "do")]
    pub call: String,
    /// A body given as data (sent as JSON).
    #[serde(default)]
    pub body: Option<Value>,
    /// A body given as text, sent as it stands.
    #[serde(default)]
    pub raw: Option<String>,
    /// A body given as base64.
    #[serde(default)]
    pub base64: Option<String>,
    #[serde(default)]
    pub media: Option<String>,
    #[serde(default)]
    pub accept: Option<String>,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Values to keep for later steps: name to JSON pointer into the answer.
    #[serde(default)]
    pub save: BTreeMap<String, String>,
    /// Asked again until the answer has this (JSON pointers into its normal form): Kubernetes decides some things by what its
    /// informers have told it so far, and both end definitions in their own time.
    #[serde(default)]
    pub until: BTreeMap<String, Value>,
    /// Send no token.
    #[serde(default)]
    pub anonymous: bool,
    /// Only this part of the body is compared (JSON pointer), for documents that list what we do not have.
    #[serde(default)]
    pub only: Option<String>,
    /// Of the list at this pointer only the items are compared whose field has one of the values.
    #[serde(default)]
    pub keep: Option<Keep>,
}

#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct Keep {
    pub list: String,
    pub field: String,
    pub values: Vec<String>,
}

impl Keep {
    fn apply(&self, body: &mut Value) {
        if let Some(list) = body.pointer_mut(&self.list).and_then(Value::as_array_mut) {
            let wanted = |item: &Value| item.pointer(&self.field).and_then(Value::as_str).map(str::to_owned);
            list.retain(|item| wanted(item).is_some_and(|value| self.values.contains(&value)));
        }
    }
}

/// A difference that is allowed, with its reason.
#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct Allowed {
    /// Sequence and step as the report names them, `*` for any text.
    pub at: String,
    /// Pointer to the difference, `*` for any text.
    pub path: String,
    pub reason: String,
    /// Kubernetes itself is not always the same here: not seeing the difference is fine.
    #[serde(default)]
    pub sometimes: bool,
}

#[derive(Debug)]
pub struct Finding {
    /// `file/sequence#step METHOD path`.
    pub at: String,
    pub difference: Difference,
}

pub fn load<T: for<'de> Deserialize<'de>>(path: &Path) -> Vec<T> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    if text.lines().all(|line| line.trim().is_empty() || line.starts_with('#')) {
        return vec![];
    }
    // Only true and false are booleans: a node may be called n.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(&text, options).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

impl Sequence {
    /// One sequence per entry of `each`, its words filled in.
    pub fn expand(&self) -> Vec<Sequence> {
        if self.each.is_empty() {
            return vec![self.clone()];
        }
        let expanded = self.each.iter().map(|words| {
            let label = words.get("r").and_then(Value::as_str).unwrap_or("");
            let fill = |text: &str| words.iter().fold(text.to_owned(), |text, (k, v)| fill_word(&text, k, v));
            let steps = self.steps.iter().map(|step| {
                let mut step = step.clone();
                step.call = fill(&step.call);
                step.body = step.body.map(|body| fill_value(&body, words));
                step.raw = step.raw.map(|raw| fill(&raw));
                step
            });
            Sequence { sequence: format!("{} ({label})", self.sequence), each: vec![], steps: steps.collect() }
        });
        expanded.collect()
    }

    /// Runs the sequence on one peer; the normal form of each answer.
    pub async fn run(&self, peer: &Peer, namespace: &str) -> Vec<Value> {
        let mut saved = Saved::new();
        saved.insert("ns".to_owned(), namespace.to_owned());
        let mut answers = Vec::new();
        for step in &self.steps {
            let mut answer = step.send(peer, &saved).await;
            let begun = Instant::now();
            while !step.is_known(&step.form(&answer, &saved)) && begun.elapsed() < PATIENCE {
                tokio::time::sleep(Duration::from_millis(30)).await;
                answer = step.send(peer, &saved).await;
            }
            for (name, pointer) in &step.save {
                let value = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
                let value = match value.pointer(pointer) {
                    Some(Value::String(text)) => text.clone(),
                    Some(other) => other.to_string(),
                    None => String::new(),
                };
                saved.insert(name.clone(), value);
            }
            let mut form = step.form(&answer, &saved);
            if let Some(only) = &step.only {
                form["body"] = form["body"].pointer(only).cloned().unwrap_or(Value::Null);
            }
            answers.push(form);
        }
        answers
    }
}

impl Step {
    fn form(&self, answer: &Answer, saved: &Saved) -> Value {
        let mut form = normal(answer, saved);
        if let Some(keep) = &self.keep {
            keep.apply(&mut form["body"]);
        }
        form
    }

    fn is_known(&self, form: &Value) -> bool {
        self.until.iter().all(|(pointer, value)| form.pointer(pointer) == Some(value))
    }

    async fn send(&self, peer: &Peer, saved: &Saved) -> Answer {
        let fill = |text: &str| saved.iter().fold(text.to_owned(), |t, (k, v)| t.replace(&format!("{{{k}}}"), v));
        let call = fill(&self.call);
        let (method, path) = call.split_once(' ').unwrap_or(("GET", &call));
        let mut request = Call::new(peer, method, path).limit(PATIENCE);
        if let Some(body) = &self.body {
            request = request.body(fill(&body.to_string()));
        } else if let Some(raw) = &self.raw {
            request = request.body(fill(raw));
        } else if let Some(bytes) = &self.base64 {
            request = request.body(base64::prelude::BASE64_STANDARD.decode(bytes).expect("base64"));
        }
        if let Some(media) = &self.media {
            request = request.media(media);
        }
        if let Some(accept) = &self.accept {
            request = request.accept(accept);
        }
        for (name, value) in &self.headers {
            request = request.header(name, &fill(value));
        }
        if self.anonymous {
            request = request.token(None).fresh();
        }
        request.send().await
    }
}

fn fill_word(text: &str, word: &str, value: &Value) -> String {
    let plain = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.replace(&format!("{{{word}}}"), &plain)
}

/// A string that is exactly one `{word}` becomes the word's value, whatever its type.
fn fill_value(value: &Value, words: &BTreeMap<String, Value>) -> Value {
    match value {
        Value::String(text) => {
            let whole = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).and_then(|word| words.get(word));
            whole
                .cloned()
                .unwrap_or_else(|| Value::String(words.iter().fold(text.clone(), |t, (k, v)| fill_word(&t, k, v))))
        }
        Value::Array(list) => list.iter().map(|item| fill_value(item, words)).collect(),
        Value::Object(map) => map.iter().map(|(key, item)| (key.clone(), fill_value(item, words))).collect(),
        other => other.clone(),
    }
}

/// Runs a sequence on both peers and says where they differ.
pub async fn compare(file: &str, sequence: &Sequence, left: &Peer, right: &Peer, namespace: &str) -> Vec<Finding> {
    let (a, b) = tokio::join!(sequence.run(left, namespace), sequence.run(right, namespace));
    let mut findings = Vec::new();
    for (i, (a, b)) in a.iter().zip(&b).enumerate() {
        if std::env::var_os("MUSTER_TEST_SHOW").is_some() {
            println!("{} {file}/{}#{} {}", a["code"], sequence.sequence, i + 1, sequence.steps[i].call);
        }
        let at = format!("{file}/{}#{} {}", sequence.sequence, i + 1, sequence.steps[i].call);
        findings.extend(differences(a, b).into_iter().map(|difference| Finding { at: at.clone(), difference }));
    }
    findings
}

impl Allowed {
    pub fn covers(&self, finding: &Finding) -> bool {
        glob(&self.at, &finding.at) && glob(&self.path, &finding.difference.path)
    }
}

/// `*` stands for any text.
pub fn glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => {
            let Some(tail) = text.strip_prefix(head) else { return false };
            (0..=tail.len()).filter(|i| tail.is_char_boundary(*i)).any(|i| glob(rest, &tail[i..]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        assert!(glob("a*c", "abc") && glob("*", "") && glob("a", "a") && glob("*b*", "abc"));
        assert!(!glob("a*d", "abc") && !glob("a", "ab"));
    }
}
