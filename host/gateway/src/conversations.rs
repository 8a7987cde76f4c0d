//! Conversations with providers on their way into the routing log, where the settings have them recorded.
//!
//! A payment waits for none of it: what came of a call is encoded into a batch in memory, and a worker writes what is
//! there. What there is no room for is lost to the log, and counted.

use std::time::Duration;

use kassette_domain::conversation::{CallOutcome, Conversation, HostCall, ProviderCall};
use kassette_domain::id::PaymentId;
use kassette_domain::time::Time;
use kassette_runtime::{RecordedCall, Recorder};
use parking_lot::Mutex;

use crate::Gateway;
use crate::modules::Access;
use crate::routing_records::WaitingEntries;

/// Most bytes that wait to be written.
pub const WAITING_MOST: usize = 8 << 20;
/// Most bytes of one conversation.
pub const MOST: usize = 256 << 10;
/// A notice that proves nothing can be written by any sender: so many bytes of one a second are recorded.
pub const UNPROVED_MOST: usize = 2 << 10;
const UNPROVED_EVERY: Duration = Duration::from_secs(1);

/// The conversations that wait to be written.
#[derive(Debug, Default)]
pub(crate) struct Conversations(Mutex<ConversationQueue>);

#[derive(Debug, Default)]
struct ConversationQueue {
    waiting: WaitingEntries,
    /// From when the next notice that proves nothing is recorded.
    next_unproved: Time,
}

impl Conversations {
    /// What became of one that is to be kept: the word for the metric where it is lost.
    fn put(&self, conversation: &Conversation) -> Result<(), &'static str> {
        let bytes = size(conversation);
        let mut queue = self.0.lock();
        if let ProviderCall::Callback(_) = conversation.call {
            let proved = match &conversation.outcome {
                CallOutcome::Callback(Ok(reply)) => reply.proved,
                CallOutcome::Failed(_) => false,
                _ => return Err("unproved"),
            };
            let is_early = conversation.at() < queue.next_unproved;
            if !proved && (is_early || bytes > UNPROVED_MOST) {
                return Err("unproved");
            }
            if !proved {
                queue.next_unproved = conversation.at().after(UNPROVED_EVERY);
            }
        }
        if bytes > MOST || queue.waiting.bytes() + bytes > WAITING_MOST {
            return Err("dropped");
        }
        queue.waiting.push(conversation).map_err(|_| "dropped")?;
        Ok(())
    }
}

/// About how many bytes a conversation has: what others wrote as it is, and a kilobyte for what the gateway did.
fn size(conversation: &Conversation) -> usize {
    let of_headers = |headers: &[(String, String)]| -> usize {
        headers
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum()
    };
    let of_exchange = |exchange: &HostCall| match exchange {
        HostCall::Http { request, answer } => {
            let answered = answer
                .as_ref()
                .map_or(0, |answer| of_headers(&answer.headers) + answer.body.len());
            request.url.len() + of_headers(&request.headers) + request.body.len() + answered
        }
        HostCall::Secret { .. } => 64,
    };
    let asked = match &conversation.call {
        ProviderCall::Callback(request) => {
            let address = request.path.len() + request.query.len();
            address + of_headers(&request.headers) + request.body.len()
        }
        ProviderCall::Start(_) | ProviderCall::Query { .. } => 0,
    };
    let exchanged: usize = conversation.exchanges.iter().map(of_exchange).sum();
    1024 + asked + exchanged
}

impl Gateway {
    /// Has calls with an access recorded, where the settings say so.
    pub(crate) fn have_recorded(&self, access: &mut Access, payment: Option<PaymentId>) {
        if !self.settings().record_conversations {
            return;
        }
        let gateway = self.clone();
        access.recorder = Some(Recorder::new(move |recorded: RecordedCall| {
            let conversation = Conversation {
                payment,
                ..recorded.conversation
            };
            if let Err(why) = gateway.inner.conversations.put(&conversation) {
                count(why, 1);
            }
        }));
    }

    /// Writes the conversations that wait. What the store does not take is lost to the log.
    pub(crate) async fn write_conversations(&self) {
        let batches = self.inner.conversations.0.lock().waiting.take(1);
        self.append("conversations", batches, count).await;
    }
}

fn count(outcome: &'static str, conversations: u64) {
    metrics::counter!("kassette_conversation_records_total", "outcome" => outcome)
        .increment(conversations);
}

#[cfg(test)]
mod tests {
    use kassette_domain::id::{AccountId, Digest, Slot};
    use kassette_domain::key::Environment;
    use kassette_domain::provider::{
        AccountFacts, CallbackFailure, CallbackReply, CallbackRequest, Verb,
    };

    use super::*;

    /// A callback of so many bytes at a time, with what the module made of it.
    fn callback(bytes: usize, at: u64, read: Result<bool, CallbackFailure>) -> Conversation {
        Conversation {
            slot: Slot::of_provider("vendor").unwrap(),
            digest: Digest([1; 32]),
            payment: None,
            account: AccountFacts {
                id: AccountId::parse("vendor-live").unwrap(),
                environment: Environment::Live,
                now: Time::from_millis(at),
                callback_url: String::new(),
                settings: vec![],
            },
            payer_hosts: vec![],
            plain_loopback: false,
            call: ProviderCall::Callback(CallbackRequest {
                verb: Verb::Post,
                path: String::new(),
                query: String::new(),
                headers: vec![("x".into(), "y".repeat(bytes / 2))],
                body: vec![0; bytes / 2],
            }),
            exchanges: vec![],
            outcome: CallOutcome::Callback(read.map(|proved| CallbackReply {
                proved,
                notices: vec![],
                status: 200,
                media_type: String::new(),
                body: String::new(),
            })),
        }
    }

    #[test]
    fn a_sender_who_proves_nothing_gets_a_small_callback_a_second_into_the_log() {
        let conversations = Conversations::default();
        let put = |bytes, at, read| conversations.put(&callback(bytes, at, read));
        let forged = || Err(CallbackFailure::Forged("no".into()));
        for (bytes, at, read, kept) in [
            (100, 5_000, forged(), Err("unproved")),
            (UNPROVED_MOST, 5_000, Ok(false), Err("unproved")),
            (900, 5_000, Ok(false), Ok(())),
            (100, 5_999, Ok(false), Err("unproved")),
            (100, 6_000, Ok(false), Ok(())),
            (UNPROVED_MOST, 6_000, Ok(true), Ok(())),
        ] {
            assert_eq!(put(bytes, at, read), kept, "{bytes} at {at}");
        }
        assert_eq!(conversations.0.lock().waiting.entries(), 3);
    }

    #[test]
    fn what_waits_is_bounded_in_bytes_and_makes_room_when_it_is_taken() {
        let conversations = Conversations::default();
        let put = |bytes| conversations.put(&callback(bytes, 0, Ok(true)));
        assert_eq!(put(MOST), Err("dropped"), "one alone");
        let large = MOST - 2048;
        let taken = (0..1000).take_while(|_| put(large) == Ok(())).count();
        assert!((32..40).contains(&taken), "{taken}");
        conversations.0.lock().waiting.take(1);
        assert_eq!(put(large), Ok(()));
    }
}
