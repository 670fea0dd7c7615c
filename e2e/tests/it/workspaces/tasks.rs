//! What tasks find in a session, and what clients find after them.

use anyhow::{Context as _, Result};
use e2e::worker::Setup;
use e2e::{Coordinator, Worker, bounded};
use serde_json::json;

use super::{done, published, reason, said, shell};

#[tokio::test]
async fn a_task_reads_what_a_client_wrote_and_a_client_what_the_task_wrote() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let _worker = Worker::start(&coordinator, "r").await?;
        let api = coordinator.api()?;
        assert_eq!(api.write("s", "/hello.txt", b"hello from the host\n").await?.status, 200);
        let code = "import os\nprint(open('hello.txt').read(), end='')\nos.makedirs('out/deep')\n\
                    open('/workspace/out/deep/b', 'wb').write(bytes(range(256)))\nos.symlink('deep/b', 'out/link')\nos.mkdir('empty')\n";
        let spec = json!({"repo": "r", "run": {"kind": "python", "code": code}, "session": "s"});
        let task = done(&api, spec).await?;
        let result = task.result.as_ref().context("no result")?;
        assert_eq!((result.stdout.as_str(), result.artifacts.len()), ("hello from the host\n", 0), "{result:?}");
        let published = published(&task)?;
        assert_eq!((published.added, published.bytes), (5, 256), "{published:?}");
        assert_eq!(api.read("s", "out/deep/b").await?.body, (0..=255).collect::<Vec<u8>>());
        let list = api.get("/v1/workspaces/s/files?path=/").await?.text();
        assert!(list.contains("\"empty\""), "{list}");
        api.write("s", "hello.txt", b"changed\n").await?;
        let said = said(&api, shell("s", "cat hello.txt; wc -c < out/link; ls; echo $CW_SESSION")).await?;
        assert_eq!(said, "changed\n256\nempty\nhello.txt\nout\nskills\nutils\ns\n");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn two_sessions_never_see_each_other_and_one_made_anew_sees_nothing_of_the_old() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let _worker = Worker::start(&coordinator, "r").await?;
        let api = coordinator.api()?;
        for session in ["one", "two"] {
            said(&api, shell(session, &format!("echo {session} > mine; echo a > a; echo b > b"))).await?;
        }
        assert_eq!(said(&api, shell("one", "cat mine; echo more > c")).await?, "one\n");
        assert_eq!(said(&api, shell("two", "cat mine; ls")).await?, "two\na\nb\nmine\nskills\nutils\n");
        let deleted = api.send(reqwest::Method::DELETE, "/v1/workspaces/one", None).await?;
        assert!((200..300).contains(&deleted.status), "{}", deleted.text());
        for name in ["x", "y", "z"] {
            api.write("one", name, b"new\n").await?;
        }
        assert_eq!(said(&api, shell("one", "ls")).await?, "skills\nutils\nx\ny\nz\n");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_client_that_changes_the_same_file_meanwhile_makes_a_conflict_and_no_work_is_lost() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let _worker = Worker::start(&coordinator, "r").await?;
        let (api, gate) = (coordinator.api()?, coordinator.gate());
        api.write("s", "a", b"base\n").await?;
        let code = format!("echo begun; {}; echo task > a; echo task > b", gate.wait());
        let id = api.submit(shell("s", &code)).await?.row.id;
        api.wrote(id, "begun").await?;
        api.write("s", "a", b"client\n").await?;
        gate.open()?;
        assert_eq!(reason(&api, id).await?, "conflict");
        let published = published(&api.done(id).await?)?;
        assert_eq!((published.version, published.conflicts), (None, vec!["a".to_owned()]));
        let snapshot = published.snapshot.context("no snapshot")?;
        assert_eq!(api.read("s", &format!("a&snapshot={snapshot}")).await?.text(), "task\n");
        // The worker's tree has the task's files; the next task must not see them.
        assert_eq!(said(&api, shell("s", "cat a; ls")).await?, "client\na\nskills\nutils\n");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn overlays_are_there_for_every_session_and_take_no_write() -> Result<()> {
    bounded(async {
        let utils = tempfile::tempdir()?;
        std::fs::create_dir(utils.path().join("lib"))?;
        std::fs::write(utils.path().join("lib/tool.py"), "def hello():\n    print('from utils')\n")?;
        let place = utils.path().display().to_string();
        let coordinator = Coordinator::start_with(&[("CW_UTILS_DIR", &place)]).await?;
        let _worker = Worker::start(&coordinator, "r").await?;
        let api = coordinator.api()?;
        let code = "import errno\nfrom utils.lib import tool\ntool.hello()\n\
                    for path in ['utils/forbidden.py', 'skills/x', 'utils/lib/x']:\n    try:\n        open(path, 'w')\n    \
                    except OSError as error:\n        print(errno.errorcode[error.errno])\n";
        let spec = json!({"repo": "r", "run": {"kind": "python", "code": code}, "session": "s"});
        assert_eq!(said(&api, spec).await?, "from utils\nEROFS\nEROFS\nEROFS\n");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_tree_of_many_files_comes_back_whole() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let worker = Setup { name: "w", repo: "r", variables: &[("CW_LOG", "debug"), ("CW_SLOTS", "1")] };
        let worker = Worker::start_as(&coordinator, worker).await?;
        let api = coordinator.api()?;
        let code = "import os\nfor d in range(100):\n    os.mkdir(f'd{d}')\n    for n in range(200):\n        open(f'd{d}/{n}', 'w').write(f'{d} {n}')\n";
        let spec = json!({"repo": "r", "run": {"kind": "python", "code": code}, "session": "s", "timeout_s": 120});
        let first = done(&api, spec).await?;
        assert_eq!(published(&first)?.added, 20_100);
        let count = "find . -type f | wc -l; cat d7/9 d99/199";
        assert_eq!(said(&api, shell("s", count)).await?, "20000\n7 999 199");
        assert_eq!(said(&api, shell("s", count)).await?, "20000\n7 999 199");
        eprintln!("{}", worker.log().lines().filter(|line| line.contains("laid out in")).collect::<Vec<_>>().join("\n"));
        Ok(())
    })
    .await
}
