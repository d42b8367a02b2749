//! Certificates without ceremony: one authority in a directory, leaves that renew themselves, and kubeconfigs that use them.

mod authority;
mod files;
mod identity;
mod kubeconfig;

pub use authority::{Authority, Names};
pub use files::write_private;
pub use identity::Identity;
pub use kubeconfig::{Endpoint, Kubeconfig};

use std::{io, path::PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {doing} {path}: {source}")]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "half of the certificate authority is missing: {present} is there, {missing} is not. Restore the missing file from a \
         backup; or remove {present} to start with a new authority (every kubeconfig issued so far stops working)"
    )]
    HalfAuthority { present: PathBuf, missing: PathBuf },
    #[error(
        "{path} cannot be used: {problem}. Restore it from a backup, or remove it and its pair to have new ones made"
    )]
    Unusable { path: PathBuf, problem: String },
    #[error("the private key {key} does not belong to the certificate {certificate}")]
    Mismatch { certificate: PathBuf, key: PathBuf },
    #[error("a certificate could not be made: {0}")]
    Generate(#[from] rcgen::Error),
}
