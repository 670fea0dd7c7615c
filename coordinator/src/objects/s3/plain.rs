//! Plain objects: copies that the server makes itself, so that no byte passes through here.

use std::io;

use object_store::path::Path as Key;
use object_store::{ObjectMeta, ObjectStore as _, ObjectStoreExt as _};
use tokio_stream::StreamExt as _;

use super::S3;
use super::failure::Doing;
use super::read::Pieces;
use crate::objects::plain::Plain;

/// What S3 takes as a key, in bytes.
const MAX_KEY_BYTES: usize = 1024;

impl S3 {
    /// Why there can be no plain object of this name.
    pub(in crate::objects) fn refuses(&self, name: &str) -> Option<String> {
        match self.key(name) {
            Err(_) => Some("its name has a control character, or a part of it is `.` or `..`".into()),
            Ok(key) if key.as_ref().len() > MAX_KEY_BYTES => {
                Some(format!("its key would have {} bytes, {MAX_KEY_BYTES} at most", key.as_ref().len()))
            }
            Ok(_) => None,
        }
    }

    fn plain(&self, name: &str) -> io::Result<Key> {
        self.key(name).map_err(|error| io::Error::new(io::ErrorKind::InvalidFilename, error))
    }

    pub(in crate::objects) async fn publish(&self, blob: &str, name: &str) -> io::Result<Plain> {
        let (from, to) = (self.blob(blob)?, self.plain(name)?);
        let store = &self.inner.store;
        store.copy(&from, &to).await.map_err(|error| self.failed(&error, Doing::Copy, to.as_ref()))?;
        let object = store.head(&to).await.map_err(|error| self.failed(&error, Doing::Read, to.as_ref()))?;
        Ok(described(object, name.to_owned()))
    }

    pub(in crate::objects) async fn unpublish(&self, names: &[String]) -> io::Result<()> {
        let keys = names.iter().map(|name| self.plain(name)).collect::<io::Result<Vec<_>>>()?;
        self.remove_keys(keys).await
    }

    /// All plain objects of a folder, with names that begin with it.
    pub(in crate::objects) async fn published(&self, folder: &str) -> io::Result<Vec<Plain>> {
        let folder = self.plain(folder)?;
        let own = self.inner.settings.prefix.len();
        let mut listed = self.inner.store.list(Some(&folder));
        let mut found = Vec::new();
        while let Some(object) = listed.next().await {
            let object = object.map_err(|error| self.failed(&error, Doing::List, folder.as_ref()))?;
            let name = object.location.as_ref()[own..].trim_start_matches('/').to_owned();
            found.push(described(object, name));
        }
        Ok(found)
    }

    pub(in crate::objects) async fn read_plain(&self, plain: &Plain) -> io::Result<Pieces> {
        Pieces::open_tagged(self.clone(), self.plain(&plain.name)?, &plain.tag, plain.size).await
    }
}

fn described(object: ObjectMeta, name: String) -> Plain {
    // Without a tag the time must do.
    let tag = object.e_tag.as_deref().map(|tag| unquoted(tag).to_owned());
    let tag = tag.unwrap_or_else(|| object.last_modified.timestamp_millis().to_string());
    Plain { name, size: object.size, tag }
}

/// Servers quote a tag in some answers and not in others.
pub(super) fn unquoted(tag: &str) -> &str {
    tag.trim_matches('"')
}
