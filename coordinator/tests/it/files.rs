//! The file API: what is written is read back, of two editors one is told, and everything is bounded.

use std::io::Read as _;

use protocol::Code;
use reqwest::Method;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::running::Running;

/// A session as a client sees it.
#[derive(Clone, Copy)]
pub(crate) struct Files<'on> {
    pub(crate) on: &'on Running,
    pub(crate) session: &'static str,
    pub(crate) key: &'on str,
}

impl<'on> Files<'on> {
    pub(crate) fn of(on: &'on Running, session: &'static str) -> Self {
        Self { on, session, key: &on.admin }
    }

    pub(crate) fn url(&self, route: &str, query: &[(&str, &str)]) -> reqwest::Url {
        let mut url: reqwest::Url = format!("{}/v1/workspaces/{}{route}", self.on.url, self.session).parse().unwrap();
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        route: &str,
        query: &[(&str, &str)],
        headers: &[(&str, &str)],
    ) -> Answer {
        let mut request = self.on.http.request(method, self.url(route, query)).bearer_auth(self.key);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Answer::read(request.send().await.unwrap()).await
    }

    pub(crate) async fn get(&self, route: &str, query: &[(&str, &str)]) -> Answer {
        self.send(Method::GET, route, query, &[]).await
    }

    pub(crate) async fn post(&self, route: &str, body: Value) -> Answer {
        self.on.ask(self.key, Method::POST, &format!("/v1/workspaces/{}{route}", self.session), Some(&body)).await
    }

    pub(crate) async fn put(&self, path: &str, bytes: &[u8], headers: &[(&str, &str)]) -> Answer {
        let mut request = self.on.http.put(self.url("/files/content", &[("path", path)])).bearer_auth(self.key);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Answer::read(request.body(bytes.to_vec()).send().await.unwrap()).await
    }

    pub(crate) async fn write(&self, path: &str, text: &str) -> Value {
        self.put(path, text.as_bytes(), &[]).await.ok()
    }

    pub(crate) async fn read(&self, path: &str) -> Answer {
        self.get("/files/content", &[("path", path)]).await
    }

    pub(crate) async fn text(&self, path: &str) -> String {
        self.read(path).await.ok()["content"].as_str().unwrap().to_owned()
    }

