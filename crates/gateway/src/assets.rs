//! The console's files, embedded compressed. Pages get the headers that keep a browser from running anything but them.

use std::io::Read;
use std::sync::OnceLock;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Response, StatusCode};

use crate::problem::Problem;
use crate::visit::{Answered, Body, whole};

/// One embedded file.
struct File {
    /// With a slash before it.
    path: &'static str,
    bytes: &'static [u8],
    /// Whether `bytes` are brotli.
    packed: bool,
    /// As it was.
    size: usize,
    /// An entity tag.
    tag: &'static str,
    /// As it was, for the few clients that do not read brotli.
    plain: OnceLock<Bytes>,
}

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

const INDEX: &str = "/index.html";

/// Answers a path that is not the API's.
pub(crate) fn answer(method: &Method, path: &str, headers: &HeaderMap) -> Answered {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Err(Problem::new(405, "MethodNotAllowed", "this path takes GET").with("allow", "GET, HEAD"));
    }
    let file = FILES.iter().find(|file| file.path == path);
    let page = path == "/" || path == INDEX || (file.is_none() && wants_page(headers));
    let found = if page { FILES.iter().find(|file| file.path == INDEX) } else { file };
    let found = found.ok_or_else(|| Problem::not_found("there is no such file"))?;
    let mut response = serve(found, headers);
    let fields = response.headers_mut();
    // Names under assets/ carry a hash of what is in them.
    let keep = if !page && path.starts_with("/assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static(keep));
    if let Ok(policy) = HeaderValue::from_str(policy()) {
        fields.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    let opener = HeaderName::from_static("cross-origin-opener-policy");
    fields.insert(opener, HeaderValue::from_static("same-origin"));
    let features = HeaderName::from_static("permissions-policy");
    fields.insert(features, HeaderValue::from_static("camera=(), microphone=(), geolocation=(), payment=(), usb=()"));
    if *method == Method::HEAD {
        *response.body_mut() = Body::default();
    }
    Ok(response)
}

fn serve(file: &'static File, headers: &HeaderMap) -> Response<Body> {
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let known = known.flat_map(|value| value.split(',')).any(|tag| tag.trim().trim_start_matches("W/") == file.tag);
    let packed = file.packed && reads(headers, "br");
    let body = match (known, packed || !file.packed) {
        (true, _) => Bytes::new(),
        (_, true) => Bytes::from_static(file.bytes),
        (_, false) => plain(file),
    };
    let size = body.len();
    let mut response = Response::new(whole(body));
    let fields = response.headers_mut();
    fields.insert(header::ETAG, HeaderValue::from_static(file.tag));
    fields.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return response;
    }
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(media(file.path)));
    fields.insert(header::CONTENT_LENGTH, HeaderValue::from(size));
    if packed {
        fields.insert(header::CONTENT_ENCODING, HeaderValue::from_static("br"));
    }
    response
}

fn plain(file: &File) -> Bytes {
    file.plain
        .get_or_init(|| {
            let mut plain = Vec::with_capacity(file.size);
            let mut reader = brotli_decompressor::Decompressor::new(file.bytes, 4096).take(file.size as u64);
            match reader.read_to_end(&mut plain) {
                Ok(_) => plain.into(),
                // It was compressed by our own build.
                Err(why) => {
                    tracing::error!(path = file.path, %why, "an embedded file cannot be unpacked");
                    Bytes::new()
                }
            }
        })
        .clone()
}

/// A browser that goes somewhere, in contrast to a page that fetches something.
fn wants_page(headers: &HeaderMap) -> bool {
    headers.get_all(header::ACCEPT).iter().any(|value| value.to_str().is_ok_and(|value| value.contains("text/html")))
}

/// Whether the client takes this coding.
pub(crate) fn reads(headers: &HeaderMap, wanted: &str) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(wanted));
        let refused = parts.any(|part| {
            part.strip_prefix("q=").and_then(|weight| weight.parse::<f32>().ok()).is_some_and(|weight| weight <= 0.0)
        });
        named && !refused
    })
}

