//! POSTs that do something instead of storing their body.

use crate::body::Body;
use crate::kinds::Action;
use crate::verbs::Call;
use http::Response;
use meta::Status;

impl Call<'_> {
    pub async fn act(&self, action: Action, body: &[u8]) -> Result<Response<Body>, Status> {
        match action {
            Action::Bind => self.bind(body).await,
            Action::Evict => self.evict(body).await,
        }
    }
}
