//! POSTs that do something instead of storing their body.

use crate::access::About;
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
            Action::ReviewAccess => self.review_access(About::Anybody, body),
            Action::ReviewAccessHere => self.review_access(About::AnybodyHere, body),
            Action::ReviewMyAccess => self.review_access(About::Myself, body),
            Action::ReviewMyRules => self.review_rules(body),
            Action::ReviewMyself => self.review_self(body),
            Action::ReviewToken => self.review_token(body),
            Action::RequestToken => self.request_token(body).await,
        }
    }
}
