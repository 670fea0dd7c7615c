//! Claims about the hosts.

use super::Hosts;

#[test]
fn only_our_names_are_known_with_any_port() {
    let hosts = Hosts::new(&["Builder.local".into()]);
    for ours in ["localhost", "LOCALHOST:1", "127.0.0.1:7222", "[::1]", "[::1]:7222", "skia:7222", "builder.local"] {
        assert!(hosts.knows(ours), "{ours}");
    }
    for foreign in
        ["", ":80", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "localhost:80:80", "null"]
    {
        assert!(!hosts.knows(foreign), "{foreign}");
    }
}
