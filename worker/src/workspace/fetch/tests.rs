use super::*;

fn file(content: u8, size: u64) -> Entry {
    Entry { what: What::File { size, sum: [content; 32], mode: 0o644 }, modified_ms: 0 }
}

#[test]
fn a_content_is_in_one_batch_with_all_files_that_have_it() {
    let files = ["a", "b", "c"].map(|path| (Path::from(path), file(1, 10)));
    let batches = batches(files.to_vec());
    assert_eq!((batches.len(), batches[0].contents.len(), batches[0].files.len()), (1, 1, 3));
}

#[test]
fn a_batch_has_bounds_in_number_and_bytes_and_a_large_content_has_one_to_itself() {
    let huge = [1, 2, 3].map(|content| (Path::from(content.to_string()), file(content, BATCH_BYTES * 2)));
    assert_eq!(batches(huge.to_vec()).len(), 3);
    let small: Vec<(Path, Entry)> = (0..=255_u8)
        .flat_map(|one| (0..20_u8).map(move |two| (one, two)))
        .map(|(one, two)| {
            let mut sum = [0; 32];
            (sum[0], sum[1]) = (one, two);
            let what = What::File { size: 1, sum, mode: 0o644 };
            (Path::from(format!("{one}/{two}")), Entry { what, modified_ms: 0 })
        })
        .collect();
    let count = small.len();
    let batches = batches(small);
    assert_eq!(batches.len(), count.div_ceil(BATCH));
    assert_eq!(batches.iter().map(|batch| batch.files.len()).sum::<usize>(), count);
}
