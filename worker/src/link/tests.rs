use protocol::{Code, Problem};

use super::*;

fn refused(status: u16, code: Code) -> CallError {
    CallError::Refused(Box::new(Problem { status, ..Problem::new(code, "no") }))
}

#[test]
fn a_refusal_of_one_call_leaves_the_link_well_but_a_refused_key_does_not() {
    let link = Link::new("http://x:1");
    assert_eq!(link.contact(), Contact::Unknown);
    link.heard(Some(&refused(409, Code::LeaseLost)));
    assert_eq!((link.contact(), link.trouble()), (Contact::Well, None));
    link.heard(Some(&refused(401, Code::KeyRevoked)));
    assert_eq!(link.trouble().as_deref(), Some("coordinator refused the key (401)"));
    link.heard(Some(&refused(503, Code::Unavailable)));
    assert_eq!(link.contact(), Contact::Failing(503));
    link.heard(Some(&CallError::Unreachable("connection refused".into())));
    assert_eq!(link.trouble().as_deref(), Some("cannot connect to coordinator at http://x:1"));
    link.heard(None);
    assert_eq!(link.trouble(), None);
}
