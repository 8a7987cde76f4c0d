//! An operator's sessions in the console, and the second questions that they were asked.
//!
//! They are part of the operator's record, so that removing the operator ends them and every node sees the same.
//! Cookies, links and answers are random; the record has only their hashes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Operator, Role};
use crate::key::TokenHash;
use crate::time::Time;

/// Maximum number of sessions of an operator. One more ends the oldest.
pub const MAX_SESSIONS: usize = 32;
/// Maximum number of open questions of a session. One more withdraws the oldest.
pub const MAX_QUESTIONS: usize = 16;

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// SHA-256 of the cookie.
    pub hash: TokenHash,
    pub created_at: Time,
    /// Time of the last request, at most [`Session::SEEN_EVERY`] too early.
    pub seen_at: Time,
    /// Second questions that have not been answered.
    questions: Vec<Question>,
}

/// A second question about a dangerous change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Question {
    /// SHA-256 of the answer, the change and the figures that were shown.
    hash: TokenHash,
    until: Time,
}

impl Session {
    /// A session ends after this time without a request.
    pub const IDLE: Duration = Duration::from_secs(30 * 60);
    /// A session ends after this time in any case.
    pub const LIFE: Duration = Duration::from_secs(12 * 3600);
    /// The time of the last request is written at most this often.
    pub const SEEN_EVERY: Duration = Duration::from_secs(60);
    /// Time in which a second question can be answered.
    pub const QUESTION_LIFE: Duration = Duration::from_secs(10 * 60);

    /// Whether the session has not ended.
    pub fn is_open(&self, now: Time) -> bool {
        now < self.seen_at.after(Self::IDLE) && now < self.ends_at()
    }

    /// Time at which the session ends in any case.
    pub fn ends_at(&self) -> Time {
        self.created_at.after(Self::LIFE)
    }

    /// Whether the time of the last request should be written.
    pub fn is_worth_a_write(&self, now: Time) -> bool {
        now >= self.seen_at.after(Self::SEEN_EVERY)
    }
}

/// A change of an operator's role, sessions or questions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperatorChange {
    SetRole(Role),
    /// Begins a session.
    SignIn {
        session: TokenHash,
    },
    /// Begins a session with a one-time link.
    UseLink {
        link: TokenHash,
        session: TokenHash,
    },
    /// Sets the only link that can be used.
    OfferLink {
        link: TokenHash,
    },
    /// Notes a request.
    Seen {
        session: TokenHash,
    },
    /// Ends a session.
    SignOut {
        session: TokenHash,
    },
    /// Ends all sessions.
    SignOutEverywhere,
    /// Asks a second question.
    Ask {
        session: TokenHash,
        question: TokenHash,
    },
    /// Answers a second question, which is not valid afterwards.
    Answer {
        session: TokenHash,
        question: TokenHash,
    },
}

impl Operator {
    /// Applies a change, and forgets what has ended. Returns false, and changes nothing, if the change is not
    /// possible: no such session, link or question.
    pub fn apply(&mut self, change: &OperatorChange, now: Time) -> bool {
        let mut changed = self.clone();
        changed.sessions.retain(|session| session.is_open(now));
        for session in &mut changed.sessions {
            session.questions.retain(|question| now < question.until);
        }
        let is_done = changed.apply_change(change, now);
        if is_done {
            *self = changed;
        }
        is_done
    }

    fn apply_change(&mut self, change: &OperatorChange, now: Time) -> bool {
        match *change {
            OperatorChange::SetRole(role) => self.role = role,
            OperatorChange::SignIn { session } => self.begin_session(session, now),
            OperatorChange::UseLink { link, session } => {
                if self.sign_in_link != Some(link) {
                    return false;
                }
                self.sign_in_link = None;
                self.begin_session(session, now);
            }
            OperatorChange::OfferLink { link } => self.sign_in_link = Some(link),
            OperatorChange::SignOutEverywhere => self.sessions.clear(),
            OperatorChange::SignOut { session } => {
                let before = self.sessions.len();
                self.sessions.retain(|open| open.hash != session);
                return self.sessions.len() < before;
            }
            OperatorChange::Seen { session } => {
                let Some(open) = self.open_session(session) else {
                    return false;
                };
                open.seen_at = open.seen_at.max(now);
            }
            OperatorChange::Ask { session, question } => {
                let Some(open) = self.open_session(session) else {
                    return false;
                };
                if open.questions.len() == MAX_QUESTIONS {
                    open.questions.remove(0);
                }
                open.questions.push(Question {
                    hash: question,
                    until: now.after(Session::QUESTION_LIFE),
                });
            }
            OperatorChange::Answer { session, question } => {
                let Some(open) = self.open_session(session) else {
                    return false;
                };
                let before = open.questions.len();
                open.questions.retain(|open| open.hash != question);
                return open.questions.len() < before;
            }
        }
        true
    }

    fn begin_session(&mut self, hash: TokenHash, now: Time) {
        if self.sessions.len() == MAX_SESSIONS {
            self.sessions.remove(0);
        }
        self.sessions.push(Session {
            hash,
            created_at: now,
            seen_at: now,
            questions: Vec::new(),
        });
    }

    fn open_session(&mut self, hash: TokenHash) -> Option<&mut Session> {
        self.sessions.iter_mut().find(|open| open.hash == hash)
    }

