//! Tokens over the API: made for service accounts, reviewed for others, and the documents by which others verify them themselves.

use super::reviews::{texts, user_info};
use crate::Inner;
use crate::body::Body;
use crate::kinds::{GroupVersionKind, Kind};
use crate::render;
use crate::verbs::Call;
use auth::{Authorized, Bound, BoundKind, Refused, Ticket};
use http::{HeaderValue, Response, header};
use meta::{FieldError, GroupResource, Object, Status, time};
use serde_json::{Value, json};

pub(crate) const TOKEN_REQUEST: GroupVersionKind =
    GroupVersionKind { group: "authentication.k8s.io", version: "v1", kind: "TokenRequest" };
const DEFAULT_SECONDS: i64 = 3600;
const MIN_SECONDS: i64 = 600;
const MAX_SECONDS: i64 = 1 << 32;

fn text<'a>(value: Option<&'a Value>, key: &str) -> &'a str {
    value.and_then(|v| v.get(key)).and_then(Value::as_str).unwrap_or_default()
}

impl Call<'_> {
    pub fn review_token(&self, body: &[u8]) -> Result<Response<Body>, Status> {
        let mut review = self.request_body(&self.kind, body)?;
        let spec = review.0.get("spec");
        let token = text(spec, "token");
        if token.is_empty() {
            return Err(Status::bad_request("token is required for TokenReview in authentication"));
        }
        let audiences = texts(spec.and_then(|s| s.get("audiences")));
        let status = match self.api.options.authenticator.review(token, &audiences) {
            Ok((user, audiences)) => {
                json!({"authenticated": true, "user": user_info(&user), "audiences": audiences})
            }
            Err(why @ Refused::NotOurs) => json!({"user": {}, "error": why.to_string()}),
            Err(why) => json!({"user": {}, "error": format!("[{}, {why}]", Refused::NotOurs)}),
        };
        review.0.insert("status".into(), status);
        Ok(self.plain(201, &Value::Object(review.0)))
    }

    /// A token for the service account of the path.
    pub async fn request_token(&self, body: &[u8]) -> Result<Response<Body>, Status> {
        let mut request = self.defaulted_body(&Kind::of_body(TOKEN_REQUEST), body, lifetime)?;
        let Some(issuer) = self.api.options.authenticator.issuer() else { return Err(Status::no_such_resource()) };
        self.check_namespace(&request)?;
        let stated = request.name();
        if !stated.is_empty() && stated != self.name {
            let e = FieldError::invalid("metadata.name", stated, "must match the service account name if specified");
            return Err(Status::invalid(TOKEN_REQUEST.group, TOKEN_REQUEST.kind, self.name, &[e]));
        }
        let entry = self.api.store.get(&self.key());
        let entry = entry.ok_or_else(|| Status::not_found(self.kind.resource(), self.name))?;
        let uid = entry.attrs.uid.to_string();
        let stated = request.uid();
        if !stated.is_empty() && stated != uid {
            let why = format!(
                "the UID in the token request ({stated}) does not match the UID of the service account ({uid})"
            );
            let what = GroupResource { group: TOKEN_REQUEST.group, resource: TOKEN_REQUEST.kind };
            return Err(Status::conflict(what, self.name, &why));
        }
        let now = self.api.clock.now();
        let spec = request.0.entry("spec").or_insert_with(|| json!({}));
        let (audiences, seconds) = terms(spec, issuer.audiences())?;
        let spec = spec.clone();
        let bound = match spec.get("boundObjectRef").filter(|r| !r.is_null()) {
            Some(reference) => self.bound(reference)?,
            None => Vec::new(),
        };
        let id = self.api.uid();
        let token = issuer.issue(&Ticket {
            id: &id,
            namespace: self.namespace,
            account: self.name,
            uid: &uid,
            audiences: &audiences,
            bound: &bound,
            now: now.as_second(),
            seconds,
        });
        let token = token.map_err(|why| Status::internal(format!("failed to generate token: {why}")))?;
        let ends = now.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(jiff::Timestamp::MAX);
        for (key, value) in [("name", self.name), ("namespace", self.namespace), ("uid", &uid)] {
            request.set_meta(key, value);
        }
        request.set_meta("creationTimestamp", &time::seconds(now));
        request.0.insert("status".into(), json!({"token": token, "expirationTimestamp": time::seconds(ends)}));
        Ok(self.plain(201, &Value::Object(request.0)))
    }

    /// What the token shall be bound to, as it is now.
    fn bound(&self, reference: &Value) -> Result<Vec<Bound>, Status> {
        let of = |key: &str| text(Some(reference), key);
        let (group, version) = meta::split_api_version(of("apiVersion"));
        let (kind, plural) = match (group, of("kind")) {
            ("", "Pod") => (BoundKind::Pod, "pods"),
            ("", "Node") => (BoundKind::Node, "nodes"),
            ("", "Secret") => (BoundKind::Secret, "secrets"),
            (group, kind) => {
                return Err(Status::bad_request(format!(
                    "cannot bind token to object of type {group}/{version}, Kind={kind}"
                )));
            }
        };
        let (object, uid) = self.core_object(plural, of("name"))?;
        let pod_account = text(object.0.get("spec"), "serviceAccountName");
        if kind == BoundKind::Pod && pod_account != self.name {
            return Err(Status::bad_request(format!(
                "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                self.name
            )));
        }
        if !of("uid").is_empty() && of("uid") != uid {
            let why = format!(
                "the UID in the bound object reference ({}) does not match the UID in record. The object might have been deleted and then recreated",
                of("uid")
            );
            return Err(Status::conflict(GroupResource { group: "", resource: of("kind") }, of("name"), &why));
        }
        let mut bound = vec![Bound { kind, name: of("name").to_owned(), uid }];
        let node = text(object.0.get("spec"), "nodeName");
        if kind == BoundKind::Pod && !node.is_empty() {
            let uid = self.core_object("nodes", node).map(|(_, uid)| uid).unwrap_or_default();
            bound.push(Bound { kind: BoundKind::Node, name: node.to_owned(), uid });
        }
        Ok(bound)
    }

    fn core_object(&self, plural: &str, name: &str) -> Result<(Object, String), Status> {
        let missing = || Status::not_found(GroupResource { group: "", resource: plural }, name);
        let kind = self.api.kind("", "v1", plural).ok_or_else(missing)?;
        let entry = self.api.store.get(&kind.key(self.namespace, name)).ok_or_else(missing)?;
        Ok((self.api.decode_stored(&kind, &entry.value, entry.revision)?, entry.attrs.uid.to_string()))
    }
}

