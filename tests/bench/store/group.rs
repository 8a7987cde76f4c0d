//! A thread that makes all waiting items durable together and answers all callers.

use std::sync::mpsc::{Receiver, Sender, channel};

use tokio::sync::oneshot;

/// Maximum size of a group, as in the store.
const GROUP: usize = 256;

type Waiting<T> = (T, oneshot::Sender<()>);

/// Handle to the thread, which ends when the last handle is dropped.
pub(crate) struct Group<T>(Sender<Waiting<T>>);

impl<T> Clone for Group<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Send + 'static> Group<T> {
    /// Starts the thread. `commit` returns when its items are durable.
    pub(crate) fn start(mut commit: impl FnMut(Vec<T>) + Send + 'static) -> Self {
        let (sender, waiting): (_, Receiver<Waiting<T>>) = channel();
        std::thread::spawn(move || {
            while let Ok(first) = waiting.recv() {
                let (mut items, mut answers) = (vec![first.0], vec![first.1]);
                while items.len() < GROUP
                    && let Ok((item, answer)) = waiting.try_recv()
                {
                    items.push(item);
                    answers.push(answer);
                }
                commit(items);
                for answer in answers {
                    let _gone = answer.send(());
                }
            }
        });
        Self(sender)
    }

    /// Waits until an item is durable.
    pub(crate) async fn submit(&self, item: T) {
        let (answer, answered) = oneshot::channel();
        self.0.send((item, answer)).unwrap();
        answered.await.unwrap();
    }
}
