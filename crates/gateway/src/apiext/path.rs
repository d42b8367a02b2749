//! Which resource a path names. Nothing is normalised: a path that is not exactly one of ours is refused.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::problem::Problem;

pub(crate) const ROOT: &str = "/apiext/v1";
pub(crate) const OPENAPI: &str = "/apiext/openapi.json";

/// What stands after the root, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    Kinds,
    OpenApi,
    Resource(ResourcePath),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    /// Empty for the core group, which the path spells `core`.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) action: Option<String>,
}

const LONGEST_SEGMENT: usize = 253;

impl Path {
    pub(crate) fn parse(path: &str) -> Result<Self, Problem> {
        if path == OPENAPI {
            return Ok(Path::OpenApi);
        }
        let unknown = || {
            Problem::not_found(format!(
                "no such path; resources are at {ROOT}/{{group}}/{{version}}/{{plural}}, the list of kinds at {ROOT}"
            ))
        };
        let rest = path.strip_prefix(ROOT).ok_or_else(unknown)?;
        if rest.is_empty() {
            return Ok(Path::Kinds);
        }
        let segments: Vec<String> =
            rest.strip_prefix('/').ok_or_else(unknown)?.split('/').map(segment).collect::<Result<_, _>>()?;
        let mut words = segments.into_iter();
        let (Some(group), Some(version), Some(third)) = (words.next(), words.next(), words.next()) else {
            return Err(unknown());
        };
        let rest: Vec<String> = words.collect();
        let group = if group == "core" { String::new() } else { group };
        // `namespaces/{ns}/{plural}` is a place, `namespaces/{name}` the Namespace itself.
        let (namespace, plural, rest) = match rest.as_slice() {
            [namespace, plural, rest @ ..] if third == "namespaces" => (Some(namespace.clone()), plural.clone(), rest),
            rest => (None, third, rest),
        };
        let (name, action) = match rest {
            [] => (None, None),
            [name] => (Some(name.clone()), None),
            [name, action] => (Some(name.clone()), Some(action.clone())),
            _ => return Err(unknown()),
        };
        Ok(Path::Resource(ResourcePath { group, version, plural, namespace, name, action }))
    }
}

/// One segment, decoded once. What could mean another path to somebody else (dots, slashes, control characters) is refused.
pub(crate) fn segment(raw: &str) -> Result<String, Problem> {
    let refused = |why: &str| Err(Problem::bad_request(format!("the path has a part that {why}")));
    let Ok(text) = percent_decode_str(raw).decode_utf8() else { return refused("is not UTF-8") };
    match text.as_ref() {
        "" => refused("is empty: a name may be missing between two slashes"),
        "." | ".." => refused("is . or .."),
        text if text.len() > LONGEST_SEGMENT => refused("is longer than 253 bytes"),
        text if text.chars().any(|c| c.is_control() || matches!(c, '/' | '\\' | '%' | '?' | '#')) => {
            refused("holds a mark that no name has")
        }
        text => Ok(text.to_owned()),
    }
}

/// Everything but what names are made of.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// A segment of a path of the Kubernetes API.
pub(crate) fn encode(segment: &str) -> String {
    utf8_percent_encode(segment, SEGMENT).to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn resource(path: &str) -> [String; 6] {
        let Path::Resource(found) = Path::parse(&format!("{ROOT}{path}")).unwrap() else { panic!("{path}") };
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        [found.group, found.version, found.plural, or_none(found.namespace), or_none(found.name), or_none(found.action)]
    }

    #[test]
    fn paths_name_kind_place_object_and_action() {
        assert_eq!(Path::parse("/apiext/v1").unwrap(), Path::Kinds);
        assert_eq!(Path::parse("/apiext/openapi.json").unwrap(), Path::OpenApi);
        assert_eq!(resource("/apps/v1/deployments"), ["apps", "v1", "deployments", "-", "-", "-"]);
        assert_eq!(resource("/core/v1/namespaces"), ["", "v1", "namespaces", "-", "-", "-"]);
        assert_eq!(resource("/core/v1/namespaces/x"), ["", "v1", "namespaces", "-", "x", "-"]);
        assert_eq!(resource("/core/v1/namespaces/x/pods"), ["", "v1", "pods", "x", "-", "-"]);
        assert_eq!(
            resource("/apps/v1/namespaces/x/deployments/web/restart"),
            ["apps", "v1", "deployments", "x", "web", "restart"]
        );
        assert_eq!(
            resource("/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode"),
            ["rbac.authorization.k8s.io", "v1", "clusterroles", "-", "system:node", "-"]
        );
    }

    #[test]
    fn paths_that_try_to_be_another_are_refused() {
        let long = format!("/apps/v1/{}", "x".repeat(300));
        for bad in [
            "/",
            "/apps",
            "/apps/v1",
            "/apps/v1/",
            "//v1/x",
            "/apps/v1/x/..",
            "/apps/v1/%2e%2e",
            "/apps/v1/x%2fy",
            "/apps/v1/x%00",
            "/apps/v1/%ff",
            "/apps/v1/x//y",
            "/apps/v1/x%252f",
            "/apps/v1/x\\y",
            "/a/b/c/d/e/f/g",
            "/apps/v1/x/y/z/w",
            "/apps/v1/x%3fy",
            "/apps/v1/x%0a",
            &long,
        ] {
            let problem = Path::parse(&format!("{ROOT}{bad}")).unwrap_err();
            assert!(matches!(problem.code, 400 | 404), "{bad}: {problem}");
        }
        for other in ["", "/", "/api/v1/secrets", "/apiext/v2/a/b/c", "/apiext/v1x", "*", "/apiext/openapi.json/"] {
            assert_eq!(Path::parse(other).unwrap_err().code, 404, "{other}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_one_segment_that_decodes_to_itself(text in "[a-zA-Z0-9.:_ é~@-]{1,40}") {
            prop_assume!(text != "." && text != "..");
            let encoded = encode(&text);
            prop_assert!(!encoded.contains('/'));
            prop_assert_eq!(segment(&encoded).unwrap(), text);
        }

        #[test]
        fn no_path_makes_the_parser_panic(text in "[/a-z%0-9.\\\\é]{0,60}") {
            let _ = Path::parse(&format!("{ROOT}{text}"));
        }
    }
}
