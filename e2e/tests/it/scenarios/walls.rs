//! What a task finds around it: its own directory and variables, and nothing of the machine.

use anyhow::Result;
use e2e::bounded;
use e2e::program::processes_of;
use protocol::Code;
use serde_json::json;

use super::Place;

#[tokio::test]
async fn the_machines_files_and_the_workers_are_not_there() -> Result<()> {
    bounded(async {
        let place = Place::open().await?;
        let (home, state) = (place.coordinator.home().display(), place.coordinator.state_dir().display());
        let code = format!(
            "cut -d: -f1 /etc/passwd | xargs\n\
             for file in /etc/shadow /etc/hostname /root /home/task/../{home} {state}/admin.key {home}/worker-first/key; do\n\
             cat $file >/dev/null 2>&1 && echo read $file; ls $file >/dev/null 2>&1 && echo saw $file; done\n\
             for place in / /usr /etc /task /run /proc/sys/kernel /var; do (echo x > $place/x) 2>/dev/null && echo wrote $place; done\n\
             echo end"
        );
        assert_eq!(place.code("shell", &code).await?.out()?, "task nobody\nend\n");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn every_task_works_in_a_place_of_its_own_and_leaves_nothing_there() -> Result<()> {
    bounded(async {
        let place = Place::with(&[("CW_SLOTS", "1")]).await?;
        let code = "pwd; ls -A . /tmp /home/task /dev/shm; for place in . /tmp /home/task /dev/shm; do echo x > $place/left; done";
        let first = place.code("shell", code).await?.well()?;
        let paths: Vec<&str> = first.result.artifacts.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["left"], "what it wrote where it worked is what came of it");
        let second = place.code("shell", code).await?.out()?;
        assert_eq!(second, first.result.stdout);
        assert!(second.starts_with("/workspace\n") && !second.contains("left"), "{second}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_process_that_left_its_session_is_gone_when_its_task_is_done() -> Result<()> {
    bounded(async {
        let place = Place::open().await?;
        let code = "(setsid sh -c 'trap \"\" TERM HUP; echo up >> ups; while :; do sleep 0.1; done' &)\n\
                    nohup sleep 600 >/dev/null 2>&1 &\nuntil [ -s ups ]; do sleep 0.02; done; echo left";
        let ended = place.code("shell", code).await?.well()?;
        assert_eq!(ended.result.stdout, "left\n");
        assert_eq!(processes_of(ended.task.row.id), [0; 0]);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn context_variables_are_there_and_nobody_can_forge_them() -> Result<()> {
    bounded(async {
        let place = Place::open().await?;
        let code = "echo $CW_TASK_ID $CW_REPO $CW_ATTEMPT $CW_WORKSPACE_DIR $HOME $MINE";
        let ended =
            place.run(json!({"run": {"kind": "shell", "code": code}, "env": {"MINE": "mine"}})).await?.well()?;
        assert_eq!(ended.result.stdout, format!("{} r 1 /workspace /home/task mine\n", ended.task.row.id));
        for name in ["CW_TASK_ID", "CW_ANYTHING", "PATH", "HOME"] {
            let run = json!({"kind": "shell", "code": "true"});
            let answer = place.api.post("/v1/tasks", json!({"repo": "r", "run": run, "env": {name: "forged"}})).await?;
            assert_eq!(answer.code(), Some(Code::InvalidField), "{name}");
            assert!(answer.text().contains(&format!("env.{name}")), "{}", answer.text());
            let typed =
                place.coordinator.cw(&["send", "r", "--env", &format!("{name}=forged"), "--shell", "true"]).await?;
            assert!(typed.with_code(2)?.err.contains(&format!("env.{name}: is reserved")), "{name}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn the_confinement_in_force_stands_in_what_cw_get_shows() -> Result<()> {
    bounded(async {
        let place = Place::open().await?;
        let failed = place.code("shell", "exit 3").await?;
        let id = failed.task.row.id.to_string();
        let task = place.coordinator.cw(&["--json", "get", &id]).await?.with_code(0)?.json()?;
        assert_eq!(task["result"]["confinement"], "bwrap", "{task}");
        let workers = place.coordinator.cw(&["--json", "workers"]).await?.with_code(0)?.json()?;
        let proved = workers["items"][0]["confinement"].to_string();
        for layer in ["bwrap", "uid", "namespaces", "seccomp", "rlimits", "files", "network"] {
            assert!(proved.contains(&format!("\"{layer}\"")), "{layer}: {proved}");
        }
        Ok(())
    })
    .await
}
