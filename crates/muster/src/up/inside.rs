//! Our API server as a `kube::Client`, without a socket: the one place where the two halves meet.

use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};

use apiserver::{Api, Body, audit::OwnQuestion};
use auth::{MASTERS, Peer, User};
use gateway::RightsQuestion;
use http::{HeaderValue, Request, Response, header};
use kube::{Client, client};
use tower::Service;

/// Requests of this process to the API server in it.
#[derive(Clone)]
struct Inside {
    api: Api,
    peer: Peer,
}

impl Service<Request<client::Body>> for Inside {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<client::Body>) -> Self::Future {
        let mut request = runtime::trace::inject(request);
        request.extensions_mut().insert(self.peer.clone());
        if request.extensions().get::<RightsQuestion>().is_some() {
            request.extensions_mut().insert(OwnQuestion);
        }
        let name = HeaderValue::from_static(concat!("muster/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().entry(header::USER_AGENT).or_insert(name);
        let api = self.api.clone();
        Box::pin(async move { Ok(api.handle(request).await) })
    }
}

/// A part of this process: an administrator that the audit log knows by its name.
pub fn part(api: &Api, name: &str) -> Client {
    let user = User::authenticated(format!("system:muster:{name}"), "", [MASTERS.to_owned()]);
    Client::new(Inside { api: api.clone(), peer: Peer::in_process(user) }, "default")
}

/// Nobody, unless the request says who: what comes through it is decided by the credentials it carries.
pub fn nobody(api: &Api) -> Client {
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    Client::new(Inside { api: api.clone(), peer: Peer::plain(here) }, "default")
}

#[cfg(test)]
mod tests {
    use auth::{Authenticator, Authorizer};
    use k8s_openapi::api::{authentication::v1::SelfSubjectReview, core::v1::ConfigMap};
    use kube::{api::PostParams, core::ObjectMeta};
    use store::Store;

    use super::*;

    fn api() -> Api {
        let authenticator = Authenticator::new(auth::Options::default()).unwrap();
        let options = apiserver::Options::new(authenticator, Authorizer::new());
        Api::new(
            Store::memory(store::Options { describe: apiserver::describe(), ..store::Options::default() }),
            options,
        )
    }

    #[tokio::test]
    async fn a_part_is_known_by_its_name_and_nobody_is_refused() {
        let api = api();
        let ask = |client: Client| async move {
            let reviews: kube::Api<SelfSubjectReview> = kube::Api::all(client);
            reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await
        };
        let who = ask(part(&api, "hub")).await.unwrap().status.unwrap().user_info.unwrap();
        assert_eq!(who.username.as_deref(), Some("system:muster:hub"));
        assert!(who.groups.unwrap().iter().any(|group| group == MASTERS));
        let error = ask(nobody(&api)).await.unwrap_err();
        assert!(matches!(&error, kube::Error::Api(status) if status.code == 401), "{error}");
    }

    #[tokio::test]
    async fn objects_are_written_and_read_without_a_socket() {
        let api = api();
        let maps: kube::Api<ConfigMap> = kube::Api::namespaced(part(&api, "hub"), "default");
        let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> = kube::Api::all(part(&api, "hub"));
        let named = |name: &str| ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let namespace = k8s_openapi::api::core::v1::Namespace { metadata: named("default"), ..Default::default() };
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        let map = ConfigMap { metadata: named("a"), ..ConfigMap::default() };
        maps.create(&PostParams::default(), &map).await.unwrap();
        assert!(maps.get("a").await.unwrap().metadata.uid.is_some());
    }
}
