use protocol::event::OutputBytes;
use protocol::{Outcome, Stream};

use super::*;

fn head(number: u128) -> Head {
    let report = Report::new(Outcome::Exited { code: 0 });
    Head { lease: LeaseId::new(1, number), task: TaskId::new(1, number), saved_at_ms: 5, first: 7, report }
}

fn batch(text: &str) -> Vec<EventBody> {
    vec![EventBody::Output { stream: Stream::Stdout, bytes: OutputBytes::Text(text.into()) }]
}

#[test]
fn a_saved_report_is_read_back_as_it_was() {
    let home = tempfile::tempdir().unwrap();
    let spool = Spool::open(home.path()).unwrap();
    let batches = [batch("a\nb"), batch("c")];
    spool.save(&head(1), batches.iter().cloned().map(Ok)).unwrap();
    assert!(spool.files().unwrap().is_empty(), "it is in hand");
    spool.let_go(head(1).lease);
    let files = spool.files().unwrap();
    let (read, rest) = load(&files[0]).unwrap();
    assert_eq!(read, head(1));
    assert_eq!(rest.map(Result::unwrap).collect::<Vec<_>>(), batches);
}

#[test]
fn a_report_that_cannot_be_saved_leaves_nothing_behind() {
    let home = tempfile::tempdir().unwrap();
    let spool = Spool::open(home.path()).unwrap();
    let broken = [Ok(batch("a")), Err(io::Error::other("no"))];
    assert!(spool.save(&head(1), broken.into_iter()).is_err());
    let left = fs::read_dir(home.path().join("spool")).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["refused"]);
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_never_whole() {
    let home = tempfile::tempdir().unwrap();
    let spool = Spool::open(home.path()).unwrap();
    spool.save(&head(1), [batch("a"), batch("b")].into_iter().map(Ok)).unwrap();
    let file = spool.path(head(1).lease);
    let content = fs::read(&file).unwrap();
    for length in 0..content.len() {
        fs::write(&file, &content[..length]).unwrap();
        let is_whole = load(&file).is_ok_and(|(_, mut batches)| batches.all(|batch| batch.is_ok()));
        assert!(!is_whole, "{length} of {} bytes", content.len());
    }
}

#[test]
fn each_end_of_a_delivery_does_its_own_with_the_file() {
    let home = tempfile::tempdir().unwrap();
    let spool = Spool::open(home.path()).unwrap();
    for (settled, stays, aside) in [
        (Settled::Acknowledged, false, false),
        (Settled::LeaseLost, false, false),
        (Settled::KeyRefused, true, false),
        (Settled::Undeliverable("no".into()), false, true),
    ] {
        let (lease, refused) = (head(1).lease, home.path().join("spool/refused"));
        spool.save(&head(1), std::iter::empty()).unwrap();
        spool.settle(lease, &settled);
        assert_eq!(spool.path(lease).exists(), stays, "{settled:?}");
        assert_eq!(refused.join(format!("{lease}.json")).exists(), aside, "{settled:?}");
    }
}
