//! A small HTTP server with scripted answers that records its requests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};

/// The next action of the server on a connection.
#[derive(Debug, Clone)]
pub(crate) enum ServerAction {
    Send(Vec<u8>),
    /// Waits until the test releases one request.
    Wait,
    /// Sends nothing more and keeps the connection open.
    Hang,
    /// Resets the connection, as if the machine had failed.
    Reset,
}

/// A received request.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    pub(crate) head: String,
    pub(crate) body: String,
}

/// The running server; it stops with the test's runtime.
#[derive(Debug)]
pub(crate) struct TestServer {
    pub(crate) url: String,
    pub(crate) received: Arc<Mutex<Vec<ReceivedRequest>>>,
    /// One message for every connection that the client closed.
    pub(crate) closed: mpsc::UnboundedReceiver<()>,
    /// The number of requests being answered.
    pub(crate) active: watch::Receiver<usize>,
    /// The maximum number of requests answered concurrently.
    pub(crate) peak: Arc<AtomicUsize>,
    release_permits: Arc<Semaphore>,
}

#[derive(Clone)]
struct ServerState {
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
    closed: mpsc::UnboundedSender<()>,
    active: Arc<watch::Sender<usize>>,
    peak: Arc<AtomicUsize>,
    release_permits: Arc<Semaphore>,
}

impl TestServer {
    /// Answers the request with that number, counted from 0, with these actions.
    pub(crate) async fn start(
        reply: impl Fn(usize) -> Vec<ServerAction> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let (closed_sender, closed) = mpsc::unbounded_channel();
        let (active_sender, active) = watch::channel(0);
        let state = ServerState {
            received: Arc::default(),
            closed: closed_sender,
            active: Arc::new(active_sender),
            peak: Arc::default(),
            release_permits: Arc::new(Semaphore::new(0)),
        };
        let server = Self {
            url,
            received: Arc::clone(&state.received),
            closed,
            active,
            peak: Arc::clone(&state.peak),
            release_permits: Arc::clone(&state.release_permits),
        };
        let reply = Arc::new(reply);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (desk, reply) = (state.clone(), Arc::clone(&reply));
                tokio::spawn(async move { desk.serve(stream, &*reply).await });
            }
        });
        server
    }

    /// Answers every request with the same actions.
    pub(crate) async fn replying(parts: Vec<ServerAction>) -> Self {
        Self::start(move |_| parts.clone()).await
    }

    /// Releases this many waiting requests.
    pub(crate) fn release(&self, requests: usize) {
        self.release_permits.add_permits(requests);
    }

    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.received.lock().unwrap().clone()
    }
}

impl ServerState {
    async fn serve(
        &self,
        mut stream: TcpStream,
        reply: &(impl Fn(usize) -> Vec<ServerAction> + Sync),
    ) {
        let Some(request) = read_request(&mut stream).await else {
            return;
        };
        let number = {
            let mut all = self.received.lock().unwrap();
            all.push(request);
            all.len() - 1
        };
        self.active.send_modify(|active| *active += 1);
        self.peak
            .fetch_max(*self.active.borrow(), Ordering::Relaxed);
        self.run_actions(&mut stream, reply(number)).await;
        self.active.send_modify(|active| *active -= 1);
    }

    async fn run_actions(&self, stream: &mut TcpStream, parts: Vec<ServerAction>) {
        for part in parts {
            let sent = match part {
                ServerAction::Send(bytes) => stream.write_all(&bytes).await,
                ServerAction::Wait => {
                    self.release_permits.acquire().await.unwrap().forget();
                    Ok(())
                }
                ServerAction::Hang => {
                    let mut byte = [0];
                    // The client sends nothing more, so this read returns when it closes the
                    // connection.
                    let _ = stream.read(&mut byte).await;
                    let _ = self.closed.send(());
                    return;
                }
                ServerAction::Reset => {
                    let _ = stream.set_zero_linger();
                    return;
                }
            };
            if sent.is_err() {
                let _ = self.closed.send(());
                return;
            }
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<ReceivedRequest> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(request) = parse_request(&bytes) {
            return Some(request);
        }
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

fn parse_request(bytes: &[u8]) -> Option<ReceivedRequest> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().ok())?
    });
    (body.len() >= length?).then(|| ReceivedRequest {
        head: head.to_owned(),
        body: body.to_owned(),
    })
}

/// A complete response with status and headers.
pub(crate) fn response(status: &str, headers: &str, body: &str) -> Vec<ServerAction> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n"
    );
    vec![ServerAction::Send(format!("{head}{body}").into_bytes())]
}

/// The head of an event stream that ends with the connection.
pub(crate) fn stream_head() -> ServerAction {
    ServerAction::Send(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".to_vec(),
    )
}

/// A chunk of a chat completion with this text.
pub(crate) fn chunk(text: &str) -> ServerAction {
    let data = serde_json::json!({"choices": [{"index": 0, "delta": {"content": text}}]});
    ServerAction::Send(format!("data: {data}\n\n").into_bytes())
}

/// The end of a chat completion.
pub(crate) fn stream_end() -> ServerAction {
    let data = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    let used = r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
    ServerAction::Send(format!("data: {data}\n\ndata: {used}\n\ndata: [DONE]\n\n").into_bytes())
}
