//! `/muster.dev/backup`: a consistent copy of the store, taken while it works and sent as it is read.

use crate::Inner;
use crate::body::Body;
use crate::objects::storage;
use crate::render;
use auth::Authorized;
use bytes::Bytes;
use http::Response;
use meta::Status;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use tokio::fs::File;
use tokio::io::AsyncReadExt;

const CHUNK: usize = 256 * 1024;

impl Inner {
    pub(crate) async fn backup(&self, _: &Authorized<'_>) -> Result<Response<Body>, Status> {
        // A folder of our own: nobody else reads the copy, and nobody can have put a link in its place.
        let folder = std::env::temp_dir().join(format!("muster-backup-{}", self.uid()));
        DirBuilder::new().mode(0o700).create(&folder).map_err(Status::internal)?;
        let path = folder.join("backup");
        let made = self.store.backup(&path).await.map_err(storage);
        let opened = match made {
            Ok(_) => File::open(&path).await.map_err(Status::internal),
            Err(status) => Err(status),
        };
        // The open file lives on without its name, and is gone when the answer has been sent or given up.
        let _ = std::fs::remove_dir_all(&folder);
        let stream = futures_util::stream::unfold(opened?, |mut file| async move {
            let mut chunk = vec![0; CHUNK];
            let n = file.read(&mut chunk).await.ok().filter(|n| *n > 0)?;
            chunk.truncate(n);
            Some((Bytes::from(chunk), file))
        });
        Ok(render::build(200, "application/octet-stream", Body::stream(stream)))
    }
}
