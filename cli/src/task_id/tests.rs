use super::*;

fn ids() -> [TaskId; 3] {
    [TaskId::new(1_700_000_000_000, 1), TaskId::new(1_700_000_000_000, 2), TaskId::new(1_800_000_000_000, 3)]
}

fn pick(typed: &str) -> Result<TaskId> {
    TASK.choose(typed, ids().into_iter())
}

#[test]
fn unmistakable_beginning_or_end_is_enough() {
    let [first, _, third] = ids();
    let text = third.to_string();
    assert_eq!(pick(&text[..12]).unwrap(), third);
    assert_eq!(pick(&text[5..12]).unwrap(), third);
    assert_eq!(pick(&first.to_string()[20..]).unwrap(), first);
}

#[test]
fn ambiguous_part_is_refused_with_candidates() {
    let [first, second, _] = ids();
    let failure = pick(&first.to_string()[..12]).unwrap_err();
    assert_eq!((failure.exit, failure.code), (Exit::USAGE, "ambiguous_id"));
    assert!(failure.message.contains(&first.to_string()) && failure.message.contains(&second.to_string()));
}

#[test]
fn part_of_no_id_is_not_found() {
    assert_eq!(pick("zzzz").unwrap_err().exit, Exit::NOT_FOUND);
}
