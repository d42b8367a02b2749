//! The client a manager works with, from what its configuration says.

use std::fs;

use http::{HeaderValue, Uri, header};
use kube::{
    Client, Config,
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig},
};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use tower::util::MapRequestLayer;

use crate::{BoxError, config::ApiSource, trace};

/// Connects lazily: an API that is away is no reason not to start.
pub async fn client(source: &ApiSource) -> Result<Client, BoxError> {
    let mut config = config(source).await?;
    let name = HeaderValue::from_static(concat!("muster/", env!("CARGO_PKG_VERSION")));
    config.headers.push((header::USER_AGENT, name));
    Ok(ClientBuilder::try_from(config)?.with_layer(&MapRequestLayer::new(trace::inject)).build())
}

/// How kube-rs is told of the API.
pub async fn config(source: &ApiSource) -> Result<Config, BoxError> {
    let options = |context: &Option<String>| KubeConfigOptions { context: context.clone(), ..Default::default() };
    Ok(match source {
        ApiSource::Found { context: None } => Config::infer().await?,
        ApiSource::Found { context } => Config::from_kubeconfig(&options(context)).await?,
        ApiSource::Kubeconfig { file, context } => {
            let kubeconfig = Kubeconfig::read_from(file)?;
            Config::from_custom_kubeconfig(kubeconfig, &options(context)).await?
        }
        ApiSource::Server { url, ca_file, token_file } => {
            let mut config = Config::new(url.parse::<Uri>()?);
            if let Some(file) = ca_file {
                let wrong = |why: &dyn std::fmt::Display| format!("{}: {why}", file.display());
                let pem = fs::read(file).map_err(|e| wrong(&e))?;
                let read = CertificateDer::pem_slice_iter(&pem).map(|found| found.map(|der| der.to_vec()));
                config.root_cert = Some(read.collect::<Result<_, _>>().map_err(|e| wrong(&e))?);
            }
            if let Some(file) = token_file {
                fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
                config.auth_info.token_file = Some(file.display().to_string());
            }
            config
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_is_made_from_a_file_or_an_address_and_mistakes_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let server = |ca_file: bool| ApiSource::Server {
            url: "https://127.0.0.1:6443".to_owned(),
            ca_file: ca_file.then(|| missing.clone()),
            token_file: None,
        };
        assert!(client(&server(false)).await.is_ok());
        let error = client(&server(true)).await.err().unwrap().to_string();
        assert!(error.contains("missing"), "{error}");
        let kubeconfig = folder.path().join("config");
        let text = "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: c, user: u}}], \
                    clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: u, user: {token: t}}]}";
        fs::write(&kubeconfig, text).unwrap();
        let source =
            |context: &str| ApiSource::Kubeconfig { file: kubeconfig.clone(), context: Some(context.to_owned()) };
        assert!(client(&source("a")).await.is_ok());
        assert!(client(&source("nowhere")).await.is_err());
        assert!(client(&ApiSource::Kubeconfig { file: missing, context: None }).await.is_err());
    }
}
