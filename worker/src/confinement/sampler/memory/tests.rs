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
