//! OpenAPI documents, made from the schema room's facts on first use.
use crate::Inner; use crate::body::Body; use auth::Authorized; use http::{HeaderMap, Response}; use meta::Status;
#[derive(Default)]
pub(crate) struct Documents;
impl Inner {
    pub(crate) fn openapi_v2(&self, _: &Authorized, _: &HeaderMap) -> Result<Response<Body>, Status> { Err(Status::no_such_resource()) }
    pub(crate) fn openapi_v3(&self, _: &Authorized, _: &[&str], _: &HeaderMap, _: Option<&str>) -> Result<Response<Body>, Status> { Err(Status::no_such_resource()) }
}
