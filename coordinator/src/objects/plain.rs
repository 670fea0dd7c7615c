//! Plain objects: copies of blobs under the names that people know, for those who look with tools of their own. They are
//! written here and never read back, except to take in what others put there.

use std::io;

use super::{Objects, Reading, Source, blocking};

/// A plain object as the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plain {
    /// Its name: `<folder>/<path>`.
    pub name: String,
    /// Its bytes.
    pub size: u64,
    /// What changes whenever somebody writes it: the server's tag, or a file's time and number.
    pub tag: String,
}

impl Objects {
    /// Why there can be no plain object of this name; none when there can.
    #[must_use]
    pub fn refuses(&self, name: &str) -> Option<String> {
        match self {
            Self::Dir(_) => None,
            Self::S3(s3) => s3.refuses(name),
        }
    }

    /// Copies a blob to a name, in place of what is there. Done twice it changes nothing.
    ///
    /// # Errors
    /// When the blob is not there, or the store does not take the copy.
    pub async fn publish(&self, blob: &str, name: &str) -> io::Result<Plain> {
        match self {
            Self::Dir(directory) => {
                let (directory, blob, name) = (directory.clone(), blob.to_owned(), name.to_owned());
                blocking(move || directory.publish(&blob, &name)).await
            }
            Self::S3(s3) => s3.publish(blob, name).await,
        }
    }

    /// Removes plain objects; one that is not there is removed already.
    ///
    /// # Errors
    /// When one cannot be removed; the others may be gone.
    pub async fn unpublish(&self, names: Vec<String>) -> io::Result<()> {
        match self {
            Self::Dir(directory) => {
                let directory = directory.clone();
                blocking(move || names.iter().try_for_each(|name| directory.unpublish(name))).await
            }
            Self::S3(s3) => s3.unpublish(&names).await,
        }
    }

    /// All plain objects of a folder, whoever wrote them.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub async fn published(&self, folder: &str) -> io::Result<Vec<Plain>> {
        match self {
            Self::Dir(directory) => {
                let (directory, folder) = (directory.clone(), folder.to_owned());
                blocking(move || directory.published(&folder)).await
            }
            Self::S3(s3) => s3.published(folder).await,
        }
    }

    /// Begins to read a plain object, as it was listed. One that changes meanwhile is an error.
    ///
    /// # Errors
    /// When it is not there any more, or cannot be read.
    pub async fn read_plain(&self, plain: &Plain) -> io::Result<Reading> {
        let source = match self {
            Self::Dir(directory) => {
                let (directory, plain) = (directory.clone(), plain.clone());
                Source::Dir(blocking(move || directory.open_plain(&plain)).await?)
            }
            Self::S3(s3) => Source::S3(Box::new(s3.read_plain(plain).await?)),
        };
        Ok(Reading { source, left: plain.size })
    }
}