    /// The names in a directory.
    pub(crate) async fn names(&self, path: &str) -> Vec<String> {
        let list = self.get("/files", &[("path", path)]).await.ok();
        list["entries"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_is_read_back_by_every_spelling() {
    let on = Running::start().await;
    let files = Files::of(&on, "s");
    let written = files.write("src/hello.py", "print('hi')\nx = 1\n").await;
    assert_eq!(written["written"], true);
    assert_eq!((written["path"].as_str(), written["size_bytes"].as_u64()), (Some("src/hello.py"), Some(18)));
    for path in ["src/hello.py", "/src/hello.py", "/workspace/src/hello.py"] {
        let read = files.read(path).await;
        assert_eq!(read.headers["etag"], written["etag"].as_str().unwrap());
        let read = read.ok();
        assert_eq!(
            (read["content"].as_str(), read["language"].as_str()),
            (Some("print('hi')\nx = 1\n"), Some("python"))
        );
        assert_eq!((read["name"].as_str(), read["mime_type"].as_str()), (Some("hello.py"), Some("text/plain")));
    }
    let second = files.get("/files/content", &[("path", "src/hello.py"), ("offset", "1"), ("limit", "1")]).await.ok();
    assert_eq!((second["content"].as_str(), second["total_lines"].as_u64()), (Some("x = 1\n"), Some(2)));
    let on = Running::start_in(on.stop().await, |_| {}).await;
    assert_eq!(Files::of(&on, "s").text("src/hello.py").await, "print('hi')\nx = 1\n", "it outlives the coordinator");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_lists_directories_first_then_names_without_regard_to_case_in_pages() {
    let on = Running::start().await;
    let files = Files::of(&on, "s");
    for name in ["b.txt", "A.txt", "a.txt", "Zdir/x", "adir/x", "ä.txt", "日本"] {
        files.write(name, "1").await;
    }
    let all = ["adir", "skills", "utils", "Zdir", "A.txt", "a.txt", "b.txt", "ä.txt", "日本"];
    assert_eq!(files.names("").await, all);
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = files.get("/files", &[("limit", "2"), ("cursor", &cursor)]).await.ok();
        seen.extend(page["entries"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap().to_owned()));
        assert_eq!(page["truncated"].as_bool().unwrap(), page["next_cursor"].is_string());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(seen, all);
    files.get("/files", &[("path", "a.txt")]).await.refused(Code::NotADirectory);
    files.get("/files", &[("path", "none")]).await.refused(Code::NotFound);
    files.get("/files", &[("limit", "501")]).await.refused(Code::InvalidQuery);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_clients_that_edit_one_file_one_gets_412() {
    let on = Running::start().await;
    let files = Files::of(&on, "s");
    let etag = files.write("f", "one").await["etag"].as_str().unwrap().to_owned();
    for round in 0..10 {
        let etag =
            if round == 0 { etag.clone() } else { files.read("f").await.ok()["etag"].as_str().unwrap().to_owned() };
        let (a, b) = (format!("a{round}"), format!("b{round}"));
        let headers = [("if-match", etag.as_str())];
        let (a, b) = tokio::join!(files.put("f", a.as_bytes(), &headers), files.put("f", b.as_bytes(), &headers));
        let mut statuses = [a.status, b.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 412], "round {round}");
    }
    files.put("f", b"x", &[("if-none-match", "*")]).await.refused(Code::PreconditionFailed);
    assert_eq!(files.put("new", b"x", &[("if-none-match", "*")]).await.status, 201);
    files.put("nothing", b"x", &[("if-match", "*")]).await.refused(Code::PreconditionFailed);
    let gone = files.send(Method::DELETE, "/files", &[("path", "f")], &[("if-match", &etag)]).await;
    gone.refused(Code::PreconditionFailed);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_edits_of_one_file_are_all_kept() {
    let on = Running::start().await;
    let files = Files::of(&on, "s");
    files.write("f", "a b c d").await;
    let edit =
        |old: &'static str| files.post("/files/edit", json!({"path": "f", "old": old, "new": old.to_uppercase()}));
    let (a, b, c, d) = tokio::join!(edit("a"), edit("b"), edit("c"), edit("d"));
    for answer in [a, b, c, d] {
        assert_eq!(answer.ok()["replaced"], 1);
    }
    assert_eq!(files.text("f").await, "A B C D");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_must_match_once_unless_all_is_asked() {
    let on = Running::start().await;
    let files = Files::of(&on, "s");
    files.write("f", "x y x").await;
    files.post("/files/edit", json!({"path": "f", "old": "z", "new": ""})).await.refused(Code::NoMatch);
    files.post("/files/edit", json!({"path": "f", "old": "x", "new": ""})).await.refused(Code::AmbiguousMatch);
    let edited = files.post("/files/edit", json!({"path": "/f", "old": "x", "new": "q", "all": true})).await.ok();
    assert_eq!(edited["replaced"], 2);
    let edits = json!([{"old": "q y", "new": "1"}, {"old": "nope", "new": ""}]);
    files.post("/files/edit", json!({"path": "f", "edits": edits})).await.refused(Code::NoMatch);
    assert_eq!(files.text("f").await, "q y q", "all of them or none");
    files.put("bin", b"a\xff\0", &[]).await.ok();
    files.post("/files/edit", json!({"path": "bin", "old": "a", "new": "b"})).await.refused(Code::NotText);
    for bad in [
        json!({"path": "f"}),
        json!({"path": "f", "old": "", "new": "x"}),
        json!({"path": "f", "old": "x", "edits": []}),
    ] {
        files.post("/files/edit", bad).await.refused(Code::InvalidField);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_text_are_fetched_raw_and_in_ranges() {
    let on = Running::start().await;
    let files = Files::of(&on, "s");
    let bytes: Vec<u8> = (0..600_000u32).map(|number| number.to_le_bytes()[0] ^ number.to_le_bytes()[1]).collect();
    let etag = files.put("b.bin", &bytes, &[]).await.ok()["etag"].as_str().unwrap().to_owned();
    files.read("b.bin").await.refused(Code::NotText);
    let raw = files.get("/files/raw", &[("path", "b.bin")]).await;
    assert_eq!((raw.status, raw.bytes.as_ref() == bytes), (200, true));
    assert_eq!(raw.headers["accept-ranges"], "bytes");
    assert!(raw.headers["content-disposition"].to_str().unwrap().starts_with("attachment"));
    let ranged =
        async |range: &str| files.send(Method::GET, "/files/raw", &[("path", "b.bin")], &[("range", range)]).await;
    let part = ranged("bytes=299999-300001").await;
    assert_eq!((part.status, part.bytes.as_ref()), (206, &bytes[299_999..300_002]));
    assert_eq!(part.headers["content-range"], "bytes 299999-300001/600000");
    assert_eq!(ranged("bytes=-5").await.bytes.as_ref(), &bytes[599_995..]);
    ranged("bytes=600000-").await.refused(Code::InvalidRange);
    let known = files.send(Method::GET, "/files/raw", &[("path", "b.bin")], &[("if-none-match", &etag)]).await;
    assert_eq!((known.status, known.bytes.len()), (304, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_for_json_is_told_where_to_fetch_it() {
    let on = Running::start().await;
    let files = Files::of(&on, "s");
    files.put("big.txt", &vec![b'x'; (2 << 20) + 1], &[]).await.ok();
    let problem = files.read("big.txt").await.refused(Code::TooLarge);
    assert!(problem.detail.contains("files/raw"), "{problem:?}");
    files.put("fits.txt", &vec![b'x'; 2 << 20], &[]).await.ok();
    assert_eq!(files.text("fits.txt").await.len(), 2 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_moved_deleted_and_made_directories_and_empty_ones_stay() {
    let on = Running::start().await;
    let files = Files::of(&on, "s");
    assert_eq!(files.post("/files/mkdir", json!({"path": "/a/b"})).await.ok()["created"], true);
    assert_eq!(files.post("/files/mkdir", json!({"path": "a/b"})).await.ok()["created"], false);
    assert_eq!(files.names("a").await, ["b"]);
    files.write("a/x", "1").await;
    assert_eq!(files.post("/files/move", json!({"from": "a", "to": "c/d"})).await.ok()["moved"], 3);
    assert_eq!(files.names("c/d").await, ["b", "x"]);
    files.post("/files/move", json!({"from": "c", "to": "c/d/e"})).await.refused(Code::InvalidField);
    files.post("/files/move", json!({"from": "a", "to": "z"})).await.refused(Code::NotFound);
    files.post("/files/mkdir", json!({"path": "c/d/x"})).await.refused(Code::NotADirectory);
    files.put("c", b"", &[]).await.refused(Code::IsADirectory);
    files.put("c/d/x/y", b"", &[]).await.refused(Code::NotADirectory);
    files.read("c").await.refused(Code::IsADirectory);
    let deleted = files.send(Method::DELETE, "/files", &[("path", "c")], &[]).await.ok();
    assert_eq!(deleted["deleted"], 4);
    files.send(Method::DELETE, "/files", &[("path", "c")], &[]).await.refused(Code::NotFound);
    files.send(Method::DELETE, "/files", &[("path", "/")], &[]).await.refused(Code::UnsafePath);
    let stat = files.get("/files/stat", &[("path", "utils")]).await.ok();
    assert_eq!((stat["kind"].as_str(), stat["read_only"].as_bool()), (Some("directory"), Some(true)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_quota_holds_while_bytes_come_and_says_used_and_allowed() {
    let on = Running::start_with(|config| config.sessions.rules.quota_bytes = 1000).await;
    let files = Files::of(&on, "s");
    files.put("a", &[b'x'; 900], &[]).await.ok();
    let problem = files.put("b", &[b'x'; 200], &[]).await.refused(Code::QuotaExceeded);
    assert_eq!((problem.used_bytes, problem.allowed_bytes), (Some(1100), Some(1000)));
    let chunks = tokio_stream::iter((0..50).map(|_| Ok::<_, std::io::Error>(vec![b'x'; 100])));
    let request = on.http.put(files.url("/files/content", &[("path", "c")])).bearer_auth(&on.admin);
    let answer = Answer::read(request.body(reqwest::Body::wrap_stream(chunks)).send().await.unwrap()).await;
    assert!(answer.refused(Code::QuotaExceeded).used_bytes.unwrap() <= 1100, "refused before all of it came");
    files.put("a", &[b'y'; 1000], &[]).await.ok();
    let usage = files.get("/usage", &[]).await.ok();
    assert_eq!(
        (usage["used_bytes"].as_u64(), usage["allowed_bytes"].as_u64(), usage["entries"].as_u64()),
        (Some(1000), Some(1000), Some(1))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn glob_and_grep_find_what_fits_and_pass_over_what_is_no_text() {
    let on = Running::start().await;
    let files = Files::of(&on, "s");
    for (path, text) in
        [("src/a.py", "import os\nTODO one\n"), ("src/deep/b.py", "x\r\nTODO two\r\n"), ("c.txt", "todo a.b\naxb")]
    {
        files.write(path, text).await;
    }
    files.put("bin.py", b"TODO\0", &[]).await.ok();
    let globbed = async |pattern: &str, path: &str| {
        let found = files.get("/files/glob", &[("pattern", pattern), ("path", path)]).await.ok();
        found["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["path"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(globbed("**/*.py", "").await, ["bin.py", "src/a.py", "src/deep/b.py"]);
    assert_eq!(globbed("/src/*.py", "").await, ["src/a.py"]);
    assert_eq!(globbed("*.py", "src").await, ["src/a.py"]);
    assert_eq!(globbed("{utils,skills}", "").await, ["skills", "utils"]);
    let grepped = async |query: &[(&str, &str)]| {
        let found = files.get("/files/grep", query).await.ok();
        let line = |hit: &Value| {
            format!("{}:{}:{}", hit["file"].as_str().unwrap(), hit["line"], hit["content"].as_str().unwrap())
        };
        found["matches"].as_array().unwrap().iter().map(line).collect::<Vec<_>>()
    };
    assert_eq!(grepped(&[("pattern", "TODO \\w+")]).await, ["src/a.py:2:TODO one", "src/deep/b.py:2:TODO two"]);
    assert_eq!(grepped(&[("pattern", "a.b"), ("literal", "true")]).await, ["c.txt:1:todo a.b"]);
    assert_eq!(
        grepped(&[("pattern", "todo"), ("ignore_case", "true"), ("include", "b.py")]).await,
        ["src/deep/b.py:2:TODO two"]
    );
    assert_eq!(grepped(&[("pattern", "TODO"), ("path", "src/a.py")]).await, ["src/a.py:2:TODO one"]);
    files.get("/files/grep", &[("pattern", "(")]).await.refused(Code::InvalidQuery);
    files.get("/files/grep", &[]).await.refused(Code::InvalidQuery);
    files.write("many", &"hit\n".repeat(500)).await;
    let found = files.get("/files/grep", &[("pattern", "hit")]).await.ok();
    assert_eq!((found["matches"].as_array().unwrap().len(), found["truncated"].as_bool()), (200, Some(true)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_has_every_file_as_it_is() {
    let on = Running::start().await;
    let files = Files::of(&on, "s");
    let long = format!("{}/ü{}.txt", "d".repeat(120), "x".repeat(100));
    files.write(&long, "long").await;
    files.put("big", &vec![7; 300_000], &[]).await.ok();
    files.post("/files/mkdir", json!({"path": "empty"})).await.ok();
    let archive = files.get("/archive", &[]).await;
    assert_eq!((archive.status, archive.headers["content-type"].to_str().unwrap()), (200, "application/gzip"));
    let dir = tempfile::tempdir().unwrap();
    let mut tar = Vec::new();
    flate2::read::GzDecoder::new(archive.bytes.as_ref()).read_to_end(&mut tar).unwrap();
    std::fs::write(dir.path().join("a.tar"), &tar).unwrap();
    let unpacked = std::process::Command::new("tar").args(["xf", "a.tar"]).current_dir(dir.path()).output().unwrap();
    assert!(unpacked.status.success(), "{}", String::from_utf8_lossy(&unpacked.stderr));
    assert_eq!(std::fs::read_to_string(dir.path().join(&long)).unwrap(), "long");
    assert_eq!(std::fs::read(dir.path().join("big")).unwrap(), vec![7; 300_000]);
    assert!(dir.path().join("empty").is_dir());
}

#[tokio::test(flavor = "multi_thread")]
async fn ordinary_names_of_every_script_and_case_twins_round_trip() {
    let on = Running::start().await;
    let files = Files::of(&on, "s");
    let names = [
        "README",
        "readme",
        "o\u{308}",
        "\u{f6}",
        "日本語",
        "🦀",
        " lead",
        "a%2e%2eb",
        "a+b&c=d",
        "'\"$`",
        "-rf",
        "*",
        ".env.example",
    ];
    for name in names {
        files.write(name, name).await;
    }
    for name in names {
        assert_eq!(files.text(name).await, name);
    }
    let mut listed = files.names("").await;
    listed.retain(|name| name != "utils" && name != "skills");
    listed.sort();
    let mut expected = names.map(str::to_owned).to_vec();
    expected.sort();
    assert_eq!(listed, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn overlays_are_read_but_never_written_and_links_in_them_lead_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let (utils, outside) = (dir.path().join("u"), dir.path().join("outside"));
    std::fs::create_dir_all(utils.join("sub")).unwrap();
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "secret").unwrap();
    std::fs::write(utils.join("sub/tool.py"), "print('tool')\n").unwrap();
    std::fs::write(utils.join(".env"), "KEY=1").unwrap();
    std::os::unix::fs::symlink(&outside, utils.join("out")).unwrap();
    std::os::unix::fs::symlink(outside.join("secret"), utils.join("link")).unwrap();
    let on = Running::start_with(|config| config.sessions.utils_dir = Some(utils)).await;
    let files = Files::of(&on, "s");
    files.write("mine", "1").await;
    assert_eq!(files.names("utils").await, ["sub"]);
    assert_eq!(files.text("/workspace/utils/sub/tool.py").await, "print('tool')\n");
    assert_eq!(files.get("/files/raw", &[("path", "utils/sub/tool.py")]).await.text(), "print('tool')\n");
    assert!(files.names("skills").await.is_empty());
    for path in ["utils/out/secret", "utils/link", "UTILS/sub/tool.py", "utils/none"] {
        files.read(path).await.refused(Code::NotFound);
    }
    let found = files.get("/files/grep", &[("pattern", "tool")]).await.ok();
    assert_eq!(found["matches"][0]["file"], "utils/sub/tool.py");
    for path in ["utils/forbidden.py", "skills/x", "utils", "UTILS/x", "/workspace/Skills/x", "\u{ff55}tils/x"] {
        files.put(path, b"x", &[]).await.refused(Code::ReadOnly);
        files.send(Method::DELETE, "/files", &[("path", path)], &[]).await.refused(Code::ReadOnly);
        files.post("/files/mkdir", json!({"path": path})).await.refused(Code::ReadOnly);
        files.post("/files/move", json!({"from": "mine", "to": path})).await.refused(Code::ReadOnly);
        files.post("/files/move", json!({"from": path, "to": "yours"})).await.refused(Code::ReadOnly);
        files.post("/files/edit", json!({"path": path, "old": "a", "new": "b"})).await.refused(Code::ReadOnly);
    }
    assert_eq!(files.names("").await, ["skills", "utils", "mine"]);
}
