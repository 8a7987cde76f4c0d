//! Answers to requests without credentials, kept for an account: what `http.get-cached` reads.
//!
//! A sender of forged notices decides which certificate a module wants to see. So what is not kept may be
//! asked for once a minute and account, whatever the address.

use std::time::Duration;

use kassette_domain::time::Time;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::v0_1::bindings::provider::kassette::plugin::http::Response;

/// Between two requests for what is not kept (the contract's limit).
const PAUSE: Duration = Duration::from_secs(60);
/// Longest that an answer is kept (the contract's limit).
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// Addresses of an account (the contract's limit).
const ADDRESSES: usize = 8;
/// Bytes of an answer, its address and headers included (the contract's limit).
const ANSWER: usize = 64 * 1024;

/// The kept answers of one account.
#[derive(Default)]
pub(crate) struct Answers(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// The one that was read longest ago first.
    kept: Vec<Kept>,
    /// What is on its way: its channel closes when that has ended.
    coming: Vec<(String, watch::Receiver<()>)>,
    /// When the last request went out.
    asked: Option<Time>,
}

struct Kept {
    address: String,
    answer: Response,
    until: Time,
}

/// What a caller may do about an address.
pub(crate) enum Turn<'a> {
    /// Take this answer.
    Kept(Response),
    /// Another caller is asking: look again when this channel has closed.
    Wait(watch::Receiver<()>),
    /// Ask, and tell what came of it.
    Ask(Asking<'a>),
    /// Nothing: something was asked for within the last minute.
    TooSoon,
}

/// The right to ask for one address; given back when dropped.
pub(crate) struct Asking<'a> {
    answers: &'a Answers,
    address: String,
    /// Closes, after [`Drop::drop`], the channel that others wait on.
    _coming: watch::Sender<()>,
}

impl Answers {
    /// What a caller may do about an address at that time.
    pub(crate) fn turn(&self, address: &str, now: Time) -> Turn<'_> {
        let mut inner = self.0.lock();
        inner.kept.retain(|kept| now < kept.until);
        if let Some(at) = inner.kept.iter().position(|kept| kept.address == address) {
            let kept = inner.kept.remove(at);
            let answer = kept.answer.clone();
            inner.kept.push(kept);
            return Turn::Kept(answer);
        }
        if let Some((_, coming)) = inner.coming.iter().find(|(known, _)| known == address) {
            return Turn::Wait(coming.clone());
        }
        // A clock that was set back must not forbid all requests until it has caught up.
        let soon = |asked: Time| now >= asked && now.since(asked) < PAUSE;
        if inner.asked.is_some_and(soon) {
            return Turn::TooSoon;
        }
        inner.asked = Some(now);
        let (sender, receiver) = watch::channel(());
        inner.coming.push((address.to_owned(), receiver));
        Turn::Ask(Asking {
            answers: self,
            address: address.to_owned(),
            _coming: sender,
        })
    }

    /// Forgets the answers; that something was asked for is not forgotten.
    pub(crate) fn clear(&self) {
        self.0.lock().kept.clear();
    }
}

impl Asking<'_> {
    /// Keeps the answer, where it is small enough.
    pub(crate) fn keep(self, answer: &Response, life: Duration, now: Time) {
        let headers = answer.headers.iter();
        let headers: usize = headers.map(|(name, value)| name.len() + value.len()).sum();
        if self.address.len() + headers + answer.body.len() > ANSWER {
            return;
        }
        let mut inner = self.answers.0.lock();
        inner.kept.push(Kept {
            address: self.address.clone(),
            answer: answer.clone(),
            until: now.after(life.min(LONGEST)),
        });
        let over = inner.kept.len().saturating_sub(ADDRESSES);
        inner.kept.drain(..over);
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut inner = self.answers.0.lock();
        inner.coming.retain(|(known, _)| *known != self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_secs(1_795_000_000);
    const HOUR: Duration = Duration::from_secs(3600);

    fn answer(body: &str) -> Response {
        Response {
            status: 200,
            headers: vec![],
            body: body.into(),
        }
    }

    /// Asks for an address and keeps what comes.
    fn fetch(answers: &Answers, address: &str, now: Time) {
        match answers.turn(address, now) {
            Turn::Ask(asking) => asking.keep(&answer(address), HOUR, now),
            _ => panic!("{address} may not be asked for"),
        }
    }

    fn minute(number: u32) -> Time {
        NOW.after(PAUSE * number)
    }

    fn kept(answers: &Answers, address: &str, now: Time) -> bool {
        match answers.turn(address, now) {
            Turn::Kept(found) => found.body == address.as_bytes(),
            Turn::Wait(_) | Turn::Ask(_) | Turn::TooSoon => false,
        }
    }

    #[test]
    fn an_answer_is_kept_for_its_life_and_for_a_day_at_most() {
        let answers = Answers::default();
        fetch(&answers, "a", NOW);
        assert!(kept(
            &answers,
            "a",
            NOW.after(HOUR - Duration::from_millis(1))
        ));
        assert!(!kept(&answers, "a", NOW.after(HOUR)));
        let Turn::Ask(asking) = answers.turn("b", NOW.after(HOUR * 2)) else {
            panic!("an hour later");
        };
        asking.keep(&answer("b"), Duration::MAX, NOW.after(HOUR * 2));
        assert!(kept(&answers, "b", NOW.after(HOUR * 25)));
        assert!(!kept(&answers, "b", NOW.after(HOUR * 26)));
    }

    #[test]
    fn one_request_a_minute_goes_out_whatever_the_address() {
        let answers = Answers::default();
        drop(answers.turn("forged", NOW));
        let soon = NOW.after(PAUSE - Duration::from_millis(1));
        for address in ["forged", "another"] {
            assert!(matches!(answers.turn(address, soon), Turn::TooSoon));
        }
        fetch(&answers, "another", minute(1));
        // What is kept is told all the same.
        assert!(kept(&answers, "another", minute(1)));
        // A clock that was set back forbids nothing for long.
        assert!(matches!(answers.turn("third", NOW), Turn::Ask(_)));
    }

    #[tokio::test]
    async fn who_wants_what_is_on_its_way_waits_for_it() {
        let answers = Answers::default();
        let Turn::Ask(asking) = answers.turn("a", NOW) else {
            panic!("nothing was asked before");
        };
        let Turn::Wait(mut coming) = answers.turn("a", NOW) else {
            panic!("it is on its way");
        };
        assert!(matches!(answers.turn("b", NOW), Turn::TooSoon));
        asking.keep(&answer("a"), HOUR, NOW);
        assert!(coming.changed().await.is_err(), "the channel has closed");
        assert!(kept(&answers, "a", NOW));
    }

    #[test]
    fn what_is_read_often_is_kept_beside_what_is_asked_for_once() {
        let answers = Answers::default();
        fetch(&answers, "genuine", NOW);
        for number in 1..=20 {
            fetch(&answers, &format!("old-{number}"), minute(number));
            assert!(kept(&answers, "genuine", minute(number)));
        }
        assert!(!kept(&answers, "old-13", minute(20)));
        assert!(kept(&answers, "old-14", minute(20)));
    }

    #[test]
    fn an_answer_that_is_too_large_is_not_kept() {
        let answers = Answers::default();
        let Turn::Ask(asking) = answers.turn("a", NOW) else {
            panic!("nothing was asked before");
        };
        asking.keep(&answer(&"x".repeat(ANSWER + 1)), HOUR, NOW);
        assert!(matches!(answers.turn("a", NOW), Turn::TooSoon));
    }
}
