//! Claims about the config.

use super::{Address, address};

#[test]
fn an_address_off_loopback_is_refused_unless_the_operator_insists() {
    for exposed in ["0.0.0.0:7222", "192.168.1.5:7222", "[::]:7222"] {
        let error = address(exposed, false).unwrap_err().to_string();
        assert!(error.contains("not on loopback") && error.contains("--listen-anyway"), "{error}");
        assert!(address(exposed, true).is_ok());
    }
    for local in ["127.0.0.1:0", "[::1]:7222", "localhost:7222"] {
        assert!(matches!(address(local, false), Ok(Address::Tcp(_))), "{local}");
    }
}

#[test]
fn a_malformed_address_is_named() {
    for bad in ["7222", "example.org:80", "127.0.0.1", "unix:relative", ""] {
        assert!(format!("{:#}", address(bad, false).unwrap_err()).contains(bad), "{bad}");
    }
}
