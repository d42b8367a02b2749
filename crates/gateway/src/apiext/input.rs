//! Typed input: what a handler takes from query and body. Each type says what it reads, so the OpenAPI document cannot disagree.

use bytes::Bytes;
use serde_json::{Value, json};

use super::field::FieldPath;
use super::query::{ListQuery, PARAMETERS};
use crate::options::Limits;
use crate::problem::Problem;

/// The parts of a request that a handler may read.
pub(crate) struct Asked {
    pub(crate) query: String,
    pub(crate) media: Option<String>,
    pub(crate) if_match: Option<String>,
    pub(crate) body: Bytes,
    pub(crate) action: Option<String>,
}

pub(crate) trait Input: Sized + Send + 'static {
    const PARAMETERS: &'static [(&'static str, &'static str, &'static str)] = &[];
    const MEDIA: &'static [&'static str] = &[];
    fn read(asked: Asked, limits: &Limits) -> Result<Self, Problem>;
}

/// Parameters of the query that are known, each at most once.
fn parameters(query: &str, known: &[(&str, &str, &str)]) -> Result<Vec<(String, String)>, Problem> {
    let mut found: Vec<(String, String)> = Vec::new();
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        let shown: String = key.chars().take(60).collect();
        if !known.iter().any(|(name, ..)| *name == key) {
            let names: Vec<&str> = known.iter().map(|(name, ..)| *name).collect();
            let there =
                if names.is_empty() { "there are none".to_owned() } else { format!("there are {}", names.join(", ")) };
            return Err(
                Problem::bad_request(format!("{shown} is not a parameter here; {there}")).with("parameter", shown)
            );
        }
        if found.iter().any(|(name, _)| *name == key) {
            return Err(Problem::bad_request(format!("{shown} stands twice in the query")).with("parameter", shown));
        }
        found.push((key.into_owned(), value.into_owned()));
    }
    Ok(found)
}

impl Asked {
    fn no_body(&self) -> Result<(), Problem> {
        if self.body.is_empty() { Ok(()) } else { Err(Problem::bad_request("this request takes no body")) }
    }

    /// The body as JSON of one of these media types.
    fn json(&self, media: &[&str]) -> Result<Value, Problem> {
        let said = self.media.as_deref().unwrap_or("").split(';').next().unwrap_or("").trim().to_ascii_lowercase();
        if !media.contains(&said.as_str()) {
            let why = format!("send the body as Content-Type: {}", media.join(" or "));
            return Err(Problem::new(415, "UnsupportedMediaType", why));
        }
        // serde_json bounds the depth.
        serde_json::from_slice(&self.body).map_err(|why| {
            Problem::bad_request(format!(
                "the body is not JSON that can be read: line {}, column {}",
                why.line(),
                why.column()
            ))
        })
    }
}

pub(crate) struct Nothing;

impl Input for Nothing {
    fn read(asked: Asked, _: &Limits) -> Result<Self, Problem> {
        asked.no_body()?;
        parameters(&asked.query, Self::PARAMETERS).map(|_| Nothing)
    }
}

impl Input for ListQuery {
    const PARAMETERS: &'static [(&'static str, &'static str, &'static str)] = PARAMETERS;
    fn read(asked: Asked, limits: &Limits) -> Result<Self, Problem> {
        asked.no_body()?;
        ListQuery::parse(&asked.query, limits)
    }
}

/// Which fields of one object to show; all when empty.
pub(crate) struct Fields(pub(crate) Vec<FieldPath>);

impl Input for Fields {
    const PARAMETERS: &'static [(&'static str, &'static str, &'static str)] =
        &[("fields", "string", "Only these fields: name,spec.replicas.")];
    fn read(asked: Asked, limits: &Limits) -> Result<Self, Problem> {
        asked.no_body()?;
        parameters(&asked.query, Self::PARAMETERS)?;
        Ok(Fields(ListQuery::parse(&asked.query, limits)?.fields))
    }
}

/// The group and version to narrow the OpenAPI document to.
pub(crate) struct Narrow(pub(crate) Option<String>);

impl Input for Narrow {
    const PARAMETERS: &'static [(&'static str, &'static str, &'static str)] =
        &[("group", "string", "Only kinds of this group (core for the core group).")];
    fn read(asked: Asked, _: &Limits) -> Result<Self, Problem> {
        asked.no_body()?;
        Ok(Narrow(parameters(&asked.query, Self::PARAMETERS)?.pop().map(|(_, value)| value)))
    }
}

/// An object, flat or as Kubernetes has it.
pub(crate) struct Whole {
    pub(crate) body: Value,
    pub(crate) if_match: Option<String>,
}

impl Input for Whole {
    const MEDIA: &'static [&'static str] = &["application/json"];
    fn read(asked: Asked, _: &Limits) -> Result<Self, Problem> {
        parameters(&asked.query, Self::PARAMETERS)?;
        let if_match =
            asked.if_match.as_deref().map(|tag| tag.trim().trim_start_matches("W/").trim_matches('"').to_owned());
        Ok(Whole { body: asked.json(Self::MEDIA)?, if_match })
    }
}

/// A merge patch.
pub(crate) struct Change(pub(crate) Value);

impl Input for Change {
    const MEDIA: &'static [&'static str] = &["application/merge-patch+json", "application/json"];
    fn read(asked: Asked, _: &Limits) -> Result<Self, Problem> {
        parameters(&asked.query, Self::PARAMETERS)?;
        Ok(Change(asked.json(Self::MEDIA)?))
    }
}

/// How to delete.
pub(crate) struct Deletion {
    /// `DeleteOptions` of Kubernetes.
    pub(crate) options: Value,
}

impl Input for Deletion {
    const PARAMETERS: &'static [(&'static str, &'static str, &'static str)] = &[
        ("propagation", "string", "What happens to what the object owns: background (default), foreground or orphan."),
        ("resourceVersion", "string", "Delete only if the object still has this version."),
    ];
    fn read(asked: Asked, _: &Limits) -> Result<Self, Problem> {
        asked.no_body()?;
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
        for (key, value) in parameters(&asked.query, Self::PARAMETERS)? {
            match (key.as_str(), value.as_str()) {
                ("resourceVersion", version) => options["preconditions"] = json!({"resourceVersion": version}),
                ("propagation", "background") => {}
                ("propagation", "foreground") => options["propagationPolicy"] = "Foreground".into(),
                ("propagation", "orphan") => options["propagationPolicy"] = "Orphan".into(),
                _ => {
                    return Err(Problem::bad_request("propagation is background, foreground or orphan")
                        .with("parameter", "propagation"));
                }
            }
        }
        Ok(Deletion { options })
    }
}

/// Which action, with what.
pub(crate) struct Doing {
    pub(crate) action: String,
    pub(crate) body: Value,
}

impl Input for Doing {
    const MEDIA: &'static [&'static str] = &["application/json"];
    fn read(asked: Asked, _: &Limits) -> Result<Self, Problem> {
        parameters(&asked.query, Self::PARAMETERS)?;
        let body = if asked.body.is_empty() { json!({}) } else { asked.json(Self::MEDIA)? };
        if !body.is_object() {
            return Err(Problem::bad_request("the body must be a JSON object"));
        }
        Ok(Doing { action: asked.action.unwrap_or_default(), body })
    }
}
