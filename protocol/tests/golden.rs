//! Every message as it was once sent. A file of a released version never changes and never goes: programs of that version
//! are still out there, and this crate must read and write what they do. A new form of a message is a new file.

#![allow(clippy::unwrap_used, reason = "a file that cannot be read must fail its test")]

use std::collections::BTreeSet;
use std::path::PathBuf;

use protocol::admin::{CreatedKey, FeedEvent, KeyView, NewKey, RepoChange, RepoView, Version, WorkerView};
use protocol::artifact::Uploaded;
use protocol::event::{EventsAccepted, StateEvent};
use protocol::lease::LeaseEnded;
use protocol::task::Page;
use protocol::why::{Why, WhyCode};
use protocol::workspace::frames::{BlobFrame, StageFrame};
use protocol::workspace::{
    BlobsRequest, Deleted, EditRequest, Edited, Entry, Exec, ExecDone, FileContent, FileList, Fork, GlobMatches,
    GrepMatches, Made, MakeDirectory, ManifestLine, Move, Moved, NewSession, NewSnapshot, Restore, Restored,
    SessionView, SnapshotView, Staged, Usage, Written,
};
use protocol::{
    Code, EventBatch, LeaseGrant, LeaseRequest, Problem, Reason, Release, Renew, Renewed, Report, Spec, TaskRow,
    TaskState, TaskView,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn read(name: &str) -> Vec<u8> {
    std::fs::read(directory().join(name).with_extension("json")).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Decodes a file into its type, and encodes it back to the same JSON.
fn round_trip<T: Serialize + DeserializeOwned>(name: &str) {
    let text = read(name);
    let message: T = protocol::decode(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
    let expected: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(serde_json::to_value(&message).unwrap(), expected, "{name}");
}

macro_rules! golden {
    ($($message:ty: $($name:literal)+;)+) => {
        /// The names of all files.
        const NAMES: &[&str] = &[$($($name,)+)+];

        #[test]
        fn every_message_is_still_read_and_written_as_it_was() {
            $($(round_trip::<$message>($name);)+)+
        }
    };
}

golden! {
    Spec: "spec-python" "spec-javascript" "spec-shell" "spec-command" "spec-agent" "spec-prompt" "spec-session";
    LeaseRequest: "lease-request" "lease-request-draining" "lease-request-gone";
    LeaseGrant: "lease-grant";
    Renew: "renew";
    Renewed: "renewed" "renewed-cancel";
    EventBatch: "event-batch";
    EventsAccepted: "events-accepted";
    Report: "report-exited" "report-exited-nonzero" "report-signalled" "report-timeout" "report-idle-timeout"
        "report-cancelled" "report-oom" "report-cpu-limit" "report-disk-limit" "report-output-limit" "report-budget"
        "report-setup-failed" "report-confinement-unavailable" "report-policy-denied" "report-agent-error"
        "report-push-failed" "report-artifacts" "report-stage";
    Release: "release";
    LeaseEnded: "lease-ended";
    TaskRow: "task-row";
    TaskView: "task-queued" "task-done" "task-failed" "task-artifacts" "task-conflict"
        "task-quota";
    Uploaded: "uploaded";
    Page<TaskView>: "task-page" "task-page-last";
    NewKey: "new-key" "new-key-admin";
    KeyView: "key" "key-revoked";
    CreatedKey: "created-key";
    RepoView: "repo";
    RepoChange: "repo-change" "repo-change-back";
    WorkerView: "worker";
    Why: "why";
    Vec<WhyCode>: "why-codes";
    Vec<Reason>: "reasons";
    Vec<TaskState>: "states";
    Vec<Code>: "codes";
    Problem: "problem" "problem-fields" "problem-gap" "problem-quota" "problem-busy";
    FileList: "file-list";
    Entry: "file-entry";
    FileContent: "file-content";
    Written: "written";
    EditRequest: "edit" "edit-several";
    Edited: "edited";
    Move: "move";
    Moved: "moved";
    MakeDirectory: "mkdir";
    Made: "made";
    Deleted: "deleted";
    GlobMatches: "glob";
    GrepMatches: "grep";
    NewSession: "new-session" "new-session-bare";
    SessionView: "session" "session-free";
    Page<SessionView>: "session-page";
    Usage: "usage";
    Fork: "fork" "fork-newest";
    NewSnapshot: "new-snapshot";
    SnapshotView: "snapshot";
    Restore: "restore";
    Restored: "restored";
    Exec: "exec" "exec-argv";
    ExecDone: "exec-done";
    Vec<ManifestLine>: "manifest";
    BlobsRequest: "blobs-request";
    Vec<BlobFrame>: "blob-frames";
    Vec<StageFrame>: "stage-frames";
    Staged: "staged";
    StateEvent: "state-event" "state-event-queued";
    FeedEvent: "feed-event";
    Version: "version";
}

#[test]
fn every_file_is_read_by_a_test() {
    let files: BTreeSet<String> = std::fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(files, NAMES.iter().map(|name| (*name).to_owned()).collect());
}

#[test]
fn closed_lists_only_grow() {
    let words = |name: &str| serde_json::from_slice::<BTreeSet<String>>(&read(name)).unwrap();
    let known = |words: &[&'static str]| words.iter().map(|&word| word.to_owned()).collect::<BTreeSet<_>>();
    assert!(words("codes").is_subset(&known(&Code::ALL.iter().map(|code| code.as_str()).collect::<Vec<_>>())));
    assert_eq!(words("reasons"), known(&Reason::ALL.iter().map(|reason| reason.as_str()).collect::<Vec<_>>()));
    assert_eq!(words("states"), known(&TaskState::ALL.iter().map(|state| state.as_str()).collect::<Vec<_>>()));
}

#[test]
fn every_spec_obeys_its_own_rules() {
    for name in NAMES.iter().filter(|name| name.starts_with("spec-")) {
        let spec: Spec = protocol::decode(&read(name)).unwrap();
        assert_eq!(spec.check(), Ok(()), "{name}");
    }
}

#[test]
fn a_report_may_carry_nothing_but_its_outcome() {
    let bare: Report = protocol::decode(br#"{"outcome": "oom"}"#).unwrap();
    let full: Report = protocol::decode(&read("report-oom")).unwrap();
    assert_eq!(bare, full);
    assert_eq!(protocol::decode::<Renew>(b"{}"), Ok(Renew { wait_s: 0 }));
    assert_eq!(protocol::decode::<Release>(b"{}"), Ok(Release { reason: None }));
}

#[test]
fn a_code_of_a_newer_coordinator_is_read_as_unknown() {
    let newer =
        String::from_utf8(read("problem")).unwrap().replace("\"code\": \"lease_lost\"", "\"code\": \"not_yet\"");
    let problem: Problem = protocol::decode(newer.as_bytes()).unwrap();
    assert_eq!(problem.code, Code::Unknown);
}
