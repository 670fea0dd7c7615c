//! Whether a bucket can be used, tried by what will be done to it: write, read, list and delete. And whether it is ours: two
//! coordinators on one prefix would sweep each other's blobs away.

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use object_store::ObjectStore as _;
use tokio_stream::StreamExt as _;

use super::S3;
use super::failure::{Cause, Doing};
use crate::objects::directory::random;

impl S3 {
    pub(super) async fn check(&self) -> anyhow::Result<()> {
        let mark = random()?;
        let key = self.key(&format!(".cw/check-{mark}")).context("CW_S3_PREFIX cannot begin a key")?;
        let bytes = Bytes::from(mark);
        self.put_small(&key, bytes.clone()).await?;
        let back = self.get_small(&key).await?;
        ensure!(back == bytes, self.because(Cause::Damaged("other bytes".into()), Doing::Read, key.as_ref()));
        self.list_some().await?;
        self.own().await?;
        self.remove_keys(vec![key]).await?;
        Ok(())
    }

    async fn list_some(&self) -> anyhow::Result<()> {
        let folder = self.key(".cw")?;
        let first = self.inner.store.list(Some(&folder)).next().await;
        let first = first.transpose().map_err(|error| self.failed(&error, Doing::List, folder.as_ref()))?;
        ensure!(first.is_some(), "the object store does not list what was just written to it under {folder}");
        Ok(())
    }

    /// Leaves our mark, or finds it.
    async fn own(&self) -> anyhow::Result<()> {
        let key = self.key(".cw/owner")?;
        let ours = self.inner.notes.mark()?;
        match self.get_small(&key).await {
            Ok(found) if found == ours.as_bytes() => Ok(()),
            Ok(_) => bail!(
                "{key} in bucket {} says that another coordinator keeps its files there: choose another CW_S3_PREFIX. If that \
                 coordinator is gone for good and this one has its database, delete that object and start again",
                self.inner.settings.bucket,
            ),
            Err(failure) if failure.cause == Cause::NotFound => Ok(self.put_small(&key, ours.into()).await?),
            Err(failure) => Err(failure.into()),
        }
    }
}
