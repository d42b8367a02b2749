//! A request that goes on as somebody else, when its caller may.

use crate::Inner;
use auth::{Impersonation, Request, User};
use http::HeaderMap;
use meta::Status;
use std::sync::Arc;

impl Inner {
    /// Who the request goes on as; none when nothing of the kind is asked for.
    pub(crate) fn impersonate(&self, caller: &Arc<User>, headers: &HeaderMap) -> Result<Option<Arc<User>>, Status> {
        let asked = Impersonation::requested(headers).map_err(|e| Status::bad_request(e.to_string()))?;
        let Some(asked) = asked else { return Ok(None) };
        for claim in asked.claims() {
            self.authorize(Request {
                user: caller,
                verb: "impersonate",
                group: claim.group,
                version: "v1",
                resource: claim.resource,
                subresource: claim.subresource,
                namespace: claim.namespace,
                name: claim.name,
                path: "",
            })?;
        }
        Ok(Some(Arc::new(asked.user())))
    }
}
