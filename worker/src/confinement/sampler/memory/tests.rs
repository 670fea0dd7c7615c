use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use super::*;

const MAPS: &str = "\
55d0-55d1 r-xp 00000000 fe:00 4711                       /usr/bin/python3.11
Rss:                  100 kB
Pss:                   90 kB
Anonymous:              4 kB
7f00-7f01 rw-p 00000000 00:00 0 
Pss:                 1000 kB
Anonymous:           1000 kB
7f02-7f03 rw-s 00000000 00:01 12                         /dev/zero (deleted)
Pss:                  200 kB
Anonymous:              0 kB
7f04-7f05 rw-s 00000000 00:01 13                         /memfd:a b (deleted)
Pss:                  300 kB
7f06-7f07 rw-s 00000000 00:01 0                          /SYSV00000000 (deleted)
Pss:                  400 kB
";

#[test]
fn files_count_with_their_changed_pages_and_memory_with_its_share() {
    assert_eq!(sum(MAPS, |_| false), (4 + 1000 + 200 + 300 + 400) * 1024);
}

#[test]
fn what_is_counted_elsewhere_does_not_count_again() {
    let memfd: FileId = (rustix::fs::makedev(0, 1), 13);
    assert_eq!(sum(MAPS, |(file, path)| file == memfd || path.starts_with("/SYSV")), (4 + 1000 + 200) * 1024);
}

/// Where the kernel has such names, a task gives them by `prctl`.
#[test]
fn a_name_that_the_task_gave_to_shared_memory_hides_nothing() {
    let named =
        "7f02-7f03 rw-s 00000000 00:01 12                         [anon_shmem:mine]\nPss:  200 kB\nAnonymous:  0 kB\n";
    assert_eq!(sum(named, |_| false), 200 * 1024);
}

#[test]
fn a_process_with_mappings_without_end_counts_with_all_that_it_has() {
    let code = "import mmap\nkept = [mmap.mmap(-1, 4096, prot=1 + n % 2 * 2) for n in range(20_000)]\nprint(flush=True)\ninput()";
    let mut child =
        Command::new("python3").args(["-c", code]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let told = |place: String| own(&Process { place, resident_bytes: 7, ..Process::default() }, &Held::default());
    let (theirs, ours) = (told(format!("/proc/{}", child.id())), told("/proc/self".into()));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(theirs, 7);
    assert!(ours > 4096, "{ours}");
}
