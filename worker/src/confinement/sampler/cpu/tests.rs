use super::*;

fn process(pid: u32, ticks: u64, reaped_ticks: u64) -> Process {
    Process { pid, started: 7, ticks, reaped_ticks, ..Process::default() }
}

fn total(looks: &[(&[Process], u64)]) -> u64 {
    let mut account = CpuAccount::default();
    for (processes, by_init) in looks {
        account.add(processes, *by_init);
    }
    account.total
}

#[test]
fn a_child_that_was_reaped_counts_once() {
    let both = [process(2, 5, 0), process(3, 100, 0)];
    assert_eq!(total(&[(&both, 0), (&[process(2, 5, 101)], 0)]), 106);
    assert_eq!(total(&[(&both, 0), (&[], 106)]), 106);
}

#[test]
fn a_child_that_nobody_reaped_still_counts() {
    assert_eq!(total(&[(&[process(2, 5, 0), process(3, 100, 0)], 0), (&[process(2, 6, 0)], 0)]), 6 + 99);
    let next = [process(2, 6, 0), process(4, 50, 0)];
    assert_eq!(
        total(&[(&[process(2, 5, 0), process(3, 100, 0)], 0), (&next, 0), (&[process(2, 6, 0)], 0)]),
        6 + 99 + 49
    );
}

#[test]
fn a_child_that_is_reaped_between_the_lines_of_a_look_counts_once_in_the_end() {
    let (before, late) = ([process(2, 5, 0), process(3, 100, 0)], [process(2, 5, 100)]);
    assert_eq!(total(&[(&before, 0), (&[process(2, 5, 0)], 0), (&late, 0)]), 105);
    assert_eq!(total(&[(&before, 0), (&[process(2, 5, 100), process(3, 100, 0)], 0), (&late, 0)]), 105);
}

#[test]
fn a_pid_that_is_used_again_is_another_process() {
    let again = Process { started: 8, ..process(3, 1, 0) };
    assert_eq!(total(&[(&[process(3, 100, 0)], 0), (&[again], 0)]), 1 + 99);
}
