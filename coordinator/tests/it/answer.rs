//! An answer as a test looks at it.

use bytes::Bytes;
use protocol::{Code, Problem};
use reqwest::header::HeaderMap;
use serde_json::Value;

/// What came back, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
}

impl Answer {
    pub(crate) async fn read(response: reqwest::Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Self { status, headers, bytes: response.bytes().await.unwrap() }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// The JSON of an answer with this status.
    #[track_caller]
    pub(crate) fn json(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        serde_json::from_slice(&self.bytes).unwrap()
    }

    /// The JSON of an answer that went well.
    #[track_caller]
    pub(crate) fn ok(&self) -> Value {
        self.json(200)
    }

    /// The problem of an answer that must have this code, in the form that every refusal has.
    #[track_caller]
    pub(crate) fn refused(&self, code: Code) -> Problem {
        let text = self.text();
        assert_eq!(self.headers["content-type"], Problem::MEDIA_TYPE, "{} {text}", self.status);
        let problem: Problem = serde_json::from_slice(&self.bytes).unwrap();
        assert_eq!((problem.code, self.status), (code, code.status()), "{text}");
        assert_eq!(problem.status, code.status(), "{text}");
        assert_eq!(problem.request_id, self.headers["x-request-id"].to_str().unwrap());
        assert!(!problem.detail.is_empty() && !problem.detail.ends_with('.'), "{text}");
        problem
    }
}
