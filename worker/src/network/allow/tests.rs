use super::*;

fn parsed(texts: &[&str]) -> Result<Vec<String>, String> {
    let typed: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    let shown = |all: Vec<Allowed>| all.iter().map(ToString::to_string).collect();
    parse(&typed).map(shown).map_err(|error| format!("{error:#}"))
}

#[test]
fn names_with_ports_are_allowed() {
    let typed = ["AuthProxy:4000", "authproxy:443", "db_1.internal.example:5432", " ", "", "7z.example:1", "x:65535"];
    let expected = ["authproxy:4000", "authproxy:443", "db_1.internal.example:5432", "7z.example:1", "x:65535"];
    assert_eq!(parsed(&typed).unwrap(), expected);
}

#[test]
fn what_is_wrong_is_named_with_its_part() {
    let refused = |text: &str, words: &str| {
        let said = parsed(&["good:1", text]).expect_err(text);
        assert!(said.starts_with(&format!("--allow `{text}`")) && said.contains(words), "{said}");
    };
    refused("authproxy", "the port is missing");
    for port in ["", "0", "65536", "+80", "http", "-1"] {
        refused(&format!("a:{port}"), &format!("port `{port}`: expected a number from 1 to 65535"));
    }
    for host in ["", ".", "a..b", "a.", "-a", "a-", "a b", "a/b", "ä", "a#", "*.a", "a\n127.0.0.1 b"] {
        refused(&format!("{host}:80"), &format!("host `{host}`: expected a name"));
    }
    for host in ["10.0.0.5", "127.0.0.1", "10.1", "2130706433", "0x7f000001", "a.0x1", "[::1]", "::1"] {
        refused(&format!("{host}:80"), &format!("host `{host}`: tasks call it by a name"));
    }
    for host in ["localhost", "LocalHost", "a.localhost", "localhost.localdomain", "ip6-localhost"] {
        refused(&format!("{host}:80"), &format!("host `{host}`: in a task that name is its own loopback"));
    }
    refused("http://authproxy:4000", "no URL");
    refused(&format!("{}:80", "a".repeat(64)), "expected a name");
    refused("GOOD:1", "it is given twice");
}

#[test]
fn no_more_are_taken_than_can_be_handed_out() {
    let many: Vec<String> = (1..=65).map(|port| format!("a:{port}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(parsed(&many[..64]).unwrap().len(), 64);
    assert_eq!(parsed(&many).unwrap_err(), "--allow: 65 endpoints are given, 64 at most are served");
}
