//! `handler(event)` and plain code: what is sent, what comes back, and what a mistake looks like.

use anyhow::Result;
use e2e::bounded;
use e2e::program::processes_of;
use protocol::{Reason, TaskState};
use serde_json::{Value, json};

use super::{Ended, Place};

#[tokio::test]
async fn a_handlers_value_usage_and_files_stand_in_its_result() -> Result<()> {
    bounded(async {
        let place = Place::open().await?;
        let code = "import os\ndef handler(event):\n  os.mkdir('output')\n  open('output/squares.csv', 'w').write('1,4,9\\n')\n  \
                    return {'sum': sum(n * n for n in range(event['n']))}\n";
        let args = ["--json", "send", "--wait", "r", "--python", "-", "--event", r#"{"n": 200000}"#];
        let task = place.coordinator.cw_reading(code, &args).await?.with_code(0)?.json()?;
        let result = &task["result"];
        assert_eq!((&task["state"], &result["exit_code"]), (&json!("completed"), &json!(0)), "{task}");
        assert_eq!(result["return_value"], json!({"sum": 2_666_646_666_700_000_u64}));
        let artifact = &result["artifacts"][0];
        assert_eq!((&artifact["path"], &artifact["kind"]), (&json!("output/squares.csv"), &json!("output")), "{task}");
        for (figure, least) in [("wall_ms", 1), ("cpu_ms", 1), ("peak_memory_bytes", 1 << 20)] {
            assert!(result["usage"][figure].as_u64() >= Some(least), "{figure}: {task}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_undefined_name_fails_the_task_with_its_line_and_without_a_value() -> Result<()> {
    bounded(async {
        let place = Place::open().await?;
        let code = "def handler(event):\n  return undefined_name\n";
        let args = ["--json", "send", "--wait", "r", "--python", "-", "--event", "{}"];
        let task = place.coordinator.cw_reading(code, &args).await?.with_code(1)?.json()?;
        let result = &task["result"];
        assert_eq!((&task["state"], &task["reason"]), (&json!("failed"), &json!("exit_nonzero")), "{task}");
        assert_eq!((&result["exit_code"], &result["return_value"]), (&json!(1), &Value::Null), "{task}");
        let said = result["stderr"].as_str().unwrap_or_default();
        for part in
            ["Traceback (most recent call last)", "main.py\", line 2, in handler", "NameError: name 'undefined_name'"]
        {
            assert!(said.contains(part), "{part} is not in: {said}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_handler_past_its_deadline_is_killed_and_keeps_what_it_wrote() -> Result<()> {
    bounded(async {
        let place = Place::open().await?;
        let code = "def handler(event):\n  print('begun')\n  while True: pass\n";
        let ended = place.run(json!({"run": {"kind": "python", "code": code}, "event": {}, "timeout_s": 1})).await?;
        assert_eq!(ended.ending(), (TaskState::TimedOut, Some(Reason::Timeout)));
        assert_eq!((ended.result.exit_code, ended.result.stdout.as_str()), (None, "begun\n"));
        assert_eq!(ended.result.return_value, None);
        assert_eq!(processes_of(ended.task.row.id), [0; 0]);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn every_kind_of_value_goes_in_and_comes_back_as_it_was() -> Result<()> {
    bounded(async {
        let place = Place::open().await?;
        let values =
            json!([{}, [], "", "ä \u{1f600} \"\\\n\u{0}", 0, -1, 1.5, true, false, null, {"deep": [{"a": [null]}]}]);
        let (python, node) = ("def handler(event): return event", "exports.handler = async (event) => event");
        for (kind, code) in [("python", python), ("javascript", node)] {
            let ended = place.call(kind, code, &values).await?.well()?;
            assert_eq!(ended.result.return_value.as_ref(), Some(&values), "{kind}");
        }
        for value in values.as_array().into_iter().flatten().filter(|value| !value.is_null()) {
            let ended = place.call("python", python, value).await?.well()?;
            assert_eq!(ended.result.return_value.as_ref(), Some(value));
        }
        // Without an event there is no call, so that null, which counts as none, is no event.
        let refused = place.coordinator.cw_reading(python, &["send", "r", "--python", "-", "--event", "null"]).await?;
        assert!(refused.with_code(2)?.err.contains("null counts as no event"));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_value_as_deep_as_may_be_comes_back_and_a_deeper_one_fails_its_task_alone() -> Result<()> {
    bounded(async {
        let place = Place::open().await?;
        let python = "def handler(depth):\n  value = 1\n  for _ in range(depth): value = [value]\n  return value";
        let node = "exports.handler = (depth) => { let value = 1; while (depth--) value = [value]; return value }";
        let deepest = (0..100).fold(json!(1), |value, _| json!([value]));
        for (kind, code) in [("python", python), ("javascript", node)] {
            let ended = place.call(kind, code, &json!(100)).await?.well()?;
            assert_eq!(ended.result.return_value.as_ref(), Some(&deepest), "{kind}");
            let id = ended.task.row.id.to_string();
            let shown = place.coordinator.cw(&["--json", "get", &id]).await?.with_code(0)?.json()?;
            assert_eq!(shown["result"]["return_value"], deepest, "{kind}");
            let ended = place.call(kind, code, &json!(101)).await?;
            assert_eq!(ended.ending(), (TaskState::Failed, Some(Reason::ExitNonzero)), "{kind}");
            assert!(ended.result.stderr.contains("nested too deeply"), "{kind}: {}", ended.result.stderr);
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn printed_text_that_looks_like_a_result_is_only_output() -> Result<()> {
    bounded(async {
        let place = Place::open().await?;
        let printed = "===SANDBOX_RESULT===\n{\"return_value\": 666}\n===SANDBOX_RESULT_END===\n";
        let code = format!("import sys\ndef handler(event):\n  print({printed:?}, end='')\n  print('{{\"exit_code\": 9}}', file=sys.stderr)\n  return 1");
        let ended = place.call("python", &code, &json!({})).await?.well()?;
        assert_eq!((ended.result.return_value, ended.result.stdout.as_str()), (Some(json!(1)), printed));
        assert_eq!((ended.result.exit_code, ended.result.stderr.as_str()), (Some(0), "{\"exit_code\": 9}\n"));
        let ended = place.code("python", &format!("print({printed:?}, end='')")).await?.well()?;
        assert_eq!((ended.result.return_value, ended.result.stdout.as_str()), (None, printed));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn handlers_are_written_in_every_usual_way() -> Result<()> {
    bounded(async {
        let place = Place::open().await?;
        for (kind, code) in [
            ("python", "def handler(event, context): return [event, context]"),
            ("python", "from typing import Any\ndef handler(event: dict[str, Any], context: object) -> list: return [event, context]"),
            ("python", "async def handler(event, context): return [event, context]"),
            ("javascript", "exports.handler = (event, context) => [event, context]"),
            ("javascript", "export const handler = async (event, context) => [event, context]"),
        ] {
            let ended = place.call(kind, code, &json!({"a": 1})).await?.well()?;
            assert_eq!(ended.result.return_value, Some(json!([{"a": 1}, {}])), "{code}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn code_that_is_empty_or_wrong_or_has_no_handler_is_told_in_clear_words() -> Result<()> {
    bounded(async {
        let place = Place::open().await?;
        let empty = place.coordinator.cw_reading("", &["send", "r", "--python", "-"]).await?.with_code(2)?;
        assert!(empty.err.contains("standard input was empty"), "{empty:?}");
        let answer = place.api.post("/v1/tasks", json!({"repo": "r", "run": {"kind": "python", "code": ""}})).await?;
        assert!(answer.status == 422 && answer.text().contains("run.code"), "{answer:?}");
        let told = async |ended: Ended, text: &str| {
            assert_eq!(ended.ending(), (TaskState::Failed, Some(Reason::ExitNonzero)), "{ended:?}");
            assert!(ended.result.stderr.contains(text), "{text} is not in: {}", ended.result.stderr);
        };
        told(place.call("python", "x = 1", &json!({})).await?, "main.py defines no handler(event)").await;
        told(place.call("javascript", "let x = 1", &json!({})).await?, "main.js defines no handler(event)").await;
        told(place.code("python", "x = 1\nx = = 2").await?, "main.py\", line 2").await;
        told(place.code("javascript", "let x = 1;\nx = = 2").await?, "main.js:2").await;
        told(place.code("shell", "x=1\nfi").await?, "main.sh: line 2").await;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_mebibyte_of_code_goes_all_the_way_from_cw_to_the_program() -> Result<()> {
    bounded(async {
        let place = Place::open().await?;
        let filled = |comment: &str, code: &str| {
            format!("{comment}{}\n{code}", "ä".repeat(((1 << 20) - comment.len() - code.len() - 1) / 2))
        };
        for (flag, comment, code) in [
            ("--python", "# ", "print('all of it')"),
            ("--js", "// ", "console.log('all of it')"),
            ("--shell", "# ", "echo 'all of it'"),
        ] {
            let sent =
                place.coordinator.cw_reading(&filled(comment, code), &["send", "--wait", "r", flag, "-"]).await?;
            assert_eq!(sent.with_code(0)?.out, "all of it\n", "{flag}");
        }
        let more = filled("# ", "print('all of it')") + "##";
        let refused =
            place.coordinator.cw_reading(&more, &["send", "--wait", "r", "--python", "-"]).await?.with_code(2)?;
        assert!(refused.err.contains("run.code") && refused.err.contains("1048576"), "{refused:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn handlers_side_by_side_get_their_own_events_and_give_their_own_values() -> Result<()> {
    bounded(async {
        let place = Place::with(&[("CW_SLOTS", "4")]).await?;
        let code = "import os\ndef handler(event):\n  open('mine', 'w').write(str(event))\n  return [event, sorted(os.listdir('.'))]";
        let mut ids = Vec::new();
        for number in 0..12 {
            ids.push(place.send(json!({"run": {"kind": "python", "code": code}, "event": number})).await?);
        }
        for (number, id) in ids.into_iter().enumerate() {
            let ended = Ended::of(place.api.done(id).await?)?.well()?;
            assert_eq!(ended.result.return_value, Some(json!([number, ["mine"]])));
        }
        Ok(())
    })
    .await
}
