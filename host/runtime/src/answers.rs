//! Answers to requests without credentials, kept for an account: what `http.get-cached` reads.
//!
//! A sender of forged notices decides which certificate a module wants to see. So few requests a minute go
//! out for what is not kept: one for each stranger, some for all of them, and apart from these some for calls
//! that a stranger did not cause.

use std::net::IpAddr;
use std::time::Duration;

use kassette_domain::time::Time;
use kassette_http::subscriber;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::v0_1::bindings::provider::kassette::plugin::http::Response;

/// How long a request counts (the contract's limit).
const MINUTE: Duration = Duration::from_secs(60);
/// Requests a minute by calls that no stranger caused: some may fail (the contract's limit).
const KNOWN: usize = 4;
/// Requests a minute by calls that strangers caused, one for each of them: a single forger takes no other
/// sender's (the contract's limit).
const STRANGERS: usize = 8;
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
    /// The requests of the last minute, each with the stranger that caused it.
    asked: Vec<(Option<IpAddr>, Time)>,
}

struct Kept {
    address: String,
    answer: Response,
    /// From then on another is asked for; this one serves where that fails.
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
    /// Nothing: too much was asked for within the last minute.
    TooSoon,
}

/// The right to ask for one address; given back when dropped.
pub(crate) struct Asking<'a> {
    answers: &'a Answers,
    address: String,
    /// What is kept, older than its life.
    last: Option<Response>,
    /// Closes, after [`Drop::drop`], the channel that others wait on.
    _coming: watch::Sender<()>,
}

impl Answers {
    /// What a caller may do about an address at that time; with the address of the stranger that caused the
    /// call.
    pub(crate) fn turn(&self, address: &str, stranger: Option<IpAddr>, now: Time) -> Turn<'_> {
        let mut inner = self.0.lock();
        let mut last = None;
        if let Some(at) = inner.kept.iter().position(|kept| kept.address == address) {
            let kept = inner.kept.remove(at);
            let (answer, is_fresh) = (kept.answer.clone(), now < kept.until);
            inner.kept.push(kept);
            if is_fresh {
                return Turn::Kept(answer);
            }
            last = Some(answer);
        }
        if let Some((_, coming)) = inner.coming.iter().find(|(known, _)| known == address) {
            return Turn::Wait(coming.clone());
        }
        if !inner.may_ask(stranger.map(subscriber), now) {
            return last.map_or(Turn::TooSoon, Turn::Kept);
        }
        let (sender, receiver) = watch::channel(());
        inner.coming.push((address.to_owned(), receiver));
        Turn::Ask(Asking {
            answers: self,
            address: address.to_owned(),
            last,
            _coming: sender,
        })
    }

    /// Forgets the answers; that something was asked for is not forgotten.
    pub(crate) fn clear(&self) {
        self.0.lock().kept.clear();
    }
}

impl Inner {
    /// Whether a request may go out; it counts then.
    fn may_ask(&mut self, stranger: Option<IpAddr>, now: Time) -> bool {
        // A clock that was set back must not forbid all requests until it has caught up.
        self.asked
            .retain(|(_, asked)| now >= *asked && now.since(*asked) < MINUTE);
        let strangers = self.asked.iter().filter(|(who, _)| who.is_some()).count();
        let may = match stranger {
            None => self.asked.len() - strangers < KNOWN,
            Some(_) => strangers < STRANGERS && self.asked.iter().all(|(who, _)| *who != stranger),
        };
        if may {
            self.asked.push((stranger, now));
        }
        may
    }
}

