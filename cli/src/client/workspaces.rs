//! The routes of sessions and their files, one function each. Never prints.

use std::time::Duration;

use protocol::SessionName;
use protocol::task::Page;
use protocol::workspace::{
    Deleted, EditRequest, Edited, Entry, Exec, ExecDone, FileContent, FileList, Fork, GlobMatches, GrepMatches, Made,
    MakeDirectory, Move, Moved, NewSession, NewSnapshot, Restore, Restored, SessionView, SnapshotView, Usage, Written,
};
use reqwest::{Method, Response};

use super::{Call, Client, Content, PageQuery, Received, Repeat, encoded};
use crate::failure::Result;

/// How long an upload may take before its first byte and after its last.
const UPLOAD_GRACE: Duration = Duration::from_secs(60);
/// Bytes a second that a slow line still has.
const SLOWEST: u64 = 64 << 10;
/// How long a command may wait for a worker, start and be reported, beyond the time that it has.
const EXEC_GRACE: Duration = Duration::from_secs(150);
const EXEC_DEFAULT_S: u32 = 120;
/// How long a search or a change of many files may take.
const LONG_ANSWER: Duration = Duration::from_secs(120);

/// What is read: a session, as it is or as a snapshot has it.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) session: SessionName,
    pub(crate) snapshot: Option<String>,
}

impl Source {
    fn get(&self, route: &str) -> Call {
        let call = Call::get(at(&self.session, route));
        match &self.snapshot {
            Some(snapshot) => call.query("snapshot", snapshot),
            None => call,
        }
    }
}

/// What a read asks for beyond its source: names and values as the route takes them.
pub(crate) type FileQuery<'text> = &'text [(&'static str, &'text str)];

/// What must be true of the file that is there before it is changed.
#[derive(Debug, Clone, Default)]
pub(crate) enum Condition {
    #[default]
    Any,
    /// Nothing is there.
    Absent,
    /// The file with this tag is there.
    Tag(String),
}

impl Condition {
    fn on(&self, call: Call) -> Call {
        match self {
            Self::Any => call,
            // A repeat would find what the first try made, and take it for another's.
            Self::Absent => call.header("if-none-match", "*").repeat(Repeat::OnlyUnsent),
            Self::Tag(tag) => call.header("if-match", &quoted(tag)).repeat(Repeat::OnlyUnsent),
        }
    }
}

/// A tag as a header has it, also when it was typed without its quotes.
fn quoted(tag: &str) -> String {
    if tag == "*" || tag.contains('"') { tag.to_owned() } else { format!("\"{tag}\"") }
}

fn at(session: &SessionName, route: &str) -> String {
    format!("/v1/workspaces/{}{route}", encoded(session.as_str()))
}

fn with(mut call: Call, query: FileQuery<'_>) -> Call {
    for (name, value) in query {
        call = call.query(name, value);
    }
    call
}

impl Client {
    /// One page of a directory.
    pub(crate) async fn files(&self, of: &Source, query: FileQuery<'_>) -> Result<Received<FileList>> {
        self.receive(with(of.get("/files"), query)).await
    }

    /// A file, directory or link.
    pub(crate) async fn file_entry(&self, of: &Source, path: &str) -> Result<Received<Entry>> {
        self.receive(of.get("/files/stat").query("path", path)).await
    }

    /// A file as text.
    pub(crate) async fn file_text(&self, of: &Source, path: &str) -> Result<Received<FileContent>> {
        self.receive(of.get("/files/content").query("path", path)).await
    }

    /// A file as it is.
    pub(crate) async fn file_bytes(&self, of: &Source, path: &str) -> Result<Response> {
        self.stream(of.get("/files/raw").query("path", path)).await
    }

    /// Writes a file whole, with these permission bits if any are given.
    pub(crate) async fn write_file(
        &self,
        session: &SessionName,
        path: &str,
        content: Content,
        (mode, condition): (Option<u32>, &Condition),
    ) -> Result<Received<Written>> {
        let within = UPLOAD_GRACE + Duration::from_secs(content.len() / SLOWEST);
        let call = Call::new(Method::PUT, at(session, "/files/content")).query("path", path);
        let call = match mode {
            Some(mode) => call.query("mode", format!("{mode:o}")),
            None => call,
        };
        self.receive(condition.on(call).content(content).within(within)).await
    }

    /// Replaces text in a file. A repeat would not find what the first try replaced.
    pub(crate) async fn edit_file(
        &self,
        session: &SessionName,
        edit: &EditRequest,
        condition: &Condition,
    ) -> Result<Received<Edited>> {
        let call = condition.on(Call::new(Method::POST, at(session, "/files/edit")).json(edit)?);
        self.receive(call.repeat(Repeat::OnlyUnsent)).await
    }

    /// Moves a file or a directory.
    pub(crate) async fn move_file(&self, session: &SessionName, how: &Move) -> Result<Received<Moved>> {
        let call = Call::new(Method::POST, at(session, "/files/move")).json(how)?;
        self.receive(call.repeat(Repeat::OnlyUnsent).within(LONG_ANSWER)).await
    }

