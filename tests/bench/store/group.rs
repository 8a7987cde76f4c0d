//! One thread that takes all that waits, makes it durable together, and answers all.

use std::sync::mpsc::{Receiver, Sender, channel};

use tokio::sync::oneshot;

/// The store's own limit.
const GROUP: usize = 256;

type Waiting<T> = (T, oneshot::Sender<()>);

/// The way to the thread; it ends with the last of these.
pub(crate) struct Group<T>(Sender<Waiting<T>>);

impl<T> Clone for Group<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Send + 'static> Group<T> {
    /// Starts the thread. `commit` returns when all that it is given is durable.
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

    /// Has an item made durable.
    pub(crate) async fn submit(&self, item: T) {
        let (answer, answered) = oneshot::channel();
        self.0.send((item, answer)).unwrap();
        answered.await.unwrap();
    }
}
