use protocol::{Code, Problem};

use super::*;

fn refused(status: u16, code: Code) -> CallError {
    CallError::Refused(Box::new(Problem { status, ..Problem::new(code, "no") }))
}

#[test]
fn a_refusal_of_one_call_leaves_the_link_well_but_a_refused_key_does_not() {
    let link = Link::new("http://x:1");
    assert_eq!(link.contact(), Contact::Unknown);
    link.asked(Some(&refused(409, Code::LeaseLost)));
    assert_eq!((link.contact(), link.trouble()), (Contact::Well, None));
    link.asked(Some(&refused(401, Code::KeyRevoked)));
    assert_eq!(link.trouble().as_deref(), Some("coordinator refused the key (401)"));
    link.asked(Some(&refused(503, Code::Unavailable)));
    assert_eq!(link.contact(), Contact::Failing(503));
    link.asked(Some(&CallError::Unreachable("connection refused".into())));
    assert_eq!(link.trouble().as_deref(), Some("cannot connect to coordinator at http://x:1"));
    link.asked(None);
    assert_eq!(link.trouble(), None);
}

#[test]
fn a_key_that_takes_no_more_leases_is_not_well_again_because_it_may_still_report() {
    let link = Link::new("http://x:1");
    link.asked(Some(&refused(401, Code::KeyExpired)));
    link.called(None);
    assert_eq!(link.contact(), Contact::Refused(401));
    link.asked(None);
    link.called(Some(&refused(401, Code::KeyExpired)));
    assert_eq!(link.contact(), Contact::Well);
    link.called(Some(&CallError::Unreachable("connection refused".into())));
    assert_eq!(link.contact(), Contact::Away);
    link.called(None);
    assert_eq!(link.contact(), Contact::Well);
}
