//! Every spelling of an escape is refused by name in every route, and nothing is written.

use protocol::Code;
use reqwest::Method;
use serde_json::json;

use crate::files::Files;
use crate::running::Running;

/// Refuses the path in every route that takes one.
async fn refused_everywhere(files: &Files<'_>, path: &str, code: Code) {
    let query = [("path", path)];
    for route in ["/files", "/files/content", "/files/raw", "/files/stat", "/archive"] {
        files.get(route, &query).await.refused(code);
    }
    for route in ["/files/glob", "/files/grep"] {
        files.get(route, &[("path", path), ("pattern", "x")]).await.refused(code);
    }
    files.put(path, b"x", &[]).await.refused(code);
    files.send(Method::DELETE, "/files", &query, &[]).await.refused(code);
    files.post("/files/mkdir", json!({"path": path})).await.refused(code);
    files.post("/files/edit", json!({"path": path, "old": "a", "new": "b"})).await.refused(code);
    files.post("/files/move", json!({"from": "mine", "to": path})).await.refused(code);
    files.post("/files/move", json!({"from": path, "to": "yours"})).await.refused(code);
    files.post("/exec", json!({"command": "ls", "cwd": path, "repo": "a"})).await.refused(code);
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_that_lead_out_are_refused_in_every_route() {
    let on = Running::start().await;
    let files = Files::of(&on, "s");
    files.write("mine", "1").await;
    for path in [
        "..",
        "../x",
        "/../etc/passwd",
        "a/../../b",
        "//etc/passwd",
        "a//b",
        "./utils/x",
        "utils/../x",
        "/workspace/../x",
        "nul\0x",
        "new\nline",
        &"d/".repeat(400),
        &"x".repeat(4096),
    ] {
        refused_everywhere(&files, path, Code::UnsafePath).await;
    }
    assert_eq!(files.names("").await, ["skills", "utils", "mine"]);
    assert_eq!(files.get("/usage", &[]).await.ok()["version"], 1, "nothing was written");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_credentials_are_refused_in_every_route() {
    let on = Running::start().await;
    let files = Files::of(&on, "s");
    files.write("mine", "1").await;
    for path in [".ssh/id_ed25519", "a/.env", ".ENV.local", "\u{ff0e}aws", "keys/id_rsa"] {
        refused_everywhere(&files, path, Code::SensitivePath).await;
    }
    assert_eq!(files.get("/usage", &[]).await.ok()["version"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_is_decoded_once_and_never_twice() {
    let on = Running::start().await;
    let files = Files::of(&on, "s");
    files.write("mine", "1").await;
    let raw = async |query: &str| on.get(&format!("/v1/workspaces/s/files/stat?path={query}")).await;
    raw("%2e%2e%2fx").await.refused(Code::UnsafePath);
    raw("a/%2E%2E/b").await.refused(Code::UnsafePath);
    raw("%00").await.refused(Code::UnsafePath);
    raw("%252e%252e%252fx").await.refused(Code::NotFound);
    raw("%ff").await.refused(Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_s_name_is_no_path() {
    let on = Running::start().await;
    for name in ["..", ".git", "%2e%2e", "a%2Fb", "a%00b", &"x".repeat(65)] {
        let answer = on.get(&format!("/v1/workspaces/{name}/files")).await;
        assert!([400, 404].contains(&answer.status), "{name}: {}", answer.text());
    }
    on.post("/v1/workspaces", &json!({"session": "../x"})).await.refused(Code::InvalidField);
}
