use protocol::Stream;
use protocol::event::OutputBytes;

use super::*;

fn texts(words: &[&str]) -> Vec<EventBody> {
    let event = |word: &&str| EventBody::Output { stream: Stream::Stdout, bytes: OutputBytes::Text((*word).into()) };
    words.iter().map(event).collect()
}

#[test]
fn what_the_coordinator_has_is_not_sent_again() {
    let mut batch = Numbered { next: 5, events: texts(&["a", "b", "c"]) };
    batch.go_on_from(7);
    assert_eq!(batch, Numbered { next: 7, events: texts(&["c"]) });
    batch.go_on_from(8);
    assert_eq!(batch, Numbered { next: 8, events: Vec::new() });
}

#[test]
fn numbers_that_the_coordinator_lost_are_given_again() {
    let mut batch = Numbered { next: 5, events: texts(&["a", "b"]) };
    batch.go_on_from(2);
    assert_eq!(batch.batch().events.iter().map(|event| event.number).collect::<Vec<_>>(), [2, 3]);
}
