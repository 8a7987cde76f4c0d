//! Group commit: a committer takes waiting requests, up to a maximum, and executes them in one statement.

use tokio::sync::{mpsc, oneshot};

use crate::Fault;

/// Maximum number of waiting requests; further ones get [`Fault::Busy`].
const WAITING: usize = 4096;

/// Executes batches of requests.
pub(crate) trait Commit: Send + Sync + 'static {
    type Request: Send + 'static;
    type Answer: Send + 'static;

    /// Executes requests; returns the answers in the same order.
    fn commit(
        &self,
        batch: Vec<Self::Request>,
    ) -> impl Future<Output = Vec<Result<Self::Answer, Fault>>> + Send;
}

type Waiting<C> = (
    <C as Commit>::Request,
    oneshot::Sender<Result<<C as Commit>::Answer, Fault>>,
);

/// A committer with its queue. Dropping this value ends it.
pub(crate) struct Batches<C: Commit> {
    waiting: mpsc::Sender<Waiting<C>>,
}

impl<C: Commit> Batches<C> {
    /// Starts a committer that takes up to `at_once` requests per batch.
    pub(crate) fn start(commit: C, at_once: usize) -> Self {
        let (waiting, requests) = mpsc::channel(WAITING);
        tokio::spawn(run(commit, requests, at_once));
        Self { waiting }
    }

    /// Submits a request and waits for its answer. The request is executed even if its caller gives up.
    pub(crate) async fn commit(&self, request: C::Request) -> Result<C::Answer, Fault> {
        let (answer, answered) = oneshot::channel();
        self.waiting
            .try_send((request, answer))
            .map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => Fault::Busy,
                mpsc::error::TrySendError::Closed(_) => Fault::Stopping,
            })?;
        answered.await.unwrap_or(Err(Fault::Stopping))
    }
}

async fn run<C: Commit>(commit: C, mut requests: mpsc::Receiver<Waiting<C>>, at_once: usize) {
    loop {
        let mut batch = Vec::with_capacity(at_once);
        if requests.recv_many(&mut batch, at_once).await == 0 {
            return;
        }
        // Let other ready tasks add their requests first: a statement costs as much as several of its rows.
        tokio::task::yield_now().await;
        while batch.len() < at_once
            && let Ok(request) = requests.try_recv()
        {
            batch.push(request);
        }
        let (batch, callers): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let answers = commit.commit(batch).await;
        for (caller, answer) in callers.into_iter().zip(answers) {
            // The caller may have given up.
            let _ = caller.send(answer);
        }
    }
}
