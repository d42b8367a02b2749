//! How objects get from one version to another.

use std::collections::HashSet;

use meta::{FieldError, FieldErrors, name};
use serde_json::Value;

use crate::structural::props::Props;

const PATH: &str = "spec.conversion";
const CLIENT: &str = "spec.conversion.webhookClientConfig";
const REVIEWS: &str = "spec.conversion.conversionReviewVersions";

pub(super) fn validate(spec: Props<'_>, errors: &mut FieldErrors) {
    let Some(conversion) = spec.part("conversion") else { return };
    let strategy = conversion.text("strategy");
    let field = format!("{PATH}.strategy");
    if strategy != "None" && spec.flag("preserveUnknownFields") {
        errors.push(FieldError::invalid(&*field, strategy, "must be None if spec.preserveUnknownFields is true"));
    }
    let webhook = conversion.part("webhook");
    let client = webhook.and_then(|webhook| webhook.part("clientConfig"));
    let reviews = webhook.map(|webhook| webhook.values("conversionReviewVersions")).unwrap_or_default();
    match strategy {
        "" => errors.push(FieldError::required(field, "")),
        "Webhook" => {
            let before = errors.len();
            self::client(client, errors);
            self::reviews(reviews, errors);
            if errors.len() == before {
                errors.push(FieldError::forbidden(field, "conversion by webhook is not supported yet, use None"));
            }
            return;
        }
        "None" => {}
        other => errors.push(FieldError::not_supported(field, other, &["None", "Webhook"])),
    }
    let why = "should not be set when strategy is not set to Webhook";
    if client.is_some() {
        errors.push(FieldError::forbidden(CLIENT, why));
    }
    if !reviews.is_empty() {
        errors.push(FieldError::forbidden(REVIEWS, why));
    }
}

fn client(client: Option<Props<'_>>, errors: &mut FieldErrors) {
    let Some(client) = client else {
        errors.push(FieldError::required(CLIENT, "required when strategy is set to Webhook"));
        return;
    };
    match (client.get("url").and_then(Value::as_str), client.part("service")) {
        (Some(url), None) => self::url(url, errors),
        (None, Some(service)) => self::service(service, errors),
        _ => errors.push(FieldError::required(CLIENT, "exactly one of url or service is required")),
    }
}

fn url(url: &str, errors: &mut FieldErrors) {
    const FORM: &str = "; desired format: https://host[/path]";
    let field = format!("{CLIENT}.url");
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = rest.split_once("://").unwrap_or(("", rest));
    let authority = if scheme.is_empty() { "" } else { rest.split('/').next().unwrap_or_default() };
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let mut complain = |value: &str, why: String| errors.push(FieldError::invalid(&*field, value, why));
    if scheme != "https" {
        complain(scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if host.is_empty() {
        complain(host, format!("host must be specified{FORM}"));
    }
    if !user.is_empty() {
        complain(user, "user information is not permitted in the URL".into());
    }
    if !fragment.is_empty() {
        complain(fragment, "fragments are not permitted in the URL".into());
    }
    if !query.is_empty() {
        complain(query, "query parameters are not permitted in the URL".into());
    }
}

fn service(service: Props<'_>, errors: &mut FieldErrors) {
    for key in ["name", "namespace"] {
        if service.text(key).is_empty() {
            errors.push(FieldError::required(format!("{CLIENT}.service.{key}"), ""));
        }
    }
    let port = service.integer("port").unwrap_or(443);
    if !(1..=65535).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(format!("{CLIENT}.service.port"), port, why));
    }
    let path = service.text("path");
    if path.is_empty() || path == "/" {
        return;
    }
    let field = format!("{CLIENT}.service.path");
    if !path.starts_with('/') {
        errors.push(FieldError::invalid(&*field, path, "must start with a '/'"));
    }
    // Whatever the first character is, it is taken for the slash.
    let mut inner = path.chars();
    inner.next();
    let inner = inner.as_str();
    for (at, step) in inner.strip_suffix('/').unwrap_or(inner).split('/').enumerate() {
        if step.is_empty() {
            errors.push(FieldError::invalid(&*field, path, format!("segment[{at}] may not be empty")));
        } else {
            let wrong = name::dns1123_subdomain(step);
            errors.extend(
                wrong.into_iter().map(|why| FieldError::invalid(&*field, path, format!("segment[{at}]: {why}"))),
            );
        }
    }
}

fn reviews(versions: &[Value], errors: &mut FieldErrors) {
    let versions: Vec<&str> = versions.iter().filter_map(Value::as_str).collect();
    if versions.is_empty() {
        errors.push(FieldError::required(REVIEWS, ""));
        return;
    }
    let mut seen = HashSet::new();
    for (at, version) in versions.iter().enumerate() {
        let field = format!("{REVIEWS}[{at}]");
        if !seen.insert(version) {
            errors.push(FieldError::invalid(field, *version, "duplicate version"));
        } else {
            errors.extend(
                name::dns1035_label(version).into_iter().map(|why| FieldError::invalid(&*field, *version, why)),
            );
        }
    }
    if !versions.iter().any(|version| matches!(*version, "v1" | "v1beta1")) {
        errors.push(FieldError::invalid(REVIEWS, versions, "must include at least one of v1, v1beta1"));
    }
}