    /// Deletes a file, or a directory with all that is below.
    pub(crate) async fn delete_file(
        &self,
        session: &SessionName,
        path: &str,
        condition: &Condition,
    ) -> Result<Received<Deleted>> {
        let call = Call::new(Method::DELETE, at(session, "/files")).query("path", path);
        self.receive(condition.on(call).repeat(Repeat::OnlyUnsent).within(LONG_ANSWER)).await
    }

    /// Makes a directory and those above it.
    pub(crate) async fn make_directory(&self, session: &SessionName, path: &str) -> Result<Received<Made>> {
        let wanted = MakeDirectory { path: path.to_owned() };
        self.receive(Call::new(Method::POST, at(session, "/files/mkdir")).json(&wanted)?).await
    }

    /// Paths that fit a pattern.
    pub(crate) async fn glob(&self, of: &Source, query: FileQuery<'_>) -> Result<Received<GlobMatches>> {
        self.receive(with(of.get("/files/glob"), query).within(LONG_ANSWER)).await
    }

    /// Lines that fit a pattern.
    pub(crate) async fn grep(&self, of: &Source, query: FileQuery<'_>) -> Result<Received<GrepMatches>> {
        self.receive(with(of.get("/files/grep"), query).within(LONG_ANSWER)).await
    }

    /// A directory as a compressed archive.
    pub(crate) async fn archive(&self, of: &Source, path: &str) -> Result<Response> {
        self.stream(of.get("/archive").query("path", path)).await
    }

    /// How much of its quota a session uses.
    pub(crate) async fn usage(&self, session: &SessionName) -> Result<Received<Usage>> {
        self.receive(Call::get(at(session, "/usage"))).await
    }

    /// One page of sessions.
    pub(crate) async fn sessions(&self, query: &PageQuery) -> Result<Received<Page<SessionView>>> {
        let mut call = Call::get("/v1/workspaces").query("limit", query.limit);
        for (name, value) in &query.filters {
            call = call.query(name, value);
        }
        if let Some(cursor) = &query.cursor {
            call = call.query("cursor", cursor);
        }
        self.receive(call).await
    }

    /// A session.
    pub(crate) async fn session(&self, session: &SessionName) -> Result<Received<SessionView>> {
        self.receive(Call::get(at(session, ""))).await
    }

    /// Makes a session.
    pub(crate) async fn create_session(&self, new: &NewSession) -> Result<Received<SessionView>> {
        self.receive(Call::new(Method::POST, "/v1/workspaces").json(new)?.repeat(Repeat::OnlyUnsent)).await
    }

    /// Makes a session that begins as another is.
    pub(crate) async fn fork_session(&self, session: &SessionName, fork: &Fork) -> Result<Received<SessionView>> {
        let call = Call::new(Method::POST, at(session, "/fork")).json(fork)?;
        self.receive(call.repeat(Repeat::OnlyUnsent).within(LONG_ANSWER)).await
    }

    /// Deletes a session with all its files and snapshots.
    pub(crate) async fn delete_session(&self, session: &SessionName) -> Result<Received<SessionView>> {
        let call = Call::new(Method::DELETE, at(session, ""));
        self.receive(call.repeat(Repeat::OnlyUnsent).within(LONG_ANSWER)).await
    }

    /// The snapshots of a session.
    pub(crate) async fn snapshots(&self, session: &SessionName) -> Result<Received<Page<SnapshotView>>> {
        self.receive(Call::get(at(session, "/snapshots"))).await
    }

    /// Keeps the newest version under a name.
    pub(crate) async fn keep_snapshot(&self, session: &SessionName, name: &str) -> Result<Received<SnapshotView>> {
        let call = Call::new(Method::POST, at(session, "/snapshots")).json(&NewSnapshot { name: name.to_owned() })?;
        self.receive(call.repeat(Repeat::OnlyUnsent)).await
    }

    /// Forgets a snapshot.
    pub(crate) async fn forget_snapshot(&self, session: &SessionName, name: &str) -> Result<()> {
        let call = Call::new(Method::DELETE, at(session, &format!("/snapshots/{}", encoded(name))));
        self.stream(call.repeat(Repeat::OnlyUnsent)).await.map(drop)
    }

    /// Makes a session as a snapshot has it.
    pub(crate) async fn restore(&self, session: &SessionName, snapshot: &str) -> Result<Received<Restored>> {
        let wanted = Restore { snapshot: snapshot.to_owned() };
        self.receive(Call::new(Method::POST, at(session, "/restore")).json(&wanted)?.within(LONG_ANSWER)).await
    }

    /// Runs a command and waits for it. Hanging up cancels it, so it is never sent twice.
    pub(crate) async fn exec(&self, session: &SessionName, exec: &Exec) -> Result<Received<ExecDone>> {
        let time = Duration::from_secs(exec.timeout_s.unwrap_or(EXEC_DEFAULT_S).into());
        let call = Call::new(Method::POST, at(session, "/exec")).json(exec)?.repeat(Repeat::OnlyUnsent);
        self.receive(call.within(time + EXEC_GRACE)).await
    }
}
