use super::*;

#[test]
fn coordinators_are_http_or_unix_sockets() {
    let http = address(Some("http://skia:7222/")).unwrap();
    assert_eq!((http.base.as_str(), http.socket), ("http://skia:7222", None));
    for text in ["unix:/run/cw.sock", "unix:///run/cw.sock"] {
        let socket = address(Some(text)).unwrap();
        assert_eq!((socket.base.as_str(), socket.socket), ("http://localhost", Some("/run/cw.sock".into())));
    }
    for text in ["", "skia", "ftp://x", "https://x", "http://", "http://x/v1", "http://x?y", "unix:run", "unix:"] {
        assert!(address(Some(text)).is_err(), "{text}");
    }
}

#[test]
fn a_password_in_a_url_is_refused_and_not_repeated() {
    let error = address(Some("http://user:hunter2@skia:1")).unwrap_err();
    assert!(!format!("{error:#}").contains("hunter2"));
}

#[test]
fn health_is_served_on_loopback_only() {
    assert!(loopback("127.0.0.1:0").is_ok() && loopback("[::1]:0").is_ok());
    assert!(loopback("0.0.0.0:0").is_err() && loopback("10.0.0.1:80").is_err() && loopback("localhost:0").is_err());
}

#[test]
fn the_flags_are_consistent() {
    use clap::Args as _;
    let command = RunArgs::augment_args(clap::Command::new("run"));
    for flag in command.get_arguments() {
        let name = flag.get_long().unwrap().replace('-', "_").to_uppercase();
        assert_eq!(flag.get_env().unwrap().to_str().unwrap(), format!("CW_{name}"));
    }
    command.debug_assert();
}
