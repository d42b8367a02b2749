//! `/muster.dev/backup`: a consistent copy of the store, taken while it works and sent as it is read.

mod folder;

use crate::Inner;
use crate::body::Body;
use crate::objects::storage;
use crate::render;
use auth::Authorized;
use bytes::Bytes;
use folder::Folder;
use http::Response;
use meta::Status;
use tokio::fs::File;
use tokio::io::AsyncReadExt;

const CHUNK: usize = 256 * 1024;

impl Inner {
    pub(crate) async fn backup(&self, _: &Authorized<'_>) -> Result<Response<Body>, Status> {
        let uid = self.uid();
        let made = tokio::task::spawn_blocking(move || {
            sweep();
            Folder::make(&std::env::temp_dir(), &uid)
        });
        let folder = made.await.map_err(Status::internal)?.map_err(Status::internal)?;
        self.store.backup(&folder.copy()).await.map_err(storage)?;
        let copy = File::open(folder.copy()).await.map_err(Status::internal)?;
        // The open file lives on without its name, and is gone when the answer has been sent or given up.
        drop(folder);
        let stream = futures_util::stream::unfold(copy, |mut file| async move {
            let mut chunk = vec![0; CHUNK];
            let n = file.read(&mut chunk).await.ok().filter(|n| *n > 0)?;
            chunk.truncate(n);
            Some((Bytes::from(chunk), file))
        });
        Ok(render::build(200, "application/octet-stream", Body::stream(stream)))
    }
}

/// Removes what backups of processes that were killed left behind.
pub(crate) fn sweep() {
    folder::sweep(&std::env::temp_dir());
}
