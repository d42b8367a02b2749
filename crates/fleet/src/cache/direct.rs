//! Lists a member's objects without keeping them: for what is not in memory, or too much for it.

use http::Request;
use kube::Client;
use runtime::Key;
use serde_json::Value;

use super::{
    Bytes, Selection, Subject,
    follow::{PAGE, Page, is_too_large},
    store::compact,
};
use crate::CallError;

/// The selected objects, page by page. The member does the selecting; `most` bytes of objects are taken, and no more.
pub(super) async fn list(
    member: &str,
    client: &Client,
    subject: &Subject,
    selection: &Selection,
    most: usize,
) -> Result<Vec<(Key, Bytes)>, kube::Error> {
    let elsewhere = |wanted: &String| subject.namespace.as_ref().is_some_and(|only| only != wanted);
    if selection.namespace.as_ref().is_some_and(elsewhere) {
        return Ok(Vec::new());
    }
    let namespace = selection.namespace.clone().or_else(|| subject.namespace.clone());
    let path = Subject { namespace, ..subject.clone() }.path();
    let terms = selection.labels.iter().map(|(name, value)| format!("{name}={value}"));
    let selector = subject.selector.iter().cloned().chain(terms).collect::<Vec<_>>().join(",");
    let (mut objects, mut size, mut limit) = (Vec::new(), 0, PAGE);
    let mut next: Option<String> = None;
    loop {
        let url = url(&path, limit, &selector, next.as_deref());
        let request = Request::get(url).body(Vec::new()).map_err(kube::Error::HttpError)?;
        let body = match client.request_text(request).await {
            Err(error) if limit > 1 && is_too_large(&error) => {
                limit = (limit / 4).max(1);
                continue;
            }
            body => body?,
        };
        let page: Page<'_> = serde_json::from_str(&body).map_err(kube::Error::SerdeError)?;
        for object in page.items.unwrap_or_default() {
            let Ok(object) = serde_json::from_str::<Value>(object.get()) else { continue };
            let Some((key, _, bytes)) = compact(object, subject.is_secret()) else { continue };
            size += bytes.len();
            if size > most {
                let too_large = CallError::TooLarge { member: member.into(), most };
                return Err(kube::Error::Service(Box::new(too_large)));
            }
            objects.push((key, bytes));
        }
        next = page.metadata.r#continue.filter(|next| !next.is_empty());
        if next.is_none() {
            return Ok(objects);
        }
    }
}

fn url(path: &str, limit: usize, selector: &str, next: Option<&str>) -> String {
    let mut query = form_urlencoded::Serializer::for_suffix(format!("{path}?"), path.len() + 1);
    query.append_pair("limit", &limit.to_string());
    if !selector.is_empty() {
        query.append_pair("labelSelector", selector);
    }
    if let Some(next) = next {
        query.append_pair("continue", next);
    }
    query.finish()
}
