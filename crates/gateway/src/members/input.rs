//! Bodies of requests: JSON or YAML, bounded in depth and size, and nothing in them that is not plain data.

use serde_json::Value;

use crate::problem::Problem;

const YAML: [&str; 4] = ["application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"];

/// A document of the media type that was said.
pub(super) fn document(media: &str, body: &[u8]) -> Result<Value, Problem> {
    let said = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if said == "application/json" {
        // serde_json bounds the depth.
        return serde_json::from_slice(body).map_err(|why| {
            let why = format!("the body is not JSON that can be read: line {}, column {}", why.line(), why.column());
            Problem::bad_request(why)
        });
    }
    if !YAML.contains(&said.as_str()) {
        let why = "send the body as Content-Type: application/json or application/yaml";
        return Err(Problem::new(415, "UnsupportedMediaType", why));
    }
    let text = std::str::from_utf8(body).map_err(|_| Problem::bad_request("the body is not UTF-8"))?;
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: 100, max_aliases: 0, max_anchors: 0, max_nodes: 200_000, max_documents: 1,
        },
        strict_booleans: true,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let place = error.location().map(|at| format!(": line {}, column {}", at.line(), at.column()));
        let why = "the body is not plain YAML of one document that can be read";
        Problem::bad_request(format!("{why}{}", place.unwrap_or_default()))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn documents_are_json_or_yaml_and_bombs_are_refused() {
        // B-14
        assert_eq!(document("application/json; charset=utf-8", b"{\"a\":1}").unwrap(), json!({"a": 1}));
        assert_eq!(document("application/yaml", b"a: 1\nb: [yes, 'x']\n").unwrap(), json!({"a": 1, "b": ["yes", "x"]}));
        let bomb = format!("a: &a [x,x]\n{}", (0..9).map(|i| format!("b{i}: [*a,*a]\n")).collect::<String>());
        let deep = "[".repeat(10_000);
        for (media, body) in [
            ("application/json", b"{".as_slice()),
            ("application/yaml", bomb.as_bytes()),
            ("application/yaml", deep.as_bytes()),
            ("application/yaml", b"a: 1\n---\nb: 2\n"),
            ("application/yaml", b"\xff"),
        ] {
            assert_eq!(document(media, body).unwrap_err().code, 400);
        }
        for media in ["", "text/plain", "application/x-www-form-urlencoded"] {
            assert_eq!(document(media, b"{}").unwrap_err().code, 415, "{media}");
        }
    }
}
