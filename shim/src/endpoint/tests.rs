use super::*;

fn parsed(text: &str) -> Result<Endpoint, BadEndpoint> {
    text.parse()
}

fn tcp(host: &str, port: u16) -> Endpoint {
    Endpoint::Tcp { host: host.into(), port }
}

#[test]
fn endpoints_are_tcp_or_unix() {
    assert_eq!(parsed("tcp:authproxy:4000"), Ok(tcp("authproxy", 4000)));
    assert_eq!(parsed("tcp:127.0.0.1:1"), Ok(tcp("127.0.0.1", 1)));
    assert_eq!(parsed("tcp:[::1]:65535"), Ok(tcp("::1", 65535)));
    assert_eq!(parsed("unix:/run/a b.sock"), Ok(Endpoint::Unix("/run/a b.sock".into())));
}

#[test]
fn an_endpoint_is_written_as_it_is_read() {
    for text in ["tcp:authproxy:4000", "tcp:[fe80::1]:80", "unix:/run/far.sock"] {
        assert_eq!(parsed(text).map(|endpoint| endpoint.to_string()), Ok(text.to_owned()));
    }
}

#[test]
fn a_wrong_endpoint_is_refused_for_its_reason() {
    type Reason = fn(String) -> BadEndpoint;
    let wrong: [(Reason, &[&str]); 5] = [
        (BadEndpoint::Kind, &["", "authproxy:4000", "http://x:1", "TCP:x:1", "vsock:2:1"]),
        (
            BadEndpoint::Port,
            &["tcp:", "tcp:x", "tcp:x:", "tcp:x:0", "tcp:x:65536", "tcp:x:+1", "tcp:x:-1", "tcp:[::1]"],
        ),
        (BadEndpoint::Host, &["tcp::1", "tcp:a b:1", "tcp:u@x:1", "tcp:x/y:1", "tcp:\n:1", "tcp:ä:1"]),
        (BadEndpoint::Brackets, &["tcp:::1:80", "tcp:[x]:80", "tcp:[127.0.0.1]:80", "tcp:[::1:80", "tcp:a:b:80"]),
        (BadEndpoint::Path, &["unix:", "unix:run", "unix:/", "unix:/run/", "unix:/a\0b"]),
    ];
    for (reason, texts) in wrong {
        for text in texts {
            assert_eq!(parsed(text), Err(reason((*text).into())), "{text}");
        }
    }
}
