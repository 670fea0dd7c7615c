//! Who a request may be addressed to: a page from elsewhere cannot make a browser speak to the coordinator.

use protocol::Code;
use reqwest::Method;

use crate::answer::Answer;
use crate::raw::Raw;
use crate::running::Running;

async fn ask(on: &Running, headers: &[(&str, &str)]) -> Answer {
    let mut request = on.request(Method::GET, "/v1/tasks").bearer_auth(&on.admin);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Answer::read(request.send().await.unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_host_is_refused_with_a_valid_key_too() {
    let on = Running::start_with(|config| config.allowed_hosts = vec!["Build.example".into()]).await;
    for ours in ["localhost", "LOCALHOST:7222", "127.0.0.1", "[::1]:1", "skia:7222", "build.example"] {
        assert_eq!(ask(&on, &[("host", ours)]).await.status, 200, "{ours}");
    }
    for foreign in
        ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.2", "", "localhost@evil.example"]
    {
        ask(&on, &[("host", foreign)]).await.refused(Code::HostNotAllowed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_origin_is_refused() {
    let on = Running::start().await;
    for ours in ["http://localhost:7222", "https://127.0.0.1"] {
        assert_eq!(ask(&on, &[("origin", ours)]).await.status, 200, "{ours}");
    }
    for foreign in ["https://evil.example", "null", "http://localhost.evil.example", "", "localhost"] {
        ask(&on, &[("origin", foreign)]).await.refused(Code::OriginNotAllowed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn open_routes_are_for_our_hosts_too() {
    let on = Running::start().await;
    for path in ["/livez", "/readyz", "/version", "/openapi.json", "/nowhere"] {
        let request = on.request(Method::GET, path).header("host", "evil.example");
        Answer::read(request.send().await.unwrap()).await.refused(Code::HostNotAllowed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_a_host_or_with_two_is_refused() {
    let on = Running::start().await;
    for head in [
        "GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n",
        "GET /livez HTTP/1.0\r\n\r\n",
        "GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
        "GET /livez HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        "GET http://evil.example/livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    ] {
        let answer = Raw::connect(&on).await.send(head).await.rest().await;
        assert!(answer.contains(" 403 ") && answer.contains("host_not_allowed"), "{head}: {answer}");
    }
}
