use super::*;

#[test]
fn addresses_are_http_or_a_socket() {
    assert!(matches!(Address::parse("http://127.0.0.1:7222").unwrap(), Address::Http(_)));
    for bare in ["127.0.0.1:7222", "localhost:7222", "[::1]:7222"] {
        assert_eq!(Address::parse(bare).unwrap(), Address::parse(&format!("http://{bare}")).unwrap());
    }
    assert_eq!(Address::parse("unix:/run/cw.sock").unwrap(), Address::Unix("/run/cw.sock".into()));
    assert_eq!(Address::parse("unix:///run/cw.sock").unwrap(), Address::Unix("/run/cw.sock".into()));
    for bad in ["", "localhost", "localhost:http", ":7222", "https://localhost", "unix:relative", "http://", "ftp://x"]
    {
        assert_eq!(Address::parse(bad).unwrap_err().exit, Exit::USAGE, "{bad}");
    }
}

#[test]
fn password_in_an_address_is_refused_and_not_repeated() {
    for address in
        ["http://me:hunter2@localhost", "https://me:hunter2@localhost/x", "me:hunter2@localhost", "me:hunter2@h:1"]
    {
        let failure = Address::parse(address).unwrap_err();
        assert!(!format!("{failure:?}").contains("hunter2"));
    }
}

#[test]
fn request_that_may_have_arrived_is_repeated_only_where_that_is_harmless() {
    let broken = Attempt { failure: Failure::usage("x"), unsent: false, passing: true };
    assert!(broken.may_repeat(Repeat::Harmless));
    assert!(!broken.may_repeat(Repeat::OnlyUnsent));
    let refused = Attempt { unsent: true, ..broken };
    assert!(refused.may_repeat(Repeat::OnlyUnsent));
    assert!(!refused.may_repeat(Repeat::Never));
}
