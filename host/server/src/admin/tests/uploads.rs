//! Concurrent uploads of modules.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::join_all;
use http_body::Frame;
use parking_lot::Mutex;

use super::*;

/// Uploads whose bodies are being read: their number, its maximum, and the order in which they started.
#[derive(Default)]
struct Reading {
    now: usize,
    most: usize,
    order: Vec<usize>,
}

/// A body that arrives over several turns of the runtime.
struct Arriving {
    number: usize,
    pieces: usize,
    is_open: bool,
    reading: Arc<Mutex<Reading>>,
}

impl http_body::Body for Arriving {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let reading = Arc::clone(&self.reading);
        let mut reading = reading.lock();
        if !self.is_open {
            self.is_open = true;
            reading.now += 1;
            reading.most = reading.most.max(reading.now);
            reading.order.push(self.number);
        }
        if self.pieces == 0 {
            reading.now -= 1;
            return Poll::Ready(None);
        }
        self.pieces -= 1;
        if self.pieces.is_multiple_of(2) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"no module")))))
    }
}

#[tokio::test]
async fn uploads_at_once_are_read_one_by_one() {
    let world = World::new().await;
    let reading = Arc::new(Mutex::new(Reading::default()));
    let uploads = (0..12).map(|number| {
        let path = "/plugins/method.ideal?mode=activate";
        let mut upload = request(Some(&world.operator), Method::POST, path, None);
        *upload.body_mut() = Body::new(Arriving {
            number,
            pieces: 9,
            is_open: false,
            reading: Arc::clone(&reading),
        });
        world.send(upload)
    });
    for answer in join_all(uploads).await {
        assert_eq!(answer.status(), 422, "it is no module");
    }
    let mut reading = reading.lock();
    reading.order.sort_unstable();
    assert_eq!(reading.most, 1, "bodies that were in memory at once");
    assert_eq!(reading.order, (0..12).collect::<Vec<_>>());
}
