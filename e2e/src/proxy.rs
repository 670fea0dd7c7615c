//! A proxy that passes requests on and, when told to, swallows the answer to one of them: the coordinator did what was
//! asked, and who asked never hears of it.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A running proxy; it ends when it is dropped.
pub struct Proxy {
    url: String,
    victims: Arc<Mutex<Victims>>,
    serving: JoinHandle<()>,
}

/// Which answers are still to be swallowed, and how many were.
#[derive(Default)]
struct Victims {
    wanted: Vec<String>,
    swallowed: usize,
}

impl Proxy {
    /// Stands before `target`, a URL.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn before(target: &str) -> anyhow::Result<Self> {
        let target = target.strip_prefix("http://").context("the target is no URL")?.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let victims = Arc::new(Mutex::new(Victims::default()));
        let serving = tokio::spawn(serve(listener, target, Arc::clone(&victims)));
        Ok(Self { url, victims, serving })
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Swallows the answer to the next request whose first line holds this.
    pub fn swallow_next(&self, part: &str) {
        self.victims().wanted.push(part.to_owned());
    }

    /// How many answers were swallowed so far.
    #[must_use]
    pub fn swallowed(&self) -> usize {
        self.victims().swallowed
    }

    fn victims(&self) -> std::sync::MutexGuard<'_, Victims> {
        self.victims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, target: String, victims: Arc<Mutex<Victims>>) {
    while let Ok((client, _)) = listener.accept().await {
        let (target, victims) = (target.clone(), Arc::clone(&victims));
        tokio::spawn(async move {
            // Either side may leave at any time; the other one then finds its connection closed.
            let _ = carry(client, &target, &victims).await;
        });
    }
}

/// Carries one connection. Requests of one connection come one after the other: the next begins after the answer.
async fn carry(client: TcpStream, target: &str, victims: &Mutex<Victims>) -> std::io::Result<()> {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = TcpStream::connect(target).await?.into_split();
    let (mut request, mut answer) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    let mut is_victim = false;
    loop {
        tokio::select! {
            read = from_client.read(&mut request) => match read? {
                0 => return Ok(()),
                length => {
                    is_victim |= chosen(&request[..length], victims);
                    to_server.write_all(&request[..length]).await?;
                }
            },
            read = from_server.read(&mut answer) => match read? {
                0 => return Ok(()),
                _ if is_victim => {
                    victims.lock().unwrap_or_else(PoisonError::into_inner).swallowed += 1;
                    return Ok(());
                }
                length => to_client.write_all(&answer[..length]).await?,
            },
        }
    }
}

/// Whether these bytes begin a request whose answer is to be swallowed.
fn chosen(bytes: &[u8], victims: &Mutex<Victims>) -> bool {
    let first_line =
        String::from_utf8_lossy(bytes.split(|byte| *byte == b'\r').next().unwrap_or_default()).into_owned();
    if !first_line.ends_with(" HTTP/1.1") {
        return false;
    }
    let mut victims = victims.lock().unwrap_or_else(PoisonError::into_inner);
    let place = victims.wanted.iter().position(|part| first_line.contains(part.as_str()));
    place.map(|place| victims.wanted.remove(place)).is_some()
}
