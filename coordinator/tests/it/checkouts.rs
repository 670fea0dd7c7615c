//! What a lease lays out and brings back. Everything that a worker sends is hostile until it was checked, and nothing of a
//! stage counts before all of it came and its report published it.

use std::io::Write as _;

use protocol::Code;
use protocol::workspace::frames::encode;
use reqwest::Method;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::files::Files;
use crate::running::{Running, eventually, short_leases, spec_with};
use crate::worker::Lease;

/// A frame: its header, and the bytes that follow.
type Frame = (Value, Vec<u8>);

fn file(path: &str, bytes: impl Into<Vec<u8>>) -> Frame {
    let bytes = bytes.into();
    (json!({"kind": "file", "path": path, "mode": 0o644, "size": bytes.len()}), bytes)
}

fn frames(frames: &[Frame]) -> Vec<u8> {
    let mut stream = unended(frames);
    stream.extend(encode(&json!({"kind": "end", "count": frames.len()})).unwrap());
    stream
}

fn unended(frames: &[Frame]) -> Vec<u8> {
    frames.iter().flat_map(|(header, bytes)| [encode(header).unwrap(), bytes.clone()].concat()).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

async fn leased(on: &Running, more: Value) -> Lease {
    let mut spec = spec_with("a", json!({"session": "s"}));
    for (name, value) in more.as_object().unwrap() {
        spec[name] = value.clone();
    }
    on.submit(&spec).await;
    let lease = on.worker(&["a"]).await.lease().await;
    lease.renew(0).await.ok();
    lease
}

impl Lease {
    async fn bare(&self, method: Method, path: &str, body: Vec<u8>) -> Answer {
        let url = format!("{}/v1/leases/{}/workspace{path}", self.url(), self.id);
        let request = self.http().request(method, url).bearer_auth(&self.worker.key);
        Answer::read(request.header("content-type", "application/json").body(body).send().await.unwrap()).await
    }

    /// The manifest's lines.
    async fn manifest(&self, query: &str) -> Vec<Value> {
        let answer = self.bare(Method::GET, query, Vec::new()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let lines: Vec<Value> = answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let end = lines.last().unwrap();
        assert_eq!((end["type"].as_str(), end["lines"].as_u64()), (Some("end"), Some(lines.len() as u64 - 2)));
        lines
    }

    async fn version(&self) -> u64 {
        self.manifest("").await[0]["version"].as_u64().unwrap()
    }

    async fn stage(&self, base: u64, all: &[Frame]) -> Answer {
        self.stage_bytes(base, gzip(&frames(all))).await
    }

    async fn stage_bytes(&self, base: u64, bytes: Vec<u8>) -> Answer {
        self.bare(Method::PUT, &format!("/stage?base={base}"), bytes).await
    }

    async fn blobs(&self, sums: &[&str]) -> Answer {
        self.bare(Method::POST, "/blobs", json!({"sha256": sums}).to_string().into_bytes()).await
    }

    /// Stages on the newest version and reports.
    async fn publish(&self, all: &[Frame]) {
        let staged = self.stage(self.version().await, all).await.ok();
        self.report(&json!({"outcome": {"exited": {"code": 0}}, "stage": staged["stage"]})).await.ok();
    }
}

/// The contents of a stream of frames, by sum.
fn contents(mut stream: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    loop {
        let length = u32::from_be_bytes(stream[..4].try_into().unwrap()) as usize;
        let header: Value = serde_json::from_slice(&stream[4..4 + length]).unwrap();
        stream = &stream[4 + length..];
        if header["kind"] == "end" {
            assert_eq!((header["count"].as_u64(), stream.len()), (Some(found.len() as u64), 0));
            return found;
        }
        let size = usize::try_from(header["size"].as_u64().unwrap()).unwrap();
        found.push((header["sha256"].as_str().unwrap().to_owned(), stream[..size].to_vec()));
        stream = &stream[size..];
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_s_files_go_down_and_what_it_changed_comes_back_by_its_report() {
    let on = Running::start().await;
    let files = Files::of(&on, "s");
    files.write("src/a.py", "a").await;
    files.put("big.bin", &vec![9; 700_000], &[]).await.ok();
    files.write("gone/x", "x").await;
    let lease = leased(&on, json!({})).await;
    let manifest = lease.manifest("").await;
    assert_eq!((manifest[0]["mode"].as_str(), manifest[0]["difference"].as_str()), (Some("write"), Some("whole")));
    let paths: Vec<_> = manifest.iter().filter_map(|line| line["path"].as_str()).collect();
    assert_eq!(paths, ["big.bin", "gone", "gone/x", "src", "src/a.py", "skills", "utils"]);
    let sums: Vec<_> = manifest.iter().filter_map(|line| line["sha256"].as_str()).collect();
    let found = contents(&lease.blobs(&sums).await.bytes);
    assert_eq!(found.len(), 3);
    assert!(found.iter().zip(&sums).all(|((sum, _), wanted)| sum == wanted), "in the order that was asked for");
    assert_eq!(found[0].1, vec![9; 700_000]);
    let base = manifest[0]["version"].as_u64().unwrap();
    let setuid = (json!({"kind": "file", "path": "tool", "mode": 0o106_755, "size": 1}), vec![b't']);
    let all = [
        file("src/a.py", "changed"),
        file("new/deep/file", vec![1; 400_000]),
        setuid,
        (json!({"kind": "directory", "path": "empty", "mode": 0o700}), vec![]),
        (json!({"kind": "symlink", "path": "link", "target": "../../etc/passwd"}), vec![]),
        (json!({"kind": "delete", "path": "gone"}), vec![]),
    ];
    let staged = lease.stage(base, &all).await.ok();
    assert_eq!(
        (staged["entries"].as_u64(), staged["deletes"].as_u64(), staged["bytes"].as_u64()),
        (Some(5), Some(1), Some(400_008))
    );
    assert_eq!(files.text("src/a.py").await, "a", "not before the report");
    lease.report(&json!({"outcome": {"exited": {"code": 1}}, "stage": staged["stage"]})).await.ok();
    lease.report(&json!({"outcome": {"exited": {"code": 1}}, "stage": staged["stage"]})).await.ok();
    let published = on.done(&lease.task).await["result"]["published"].clone();
    assert_eq!(published, json!({"version": base + 1, "added": 6, "changed": 1, "deleted": 2, "bytes": 400_008}));
    assert_eq!(files.names("").await, ["empty", "new", "skills", "src", "utils", "big.bin", "link", "tool"]);
    assert_eq!(files.text("src/a.py").await, "changed");
    assert_eq!(files.get("/files/stat", &[("path", "tool")]).await.ok()["mode"], 0o755, "setuid is dropped");
    files.read("link").await.refused(Code::IsASymlink);
    files.read("link/x").await.refused(Code::NotFound);
    let on = Running::start_in(on.stop().await, |_| {}).await;
    assert_eq!(Files::of(&on, "s").get("/files/raw", &[("path", "new/deep/file")]).await.bytes, vec![1; 400_000]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_differences_are_told_to_a_worker_that_has_an_older_version() {
    let on = Running::start().await;
    let files = Files::of(&on, "s");
    files.write("same", "1").await;
    let since = files.write("gone", "1").await["version"].as_u64().unwrap();
    files.send(Method::DELETE, "/files", &[("path", "gone")], &[]).await.ok();
    files.write("new", "1").await;
    let lease = leased(&on, json!({})).await;
    let told = lease.manifest(&format!("?since={since}")).await;
    assert_eq!(told[0]["difference"], "since");
    let lines: Vec<_> = told.iter().filter_map(|line| Some((line["type"].as_str()?, line["path"].as_str()?))).collect();
    assert_eq!(lines, [("removed", "gone"), ("entry", "new"), ("entry", "skills"), ("entry", "utils")]);
    let newest = told[0]["version"].as_u64().unwrap();
    assert_eq!(lease.manifest(&format!("?since={newest}")).await.len(), 4, "nothing but the overlays");
    assert_eq!(lease.manifest("?since=99").await[0]["difference"], "whole");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_fetches_only_what_its_manifest_names() {
    let on = Running::start().await;
    let other = Files::of(&on, "other").write("secret", "secret").await["etag"].as_str().unwrap().to_owned();
    Files::of(&on, "s").write("f", "1").await;
    let lease = leased(&on, json!({})).await;
    lease.manifest("").await;
    lease.blobs(&[other.trim_matches('"')]).await.refused(Code::NotFound);
    lease.blobs(&["../../queue.db", ""]).await.refused(Code::NotFound);
    let (_, key) = on.key(json!({"role": "worker", "repos": ["a"]})).await;
    let thief = lease.stolen_by(&key);
    thief.bare(Method::GET, "", Vec::new()).await.refused(Code::LeaseLost);
    thief.blobs(&[]).await.refused(Code::LeaseLost);
    thief.stage(0, &[]).await.refused(Code::LeaseLost);
    let (_, client) = on.key(json!({"role": "client", "repos": ["a"]})).await;
    lease.stolen_by(&client).bare(Method::GET, "", Vec::new()).await.refused(Code::WrongRole);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_escape_in_a_stage_is_refused_by_name_and_publishes_nothing() {
    let on = Running::start().await;
    Files::of(&on, "s").write("f", "1").await;
    let lease = leased(&on, json!({})).await;
    let base = lease.version().await;
    let long = "x".repeat(4096);
    let deep = "d/".repeat(10_000);
    for (path, code) in [
        ("../x", Code::UnsafePath),
        ("/etc/passwd", Code::UnsafePath),
        ("a/../b", Code::UnsafePath),
        ("a//b", Code::UnsafePath),
        ("./x", Code::UnsafePath),
        ("nul\0", Code::UnsafePath),
        ("", Code::UnsafePath),
        ("x/", Code::UnsafePath),
        (&long, Code::UnsafePath),
        (".ssh/id_rsa", Code::SensitivePath),
        ("a/.ENV", Code::SensitivePath),
        ("utils/x", Code::ReadOnly),
        ("UTILS", Code::ReadOnly),
        ("\u{ff53}kills/x", Code::ReadOnly),
    ] {
        for kind in ["file", "directory", "symlink", "delete"] {
            let header = json!({"kind": kind, "path": path, "mode": 0, "size": 0, "target": "x"});
            lease.stage(base, &[(header, vec![])]).await.refused(code);
        }
    }
    lease.stage(base, &[file(&deep, "")]).await.refused(Code::InvalidField);
    for (header, said) in [
        (json!({"kind": "device", "path": "x", "mode": 0}), "device"),
        (json!({"kind": "hardlink", "path": "x", "target": "f"}), "hardlink"),
        (json!({"path": "x"}), "kind"),
        (json!({"kind": "symlink", "path": "x", "target": ""}), "target"),
        (json!({"kind": "symlink", "path": "x", "target": "a\0b"}), "target"),
        (json!({"kind": "symlink", "path": "x", "target": "t".repeat(5000)}), "target"),
        (json!({"kind": "file", "path": "x", "mode": -1, "size": 0}), "-1"),
    ] {
        let problem = lease.stage(base, &[(header, vec![])]).await.refused(Code::InvalidField);
        assert!(problem.detail.contains(said), "{problem:?}");
    }
    for bad in
        [[file("a", "1"), file("a/b", "2")], [file("a", "1"), file("a", "2")], [file("a/b/c", "1"), file("a", "2")]]
    {
        lease.stage(base, &bad).await.refused(Code::InvalidField);
    }
    lease.stage(base + 1, &[]).await.refused(Code::Conflict);
    let problem =
        lease.report(&json!({"outcome": {"exited": {"code": 0}}, "stage": "stage_00000000000000000000000000"})).await;
    problem.refused(Code::Conflict);
    lease.exit(0).await.ok();
    assert_eq!(Files::of(&on, "s").get("/usage", &[]).await.ok()["version"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_that_is_cut_anywhere_is_never_taken_for_a_whole_one() {
    let on = Running::start().await;
    let lease = leased(&on, json!({})).await;
    let base = lease.version().await;
    let all = [file("a", vec![1; 1000]), file("b", "2")];
    let whole = frames(&all);
    for cut in (0..whole.len()).step_by(97) {
        lease.stage_bytes(base, gzip(&whole[..cut])).await.refused(Code::InvalidField);
    }
    let compressed = gzip(&whole);
    for cut in (0..compressed.len()).step_by(7) {
        lease.stage_bytes(base, compressed[..cut].to_vec()).await.refused(Code::InvalidField);
    }
    lease.stage_bytes(base, gzip(&unended(&all))).await.refused(Code::InvalidField);
    lease.stage_bytes(base, gzip(&[whole.clone(), vec![0]].concat())).await.refused(Code::InvalidField);
    lease.stage_bytes(base, [compressed.clone(), compressed.clone()].concat()).await.refused(Code::InvalidField);
    lease.stage_bytes(base, vec![b'x'; 1000]).await.refused(Code::InvalidField);
    let miscounted = [unended(&all), encode(&json!({"kind": "end", "count": 3})).unwrap()].concat();
    lease.stage_bytes(base, gzip(&miscounted)).await.refused(Code::InvalidField);
    let huge_header = [u32::MAX.to_be_bytes().to_vec(), vec![b' '; 100]].concat();
    lease.stage_bytes(base, gzip(&huge_header)).await.refused(Code::InvalidField);
    lease.stage_bytes(base, compressed).await.ok();
    lease.exit(0).await.ok();
    assert_eq!(
        Files::of(&on, "s").get("/usage", &[]).await.ok()["version"],
        base,
        "a report without a stage publishes none"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bomb_is_refused_by_what_it_declares_and_never_unpacked() {
    let on = Running::start_with(|config| config.sessions.rules.quota_bytes = 1000).await;
    let lease = leased(&on, json!({})).await;
    let base = lease.version().await;
    let header = encode(&json!({"kind": "file", "path": "bomb", "mode": 0, "size": 1u64 << 40})).unwrap();
    lease.stage_bytes(base, gzip(&[header, vec![0; 8 << 20]].concat())).await.refused(Code::QuotaExceeded);
    assert_eq!(std::fs::read_dir(on.dir.path().join("objects/incoming")).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(on.dir.path().join("objects/blobs")).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_dies_between_upload_and_report_publishes_nothing_and_its_stage_is_swept() {
    let on = Running::start_with(short_leases).await;
    let lease = leased(&on, json!({"max_attempts": 1})).await;
    let staged = lease.stage(lease.version().await, &[file("f", "late")]).await.ok();
    on.in_state(&lease.task, "failed").await;
    lease.report(&json!({"outcome": {"exited": {"code": 0}}, "stage": staged["stage"]})).await.refused(Code::LeaseLost);
    lease.stage(0, &[file("f", "late")]).await.refused(Code::LeaseLost);
    assert_eq!(Files::of(&on, "s").get("/usage", &[]).await.ok()["version"], 0);
    eventually("the stage is swept", async || {
        let db = rusqlite::Connection::open(on.dir.path().join("queue.db")).unwrap();
        let left: i64 = db.query_row("SELECT count(*) FROM stage_entries", [], |row| row.get(0)).unwrap();
        (left == 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_names_the_files_and_keeps_the_work_as_a_snapshot() {
    let on = Running::start().await;
    let files = Files::of(&on, "s");
    files.write("f", "base").await;
    let lease = leased(&on, json!({})).await;
    let staged = lease.stage(lease.version().await, &[file("f", "task"), file("g", "task")]).await.ok();
    files.write("f", "client").await;
    lease.report(&json!({"outcome": {"exited": {"code": 0}}, "stage": staged["stage"]})).await.ok();
    let task = on.done(&lease.task).await;
    assert_eq!((task["state"].as_str(), task["reason"].as_str()), (Some("failed"), Some("conflict")));
    let published = &task["result"]["published"];
    assert_eq!((&published["conflicts"], &published["snapshot"]), (&json!(["f"]), &json!(lease.task)));
    assert_eq!(files.text("f").await, "client");
    files.read("g").await.refused(Code::NotFound);
    let kept = files.get("/files/content", &[("path", "f"), ("snapshot", &lease.task)]).await.ok();
    assert_eq!(kept["content"], "task");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_over_the_quota_ends_with_it_and_keeps_its_work() {
    let on = Running::start_with(|config| config.sessions.rules.quota_bytes = 1000).await;
    let lease = leased(&on, json!({})).await;
    lease.publish(&[file("big", vec![1; 5000])]).await;
    let task = on.done(&lease.task).await;
    assert_eq!(
        (task["reason"].as_str(), task["result"]["published"]["used_bytes"].as_u64()),
        (Some("quota"), Some(5000))
    );
    assert_eq!(Files::of(&on, "s").get("/usage", &[]).await.ok()["used_bytes"], 0);
    let again = leased(&on, json!({"session_mode": "read"})).await;
    again.stage(again.version().await, &[]).await.refused(Code::Conflict);
    let outside = {
        on.submit(&crate::running::spec("a")).await;
        on.worker(&["a"]).await.lease().await
    };
    outside.bare(Method::GET, "", Vec::new()).await.refused(Code::Conflict);
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_files_round_trip() {
    let on = Running::start().await;
    let lease = leased(&on, json!({})).await;
    let all: Vec<Frame> =
        (0..10_000).map(|number| file(&format!("d{}/f{number}", number % 100), format!("{number}"))).collect();
    lease.publish(&all).await;
    assert_eq!(on.done(&lease.task).await["result"]["published"]["added"], 10_100);
    let next = leased(&on, json!({})).await;
    let manifest = next.manifest("").await;
    let sums: Vec<_> = manifest.iter().filter_map(|line| line["sha256"].as_str()).collect();
    assert_eq!(sums.len(), 10_000);
    assert_eq!(contents(&next.blobs(&sums).await.bytes).len(), 10_000);
}

/// The manifest of a new task's lease, with its end reported.
pub(crate) async fn checked_out(on: &Running) -> Vec<Value> {
    let lease = leased(on, json!({})).await;
    let manifest = lease.manifest("").await;
    lease.publish(&[file("new", "1")]).await;
    let task = on.done(&lease.task).await;
    assert!(task["result"]["published"]["version"].is_u64());
    manifest
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_cut_after_any_64_kib_leaves_the_old_version_whole() {
    let on = Running::start().await;
    Files::of(&on, "s").write("f", "old").await;
    let lease = leased(&on, json!({})).await;
    let base = lease.version().await;
    // Random bytes do not compress: the stream is as long as they are.
    let mut random = vec![0; 600 << 10];
    getrandom::fill(&mut random).unwrap();
    let whole = gzip(&frames(&[file("f", random.clone()), file("g", "new")]));
    for cut in (0..whole.len()).step_by(64 << 10) {
        let mut raw = crate::raw::Raw::connect(&on).await;
        let line = format!("PUT /v1/leases/{}/workspace/stage?base={base}", lease.id);
        let length = format!("Content-Length: {}\r\n", whole.len());
        raw.send(crate::raw::request(&line, &lease.worker.key, &length)).await.send(&whole[..cut]).await;
        drop(raw);
    }
    assert_eq!(Files::of(&on, "s").text("f").await, "old");
    let settled = async || {
        let staged = lease.stage_bytes(base, whole.clone()).await;
        (staged.status == 200).then(|| staged.ok())
    };
    let staged = eventually("the cut ones are over", settled).await;
    lease.report(&json!({"outcome": {"exited": {"code": 0}}, "stage": staged["stage"]})).await.ok();
    assert_eq!(Files::of(&on, "s").get("/files/raw", &[("path", "f")]).await.bytes, random);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_is_killed_has_the_old_version_or_the_new_one_whole() {
    let mut program = crate::durability::Killable::start().await;
    let stage: Vec<Frame> = (0..300).map(|number| file(&format!("d/f{number}"), format!("new {number}"))).collect();
    for round in 0..6u64 {
        let url = program.url.clone();
        // A lease that the crash left lives on for a while: each round has a session of its own.
        let session = format!("s{round}");
        program.submit(&spec_with("a", json!({"session": session}))).await;
        let lease = program.lease().await;
        let path = format!("{url}/v1/leases/{lease}/workspace");
        let manifest = program.as_worker(Method::GET, &path, Vec::new()).await.unwrap();
        let head: Value = serde_json::from_str(manifest.lines().next().unwrap()).unwrap();
        let put = format!("{path}/stage?base={}", head["version"]);
        let uploading = program.as_worker(Method::PUT, &put, gzip(&frames(&stage)));
        // At no particular moment: in the upload, between it and the report, in the report, after it.
        let dying = tokio::time::timeout(std::time::Duration::from_millis(20 * round), async {
            let staged: Value = serde_json::from_str(&uploading.await?).ok()?;
            let report = json!({"outcome": {"exited": {"code": 0}}, "stage": staged["stage"]}).to_string().into_bytes();
            program.as_worker(Method::PUT, &format!("{url}/v1/leases/{lease}/report"), report).await
        });
        let acknowledged = dying.await.ok().flatten().is_some();
        program = program.killed_and_restarted().await;
        let usage = program.client(&format!("/v1/workspaces/{session}/usage")).await;
        let entries = usage["entries"].as_u64().unwrap();
        assert!(entries == 301 || (entries == 0 && !acknowledged), "round {round}: {usage}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_leads_to_checkouts_and_never_to_the_file_api() {
    let on = Running::start().await;
    Files::of(&on, "s").write("f", "1").await;
    let lease = leased(&on, json!({})).await;
    let ask = async |path: String, key: &str| {
        let request = on.http.get(format!("{}{path}", on.worker_url)).bearer_auth(key);
        Answer::read(request.send().await.unwrap()).await
    };
    assert_eq!(ask(format!("/v1/leases/{}/workspace", lease.id), &lease.worker.key).await.status, 200);
    for path in ["/v1/workspaces", "/v1/workspaces/s", "/v1/workspaces/s/files", "/v1/workspaces/s/files/raw?path=f"] {
        ask(path.to_owned(), &on.admin).await.refused(Code::NotFound);
    }
}
