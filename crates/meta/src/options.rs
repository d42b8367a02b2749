//! What a request asks for besides its object: the query parameters and DeleteOptions, parsed and checked.

use crate::field::FieldError;
use crate::selector::{FieldSelector, LabelSelector};
use crate::{Object, Status};
use serde_json::Value;
use std::borrow::Cow;

/// A decoded query string. Repeated keys: the first wins, as in Go's `url.Values.Get`.
#[derive(Debug, Default)]
pub struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Query<'a> {
    pub fn parse(raw: Option<&'a str>) -> Self {
        Self(form_urlencoded::parse(raw.unwrap_or_default().as_bytes()).collect())
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_ref())
    }

    fn text(&self, key: &str) -> &str {
        self.get(key).unwrap_or_default()
    }

    /// Go's bool conversion for query parameters: present and neither "false" nor "0" is true.
    pub fn flag(&self, key: &str) -> Option<bool> {
        self.get(key).map(|v| !matches!(v.to_ascii_lowercase().as_str(), "false" | "0"))
    }

    fn number<T: std::str::FromStr>(&self, key: &str) -> Result<Option<T>, Status> {
        match self.get(key) {
            None | Some("") => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|_| Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))),
        }
    }
}

/// How the asked resourceVersion is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    Unset,
    Exact,
    NotOlderThan,
}

/// `resourceVersion` of a read: most recent, any, or a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    MostRecent,
    Any,
    At(u64),
}

impl Version {
    pub fn parse(text: &str) -> Result<Self, Status> {
        match text {
            "" => Ok(Self::MostRecent),
            "0" => Ok(Self::Any),
            n => n.parse().map(Self::At).map_err(|_| {
                let e = FieldError::invalid(
                    "resourceVersion",
                    n,
                    format!("strconv.ParseUint: parsing {n:?}: invalid syntax"),
                );
                Status::bad_request(format!("invalid resource version: {e}"))
            }),
        }
    }
}

/// Options of list, watch and deletecollection.
#[derive(Debug)]
pub struct ListOptions {
    pub labels: LabelSelector,
    pub fields: FieldSelector,
    pub limit: usize,
    pub continue_token: String,
    pub version: Version,
    pub version_match: Match,
    pub watch: bool,
    pub bookmarks: bool,
    pub initial_events: Option<bool>,
    pub timeout: Option<u64>,
}

impl ListOptions {
    pub fn parse(query: &Query<'_>) -> Result<Self, Status> {
        let labels =
            LabelSelector::parse(query.text("labelSelector")).map_err(|e| Status::bad_request(e.to_string()))?;
        let fields =
            FieldSelector::parse(query.text("fieldSelector")).map_err(|e| Status::bad_request(e.to_string()))?;
        let watch = query.flag("watch").unwrap_or_default();
        let version_match = match query.text("resourceVersionMatch") {
            "" => Match::Unset,
            "Exact" => Match::Exact,
            "NotOlderThan" => Match::NotOlderThan,
            other => {
                let e = FieldError::not_supported("resourceVersionMatch", other, &["Exact", "NotOlderThan", ""]);
                return Err(invalid(vec![e]));
            }
        };
        let limit: i64 = query.number("limit")?.unwrap_or_default();
        let out = Self {
            labels,
            fields,
            limit: usize::try_from(limit).unwrap_or_default(),
            continue_token: query.text("continue").to_owned(),
            version: Version::parse(query.text("resourceVersion"))?,
            version_match,
            watch,
            bookmarks: query.flag("allowWatchBookmarks").unwrap_or_default(),
            initial_events: query.flag("sendInitialEvents"),
            timeout: query.number("timeoutSeconds")?,
        };
        let errors = if watch { out.check_watch() } else { out.check_list() };
        if errors.is_empty() { Ok(out) } else { Err(invalid(errors)) }
    }

