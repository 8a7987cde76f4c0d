//! HTTP/1.1 request heads that two parsers could read in different ways, sent byte for byte.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::shared;

/// Sends exactly these bytes and reads until the server closes the connection.
async fn said(address: &str, head: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said).await;
    String::from_utf8_lossy(&said).into_owned()
}

#[tokio::test]
async fn a_head_without_one_host_or_with_two_framings_is_refused_in_the_error_shape() {
    let server = shared().await;
    for root in [server.base(), server.admin_root()] {
        let address = root.strip_prefix("http://").unwrap();
        let host = format!("host: {address}\r\n");
        let chunked = "transfer-encoding: chunked\r\n";
        for (lines, named) in [
            (String::new(), "Host"),
            (format!("{host}{host}"), "Host"),
            (format!("{host}Host: other.example\r\n"), "Host"),
            (format!("{host}{chunked}{chunked}"), "Transfer-Encoding"),
            (
                format!("{host}transfer-encoding: gzip\r\n{chunked}"),
                "Transfer-Encoding",
            ),
        ] {
            let head = format!("POST /x HTTP/1.1\r\nx-request-id: mine\r\n{lines}\r\n0\r\n\r\n");
            let answer = said(address, &head).await;
            assert!(answer.starts_with("HTTP/1.1 400 "), "{head}{answer}");
            let (told, body) = answer.split_once("\r\n\r\n").unwrap();
            for line in ["x-request-id: mine", "connection: close", "nosniff"] {
                assert!(told.contains(line), "{line}: {told}");
            }
            let body: serde_json::Value = serde_json::from_str(body).unwrap();
            assert!(body["error"].as_str().unwrap().contains(named), "{body}");
        }
        let plain =
            format!("POST /x HTTP/1.1\r\n{host}connection: close\r\n{chunked}\r\n0\r\n\r\n");
        assert!(said(address, &plain).await.starts_with("HTTP/1.1 404 "));
    }
}