/// How long a token lives when nobody says.
fn lifetime(request: &mut Object) {
    if let Value::Object(spec) = request.0.entry("spec").or_insert_with(|| json!({})) {
        crate::kinds::defaults::set(spec, "expirationSeconds", DEFAULT_SECONDS);
    }
}

/// Whom a token is for and how long; those it is for by default are written into the spec.
fn terms(spec: &mut Value, ours: &[String]) -> Result<(Vec<String>, i64), Status> {
    if spec["audiences"].as_array().is_none_or(Vec::is_empty) {
        spec["audiences"] = json!(ours);
    }
    let seconds = spec["expirationSeconds"].as_i64().unwrap_or_default();
    let wrong = match seconds {
        ..MIN_SECONDS => "may not specify a duration less than 10 minutes",
        MIN_SECONDS..=MAX_SECONDS => return Ok((texts(spec.get("audiences")), seconds)),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let e = FieldError::invalid("spec.expirationSeconds", seconds, wrong);
    Err(Status::invalid(TOKEN_REQUEST.group, TOKEN_REQUEST.kind, "", &[e]))
}

impl Inner {
    /// Where the keys are, in OpenID Connect's words.
    pub(crate) fn openid_configuration(&self, _: &Authorized<'_>) -> Response<Body> {
        let Some(issuer) = self.options.authenticator.issuer() else { return render::no_page() };
        let base = if self.options.public_url.is_empty() { issuer.name() } else { &self.options.public_url };
        let document = json!({
            "issuer": issuer.name(),
            "jwks_uri": format!("{base}/openid/v1/jwks"),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        });
        published(&document, "application/json")
    }

    /// The public halves of the signing keys.
    pub(crate) fn openid_keys(&self, _: &Authorized<'_>) -> Response<Body> {
        let Some(issuer) = self.options.authenticator.issuer() else { return render::no_page() };
        published(&issuer.keys().key_set(), "application/jwk-set+json")
    }
}

fn published(document: &Value, content_type: &'static str) -> Response<Body> {
    let mut response = render::value(200, document);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
    response
}
