use super::threads;

#[test]
fn only_the_threads_of_that_user_count() {
    let status = "Name:\tsh\nUid:\t1000\t1000\t1000\t1000\nThreads:\t3\n";
    assert_eq!((threads(status, 1000), threads(status, 0), threads("", 1000)), (Some(3), None, None));
}