fn media(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or("") {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "woff" => "font/woff",
        "wasm" => "application/wasm",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

/// Scripts only from us, and those written into the page itself by their digest. Styles may be inline: editor and terminal make theirs.
fn policy() -> &'static str {
    static POLICY: OnceLock<String> = OnceLock::new();
    POLICY.get_or_init(|| {
        let index = FILES.iter().find(|file| file.path == INDEX);
        let page = index.map(|file| if file.packed { plain(file) } else { Bytes::from_static(file.bytes) });
        let scripts = inline_scripts(&String::from_utf8_lossy(page.as_deref().unwrap_or_default()));
        let digests: String = scripts.iter().map(|script| format!(" 'sha256-{script}'")).collect();
        format!(
            "default-src 'none'; script-src 'self'{digests}; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; \
             font-src 'self' data:; connect-src 'self'; manifest-src 'self'; worker-src 'self' blob:; base-uri 'none'; \
             form-action 'self'; frame-ancestors 'none'"
        )
    })
}

/// The digests of scripts that stand in a page.
fn inline_scripts(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = page;
    while let Some(begin) = rest.find("<script") {
        let Some(head) = rest[begin..].find('>') else { break };
        let attributes = &rest[begin + "<script".len()..begin + head];
        let content = &rest[begin + head + 1..];
        let Some(end) = content.find("</script") else { break };
        if !attributes.split_ascii_whitespace().any(|word| word.starts_with("src=")) && end > 0 {
            found.push(BASE64_STANDARD.encode(digest(&SHA256, &content.as_bytes()[..end])));
        }
        rest = &content[end..];
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn every_page_comes_with_the_headers_that_protect_it() {
        // B-16
        for path in ["/", "/clusters/prod", "/setup"] {
            let response = answer(&Method::GET, path, &headers(&[(header::ACCEPT, "text/html,*/*")])).unwrap();
            let policy = response.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
            for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
                assert!(policy.contains(part), "{policy}");
            }
            let scripts = policy.split(';').find(|part| part.trim().starts_with("script-src")).unwrap();
            assert!(!scripts.contains("unsafe"), "{scripts}");
            assert_eq!(response.headers()[header::CACHE_CONTROL], "no-cache");
            assert_eq!(response.headers()[header::CONTENT_TYPE], "text/html; charset=utf-8");
        }
    }

    #[test]
    fn what_is_not_there_is_not_the_page() {
        for path in ["/assets/missing.js", "/favicon.ico", "/../etc/passwd", "/%2e%2e/x"] {
            let refused = answer(&Method::GET, path, &headers(&[(header::ACCEPT, "*/*")]));
            if FILES.iter().all(|file| file.path != path) {
                assert_eq!(refused.err().unwrap().code, 404, "{path}");
            }
        }
        assert_eq!(answer(&Method::POST, "/", &HeaderMap::new()).err().unwrap().code, 405);
    }

    #[test]
    fn files_come_packed_or_plain_and_once() {
        for file in &FILES {
            let packed =
                answer(&Method::GET, file.path, &headers(&[(header::ACCEPT_ENCODING, "gzip, br;q=0.9")])).unwrap();
            assert_eq!(packed.headers().contains_key(header::CONTENT_ENCODING), file.packed, "{}", file.path);
            let plain = answer(&Method::GET, file.path, &headers(&[(header::ACCEPT_ENCODING, "br;q=0")])).unwrap();
            assert_eq!(plain.headers()[header::CONTENT_LENGTH], file.size.to_string(), "{}", file.path);
            let again = answer(&Method::GET, file.path, &headers(&[(header::IF_NONE_MATCH, file.tag)])).unwrap();
            assert_eq!(again.status(), 304, "{}", file.path);
        }
    }

    #[test]
    fn scripts_in_a_page_are_known_by_their_digest() {
        let page = "<script type=module src=/a.js></script><script>\n1\n</script><script async>2</script>";
        let expected: Vec<String> =
            ["\n1\n", "2"].iter().map(|text| BASE64_STANDARD.encode(digest(&SHA256, text.as_bytes()))).collect();
        assert_eq!(inline_scripts(page), expected);
        for broken in ["<script", "<script>", "<script>1", ""] {
            assert!(inline_scripts(broken).is_empty(), "{broken}");
        }
    }
}
