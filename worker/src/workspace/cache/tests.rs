use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn sum_of(bytes: &[u8]) -> Sum {
    Sha256::digest(bytes).into()
}

fn cache(place: &Path, limit_bytes: u64) -> Arc<Cache> {
    Arc::new(Cache::open(place.to_path_buf(), limit_bytes).unwrap())
}

fn add(cache: &Cache, bytes: &[u8]) -> Sum {
    let mut incoming = cache.begin().unwrap();
    incoming.write(bytes).unwrap();
    assert!(incoming.keep(&sum_of(bytes)).unwrap());
    sum_of(bytes)
}

fn laid(cache: &Cache, sum: &Sum, size: u64) -> Result<Vec<u8>, NotLaid> {
    let mut file = tempfile::tempfile().unwrap();
    cache.lay(sum, size, &mut file)?;
    let mut bytes = Vec::new();
    std::io::Seek::rewind(&mut file).unwrap();
    file.read_to_end(&mut bytes).unwrap();
    Ok(bytes)
}

#[test]
fn a_content_is_laid_out_as_it_came_and_only_the_worker_reads_its_file() {
    let place = tempfile::tempdir().unwrap();
    let cache = cache(place.path(), 1 << 30);
    for size in [0, 1, 70_000, 300_000] {
        let bytes = vec![7; size];
        let sum = add(&cache, &bytes);
        assert_eq!(laid(&cache, &sum, size as u64).unwrap(), bytes);
        let mode = fs::metadata(cache.path(&sum)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn what_is_not_what_its_sum_says_is_not_kept() {
    let place = tempfile::tempdir().unwrap();
    let cache = cache(place.path(), 1 << 30);
    let mut incoming = cache.begin().unwrap();
    incoming.write(b"abd").unwrap();
    assert!(!incoming.keep(&sum_of(b"abc")).unwrap());
    assert!(matches!(laid(&cache, &sum_of(b"abc"), 3), Err(NotLaid::Missing)));
    assert_eq!(fs::read_dir(place.path().join("incoming")).unwrap().count(), 0);
}

#[test]
fn a_content_that_was_begun_and_not_finished_is_gone_at_the_next_start() {
    let place = tempfile::tempdir().unwrap();
    let first = cache(place.path(), 1 << 30);
    let mut incoming = first.begin().unwrap();
    incoming.write(b"half").unwrap();
    // As a worker that is killed leaves it.
    std::mem::forget(incoming);
    let next = cache(place.path(), 1 << 30);
    assert_eq!(fs::read_dir(place.path().join("incoming")).unwrap().count(), 0);
    assert!(matches!(laid(&next, &sum_of(b"half"), 4), Err(NotLaid::Missing)));
}

#[test]
fn a_content_that_the_disk_lost_is_found_out_at_the_next_start() {
    let place = tempfile::tempdir().unwrap();
    let first = cache(place.path(), 1 << 30);
    let sums = [add(&first, b"shorter"), add(&first, b"another"), add(&first, b"as it was")];
    fs::write(first.path(&sums[0]), b"sh").unwrap();
    fs::write(first.path(&sums[1]), b"ANOTHER").unwrap();
    let next = cache(place.path(), 1 << 30);
    assert!(matches!(laid(&next, &sums[0], 7), Err(NotLaid::Missing)));
    assert!(matches!(laid(&next, &sums[1], 7), Err(NotLaid::Missing)));
    assert_eq!(laid(&next, &sums[2], 9).unwrap(), b"as it was");
    assert_eq!(next.pin(sums.to_vec()).lacking(), sums[..2]);
}

#[test]
fn what_was_not_used_for_longest_goes_first_and_what_is_pinned_stays() {
    let place = tempfile::tempdir().unwrap();
    let cache = cache(place.path(), 1000);
    let sums: Vec<Sum> = (0..9).map(|number| add(&cache, &[number; 100])).collect();
    let pinned = cache.pin(vec![sums[0]]);
    laid(&cache, &sums[1], 100).unwrap();
    add(&cache, &[100; 200]);
    let left = cache.pin(sums.clone()).lacking();
    assert!(!left.contains(&sums[0]) && !left.contains(&sums[1]), "pinned, and just used");
    assert!(left.contains(&sums[2]) && left.contains(&sums[3]));
    drop(pinned);
}

#[test]
fn a_content_larger_than_the_cache_stays_as_long_as_it_is_pinned() {
    let place = tempfile::tempdir().unwrap();
    let cache = cache(place.path(), 10);
    let pinned = cache.pin(vec![sum_of(&[1; 100])]);
    let sum = add(&cache, &[1; 100]);
    assert_eq!(laid(&cache, &sum, 100).unwrap(), [1; 100]);
    drop(pinned);
    assert!(matches!(laid(&cache, &sum, 100), Err(NotLaid::Missing)));
}
