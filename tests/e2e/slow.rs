//! Slow clients: one byte per second, no data at all, or thousands of idle connections. They do not affect other
//! clients, and the server closes them in time.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::{Server, TEST_TIMEOUT, new_payment};

/// Number of connections that send one request and then stay idle.
const IDLE: usize = 3000;
/// Time that idle connections are certain to survive: less than the server's minute, because the test machine may
/// be slow.
const MAY_STAY: Duration = Duration::from_secs(45);
/// Number of connections that never send a byte.
const SILENT: usize = 500;
/// Number of connections that send their head slowly, and of those that send their body slowly.
const TRICKLING: usize = 150;
/// Maximum time that the server allows for a head or a body.
const ALLOWED: Duration = Duration::from_secs(10);

/// Raises this process's limit of open files.
fn descriptors(wanted: u64) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        let raised = Rlimit {
            current: Some(wanted),
            ..limit
        };
        setrlimit(Resource::Nofile, raised).expect("the hard limit of open files is too low");
    }
}

/// Sends a small request and reads the response.
async fn ask(stream: &mut TcpStream) -> std::io::Result<String> {
    let request = b"GET /nothing HTTP/1.1\r\nhost: x\r\n\r\n";
    stream.write_all(request).await?;
    let mut answer = vec![0; 1024];
    let length = stream.read(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
}

/// Sends `first`, then one byte per second, until the server closes the connection. Returns the response and the
/// time.
async fn trickle(address: String, first: Vec<u8>, endless: u8) -> (String, Duration) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let began = Instant::now();
    stream.write_all(&first).await.unwrap();
    let mut said = Vec::new();
    let mut buffer = [0; 512];
    let mut open = true;
    loop {
        tokio::select! {
            // Read first: the response counts even if another write would fail by now.
            biased;
            read = stream.read(&mut buffer) => match read {
                Ok(0) | Err(_) => break,
                Ok(length) => said.extend_from_slice(&buffer[..length]),
            },
            () = tokio::time::sleep(Duration::from_secs(1)), if open => {
                open = stream.write_all(&[endless]).await.is_ok();
            }
        }
        assert!(began.elapsed() < TEST_TIMEOUT, "it is never ended");
    }
    (String::from_utf8_lossy(&said).into_owned(), began.elapsed())
}

#[tokio::test]
async fn slow_and_idle_clients_do_not_hurt_the_others_and_are_sent_away_on_time() {
    descriptors(8192);
    // The limit is below the number of slow bodies, which must not count against it.
    let limits = "[limits]\nconnections_per_address = 8000\nin_hand.writes = 100\n";
    let server = Server::configured(limits).await;
    let address = server.base().strip_prefix("http://").unwrap().to_owned();
    let staying = || async {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        assert!(ask(&mut stream).await.unwrap().starts_with("HTTP/1.1 404"));
        (stream, Instant::now())
    };
    let mut idle = Vec::with_capacity(IDLE);
    while idle.len() < IDLE {
        idle.extend(join_all((0..100).map(|_| staying())).await);
    }
    let head = b"GET / HTTP/1.1\r\nhost: x\r\nx: ".to_vec();
    let body = format!(
        "POST /api/v1/payments HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: 10000\r\n\r\n{{",
        server.test_key()
    );
    let heads = (0..TRICKLING).map(|_| trickle(address.clone(), head.clone(), b'a'));
    let bodies = (0..TRICKLING).map(|_| trickle(address.clone(), body.clone().into(), b' '));
    // A response on a later connection shows that the earlier ones were accepted. Otherwise a burst could remain
    // in the kernel's queue, or be dropped there, and the server could not close it.
    let mut silent = Vec::with_capacity(SILENT);
    while silent.len() < SILENT {
        silent.extend(join_all((0..100).map(|_| TcpStream::connect(&address))).await);
        idle.push(staying().await);
    }
    let silent = silent.into_iter().map(|stream| async {
        let mut stream = stream.unwrap();
        let ended = tokio::time::timeout(TEST_TIMEOUT, stream.read(&mut [0])).await;
        // Closed or reset without a response.
        assert!(!matches!(ended.unwrap(), Ok(1..)));
    });
    let others = async {
        let began = Instant::now();
        while began.elapsed() < ALLOWED {
            let created = server
                .post(server.test_key(), "/api/v1/payments", &new_payment())
                .await
                .expect(201);
            let id = created.json()["payment_id"].as_str().unwrap().to_owned();
            let path = format!("/api/v1/payments/{id}");
            server.get(server.test_key(), &path).await.expect(200);
        }
    };
    let (heads, bodies, _, ()) =
        tokio::join!(join_all(heads), join_all(bodies), join_all(silent), others);
    for (said, took) in heads {
        assert!(!said.contains("HTTP/1.1 2"), "{said}");
        assert!(took >= ALLOWED - Duration::from_secs(1), "{took:?}");
    }
    let timed_out = server.counted("kassette_connections_timed_out_total", "head");
    let timed_out = usize::try_from(timed_out.await).unwrap();
    assert!(
        (TRICKLING..=TRICKLING + SILENT).contains(&timed_out),
        "{timed_out}"
    );
    for (said, took) in bodies {
        assert!(said.starts_with("HTTP/1.1 408"), "{said}");
        assert!(took >= ALLOWED - Duration::from_secs(1), "{took:?}");
    }
    // Connections that have sent a request may stay longer and are still served.
    for batch in idle.chunks_mut(100) {
        let again = batch.iter_mut().map(|(stream, asked)| async {
            let may_stay = asked.elapsed() < MAY_STAY;
            let answer = ask(stream).await;
            assert!(
                !may_stay || answer.is_ok_and(|answer| answer.starts_with("HTTP/1.1 404")),
                "one was sent away {:?} after it had asked",
                asked.elapsed()
            );
        });
        join_all(again).await;
    }
}