impl Asking<'_> {
    /// What is kept, where no new answer can be had.
    pub(crate) fn last(&mut self) -> Option<Response> {
        self.last.take()
    }

    /// Forgets what is kept: the other side has another answer.
    pub(crate) fn forget(&self) {
        let mut inner = self.answers.0.lock();
        inner.kept.retain(|kept| kept.address != self.address);
    }

    /// Keeps the answer, where it is small enough.
    pub(crate) fn keep(self, answer: &Response, life: Duration, now: Time) {
        let headers = answer.headers.iter();
        let headers: usize = headers.map(|(name, value)| name.len() + value.len()).sum();
        if self.address.len() + headers + answer.body.len() > ANSWER {
            return;
        }
        self.forget();
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
    const STRANGER: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)));

    /// Whether a request goes out for an address; none comes back.
    fn asks(answers: &Answers, address: &str, stranger: Option<IpAddr>, now: Time) -> bool {
        matches!(answers.turn(address, stranger, now), Turn::Ask(_))
    }

    fn answer(body: &str) -> Response {
        Response {
            status: 200,
            headers: vec![],
            body: body.into(),
        }
    }

    /// Asks for an address and keeps what comes.
    fn fetch(answers: &Answers, address: &str, now: Time) {
        match answers.turn(address, None, now) {
            Turn::Ask(asking) => asking.keep(&answer(address), HOUR, now),
            _ => panic!("{address} may not be asked for"),
        }
    }

    fn minute(number: u32) -> Time {
        NOW.after(MINUTE * number)
    }

    fn kept(answers: &Answers, address: &str, now: Time) -> bool {
        match answers.turn(address, STRANGER, now) {
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
        let Turn::Ask(asking) = answers.turn("b", None, NOW.after(HOUR * 2)) else {
            panic!("an hour later");
        };
        asking.keep(&answer("b"), Duration::MAX, NOW.after(HOUR * 2));
        assert!(kept(&answers, "b", NOW.after(HOUR * 25)));
        assert!(!kept(&answers, "b", NOW.after(HOUR * 26)));
    }

    #[test]
    fn a_stranger_has_one_request_a_minute_whatever_the_address() {
        let answers = Answers::default();
        assert!(asks(&answers, "forged", STRANGER, NOW));
        let soon = NOW.after(MINUTE - Duration::from_millis(1));
        for address in ["forged", "another"] {
            assert!(!asks(&answers, address, STRANGER, soon));
        }
        fetch(&answers, "genuine", soon);
        // What is kept is told all the same.
        assert!(kept(&answers, "genuine", soon));
        assert!(asks(&answers, "another", STRANGER, minute(1)));
        // A clock that was set back forbids nothing for long.
        assert!(asks(&answers, "third", STRANGER, NOW));
    }

    #[test]
    fn strangers_take_no_request_of_each_other_nor_of_known_callers() {
        let answers = Answers::default();
        let stranger = |last: u16| Some(IpAddr::from([0x2001, 0xdb8, 0, last, 0, 0, 0, last]));
        let out = |stranger| {
            let asks = |name: &u32| asks(&answers, &format!("{name}"), stranger, NOW);
            (0..20).filter(asks).count()
        };
        for last in 0..20 {
            let expected = usize::from(usize::from(last) < STRANGERS);
            assert_eq!(out(stranger(last)), expected, "{last}");
        }
        assert_eq!(out(None), KNOWN);
    }

    #[test]
    fn the_last_answer_serves_where_no_other_may_be_asked_for() {
        let answers = Answers::default();
        fetch(&answers, "a", NOW);
        let over = NOW.after(HOUR);
        assert!(asks(&answers, "forged", STRANGER, over));
        assert!(kept(&answers, "a", over));
        let Turn::Ask(mut asking) = answers.turn("a", None, over) else {
            panic!("its life is over");
        };
        assert!(asking.last().is_some());
        asking.forget();
        drop(asking);
        assert!(!kept(&answers, "a", over));
    }

    #[tokio::test]
    async fn who_wants_what_is_on_its_way_waits_for_it() {
        let answers = Answers::default();
        let Turn::Ask(asking) = answers.turn("a", STRANGER, NOW) else {
            panic!("nothing was asked before");
        };
        let Turn::Wait(mut coming) = answers.turn("a", STRANGER, NOW) else {
            panic!("it is on its way");
        };
        assert!(matches!(answers.turn("b", STRANGER, NOW), Turn::TooSoon));
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
        let Turn::Ask(asking) = answers.turn("a", STRANGER, NOW) else {
            panic!("nothing was asked before");
        };
        asking.keep(&answer(&"x".repeat(ANSWER + 1)), HOUR, NOW);
        assert!(matches!(answers.turn("a", STRANGER, NOW), Turn::TooSoon));
    }
}
