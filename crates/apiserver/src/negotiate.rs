//! Content negotiation: which form of an answer the client wants, which form its body has.

use http::{HeaderMap, header};
use meta::Status;

/// The encoding of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Json,
    Yaml,
}

impl Encoding {
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
        }
    }
}

/// The form an object or list is shown in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Whole,
    /// Metadata only, of an object or of a list of them.
    Partial,
    PartialList,
    Table,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub encoding: Encoding,
    pub form: Form,
}

impl Answer {
    pub const JSON: Self = Self { encoding: Encoding::Json, form: Form::Whole };
}

const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// Picks the first form in the client's order of preference that we can give.
///
/// Protobuf is answered with JSON: every client chooses its decoder by the answer's content type.
pub fn accept(headers: &HeaderMap) -> Result<Answer, Status> {
    let mut clauses: Vec<(f32, Option<Answer>)> = Vec::new();
    for value in headers.get_all(header::ACCEPT) {
        let Ok(value) = value.to_str() else { continue };
        clauses.extend(value.split(',').map(str::trim).filter(|c| !c.is_empty()).map(clause));
    }
    if clauses.is_empty() {
        return Ok(Answer::JSON);
    }
    clauses.sort_by(|a, b| b.0.total_cmp(&a.0));
    clauses.into_iter().find_map(|(_, answer)| answer).ok_or_else(|| Status::not_acceptable(ACCEPTED))
}

fn clause(text: &str) -> (f32, Option<Answer>) {
    let mut parts = text.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default();
    let (mut quality, mut form, mut group, mut version) = (1.0, None, None, None);
    for (key, value) in parts.filter_map(|p| p.split_once('=')) {
        match key.trim() {
            "q" => quality = value.trim().parse().unwrap_or(1.0),
            "as" => form = Some(value.trim()),
            "g" => group = Some(value.trim()),
            "v" => version = Some(value.trim()),
            _ => {}
        }
    }
    let encoding = match media {
        "application/json" | "*/*" | "application/vnd.kubernetes.protobuf" => Encoding::Json,
        "application/yaml" => Encoding::Yaml,
        _ => return (quality, None),
    };
    let meta_group = group == Some("meta.k8s.io") && matches!(version, Some("v1" | "v1beta1"));
    let form = match form {
        None => Some(Form::Whole),
        Some("Table") if meta_group => Some(Form::Table),
        Some("PartialObjectMetadata") if meta_group => Some(Form::Partial),
        Some("PartialObjectMetadataList") if meta_group => Some(Form::PartialList),
        Some(_) => None,
    };
    (quality, form.map(|form| Answer { encoding, form }))
}

/// The encoding of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    Json,
    Yaml,
    Protobuf,
}

pub fn content(headers: &HeaderMap) -> Result<Content, Status> {
    match media_type(headers) {
        "" | "application/json" | "*/*" => Ok(Content::Json),
        "application/yaml" => Ok(Content::Yaml),
        "application/vnd.kubernetes.protobuf" => Ok(Content::Protobuf),
        _ => Err(Status::unsupported_media_type(ACCEPTED)),
    }
}

/// The body's media type without parameters.
pub fn media_type(headers: &HeaderMap) -> &str {
    let value = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING);
    values.iter().filter_map(|v| v.to_str().ok()).flat_map(|v| v.split(',')).any(|e| {
        let mut parts = e.split(';').map(str::trim);
        parts.next() == Some("gzip") && !parts.any(|p| p == "q=0")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(accept_header: &str) -> Result<Answer, u16> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept_header.parse().unwrap());
        accept(&headers).map_err(|s| s.code)
    }

    #[test]
    fn the_first_form_we_have_wins() {
        let table = |form| Ok(Answer { encoding: Encoding::Json, form });
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(of(kubectl), table(Form::Table));
        assert_eq!(
            of("application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"),
            table(Form::PartialList)
        );
        assert_eq!(of("application/json;as=Unknown;v=v1;g=meta.k8s.io,application/json"), table(Form::Whole));
        assert_eq!(
            of("application/json;q=0.1,application/yaml"),
            Ok(Answer { encoding: Encoding::Yaml, form: Form::Whole })
        );
        assert_eq!(of("text/html"), Err(406));
        assert_eq!(accept(&HeaderMap::new()), Ok(Answer::JSON));
    }
}
