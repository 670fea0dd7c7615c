use super::*;
use crate::output::leftover::Batches;

fn state(limit: u64, directory: &std::path::Path) -> Arc<Shared> {
    Arc::clone(&Output::new(limit, directory).shared)
}

fn text_of(batches: Batches, wanted: Stream) -> String {
    let mut text = String::new();
    for body in batches.flat_map(Result::unwrap) {
        if let EventBody::Output { stream, bytes: protocol::OutputBytes::Text(part) } = body
            && stream == wanted
        {
            text += &part;
        }
    }
    text
}

#[test]
fn what_fits_is_whole_and_what_does_not_loses_its_middle() {
    let home = tempfile::tempdir().unwrap();
    let text: String = (0..200).map(|number| format!("{number:03}é")).collect();
    for limit in [0, 1, 2, 7, 100, 101, 999, 1000, 6000] {
        for step in [1, 2, 3, 64, 5000] {
            let shared = state(limit, home.path());
            for part in text.as_bytes().chunks(step) {
                shared.take(Stream::Stdout, part);
            }
            let mut state = shared.lock();
            state.flush(Stream::Stdout);
            assert_eq!(state.stdout.written, text.len() as u64);
            let kept = text_of(Arc::new(state.hand_over()).batches(), Stream::Stdout);
            assert!(kept.len() as u64 <= limit, "{limit}: {}", kept.len());
            assert!(kept.len() as u64 + 6 >= limit.min(text.len() as u64), "{limit}: {}", kept.len());
            if limit >= text.len() as u64 {
                assert_eq!(kept, text);
            }
            let head = usize::try_from(limit.div_ceil(2)).unwrap().saturating_sub(3).min(kept.len());
            assert_eq!(kept.as_bytes()[..head], text.as_bytes()[..head]);
            let tail = usize::try_from(limit / 2).unwrap().saturating_sub(3).min(kept.len());
            assert!(text.as_bytes().ends_with(&kept.as_bytes()[kept.len() - tail..]));
        }
    }
}

#[test]
fn streams_keep_their_order_and_events_in_flight_come_first() {
    let home = tempfile::tempdir().unwrap();
    let shared = state(1000, home.path());
    shared.take(Stream::Stdout, b"a");
    shared.lock().fill_flight();
    shared.take(Stream::Stderr, b"b");
    shared.take(Stream::Stdout, b"c");
    let left = Arc::new(shared.lock().hand_over());
    let batches: Vec<_> = left.batches().map(Result::unwrap).collect();
    assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(text_of(left.batches(), Stream::Stdout), "ac");
    assert_eq!(text_of(left.batches(), Stream::Stderr), "b");
}

#[test]
fn reading_stops_when_too_much_waits_and_goes_on_while_closing() {
    let home = tempfile::tempdir().unwrap();
    let shared = state(1 << 30, home.path());
    for _ in 0..(BUFFER_BYTES / READ_BYTES) {
        assert!(!shared.lock().is_full());
        shared.take(Stream::Stdout, &[b'x'; READ_BYTES]);
    }
    assert!(shared.lock().is_full());
    shared.lock().is_closing = true;
    assert!(!shared.lock().is_full());
}