    fn check_list(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if self.version_match != Match::Unset {
            if self.version == Version::MostRecent {
                errors.push(FieldError::forbidden(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
            if !self.continue_token.is_empty() {
                errors.push(FieldError::forbidden(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden when continue is provided",
                ));
            }
            if self.version == Version::Any && self.version_match == Match::Exact {
                errors.push(FieldError::forbidden(
                    "resourceVersionMatch",
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                ));
            }
        }
        if self.initial_events.is_some() {
            errors.push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        errors
    }

    fn check_watch(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let needless = self.initial_events.is_none() && self.version_match != Match::Unset;
        let missing = self.initial_events.is_some() && self.version_match != Match::NotOlderThan;
        if needless {
            errors.push(FieldError::forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
        }
        if missing {
            errors.push(FieldError::forbidden(
                "resourceVersionMatch",
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
        if self.version_match == Match::Exact {
            errors.push(FieldError::not_supported("resourceVersionMatch", "Exact", &["NotOlderThan"]));
        }
        if !self.continue_token.is_empty() {
            errors.push(FieldError::forbidden("continue", "continue is forbidden for watch"));
        }
        errors
    }
}

fn invalid(errors: Vec<FieldError>) -> Status {
    Status::invalid("meta.k8s.io", "ListOptions", "", &errors)
}

/// What to do about fields the kind does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// Options of create, update and patch.
#[derive(Debug)]
pub struct WriteOptions {
    pub dry_run: bool,
    pub field_validation: FieldValidation,
    pub force: bool,
    /// In whose name the fields are written; empty when the client does not say.
    pub field_manager: String,
}

impl WriteOptions {
    /// `kind` is the options' kind in errors: CreateOptions, UpdateOptions, PatchOptions.
    pub fn parse(query: &Query<'_>, kind: &str) -> Result<Self, Status> {
        Self::read(query, kind, Vec::new())
    }

    /// Options of an apply patch, which must say who applies.
    pub fn parse_apply(query: &Query<'_>) -> Result<Self, Status> {
        let missing = query.text("fieldManager").is_empty();
        let errors = missing.then(|| FieldError::required("fieldManager", "is required for apply patch"));
        Self::read(query, "PatchOptions", errors.into_iter().collect())
    }

    fn read(query: &Query<'_>, kind: &str, mut errors: Vec<FieldError>) -> Result<Self, Status> {
        let field_manager = query.text("fieldManager").to_owned();
        check_manager("fieldManager", &field_manager, &mut errors);
        let dry_run = dry_run(query.0.iter().filter(|(k, _)| k == "dryRun").map(|(_, v)| v.as_ref()), &mut errors);
        let field_validation = match query.text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                errors.push(FieldError::not_supported("fieldValidation", other, &["", "Ignore", "Strict", "Warn"]));
                FieldValidation::Warn
            }
        };
        if !errors.is_empty() {
            return Err(Status::invalid("meta.k8s.io", kind, "", &errors));
        }
        Ok(Self { dry_run, field_validation, force: query.flag("force").unwrap_or_default(), field_manager })
    }
}

/// The length in bytes of a manager's name.
const MAX_MANAGER: usize = 128;

/// Whether somebody can own fields by this name, which stands at `field`.
pub fn check_manager(field: &str, manager: &str, errors: &mut Vec<FieldError>) {
    if manager.len() > MAX_MANAGER {
        errors.push(FieldError::too_long(field, MAX_MANAGER));
    }
    for (at, c) in manager.char_indices().filter(|(_, c)| !is_print(*c)).take(MAX_MANAGER) {
        let why = format!("invalid character U+{:04X} (at position {at})", u32::from(c));
        errors.push(FieldError::invalid(field, manager, why));
    }
}

/// Go's idea of a printable character, nearly: no controls, and the only blank is the space.
pub fn is_print(c: char) -> bool {
    !c.is_control()
        && (c == ' ' || !c.is_whitespace())
        && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{feff}')
}

fn dry_run<'q>(values: impl Iterator<Item = &'q str>, errors: &mut Vec<FieldError>) -> bool {
    let mut on = false;
    for value in values {
        match value {
            "All" => on = true,
            other => errors.push(FieldError::not_supported("dryRun", serde_json::json!([other]), &["All"])),
        }
    }
    on
}

/// What becomes of the objects that an object owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// Options of delete, from the body or the query.
#[derive(Debug, Default, PartialEq)]
pub struct DeleteOptions {
    pub dry_run: bool,
    pub grace_seconds: Option<i64>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub propagation: Option<Propagation>,
}

impl DeleteOptions {
    /// A body, when there is one, stands alone; otherwise the query is read.
    pub fn parse(query: &Query<'_>, body: Option<&Object>) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let mut out = Self::default();
        let mut orphan = None;
        let mut policy = None;
        if let Some(body) = body {
            let values = body.0.get("dryRun").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            out.dry_run = dry_run(values.iter().filter_map(Value::as_str), &mut errors);
            out.grace_seconds = body.0.get("gracePeriodSeconds").and_then(Value::as_i64);
            let precondition = |key: &str| Some(body.0.get("preconditions")?.get(key)?.as_str()?.to_owned());
            out.uid = precondition("uid");
            out.resource_version = precondition("resourceVersion");
            orphan = body.0.get("orphanDependents").and_then(Value::as_bool);
            policy = body.0.get("propagationPolicy").and_then(Value::as_str).map(str::to_owned);
        } else {
            let values = query.0.iter().filter(|(k, _)| k == "dryRun").map(|(_, v)| v.as_ref());
            out.dry_run = dry_run(values, &mut errors);
            out.grace_seconds = query.number("gracePeriodSeconds")?;
            orphan = orphan.or(query.flag("orphanDependents"));
            policy = policy.or(query.get("propagationPolicy").map(str::to_owned));
        }
        if orphan.is_some() && policy.is_some() {
            errors.push(FieldError::invalid(
                "propagationPolicy",
                policy.clone().unwrap_or_default(),
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        out.propagation = match policy.as_deref() {
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(FieldError::not_supported("propagationPolicy", other, &supported));
                None
            }
            None => orphan.map(|keep| if keep { Propagation::Orphan } else { Propagation::Background }),
        };
        if errors.is_empty() { Ok(out) } else { Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", &errors)) }
    }
}
