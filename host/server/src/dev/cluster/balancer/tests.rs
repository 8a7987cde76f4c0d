use axum::routing::{get, post};
use http_body_util::BodyExt as _;
use tokio::net::TcpListener;
use tower::ServiceExt as _;

use super::*;

/// A node that responds with its name, or with data about the request.
async fn node(name: &'static str) -> (Arc<Backend>, tokio::task::JoinHandle<()>) {
    let routes = Router::new()
        .route("/readyz", get(|| async { "ready" }))
        .route("/name", get(move || async move { name }))
        .route(
            "/headers",
            get(|headers: HeaderMap| async move {
                let shown = |name: &str| headers.get_all(name).iter().count();
                let client = headers[X_FORWARDED_FOR].to_str().unwrap().to_owned();
                let host = headers[HOST].to_str().unwrap().to_owned();
                let kept = (shown("x-own"), shown("x-hop"), shown("keep-alive"));
                format!("{client} {host} {kept:?}")
            }),
        )
        .route("/echo", post(|body: String| async move { body }));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    let backend = Arc::new(Backend::default());
    backend.is_at(Some(Serving {
        listen: address,
        admin_listen: address,
    }));
    backend.ready.store(true, Ordering::Release);
    (backend, task)
}

fn balancer(backends: &[&Arc<Backend>]) -> Arc<Balancer> {
    let backends = backends.iter().map(|&backend| Arc::clone(backend));
    Arc::new(Balancer::new(backends.collect(), Proxies::default()))
}

async fn ask(
    balancer: &Arc<Balancer>,
    request: http::request::Builder,
    body: Body,
) -> (u16, String) {
    let peer = ConnectInfo(SocketAddr::from(([192, 0, 2, 7], 4711)));
    let request = request.extension(peer).body(body).unwrap();
    let answer = balancer
        .router(Side::Public)
        .oneshot(request)
        .await
        .unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn name(balancer: &Arc<Balancer>) -> (u16, String) {
    let request = Request::get("http://pay.example/name");
    ask(balancer, request, Body::empty()).await
}

#[tokio::test]
async fn requests_go_to_one_ready_node_after_the_other() {
    let ((first, _), (second, _)) = (node("first").await, node("second").await);
    let balancer = balancer(&[&first, &second]);
    for _ in 0..3 {
        assert_eq!(name(&balancer).await, (200, "first".into()));
        assert_eq!(name(&balancer).await, (200, "second".into()));
    }
    first.is_not_ready();
    for _ in 0..3 {
        assert_eq!(name(&balancer).await, (200, "second".into()));
    }
    second.is_not_ready();
    let (status, body) = name(&balancer).await;
    assert_eq!(status, 503, "{body}");
}

#[tokio::test]
async fn a_request_of_which_nothing_was_sent_goes_to_another_node() {
    let ((gone, task), (other, _)) = (node("gone").await, node("other").await);
    let balancer = balancer(&[&gone, &other]);
    // One connection is pooled, and closed with the node.
    assert_eq!(name(&balancer).await, (200, "gone".into()));
    task.abort();
    let _ = task.await;
    for body in ["once", "twice", "thrice"] {
        let request = Request::post("http://pay.example/echo");
        assert_eq!(
            ask(&balancer, request, body.into()).await,
            (200, body.to_owned())
        );
    }
}

#[tokio::test]
async fn a_node_is_told_the_clients_address_and_nothing_of_its_connection() {
    let (node, _) = node("only").await;
    let balancer = balancer(&[&node]);
    let request = Request::get("http://pay.example/headers")
        .header("x-forwarded-for", "198.51.100.1")
        .header("connection", "keep-alive, x-hop")
        .header("keep-alive", "timeout=5")
        .header("x-hop", "1")
        .header("x-own", "1");
    let (status, told) = ask(&balancer, request, Body::empty()).await;
    assert_eq!(
        (status, told.as_str()),
        (200, "192.0.2.7 pay.example (1, 0, 0)")
    );
}
