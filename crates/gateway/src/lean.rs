//! Answers made small: nothing for who has it already, gzip for who reads it.

use std::io::Write;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Response, StatusCode};
use http_body::Body as _;

use crate::assets;
use crate::visit::{Body, collect, whole};

/// Below this, packing saves nothing.
const SMALL: usize = 1_400;
/// Above this, packing is for a thread that may be held up.
const LARGE: usize = 256 << 10;
/// Longer answers go as they are.
const LONGEST: usize = 16 << 20;
/// What a session says of itself holds a secret and is small: it is neither tagged nor packed.
const PRIVATE: &str = "/wapi/v1/session";

/// What a request says it can do with an answer.
pub(crate) struct Wish {
    /// Only what is read has a tag.
    reads: bool,
    known: Vec<String>,
    gzip: bool,
}

impl Wish {
    pub(crate) fn of(method: &Method, path: &str, headers: &HeaderMap) -> Self {
        let reads = *method == Method::GET && !path.starts_with(PRIVATE);
        let tags = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        let known = tags.flat_map(|value| value.split(',')).map(|tag| bare(tag).to_owned());
        Self { reads, known: known.collect(), gzip: assets::reads(headers, "gzip") }
    }

    /// The answer as small as it can be. What is not whole, not text or has been packed already stays as it is.
    pub(crate) async fn grant(&self, response: Response<Body>) -> Response<Body> {
        let size = response.body().size_hint().exact().and_then(|size| usize::try_from(size).ok());
        let headers = response.headers();
        let fits = self.reads
            && response.status() == StatusCode::OK
            && !headers.contains_key(header::CONTENT_ENCODING)
            && headers.get(header::CONTENT_TYPE).is_some_and(is_text)
            && size.is_some_and(|size| size <= LONGEST);
        if !fits {
            return response;
        }
        let (mut parts, body) = response.into_parts();
        let Ok(body) = collect(body, LONGEST).await else {
            parts.status = StatusCode::INTERNAL_SERVER_ERROR;
            return Response::from_parts(parts, Body::default());
        };
        let fields = &mut parts.headers;
        fields.remove(header::CONTENT_LENGTH);
        fields.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        let tag = match fields.get(header::ETAG) {
            Some(tag) => tag.clone(),
            None => tag_of(&body),
        };
        let known = tag.to_str().is_ok_and(|tag| self.known.iter().any(|known| known == "*" || known == bare(tag)));
        fields.insert(header::ETAG, tag);
        if known {
            fields.remove(header::CONTENT_TYPE);
            parts.status = StatusCode::NOT_MODIFIED;
            return Response::from_parts(parts, Body::default());
        }
        if self.gzip
            && body.len() >= SMALL
            && let Some(packed) = packed(body.clone()).await
        {
            fields.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            return Response::from_parts(parts, whole(packed));
        }
        Response::from_parts(parts, whole(body))
    }
}

/// A weak tag is as good as a strong one here: whether it is the same, packed or not.
fn bare(tag: &str) -> &str {
    tag.trim().trim_start_matches("W/")
}

fn is_text(media: &HeaderValue) -> bool {
    let media = media.to_str().unwrap_or_default();
    media.starts_with("application/json") || media.starts_with("application/yaml")
}

fn tag_of(body: &[u8]) -> HeaderValue {
    let hash = URL_SAFE_NO_PAD.encode(&digest(&SHA256, body).as_ref()[..15]);
    HeaderValue::from_str(&format!("W/\"{hash}\"")).unwrap_or(HeaderValue::from_static("W/\"\""))
}

async fn packed(body: Bytes) -> Option<Vec<u8>> {
    if body.len() <= LARGE {
        return pack(&body);
    }
    tokio::task::spawn_blocking(move || pack(&body)).await.ok().flatten()
}

fn pack(body: &[u8]) -> Option<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    gzip.write_all(body).and_then(|()| gzip.finish()).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Read;

    use flate2::read::GzDecoder;
    use http_body_util::BodyExt;

    use super::*;
    use crate::visit::{bytes, json};

    async fn asked(pairs: &[(header::HeaderName, &str)], response: Response<Body>) -> (u16, HeaderMap, Vec<u8>) {
        let headers = pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect();
        let granted = Wish::of(&Method::GET, "/apiext/v1/core/v1/pods", &headers).grant(response).await;
        let (parts, body) = granted.into_parts();
        (parts.status.as_u16(), parts.headers, body.collect().await.unwrap().to_bytes().to_vec())
    }

    fn long() -> Response<Body> {
        json(200, &serde_json::json!({"items": vec!["the same words"; 500]}))
    }

    #[tokio::test]
    async fn who_has_it_already_gets_nothing_and_who_has_another_gets_it() {
        let (code, headers, body) = asked(&[], long()).await;
        let tag = headers[header::ETAG].to_str().unwrap().to_owned();
        assert!(code == 200 && tag.starts_with("W/\"") && body.len() > SMALL, "{code} {tag}");
        for known in [tag.clone(), tag.trim_start_matches("W/").to_owned(), format!("\"x\", {tag}"), "*".to_owned()] {
            let (code, headers, body) = asked(&[(header::IF_NONE_MATCH, &known)], long()).await;
            assert_eq!((code, body.len(), headers[header::ETAG].to_str().unwrap()), (304, 0, tag.as_str()), "{known}");
        }
        let (code, other, body) = asked(&[(header::IF_NONE_MATCH, &tag)], json(200, &"other".into())).await;
        assert!(code == 200 && !body.is_empty() && other[header::ETAG] != tag.as_str());
    }

    #[tokio::test]
    async fn large_answers_are_packed_for_who_reads_gzip() {
        let (_, _, plain) = asked(&[], long()).await;
        for accepted in ["gzip", "br, gzip;q=0.5"] {
            let (_, headers, body) = asked(&[(header::ACCEPT_ENCODING, accepted)], long()).await;
            assert_eq!(headers[header::CONTENT_ENCODING], "gzip");
            let mut unpacked = Vec::new();
            GzDecoder::new(body.as_slice()).read_to_end(&mut unpacked).unwrap();
            assert!(unpacked == plain && body.len() * 4 < plain.len());
        }
        for refused in ["br", "gzip;q=0", "identity"] {
            let (_, headers, body) = asked(&[(header::ACCEPT_ENCODING, refused)], long()).await;
            assert!(!headers.contains_key(header::CONTENT_ENCODING) && body == plain, "{refused}");
        }
        let (_, headers, _) = asked(&[(header::ACCEPT_ENCODING, "gzip")], json(200, &"short".into())).await;
        assert!(!headers.contains_key(header::CONTENT_ENCODING));
    }

    #[tokio::test]
    async fn refusals_streams_and_sessions_stay_as_they_are() {
        for response in [json(404, &"gone".into()), bytes(200, "application/octet-stream", vec![0; 5000])] {
            let (_, headers, _) = asked(&[(header::ACCEPT_ENCODING, "gzip")], response).await;
            assert!(!headers.contains_key(header::ETAG) && !headers.contains_key(header::CONTENT_ENCODING));
        }
        let session = Wish::of(&Method::GET, "/wapi/v1/session", &HeaderMap::new()).grant(long()).await;
        let write = Wish::of(&Method::POST, "/apiext/v1/core/v1/pods", &HeaderMap::new()).grant(long()).await;
        assert!(!session.headers().contains_key(header::ETAG) && !write.headers().contains_key(header::ETAG));
    }
}