    /// The session of a cookie with this hash, if it is open and the operator's token has not expired.
    pub fn session(&self, hash: TokenHash, now: Time) -> Option<&Session> {
        let mut sessions = self.sessions.iter();
        let found = sessions.find(|session| session.hash == hash)?;
        (self.usable(now) && found.is_open(now)).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::OperatorId;

    fn ann() -> Operator {
        Operator {
            id: OperatorId::from_bytes([1; 16]),
            name: "ann".into(),
            role: Role::Admin,
            hash: TokenHash::hash("token"),
            created_at: at(0),
            expires_at: None,
            sessions: Vec::new(),
            sign_in_link: None,
        }
    }

    fn at(seconds: u64) -> Time {
        Time::from_secs(seconds)
    }

    fn hash(text: &str) -> TokenHash {
        TokenHash::hash(text)
    }

    fn sign_in(operator: &mut Operator, cookie: &str, seconds: u64) {
        let session = hash(cookie);
        assert!(operator.apply(&OperatorChange::SignIn { session }, at(seconds)));
    }

    #[test]
    fn a_session_ends_after_half_an_hour_without_a_request_and_after_twelve_hours() {
        let mut ann = ann();
        sign_in(&mut ann, "a", 0);
        let (session, half_an_hour) = (hash("a"), 30 * 60);
        assert!(ann.session(session, at(half_an_hour - 1)).is_some());
        assert!(ann.session(session, at(half_an_hour)).is_none());
        for seconds in (0..12 * 3600).step_by(1000) {
            assert!(ann.apply(&OperatorChange::Seen { session }, at(seconds)));
        }
        assert!(ann.session(session, at(12 * 3600 - 1)).is_some());
        assert!(ann.session(session, at(12 * 3600)).is_none());
        assert!(!ann.apply(&OperatorChange::Seen { session }, at(12 * 3600)));
    }

    #[test]
    fn a_session_ends_with_the_operators_token() {
        let mut ann = ann();
        sign_in(&mut ann, "a", 0);
        ann.expires_at = Some(at(60));
        assert!(ann.session(hash("a"), at(59)).is_some());
        assert!(ann.session(hash("a"), at(60)).is_none());
    }

    #[test]
    fn sign_out_ends_one_session_or_all() {
        let mut ann = ann();
        for cookie in ["a", "b", "c"] {
            sign_in(&mut ann, cookie, 0);
        }
        let session = hash("a");
        assert!(ann.apply(&OperatorChange::SignOut { session }, at(1)));
        assert!(!ann.apply(&OperatorChange::SignOut { session }, at(1)));
        assert!(ann.session(session, at(1)).is_none());
        assert!(ann.session(hash("b"), at(1)).is_some());
        assert!(ann.apply(&OperatorChange::SignOutEverywhere, at(1)));
        assert!(ann.session(hash("b"), at(1)).is_none());
    }

    #[test]
    fn sessions_and_questions_are_bounded_and_the_oldest_ones_go() {
        let mut ann = ann();
        for number in 0..=MAX_SESSIONS {
            sign_in(&mut ann, &number.to_string(), 0);
        }
        assert_eq!(ann.sessions.len(), MAX_SESSIONS);
        assert!(ann.session(hash("0"), at(1)).is_none());
        let session = hash("1");
        let question = |number: usize| hash(&format!("question {number}"));
        for number in 0..=MAX_QUESTIONS {
            let question = question(number);
            assert!(ann.apply(&OperatorChange::Ask { session, question }, at(1)));
        }
        let mut answer = |number| {
            let question = question(number);
            ann.apply(&OperatorChange::Answer { session, question }, at(2))
        };
        assert!(!answer(0));
        assert!(answer(1));
    }

    #[test]
    fn a_question_is_answered_once_in_time_and_in_its_session() {
        let mut ann = ann();
        sign_in(&mut ann, "a", 0);
        sign_in(&mut ann, "b", 0);
        let (session, question) = (hash("a"), hash("q"));
        let ask = OperatorChange::Ask { session, question };
        let answer = OperatorChange::Answer { session, question };
        assert!(!ann.apply(&answer, at(0)));
        assert!(ann.apply(&ask, at(0)));
        let elsewhere = hash("b");
        let foreign = OperatorChange::Answer {
            session: elsewhere,
            question,
        };
        assert!(!ann.apply(&foreign, at(1)));
        assert!(ann.apply(&answer, at(599)));
        assert!(!ann.apply(&answer, at(599)));
        assert!(ann.apply(&ask, at(600)));
        assert!(!ann.apply(&answer, at(1200)));
    }

    #[test]
    fn a_link_signs_in_once_and_a_new_one_replaces_it() {
        let mut ann = ann();
        let (first, second, session) = (hash("1"), hash("2"), hash("a"));
        let with = |link| OperatorChange::UseLink { link, session };
        assert!(!ann.apply(&with(first), at(0)));
        assert!(ann.apply(&OperatorChange::OfferLink { link: first }, at(0)));
        assert!(ann.apply(&OperatorChange::OfferLink { link: second }, at(0)));
        assert!(!ann.apply(&with(first), at(0)));
        assert!(ann.apply(&with(second), at(0)));
        assert!(!ann.apply(&with(second), at(0)));
        assert!(ann.session(session, at(1)).is_some());
    }
}
