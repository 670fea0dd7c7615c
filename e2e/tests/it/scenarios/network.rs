//! What tasks reach: nothing, or just what the worker's operator allowed, by its name.

use anyhow::Result;
use e2e::worker::Setup;
use e2e::{Coordinator, Worker, bounded};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::{Ended, Place};

/// Says for each `host:port` of its arguments what answers there, or why nothing does.
const ASK: &str = r#"
import errno, socket, sys
for place in sys.argv[1:]:
    host, port = place.rsplit(":", 1)
    try:
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\nHost: " + place.encode() + b"\r\n\r\n")
            said = connection.makefile().read().splitlines()[-1]
    except socket.gaierror:
        said = "unknown name"
    except OSError as error:
        said = errno.errorcode[error.errno]
    print(said)
"#;

/// A server on the host's loopback that answers every connection with its name; it ends when it is dropped.
struct Server {
    port: u16,
    serving: JoinHandle<()>,
}

impl Server {
    async fn start(name: &'static str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let serving = tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut request = [0; 1024];
                let _ = client.read(&mut request).await;
                let _ = client.write_all(format!("HTTP/1.0 200 OK\r\n\r\n{name}\n").as_bytes()).await;
            }
        });
        Ok(Self { port, serving })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn ask(place: &Place, network: Value, at: &[String]) -> Result<Vec<String>> {
    let run = json!({"kind": "python", "code": ASK});
    let ended = place.run(json!({"run": run, "args": at, "network": network})).await?;
    Ok(ended.out()?.lines().map(str::to_owned).collect())
}

#[tokio::test]
async fn without_a_network_nothing_is_reached_not_even_the_coordinator() -> Result<()> {
    bounded(async {
        let place = Place::open().await?;
        let server = Server::start("the host").await?;
        let own = place.coordinator.worker_url().replace("http://", "");
        let at = [format!("127.0.0.1:{}", server.port), own, "192.0.2.1:80".into(), "example.com:80".into()];
        let nothing = ["ECONNREFUSED", "ECONNREFUSED", "ENETUNREACH", "unknown name"];
        // Not asking for a network, asking for none, and a restricted one with nothing allowed are the same.
        for network in [Value::Null, json!("none"), json!("restricted")] {
            assert_eq!(ask(&place, network.clone(), &at).await?, nothing, "{network}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_restricted_network_leads_to_what_is_allowed_and_nowhere_else() -> Result<()> {
    bounded(async {
        let (allowed, bait) = (Server::start("allowed").await?, Server::start("bait").await?);
        let coordinator = Coordinator::start().await?;
        let allow = format!("proxy.example:{}", allowed.port);
        let setup = Setup { name: "first", repo: "r", variables: &[("CW_ALLOW", &allow)] };
        let worker =
            Worker::start_knowing(&coordinator, setup, &["127.0.0.1 proxy.example", "127.0.0.1 bait.example"]).await?;
        let place = Place { api: coordinator.api()?, coordinator, worker };
        let at = [
            allow.clone(),
            format!("proxy.example:{}", bait.port),
            format!("bait.example:{}", bait.port),
            format!("127.0.0.1:{}", allowed.port),
        ];
        let open = ["allowed", "ECONNREFUSED", "unknown name", "ECONNREFUSED"];
        assert_eq!(ask(&place, json!("restricted"), &at).await?, open);
        let closed = ["unknown name", "unknown name", "unknown name", "ECONNREFUSED"];
        assert_eq!(ask(&place, json!("none"), &at).await?, closed);
        assert_eq!(ask(&place, Value::Null, &at).await?, closed, "code has no network unless it asks for one");
        let args = ["send", "--wait", "r", "--network", "restricted", "--python", "-", "--arg", &allow];
        assert_eq!(place.coordinator.cw_reading(ASK, &args).await?.with_code(0)?.out, "allowed\n");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_unknown_network_is_refused_at_submission() -> Result<()> {
    bounded(async {
        let place = Place::open().await?;
        for network in ["host", "internet", ""] {
            let run = json!({"kind": "shell", "code": "true"});
            let answer = place.api.post("/v1/tasks", json!({"repo": "r", "run": run, "network": network})).await?;
            assert!(answer.status == 422 && answer.text().contains("network"), "{network}: {}", answer.text());
        }
        let list: Value = place.api.get("/v1/tasks").await?.value()?;
        assert_eq!(list["items"], json!([]), "nothing was made of it");
        let ran = Ended::out(place.code("shell", "echo well").await?)?;
        assert_eq!(ran, "well\n");
        Ok(())
    })
    .await
}
