//! Claims about words.

use super::{Cause, Doing, element, shortened, without_code};

#[test]
fn the_code_is_found_in_an_answer_and_in_a_failed_deletion() {
    let answer =
        "403 Forbidden: <?xml version=\"1.0\"?><Error><Code>AccessDenied</Code><Message>no &lt;</Message></Error>";
    assert_eq!(element(answer, "Code"), Some("AccessDenied"));
    assert_eq!(element(answer, "Message"), Some("no &lt;"));
    assert_eq!(element(answer, "Region"), None);
    let deletion = "DeleteObjects request failed for key a/b: no (code: AccessDenied)";
    assert_eq!(element(deletion, "Code"), Some("AccessDenied"));
}

#[test]
fn an_answer_that_is_no_s3_is_shown_by_its_first_line() {
    let error = object_store::Error::Generic { store: "S3", source: "x".into() };
    let text = "Server returned non-2xx status code: 502 Bad Gateway: oops\n<html>";
    assert_eq!(without_code(&error, Doing::Read, text), Cause::Answered("502 Bad Gateway: oops".into()));
    assert_eq!(shortened(&"x".repeat(500)).len(), 200);
}
