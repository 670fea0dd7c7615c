//! Files that go in with a task, and files that come of it.

use anyhow::{Context as _, Result};
use e2e::bounded;
use protocol::Code;
use serde_json::json;

use super::Place;

#[tokio::test]
async fn results_and_plots_are_listed_with_what_they_are_and_hidden_files_are_not() -> Result<()> {
    bounded(async {
        let place = Place::open().await?;
        let code = "mkdir -p output plots logs .secret deep/er/still __pycache__ node_modules/x\n\
                    printf 'a,b\\n1,2\\n' > output/result.csv; printf png > plots/summary.png; printf l > logs/run.txt; printf l > build.log\n\
                    printf x > deep/er/still/data.json; touch .hidden .secret/x __pycache__/x.pyc node_modules/x/y.js";
        let ended = place.code("shell", code).await?.well()?;
        let listed: Vec<_> = ended.result.artifacts.iter().map(|file| (file.path.as_str(), file.size, &*file.media_type, &*file.kind)).collect();
        assert_eq!(
            listed,
            [
                ("build.log", 1, "text/plain", "log"),
                ("deep/er/still/data.json", 1, "application/json", "artifact"),
                ("logs/run.txt", 1, "text/plain", "log"),
                ("output/result.csv", 8, "text/csv", "output"),
                ("plots/summary.png", 3, "image/png", "artifact"),
            ]
        );
        assert!(ended.result.skipped.is_empty(), "{ended:?}");
        let (id, path) = (ended.task.row.id.to_string(), "deep/er/still/data.json");
        let got = place.api.get(&format!("/v1/tasks/{id}/artifacts/{path}")).await?;
        assert_eq!((got.status, got.text().as_str()), (200, "x"));
        let printed = place.coordinator.cw(&["artifacts", &id, path, "-o", "-"]).await?.with_code(0)?;
        assert_eq!(printed.out, "x");
        for other in [".hidden", "output", "output/other.csv"] {
            let answer = place.api.get(&format!("/v1/tasks/{id}/artifacts/{other}")).await?;
            assert_eq!(answer.code(), Some(Code::NotFound), "{other}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn files_that_were_laid_out_are_listed_only_when_the_task_changed_them() -> Result<()> {
    bounded(async {
        let place = Place::open().await?;
        let files = json!({"same.txt": "1", "changed.txt": "1"});
        let run = json!({"kind": "shell", "code": "cat same.txt; echo 2 >> changed.txt"});
        let ended = place.run(json!({"run": run, "files": files})).await?.well()?;
        let paths: Vec<&str> = ended.result.artifacts.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["changed.txt"]);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_file_beyond_what_is_kept_is_listed_and_says_that_it_was_not_kept() -> Result<()> {
    bounded(async {
        let place = Place::open().await?;
        let run = json!({"kind": "shell", "code": "truncate -s 101M big.bin; echo small > small.txt"});
        let limits = json!({"file_size_bytes": 200 << 20});
        let ended = place.run(json!({"run": run, "limits": limits})).await?.well()?;
        let [big, small] = &ended.result.artifacts[..] else { anyhow::bail!("{ended:?}") };
        assert_eq!((big.path.as_str(), big.size, big.is_stored()), ("big.bin", 101 << 20, false));
        assert_eq!((small.path.as_str(), small.is_stored()), ("small.txt", true));
        let why = ended.result.skipped.iter().find(|file| file.path == "big.bin").context("it is named")?;
        assert!(why.why.contains("104857600 bytes"), "{why:?}");
        let id = ended.task.row.id.to_string();
        let answer = place.api.get(&format!("/v1/tasks/{id}/artifacts/big.bin")).await?;
        assert_eq!(answer.code(), Some(Code::NotStored));
        let told = place.coordinator.cw(&["artifacts", &id, "big.bin"]).await?.with_code(3)?;
        assert!(told.err.contains("not kept"), "{told:?}");
        let kept = place.coordinator.cw(&["artifacts", &id, "small.txt", "-o", "-"]).await?.with_code(0)?;
        assert_eq!(kept.out, "small\n");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn bytes_that_go_in_by_cw_are_read_by_the_task_and_come_back_unchanged() -> Result<()> {
    bounded(async {
        let place = Place::open().await?;
        let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        let (mine, back) = (place.coordinator.home().join("mine.bin"), place.coordinator.home().join("back.bin"));
        std::fs::write(&mine, &bytes)?;
        let lay = format!("data/in.bin={}", mine.display());
        let args =
            ["--json", "send", "--wait", "r", "--file", &lay, "--shell", "mkdir output; cp data/in.bin output/out.bin"];
        let task = place.coordinator.cw(&args).await?.with_code(0)?.json()?;
        assert_eq!(task["result"]["artifacts"][0]["path"], "output/out.bin", "{task}");
        let id = task["id"].as_str().unwrap_or_default();
        place
            .coordinator
            .cw(&["artifacts", id, "output/out.bin", "-o", &back.display().to_string()])
            .await?
            .with_code(0)?;
        assert!(std::fs::read(back)? == bytes, "the bytes differ");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn the_files_of_a_failed_and_of_a_late_task_are_kept_too() -> Result<()> {
    bounded(async {
        let place = Place::with(&[("CW_GRACE", "300ms")]).await?;
        let failed = place.code("shell", "echo half > half.txt; exit 3").await?;
        let run = json!({"kind": "shell", "code": "echo half > half.txt; sleep 600"});
        let late = place.run(json!({"run": run, "timeout_s": 1})).await?;
        for ended in [failed, late] {
            let paths: Vec<&str> = ended.result.artifacts.iter().map(|file| file.path.as_str()).collect();
            assert_eq!(paths, ["half.txt"], "{ended:?}");
        }
        Ok(())
    })
    .await
}
